"""A full broker memory on a real Artemis: one incident, whoever sends is a victim, and nobody else."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from incidents.live import full_memory, memory_broker, watched
from penstock_demo.artemis import ArtemisBroker

pytestmark = pytest.mark.broker
LATEST = 20.0
"""Seconds from the full memory to the incident with all its victims."""


@pytest.mark.nightly  # half a minute
def test_40_addresses_and_a_full_memory_are_one_incident(
    own_artemis: Callable[..., ArtemisBroker], tmp_path: Path
) -> None:
    broker = memory_broker(own_artemis)
    with ExitStack() as clients, watched(broker, tmp_path / "agent") as watch:
        full_memory(broker, clients)
        began = time.monotonic()
        found = watch.one("", lambda one: one.victim_count == 3, LATEST)
        print(f"{time.monotonic() - began:.1f} s")  # noqa: T201 - for whoever reads the run
        assert found.kind == "broker_memory_full"
        assert sorted(found.victims) == ["app-a", "app-b", "app-c"]
        assert found.causes[0].text.startswith("m.hog uses 10")
        assert "nightly-import sends to m.hog." in found.impact
