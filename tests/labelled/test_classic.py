"""The recording of `make flowbench-classic`: each of its situations is judged right, faults and healthy look-alikes."""

import asyncio
from pathlib import Path

import pytest

from flowbench.classic import SCENARIOS, Scenario, line
from penstock.brokers.engine import ReaderOptions
from penstock.cli.replay import replayed_events
from penstock.insight.events import Event
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy
from penstock.transports.recording import RecordingTransport

RECORDING = Path(__file__).parents[1] / "recordings" / "classic" / "flowbench.jsonl.gz"
CONSTANTS = Constants(cold=45.0, trend=60.0)


@pytest.fixture(scope="module")
def events() -> list[Event]:
    async def replayed() -> list[Event]:
        policy = Policy("c1", constants=CONSTANTS)
        recording = RecordingTransport(RECORDING)
        return [
            one
            async for some in replayed_events(recording, policy, ReaderOptions())
            for one in some
        ]

    return asyncio.run(replayed())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_each_situation_is_judged_right(
    scenario: Scenario, events: list[Event]
) -> None:
    assert events, "nothing was judged"
    text, right = line(scenario, events, events[0].time)
    assert right, text
