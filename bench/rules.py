"""
`make bench-rules`: what a real Prometheus takes to evaluate each group of rules at 10,000 queues, 2,000 alerts firing.

Every family that a group asks for is served with times of the past, as far back as it looks, and some minutes ahead,
so that nothing is scraped while it is measured: by the processor time of the whole server, which evaluates no other.
Ends with 1 where a group is above one second. The last line is JSON.
"""

import json
import os
import re
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import click
import numpy as np
import promql_parser as promql
from bench.boards import (
    LONG,
    OF_OTHER_KINDS,
    Part,
    cpu,
    scraped,
    served,
    wait_until_taken,
)
from bench.harness import facts, print_table

from alertbench.bench import scaled
from assets.promql import FAMILIES, selectors
from penstock.assets.rule_files import recordings
from rig.prometheus import Prometheus
from rig.waiting import eventually

MOST_SECONDS = 1.0
FIRING = 2_000
SCRAPE = 15
SELDOM = 60
AHEAD = 540
LONGEST = 3600
"""Seconds between two samples, and of series of which no rule asks more than the last; how far ahead of the clock they
are served, as Prometheus takes ten minutes; the longest look back that is served: a day is asked of agents only."""
AT_ONCE = 100
PART = 5_000
"""Samples of a series in one answer; series of a target."""
EVERY = 3
ROUNDS = 5
"""Seconds between two evaluations; how many are measured."""
PATIENCE = 120.0
"""Seconds for a group to fire."""
FIRES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "penstock-queues": ("NoConsumer", {"mq_queue_unhealthy": "no_consumer"}),
    "penstock-rings": (
        "RingLostByConsumer",
        {"mq_queue_unhealthy": "ring_lost_by_consumer"},
    ),
    "penstock-clients": (
        "ClientStalled",
        {"mq_client_unhealthy_consumers": "stalled", "mq_queue_unhealthy": "stalled"},
    ),
    "penstock-brokers": (
        "ProducersBlocked",
        {"mq_address_unhealthy": "producers_blocked"},
    ),
}
"""Group → the alert of it that fires 2,000 times, and the families and causes that make it."""
_ABSENT = frozenset(
    {
        "mq_incident_members",
        *OF_OTHER_KINDS,
        *(name for name in FAMILIES if "_in_incident" in name),
    }
)
"""Where every alert is its own root, and the broker an Artemis."""
_VALUES: Mapping[str, float] = {
    "mq_queue_unhealthy": 2,
    "mq_queue_expected_messages_per_second_high": 100,
    "mq_forecast_messages": 100,
    "mq_forecast_limit_seconds": 10**7,
    "mq_forecast_address_limit_seconds": 10**7,
    "mq_queue_consumers": 0,
    "mq_address_paging": 0,
    "mq_address_memory_used_ratio": 0,
    "penstock_discovery_faults": 0,
}
"""Gauges that are not 1."""
_RECORDED: Mapping[str, Sequence[str]] = {
    rule["record"]: ("broker", "address", "queue")
    for rule in chain.from_iterable(recordings().values())
}
_OF: Mapping[str, Sequence[str]] = {
    **{name: family.label_names for name, family in FAMILIES.items()},
    **_RECORDED,
}
"""Family, or what is recorded, → its labels."""
Group = Mapping[str, Any]

_SOME = frozenset({"mq_queue_messages_redistributed_total"})
"""Shown only of queues that a cluster has taken messages from."""
_STILL = (
    "mq_queue_messages_expired_total",
    "mq_address_messages_unrouted_total",
    "penstock_polls_total",
)
"""Counters that do not rise."""
_OF_NOW = "mq_trend_timestamp_seconds", "penstock_poll_timestamp_seconds"
_LABELS: Mapping[str, tuple[str, ...]] = {
    "bound": ("low", "high"),
    "result": ("ok", "failed"),
    "role": ("active",),
    "kind": ("queue",),
    "policy": ("page",),
    "horizon": ("1d",),
    "reason": ("ring",),
}
"""Label → its values, of those that number no things."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one evaluation of a group. seconds: by the clock, the least of all; cpu: seconds of a processor."""

    cpu: float
    seconds: float
    firing: int
    series: int = 0
    """That it asks for."""


class Steady(Part):
    """As a `Part`, with gauges that make nothing fire but what is meant to."""

    def __init__(self, names: Sequence[str], stamps: Iterable[int]) -> None:
        super().__init__(names, stamps, AT_ONCE)
        self._counts &= [not name.startswith(_STILL) for name in names]

    def gauges(self, stamp: int) -> Any:
        names = [name.partition(b"{")[0].decode() for name in self.names]
        return np.array(
            [stamp if name in _OF_NOW else _VALUES.get(name, 1) for name in names]
        )


def looks_back(groups: Iterable[Group]) -> dict[str, float]:
    """Family that rules ask for → seconds that the longest range or offset goes back, at most LONGEST."""
    found: dict[str, float] = {}
    for rule in (rule for group in groups for rule in group["rules"]):
        for selector, above in selectors(rule["expr"]):
            ranges = [
                node.range for node in above if isinstance(node, promql.MatrixSelector)
            ]
            longest = max((one.total_seconds() for one in ranges), default=0.0)
            longest += (
                0.0 if selector.offset is None else selector.offset.total_seconds()
            )
            found[str(selector.name)] = min(
                max(found.get(str(selector.name), 0.0), longest), LONGEST
            )
    return found


def series(family: str, queues: int) -> Iterator[str]:
    """Its series, with labels."""
    labels = _OF[family]
    causes = [of[family] for _, of in FIRES.values() if family in of]
    if family in _ABSENT or ("cause" in labels and not causes):
        return
    firing = bool(causes)
    number = (
        FIRING
        if firing or family in _SOME
        else queues
        if {"address", "queue"} & {*labels}
        else 1
    )
    several = max(
        (label for label in labels if label in _LABELS),
        key=lambda label: len(_LABELS[label]),
        default="",
    )
    for n in range(number):
        name = f"area.orders.{n:05d}"
        own = {
            "broker": "b1",
            "address": name,
            "queue": name,
            "client": f"application-{n % 500}",
        }
        for value in causes or _LABELS.get(several, ("",)):
            chosen = {
                label: own.get(label) or next(iter(_LABELS.get(label, ("x",))))
                for label in labels
            }
            chosen["cause" if firing else several] = value
            inside = ",".join(f'{label}="{chosen[label]}"' for label in labels)
            yield f"{family}{{{inside}}}" if inside else family


def stamps(begin: int, step: int) -> Iterator[int]:
    """Times of samples to some minutes ahead, also of the clock as it is then."""
    while begin < time.time() + AHEAD:
        yield begin
        begin += step


def parts_of(groups: Iterable[Group], queues: int) -> list[Part]:
    """What is served, apart by how far back it is needed."""
    by_age: dict[float, list[str]] = defaultdict(list)
    for family, seconds in looks_back(groups).items():
        if family in _OF:
            by_age[seconds] += series(family, queues)
    now = int(time.time()) // SCRAPE * SCRAPE
    return [
        Steady(
            names[at : at + PART],
            stamps(now - int(seconds) - 2 * SELDOM, SCRAPE if seconds else SELDOM),
        )
        for seconds, names in by_age.items()
        for at in range(0, len(names), PART)
    ]


def load(prometheus: Prometheus, rules: Path, groups: Sequence[Group]) -> None:
    """These groups are evaluated from now on, and no other."""
    rules.write_text(json.dumps({"groups": groups}))  # JSON is YAML
    os.kill(prometheus.pid, signal.SIGHUP)
    names = [one["name"] for one in groups]
    eventually(
        lambda: [one["name"] for one in prometheus.api("rules")["groups"]] == names,
        expected=True,
        timeout=60,
    )


def rounds(prometheus: Prometheus) -> tuple[float, float]:
    """How often the one group was evaluated; seconds that the last time took by the clock.

    By its metrics: the API would put all alerts with their texts into an answer, at a tenth of a second of a processor.
    """
    with build_opener(ProxyHandler({})).open(
        f"{prometheus.url}/metrics", timeout=20
    ) as answer:
        text = answer.read().decode()
    done, missed, last = (
        sum(
            map(
                float,
                re.findall(rf"(?m)^prometheus_rule_group_{name}\{{.*\}} (\S+)$", text),
            )
        )
        for name in (
            "iterations_total",
            "iterations_missed_total",
            "last_duration_seconds",
        )
    )
    return done - missed, last


def firing(prometheus: Prometheus) -> dict[str, int]:
    """Alert → how many of it fire."""
    found = prometheus.query('count by (alertname) (ALERTS{alertstate="firing"})')
    return {labels["alertname"]: int(number) for labels, number in found}


def idle(prometheus: Prometheus, rules: Path) -> float:
    """What the server takes without rules, seconds of a processor a second."""
    load(prometheus, rules, [])
    began = time.monotonic()
    before = cpu(prometheus.pid)
    time.sleep(EVERY * ROUNDS)
    return (cpu(prometheus.pid) - before) / (time.monotonic() - began)


def cost(folder: Path, group: Group, queues: int) -> Cost:
    """Of a group, on a Prometheus of its own that has what it asks for."""
    parts = parts_of([group], queues)
    rules = folder / "rules.yaml"
    rules.write_text("{}")
    with (
        served(parts) as port,
        Prometheus(
            folder, "", rules=[rules], options=LONG, **scraped(port, len(parts), "30s")
        ) as prometheus,
    ):
        wait_until_taken(parts)
        families = {
            name.partition(b"{")[0].decode() for part in parts for name in part.names
        }
        there = sum(
            number
            for family in families
            for _, number in prometheus.query(f"count({family})")
        )
        if there != sum(len(part.names) for part in parts):
            raise click.ClickException(
                "Prometheus has not all series; try again with the machine at rest"
            )
        found = measured(prometheus, rules, group, idle(prometheus, rules))
        if time.time() > min(part.last for part in parts):
            raise click.ClickException(
                "the data ended before all was measured; try again with the machine at rest"
            )
    return replace(found, series=int(there))


def measured(prometheus: Prometheus, rules: Path, group: Group, beside: float) -> Cost:
    """beside: what the server takes for all else, seconds of a processor a second."""
    load(prometheus, rules, [group])
    alert, _ = FIRES.get(group["name"], ("", {}))
    expected = {f"Penstock{alert}": FIRING} if alert else {}
    deadline = time.monotonic() + PATIENCE
    while (fired := firing(prometheus)) != expected and time.monotonic() < deadline:
        time.sleep(EVERY)
    if fired != expected:
        raise click.ClickException(
            f"{group['name']}: other alerts fire than were meant to: {fired}"
        )
    began = time.monotonic()
    before = cpu(prometheus.pid)
    (first, _) = rounds(prometheus)
    done = 0.0
    took = list[float]()
    while done < ROUNDS:
        time.sleep(EVERY / 2)
        now, last = rounds(prometheus)
        done = now - first
        took += [last] if done else []  # before the first evaluation it is 0
    spent = cpu(prometheus.pid) - before - beside * (time.monotonic() - began)
    return Cost(round(spent / done, 3), round(min(took), 3), sum(fired.values()))


@click.command()
@click.option("--queues", default=10_000, show_default=True)
@click.option("--only", default="", help="part of a group's name")
def main(*, queues: int, only: str) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        folder = Path(scratch)
        groups = [
            group
            for file in scaled(folder)
            for group in json.loads(file.read_text())["groups"]
        ]
        found: dict[str, Cost] = {}
        for group in (one for one in groups if only in one["name"]):
            place = folder / group["name"]
            place.mkdir()
            found[group["name"]] = cost(
                place, {**group, "interval": f"{EVERY}s"}, queues
            )
    above = [name for name, one in found.items() if one.cpu > MOST_SECONDS]
    rows = {
        name: [str(one.series), str(one.firing), f"{one.cpu:.2f}", f"{one.seconds:.2f}"]
        for name, one in found.items()
    }
    print_table(rows, ["group", "series", "firing", "CPU s", "s by the clock"])
    costs = {name: asdict(one) for name, one in found.items()}
    print(
        json.dumps(
            {
                "bench": "rules",
                "queues": queues,
                "groups": costs,
                "above": above,
                **facts(),
            }
        )
    )
    if above:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
