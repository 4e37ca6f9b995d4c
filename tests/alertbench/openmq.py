"""
Alertbench on OpenMQ: FlowBench's situations on a real broker, a real agent, a real Prometheus with the shipped rules.

`make alertbench-openmq`. As bench.py is for Artemis.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from alertbench.bench import (
    BESIDE,
    HANG_SECONDS,
    Hang,
    Outcome,
    alert_of_cause,
    broken,
    hung,
    in_each,
    tell,
    two_clusters,
)
from e2e.agent import Agent
from flowbench.openmq import (
    SCENARIOS,
    Scenario,
    clients_of,
    entry,
    prepared,
    scenario_of,
)
from penstock_demo.ports import free_port
from rig.prometheus import Prometheus

OF_ALL = {("PenstockDeadLettersGrowing", "mq.sys.dmq")}
"""What expires or is removed for any of them goes to the one dead message queue."""


def outcome(
    scenario: Scenario, fired: frozenset[str], alerts: Mapping[str, str]
) -> Outcome:
    """Of a group of causes that look the same the one that fired has to, else the first."""
    groups = [[alerts[cause] for cause in group] for group in scenario.need]
    expected = frozenset(
        next((alert for alert in group if alert in fired), group[0]) for group in groups
    )
    causes = [*(cause for group in scenario.need for cause in group), *scenario.also]
    beside = [BESIDE.get(cause, frozenset()) for cause in causes]
    lawful = frozenset(alerts[cause] for cause in causes if cause in alerts).union(
        *beside
    )
    return Outcome(scenario.name, expected, fired, lawful)


def _address(labels: Mapping[str, str]) -> str:
    return labels.get("address") or labels.get("broker", "")


def judge(
    scenarios: Sequence[Scenario], prometheus: Prometheus, seconds: float
) -> list[Outcome]:
    """What fired at any time so far, by situation; what belongs to none comes last."""
    fired = in_each(
        prometheus,
        f'max_over_time(ALERTS{{alertstate="firing"}}[{seconds:.0f}s])',
        _address,
    )
    alerts = alert_of_cause()
    names = {one.name for one in scenarios}
    outcomes = [
        outcome(
            one,
            frozenset(name for name, on in fired if scenario_of(on) == one.name),
            alerts,
        )
        for one in scenarios
    ]
    others = frozenset(
        f"{name} on {on}" for name, on in fired - OF_ALL if scenario_of(on) not in names
    )
    return [
        *outcomes,
        Outcome(
            "(of no situation)", frozenset(), others | broken(prometheus), frozenset()
        ),
    ]


def play(
    scenarios: Sequence[Scenario],
    folder: Path,
    interval: float,
    seconds: float,
    hang: float,
) -> tuple[list[Outcome], Hang]:
    """All situations at once, then the hang."""
    with ExitStack() as stack:
        broker, classes = stack.enter_context(prepared(folder, scenarios))
        agent = Agent(
            folder / "agent",
            port=free_port(),
            brokers=[entry(broker)],
            interval=f"{interval:g}s",
            timeout=f"{interval * 0.9:g}s",
            judgement={"cold": "45s", "trend": "60s"},
        )
        stack.enter_context(agent)
        prometheus = stack.enter_context(two_clusters(folder, agent))
        time.sleep(2 * interval)
        stack.enter_context(
            clients_of(broker, scenarios, classes, folder / "clients.log")
        )
        time.sleep(seconds)
        outcomes = judge(scenarios, prometheus, seconds + 60)
        return outcomes, hung(
            agent, [broker], prometheus, outcomes, hang
        ) if hang else Hang()


def main() -> int:
    parser = argparse.ArgumentParser(prog="alertbench.openmq")
    parser.add_argument(
        "--interval", type=float, default=5.0, help="seconds between polls"
    )
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--only", default="", help="parts of names, by commas")
    parser.add_argument(
        "--hang", type=float, default=HANG_SECONDS, help="seconds; 0: none"
    )
    wanted = parser.parse_args()
    chosen = [
        one
        for one in SCENARIOS
        if any(part in one.name for part in wanted.only.split(","))
    ]
    with tempfile.TemporaryDirectory(prefix="penstock-alertbench-") as scratch:
        return int(
            not tell(
                *play(
                    chosen, Path(scratch), wanted.interval, wanted.seconds, wanted.hang
                )
            )
        )


if __name__ == "__main__":
    sys.exit(main())
