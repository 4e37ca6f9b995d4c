"""
Two hours of mixed healthy load on real brokers, `make soak-healthy`: any warning or critical condition is a false one.

Rhythms fit the poll interval exactly, consumers live between two polls, one message in a hundred fails. An alarm is
printed when it comes, the sums at the end.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Protocol

from flowbench import soak_artemis, soak_openmq
from flowbench.loads import Flow
from flowbench.observer import Observer
from penstock.insight.events import Change, Event
from rig.waiting import rhythm

CYCLES_APART = 2
"""A batch whose pause is longer than the cold patience teaches it by its first cycles: what is told then is apart."""
BATCHES = {"batch-10min": 600.0, "batch_10min": 600.0}
"""Queues whose rhythm is longer than the cold patience, and its length in seconds."""
WITHOUT_MESSAGES = "idle"


class Side(Protocol):
    """A broker under load."""

    @property
    def entry(self) -> dict[str, Any]:
        """Its configuration."""

    @property
    def addresses(self) -> Mapping[str, str]:
        """By scenario."""

    def flows(self) -> dict[str, Flow]:
        """By scenario."""

    def returned(self) -> int:
        """Messages that were given back."""

    def troubles(self) -> list[str]:
        """Of the clients."""


SIDES: dict[str, Callable[[Path, int], AbstractContextManager[Side]]] = {
    "artemis": soak_artemis.running,
    "openmq": soak_openmq.running,
}


def alarms(events: list[Event], began: float) -> Iterator[Event]:
    """Warnings and criticals; of a batch only after its first cycles."""
    for event in events:
        if (
            event.change not in (Change.CONDITION_ON, Change.SEVERITY)
            or event.severity == "info"
        ):
            continue
        apart = [
            seconds
            for name, seconds in BATCHES.items()
            if event.queue.endswith(f".{name}")
        ]
        # A cycle goes from visit to visit: the first begins with the first of them.
        if not apart or event.time > began + (CYCLES_APART + 1.1) * apart[0]:
            yield event


def soak(
    sides: Mapping[str, Side], folder: Path, duration: float, interval: str
) -> bool:
    """Whether all was well; prints a line a minute, and what each side came to."""
    began = time.time()
    entries = [side.entry for side in sides.values()]
    with Observer(folder / "agent", brokers=entries, interval=interval) as observer:
        said = 0
        for _ in rhythm(60, threading.Event()):
            lasted = time.time() - began
            found = list(alarms(observer.events, began))
            for event in found[said:]:
                _say(_told(event, began))
            said = len(found)
            troubles = sum(len(side.troubles()) for side in sides.values())
            _say(f"{lasted:6.0f} s  false alarms {said}  troubles {troubles}")
            if lasted >= duration:
                break
        results = [result(side, observer.events, began) for side in sides.values()]
    return not any(one["false_alarms"] or one["idle_queues"] for one in results)


def result(side: Side, events: list[Event], began: float) -> dict[str, Any]:
    """A line a queue, and the sums."""
    broker = side.entry["name"]
    own = [event for event in events if event.broker == broker]
    found = list(alarms(own, began))
    flows = side.flows()
    for name, address in side.addresses.items():
        of_it = [
            event
            for event in own
            if event.address == address and event.change in _WORSE
        ]
        seen = Counter(f"{event.condition} ({event.severity})" for event in of_it)
        notes = (
            ", ".join(f"{what} x{count}" for what, count in seen.items()) or "nothing"
        )
        flow = flows[name]
        _say(
            f"{name:18} in {flow.came:7} settled {flow.settled:7} rounds {flow.rounds:5}  {notes}"
        )
    for event in found:
        _say(_told(event, began))
    for trouble in side.troubles()[:10]:
        _say(f"trouble: {trouble}")
    sums = {
        "broker": broker,
        "seconds": round(time.time() - began),
        "queues": len(flows),
        "messages": sum(flow.came for flow in flows.values()),
        "given_back": side.returned(),
        "false_alarms": len(found),
        "idle_queues": [
            name
            for name, flow in flows.items()
            if name != WITHOUT_MESSAGES and not flow.settled
        ],
        "troubles": len(side.troubles()),
    }
    _say(json.dumps(sums))
    return sums


_WORSE = (Change.CONDITION_ON, Change.SEVERITY)


def _told(event: Event, began: float) -> str:
    where = f"{event.broker} {event.address} {event.queue}"
    return f"FALSE {event.time - began:6.0f} s {where} {event.condition} {event.severity} {event.client}"


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the result


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak-healthy")
    parser.add_argument("--broker", choices=[*SIDES, "both"], default="both")
    parser.add_argument("--duration", type=float, default=7200.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--interval", type=float, default=5.0, help="seconds between polls"
    )
    parser.add_argument(
        "--keep", type=Path, help="a folder for the recordings and logs"
    )
    said = parser.parse_args()
    with ExitStack() as stack:
        folder = said.keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-soak-"))
        )
        chosen = SIDES if said.broker == "both" else [said.broker]
        sides = {
            name: stack.enter_context(SIDES[name](folder / name, said.seed))
            for name in chosen
        }
        return int(not soak(sides, folder, said.duration, f"{said.interval:g}s"))


if __name__ == "__main__":
    sys.exit(main())
