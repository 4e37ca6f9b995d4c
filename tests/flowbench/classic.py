"""
FlowBench of ActiveMQ Classic: labelled situations on a real broker, all at once, played by real JMS clients and judged
by a real agent. `make flowbench-classic`. Prints a line a scenario and a JSON object.
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from flowbench.observer import Observer
from flowbench.openmq import arguments
from penstock.insight.events import Change, Event
from penstock_demo.classic import ClassicBroker
from rig.classic import Clients, configured

FAILS_SOON = "?jms.redeliveryPolicy.maximumRedeliveries=1&jms.redeliveryPolicy.initialRedeliveryDelay=100"
POLICY = """<policyEntry queue="vm.>" memoryLimit="200kb" producerFlowControl="true">
  <pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy></policyEntry>
  <policyEntry queue=">" expireMessagesPeriod="5000"/></policyEntries>"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """clients: actions of ClassicLoad.java with their number, on the scenario's queue or topic. need: what must come.
    also: what may come. at: the queue where it is seen, where that is another.
    """

    name: str
    clients: Sequence[tuple[str, int]]
    need: str = ""
    also: Sequence[str] = ()
    at: str = ""


SCENARIOS = (
    Scenario("stuck_listener", [("send", 10), ("hang", 5)], "stalled"),
    Scenario("never_acknowledged", [("send", 5), ("lazy", 0)], "stalled"),
    Scenario("not_started", [("send", 5), ("unstarted", 0)], "stalled"),
    Scenario("stuck_subscriber", [("publish", 10), ("deaf", 5)], "stalled"),
    Scenario("open_transaction", [("fill", 50), ("hold", 20)], "open_transaction"),
    Scenario("consumer_left", [("send", 5), ("visit", 10)], "no_consumer"),
    Scenario(
        "durable_left",
        [("durable", 0), ("publish", 5)],
        "no_consumer",
        at="durable-durable_left.sub",
    ),
    Scenario("selector_mismatch", [("send", 5), ("select", 0)], "not_dispatching"),
    Scenario("too_slow", [("send", 20), ("read", 200)], "falling_behind"),
    Scenario("vm.full", [("send", 50)], "producers_blocked", ["no_consumer"]),
    Scenario(
        "vm.full_beside_hang",
        [("send", 50), ("hang", 5)],
        "producers_blocked",
        ["stalled"],
    ),
    Scenario("expires", [("expire", 5)], "expiring"),
    Scenario(
        "poison",
        [("send", 2), ("fail", 0)],
        "dead_lettering",
        ["stalled"],
        at="ActiveMQ.DLQ",
    ),
    Scenario("fast", [("send", 50), ("read", 0)]),
    Scenario("keeps_up", [("send", 5), ("read", 100)]),
    Scenario("batches", [("send", 10), ("batch", 100)]),
    Scenario("commits", [("send", 5), ("commit", 10)]),
    Scenario("idle", [("read", 0)]),
    Scenario("topic", [("publish", 10), ("listen", 10)]),
    Scenario("other_transaction", [("send", 10), ("beside", 5)]),
    Scenario("drains", [("fill", 3000), ("read", 20)]),
)


def of_scenario(one: Scenario, address: str, queue: str) -> bool:
    return (one.at or one.name) in (address, queue)


def line(one: Scenario, all_events: Sequence[Event], begin: float) -> tuple[str, bool]:
    """What was told of it, in a line, and whether that is right. begin: stamp of the first poll."""
    shown = [
        event for event in all_events if of_scenario(one, event.address, event.queue)
    ]
    came = [
        event
        for event in shown
        if event.change in (Change.CONDITION_ON, Change.SEVERITY)
    ]
    seconds = {event.condition: event.time - begin for event in reversed(came)}
    alarms = {event.condition for event in came if event.severity != "info"}
    false = sorted(alarms - {one.need, *one.also})
    trouble = [f"missing {one.need}"] * (one.need not in {*seconds, ""}) + [
        f"FALSE {name}" for name in false
    ]
    said = (
        ", ".join(f"{name} {after:.0f} s" for name, after in seconds.items())
        or "nothing"
    )
    return (
        f"| {one.name} | {one.need or 'healthy'} | {said} | {'; '.join(trouble) or 'right'} |",
        not trouble,
    )


def play(
    scenarios: Sequence[Scenario],
    folder: Path,
    *,
    interval: float,
    seconds: float,
    cold: float,
) -> bool:
    """All of them at once; whether all were judged right."""
    with ExitStack() as stack:
        edit = lambda text: text.replace("</policyEntries>", POLICY)  # noqa: E731
        broker = ClassicBroker.create(folder / "broker", heap_mb=512, edit=edit)
        stack.callback(broker.kill)
        broker.start()
        observer = Observer(
            folder / "agent",
            brokers=[configured(broker)],
            interval=f"{interval:g}s",
            judgement={"cold": f"{cold:g}s", "trend": "60s"},
        )
        begin = time.time()
        stack.enter_context(observer)
        does = [
            (action, one.name, count)
            for one in scenarios
            for action, count in one.clients
        ]
        stack.enter_context(Clients(broker, does, FAILS_SOON))
        time.sleep(seconds)
        told = [line(one, observer.events, begin) for one in scenarios]
    for text, _ in told:
        print(text, flush=True)  # noqa: T201 - the result
    right = sum(right for _, right in told)
    print(json.dumps({"scenarios": len(told), "right": right}), flush=True)  # noqa: T201
    return right == len(told)


def main() -> int:
    wanted = arguments("flowbench.classic", 180.0)
    chosen = [
        one
        for one in SCENARIOS
        if any(part in one.name for part in wanted.only.split(","))
    ]
    with ExitStack() as stack:
        folder = wanted.keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-classic-"))
        )
        return not play(
            chosen,
            folder,
            interval=wanted.interval,
            seconds=wanted.seconds,
            cold=wanted.cold,
        )


if __name__ == "__main__":
    sys.exit(main())
