"""
Alertbench: FlowBench's situations on real brokers, a real agent, a real Prometheus with the shipped rules.

`make alertbench`. Each situation has to fire the alerts of its label and no other, healthy ones none. Two clusters with
the same names stand beside each other: each has to fire its own. Then the brokers hang for two minutes and the agent is
restarted: nothing may resolve, and only what tells of that may fire.
"""

import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from assets.mutation import seconds as seconds_of
from assets.promql import selectors
from e2e.agent import Agent
from flowbench import faults, healthy, rings
from flowbench.bench import (
    START_SECONDS,
    Run,
    brokers,
    configured,
    end,
    options,
    started,
)
from flowbench.core import CoreProcess
from flowbench.observer import Observer
from flowbench.scene import SCENARIOS, Place, Scene, stage
from penstock.assets.alerts import INCIDENT
from penstock.assets.rule_files import ALERTS, RECORDING, all_alerts, rule_files
from penstock.assets.values import DEFAULT, AlertValues
from penstock.conditions.catalogue import CONDITIONS
from penstock_demo.ports import LOOPBACK, free_port
from rig.prometheus import Prometheus

ALL_OF = (faults, healthy, rings)
"""The modules that register scenarios."""
FOR_SCALE = 0.1
"""`for` of every alert is shortened by it; thresholds, windows of rates and `keep_firing_for` are as shipped."""
HANG_SECONDS = 120.0
RESTART_SECONDS = 30.0
"""From the end of the hang, when the agent is restarted, to the end of the bench."""
DURING_A_HANG = frozenset({"PenstockBrokerDown", "PenstockPollFailing"})
OF_THE_HOST = frozenset({"PenstockDiskNearFull"})
"""Of the machine's disk, and of the broker whose disk counts as full."""
OF_A_FULL_DISK = f'alertname="PenstockProducersBlocked",broker="{Place.DISK}"'
"""Every address of that broker is blocked, also those of no situation."""
BESIDE: Mapping[str, frozenset[str]] = {
    "producers_blocked": frozenset({"PenstockAddressNearFull"}),
    "rejecting": frozenset({"PenstockAddressNearFull"}),
    "dead_lettering": frozenset({"PenstockDeadLettersGrowing"}),
}
"""Condition → alerts that are as true while it holds."""
NOT_OF_CONDITIONS = {"link_down": "PenstockLinkDown"}

CLUSTERS = ("a", "b")
"""Of each the agent is scraped, so that every name is there twice."""

Fired = frozenset[tuple[str, str]]
"""(alert, queue or address or link) pairs."""


@dataclass(slots=True)
class Outcome:
    """What one situation had to fire, and what it fired."""

    name: str
    expected: frozenset[str]
    fired: frozenset[str]
    lawful: frozenset[str]
    trouble: str = ""

    @property
    def missing(self) -> frozenset[str]:
        return self.expected - self.fired

    @property
    def wrong(self) -> frozenset[str]:
        return self.fired - self.expected - self.lawful

    def line(self) -> str:
        problems = [
            *(f"missing {name}" for name in sorted(self.missing)),
            *(f"FALSE {name}" for name in sorted(self.wrong)),
        ]
        verdict = (
            f"does not count: {self.trouble}"
            if self.trouble
            else "; ".join(problems) or "right"
        )
        return f"| {self.name} | {_names(self.expected) or 'none'} | {_names(self.fired) or 'none'} | {verdict} |"


@dataclass(slots=True)
class Hang:
    """What resolved and what came while the brokers hung and the agent was restarted."""

    resolved: list[str] = field(default_factory=list)
    came: list[str] = field(default_factory=list)


def _names(alerts: frozenset[str]) -> str:
    return ", ".join(sorted(name.removeprefix("Penstock") for name in alerts))


# --- what has to fire


def alert_of_cause() -> dict[str, str]:
    """Condition → its alert, from the rules themselves."""
    found = dict(NOT_OF_CONDITIONS)
    for alert in all_alerts():
        for selector, _ in selectors(alert.expr):
            found |= {
                matcher.value: alert.name
                for matcher in selector.matchers.matchers
                if matcher.name == "cause"
            }
    return found


def expected_of(scene: Scene, alerts: Mapping[str, str]) -> frozenset[str]:
    """Alerts of the label; a condition that only informs has none to fire."""
    informs = {name for name, kind in CONDITIONS.items() if not kind.may_be_critical}
    return frozenset(
        alerts[cause] for cause in scene.scenario.label.need if cause not in informs
    )


def lawful_of(scene: Scene, alerts: Mapping[str, str]) -> frozenset[str]:
    label = scene.scenario.label
    causes = {*label.need, *label.also, *label.notices}
    beside = [BESIDE.get(cause, frozenset()) for cause in causes]
    return frozenset(alerts[cause] for cause in label.also if cause in alerts).union(
        *beside
    )


def two_clusters(folder: Path, agent: Agent) -> Prometheus:
    """With the shipped rules, each `for` shortened; of alerts those of conditions, of which no incident is the sum."""
    rules = scaled(folder, AlertValues(disabled=frozenset({INCIDENT})))
    target = f"{LOOPBACK}:{agent.port}"
    targets = [
        {"targets": [target], "labels": {"cluster": cluster}} for cluster in CLUSTERS
    ]
    return Prometheus(
        folder / "prometheus", target, rules=rules, static_configs=targets
    )


def scaled(folder: Path, values: AlertValues = DEFAULT) -> list[Path]:
    """The rule files of these values, each `for` shortened."""
    files = []
    for name in (ALERTS, RECORDING):
        document = yaml.safe_load(rule_files(values)[name])
        for rule in (
            rule
            for group in document["groups"]
            for rule in group["rules"]
            if "for" in rule
        ):
            rule["for"] = f"{max(1, round(seconds_of(rule['for']) * FOR_SCALE))}s"
        files.append(folder / name)
        files[-1].write_text(json.dumps(document))  # JSON is YAML
    return files


# --- play


def play(
    names: Sequence[str], run: Run, folder: Path, hang: float
) -> tuple[list[Outcome], Hang]:
    """All situations at once, then the hang."""
    ending = threading.Event()
    dice = random.Random(run.seed)  # noqa: S311 - the same run for the same seed
    chosen = [SCENARIOS[name] for name in names]
    with ExitStack() as stack:
        made = stack.enter_context(brokers({one.place for one in chosen}, folder))
        core = stack.enter_context(CoreProcess(folder / "core"))
        configuration = configured(run, made.values()) | {
            "timeout": f"{run.interval * 0.9:g}s"
        }
        observer = stack.enter_context(Observer(folder / "observer", **configuration))
        agent = stack.enter_context(
            Agent(folder / "agent", port=free_port(), **configuration)
        )
        prometheus = stack.enter_context(two_clusters(folder, agent))
        scenes = [
            Scene(
                one,
                stage(made[one.place], core, run.seed, one.name, ending),
                observer,
                run.interval,
                run.cold,
            )
            for one in chosen
        ]
        threads = started(scenes, dice, START_SECONDS)
        time.sleep(run.seconds)
        outcomes = judge(scenes, prometheus, run.seconds)
        troubles = (
            hung(agent, list(made.values()), prometheus, outcomes, hang)
            if hang
            else Hang()
        )
        ending.set()
        end(threads, scenes)
    return outcomes, troubles


def judge(
    scenes: Sequence[Scene], prometheus: Prometheus, seconds: float
) -> list[Outcome]:
    """What fired at any time so far, by situation; what belongs to none comes last."""
    alerts = alert_of_cause()
    fired = in_each(
        prometheus,
        f'max_over_time(ALERTS{{alertstate="firing"}}[{seconds:.0f}s])',
        _subject,
    )
    outcomes: list[Outcome] = []
    told: set[tuple[str, str]] = set()
    for scene in scenes:
        own = frozenset(pair for pair in fired if pair[1] in scene.queues)
        told |= own
        trouble = scene.trouble or (
            ""
            if scene.begins or not scene.scenario.label.need
            else "the fault did not begin"
        )
        names = frozenset(name for name, _ in own)
        outcomes.append(
            Outcome(
                scene.scenario.name,
                expected_of(scene, alerts),
                names,
                lawful_of(scene, alerts),
                trouble,
            )
        )
    of_disk = firing(
        prometheus, f"max_over_time(ALERTS{{{OF_A_FULL_DISK}}}[{seconds:.0f}s])"
    )
    others = frozenset(
        f"{name} on {on}"
        for name, on in fired - told - of_disk
        if name not in OF_THE_HOST
    )
    return [
        *outcomes,
        Outcome(
            "(of no situation)", frozenset(), others | broken(prometheus), frozenset()
        ),
    ]


def in_each(
    prometheus: Prometheus, query: str, subject: Callable[[Mapping[str, str]], str]
) -> Fired:
    """The alerts that a query gives of each cluster, with what they are on; the name of another says where it fired."""
    found: dict[str, set[tuple[str, str]]] = {cluster: set() for cluster in CLUSTERS}
    for labels, _ in prometheus.query(query):
        found.setdefault(labels.get("cluster", "none"), set()).add(
            (labels["alertname"], subject(labels))
        )
    both = frozenset.intersection(*(frozenset(found[cluster]) for cluster in CLUSTERS))
    return both.union(
        (f"{name} of cluster {one} alone", on)
        for one in found
        for name, on in found[one] - both
    )


def broken(prometheus: Prometheus) -> frozenset[str]:
    """The rules that could not be evaluated."""
    rules = [
        rule for group in prometheus.api("rules")["groups"] for rule in group["rules"]
    ]
    assert len(rules) > len(CONDITIONS)
    return frozenset(
        f"{rule['name']}: {rule['lastError']}"
        for rule in rules
        if rule["health"] != "ok"
    )


def firing(prometheus: Prometheus, query: str) -> Fired:
    """The alerts that a query gives, with what they are on."""
    return frozenset(
        (labels["alertname"], _subject(labels)) for labels, _ in prometheus.query(query)
    )


def holding(prometheus: Prometheus) -> Fired:
    """What the expressions of the alerts say now."""
    return frozenset(
        (alert.name, _subject(labels))
        for alert in all_alerts()
        for labels, _ in prometheus.query(alert.expr)
    )


def _subject(labels: Mapping[str, str]) -> str:
    return (
        labels.get("queue")
        or labels.get("address")
        or labels.get("link")
        or labels.get("broker", "")
    )


# --- hang and restart


def hung(
    agent: Agent,
    stopped: Sequence[Any],
    prometheus: Prometheus,
    outcomes: Sequence[Outcome],
    seconds: float,
) -> Hang:
    """
    Stop the brokers' processes for `seconds`, let them go on, restart the agent; what that did to alerts.

    One that fires only because it is kept firing may resolve: what it was for has ended before.
    """
    expected = {name for outcome in outcomes for name in outcome.expected}
    before = firing(prometheus, 'ALERTS{alertstate="firing"}')
    standing = before & holding(prometheus)
    begin = time.time()
    for broker in stopped:
        broker.pause()
    time.sleep(seconds)
    for broker in stopped:
        broker.resume()
    agent.stop()
    with agent:
        time.sleep(RESTART_SECONDS)
        found = Hang()
        spans = list(_spans(prometheus, begin, time.time()))
    whole = max((count for _, _, count in spans), default=0)
    lasting = frozenset.intersection(
        *(
            frozenset(
                pair for pair, on, count in spans if on == one and count >= whole - 1
            )
            for one in CLUSTERS
        )
    )
    found.resolved = [
        f"{name} on {on}" for name, on in sorted(standing - lasting) if name in expected
    ]
    new = {pair for pair, _, _ in spans} - before
    found.came = [
        f"{name} on {on}" for name, on in sorted(new) if name not in DURING_A_HANG
    ]
    return found


def _spans(
    prometheus: Prometheus, begin: float, end: float
) -> Iterator[tuple[tuple[str, str], str, int]]:
    """Each alert, its cluster, and the number of instants, two seconds apart, at which it fired."""
    query = 'max without (severity, instance) (ALERTS{alertstate="firing"})'
    answer = prometheus.api(
        "query_range", query=query, start=f"{begin:.3f}", end=f"{end:.3f}", step="2"
    )
    for series in answer["result"]:
        labels = series["metric"]
        yield (
            (labels["alertname"], _subject(labels)),
            labels.get("cluster", ""),
            len(series["values"]),
        )


# --- tell


def tell(outcomes: Sequence[Outcome], hang: Hang) -> bool:
    _say("| situation | has to fire | fired | |\n|---|---|---|---|")
    for outcome in outcomes:
        _say(outcome.line())
    counted = [outcome for outcome in outcomes if not outcome.trouble]
    bad = [outcome.name for outcome in counted if outcome.missing or outcome.wrong]
    _say(f"\n{len(counted) - len(bad)} of {len(counted)} right; `for` x {FOR_SCALE:g}")
    _say(
        f"hang and restart: resolved {hang.resolved or 'nothing'}; came {hang.came or 'nothing else'}"
    )
    return not bad and not hang.resolved and not hang.came


def main() -> int:
    parser = options("alertbench")
    parser.add_argument(
        "--cold", type=float, default=0.0, help="patience at first; default: as shipped"
    )
    parser.add_argument(
        "--hang", type=float, default=HANG_SECONDS, help="seconds; 0: none"
    )
    wanted = parser.parse_args()
    run = Run.whole(wanted.seed, wanted.interval)
    if wanted.cold:
        run = Run(
            wanted.seed,
            wanted.interval,
            run.seconds - run.cold + wanted.cold,
            wanted.cold,
            trend=wanted.cold,
        )
    names = [
        name
        for name, one in SCENARIOS.items()
        if one.place is not Place.RESTARTED
        and any(part in name for part in wanted.only.split(","))
    ]
    with tempfile.TemporaryDirectory(prefix="penstock-alertbench-") as scratch:
        return int(not tell(*play(names, run, Path(scratch), wanted.hang)))


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the result


if __name__ == "__main__":
    sys.exit(main())
