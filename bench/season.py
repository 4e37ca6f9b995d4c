"""
A season in minutes: weeks of made-up queues with rhythms, judged poll by poll as the agent judges them.

Twenty kinds of healthy queues (steady, business hours, batches, clusters, growing, new) in a zone with a change of
the clock and two holidays; producers are deployed, the broker is started anew, the agent is away. The same kinds with
a fault each: silence, slow consumers, mass expiry, an outage. Counted are false alarms a queue and week, and how long
each fault takes. The traffic is our own model: it compares rules and is no promise.
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import Severity
from penstock.core.table import Column, Index, Table
from penstock.history.listing import GAP_POLLS
from penstock.learned.normal import Profile
from penstock.learned.profile import by_broker
from penstock.model import (
    AddressRow,
    Broker,
    BrokerKind,
    Collector,
    ConsumerRow,
    Observation,
    Process,
    QueueKind,
    QueueRow,
    RingSource,
    Role,
    Snapshot,
)
from penstock.observation.facts import facts
from penstock.observation.poll import Groups
from penstock.observation.unacked import progress_of
from penstock.rule_engine import judgement as judging
from penstock.rule_engine.engine import Debounce, advance_one
from penstock.rule_engine.judgement import Judgement
from penstock.rule_engine.reports import active_conditions
from penstock.series.clock import Clock
from penstock.series.consumers import Consumers
from penstock.series.queues import Queues
from penstock.settings.business_hours import time_zone
from penstock.settings.calendar import Calendar
from penstock.settings.policy import Policy
from penstock_trends.kernel import MICRO, QUEUE, hourly
from penstock_trends.normal import hours_of, profile_of

ZONE = "Europe/Berlin"
START = datetime(2026, 3, 2, tzinfo=time_zone(ZONE)).timestamp()
HOLIDAYS = frozenset({date(2026, 4, 3), date(2026, 4, 6)})
DAY = 86400.0
WEEK = 7 * 86400.0
FINE = 30.0
"""Seconds: what happens between two polls is made up so finely."""
SAME = 7200.0
"""Alarms of a queue within it are one."""
RESTART = 180.0
AWAY = 10800.0
JUDGED = [
    CONDITIONS[name]
    for name in (
        "producer_silent", "slowed", "expiring_unusually", "dead_lettering_unusually", "surge", "no_consumer",
        "falling_behind",
    )
]  # fmt: skip
KEPT = (
    "messages",
    "delivering",
    "scheduled",
    "consumers",
    "added",
    "acknowledged",
    "expired",
    "killed",
)
"""Columns of queues that history needs here."""
OF_NORMAL = (
    "producer_silent",
    "slowed",
    "expiring_unusually",
    "dead_lettering_unusually",
    "surge",
)

Random = np.random.Generator


class Polls(NamedTuple):
    """The polls of the season: seconds since 1970; seconds and holidays by the wall clock."""

    at: Column
    local: Column
    holiday: NDArray[np.bool_]
    step: float

    @classmethod
    def of(cls, weeks: float, step: float) -> "Polls":
        at = np.arange(int(weeks * WEEK / step)) * np.float64(step) + START
        zone = time_zone(ZONE)
        hours = [
            datetime.fromtimestamp(one, zone)
            for one in np.arange(START, at[-1] + 3600, 3600.0)
        ]
        of = ((at - START) // 3600).astype(np.intp)
        offset = np.array([one.utcoffset().total_seconds() for one in hours])[of]  # type: ignore[union-attr]
        holiday = np.array([one.date() in HOLIDAYS for one in hours])[of]
        return cls(at, at + offset, holiday, step)

    @property
    def second(self) -> Column:
        """Of the day."""
        return self.local % DAY

    @property
    def day(self) -> NDArray[np.int64]:
        """Of the week."""
        return (self.local // DAY + 3).astype(np.int64) % 7

    def between(self, begin: float, end: float) -> NDArray[np.bool_]:
        """Hours of the day."""
        return (self.second >= begin * 3600) & (self.second < end * 3600)

    @property
    def working(self) -> NDArray[np.bool_]:
        return (self.day < 5) & ~self.holiday


Rates = NDArray[np.float64]
"""Messages a second, by poll."""


def business(clock: Polls, _: Random) -> Rates:
    return np.where(clock.working & clock.between(8, 18), 2.0, 0.0)


def few_at_night(clock: Polls, _: Random) -> Rates:
    return np.where(clock.working & clock.between(7, 19), 1.0, 0.005)


def shifts(clock: Polls, _: Random) -> Rates:
    return np.where(
        clock.working & (clock.between(6, 12) | clock.between(12.75, 22)), 0.5, 0.0
    )


def wave(clock: Polls, _: Random) -> Rates:
    return 1.0 + 0.9 * np.sin(2 * np.pi * clock.second / DAY)


def growing(clock: Polls, _: Random) -> Rates:
    return 2.0 * 1.05 ** ((clock.at - START) / WEEK)


def new_in_week_three(clock: Polls, _: Random) -> Rates:
    return np.where(clock.at >= START + 2.3 * WEEK, 1.0, 0.0)


def steady(rate: float) -> "Kind":
    return lambda clock, _: np.full(len(clock.at), rate)


def batches(
    every: float,
    at: float,
    late: float,
    shortest: float,
    longest: float,
    *,
    weekday: int = -1,
) -> "Kind":
    """A run `every` so many seconds of the day, `late` by so much at random, of a length in between."""

    def rates(clock: Polls, random: Random) -> Rates:
        first = np.flatnonzero(np.diff(np.floor((clock.local - at) / every)) > 0) + 1
        found = np.zeros(len(clock.at))
        for begin in clock.at[first] + late + random.normal(0, late / 2, len(first)):
            here = (clock.at >= begin) & (
                clock.at < begin + random.uniform(shortest, longest)
            )
            found[here] = 5.0
        return found if weekday < 0 else np.where(clock.day == weekday, found, 0.0)

    return rates


def cron_in_utc(clock: Polls, _: Random) -> Rates:
    return np.where(clock.at % 14400 < 120, 2.0, 0.0)


def clusters(
    rest: Callable[[Random, int], Column], rate: float, seconds: float
) -> "Kind":
    """Bursts with pauses that `rest` draws."""

    def rates(clock: Polls, random: Random) -> Rates:
        most = (
            int((clock.at[-1] - clock.at[0]) / seconds) + 1
        )  # enough for all weeks, without any pause
        begins = clock.at[0] + np.cumsum(rest(random, most) + seconds)
        within = clock.at - begins[np.maximum(np.searchsorted(begins, clock.at) - 1, 0)]
        return np.where((within >= 0) & (within < seconds), rate, 0.0)

    return rates


Kind = Callable[[Polls, Random], Rates]
KINDS: dict[str, Kind] = {
    "steady 20/s": steady(20.0),
    "steady 0.5/s": steady(0.5),
    "steady 1 in 2 min": steady(1 / 120),
    "once a day": batches(DAY, 6 * 3600, 300, FINE, FINE),
    "business hours": business,
    "few at night": few_at_night,
    "shifts": shifts,
    "wave": wave,
    "growing": growing,
    "new": new_in_week_three,
    "nightly": batches(DAY, 2 * 3600, 180, 600, 2400),
    "hourly": batches(3600, 300, 30, 120, 600),
    "ten minutes": batches(600, 60, 10, 60, 180),
    "weekly": batches(DAY, 4 * 3600, 300, 1200, 3600, weekday=6),
    "cron in UTC": cron_in_utc,
    "on and off": clusters(lambda random, n: random.lognormal(5.5, 1.3, n), 1.0, 300.0),
    "clusters": clusters(lambda random, n: 60 * (1 + random.pareto(1.5, n)), 2.0, 60.0),
    "nightly consumer": steady(0.2),
    "ten-minute consumer": steady(0.5),
    "business consumer": steady(0.2),
}


def present(kind: str, clock: Polls, random: Random) -> NDArray[np.bool_]:
    """Whether its consumer is there."""
    if kind == "nightly consumer":
        return batches(DAY, 2 * 3600, 180, 1200, 2400)(clock, random) > 0
    if kind == "ten-minute consumer":
        return batches(600, 60, 10, 90, 150)(clock, random) > 0
    return (
        clock.working & clock.between(8, 18)
        if kind == "business consumer"
        else np.ones(len(clock.at), np.bool_)
    )


FAULTS = ("silent", "slow", "expires", "dead letters", "outage")
WANTED = {
    "silent": "producer_silent",
    "slow": "slowed",
    "expires": "expiring_unusually",
    "dead letters": "dead_lettering_unusually",
    "outage": "no_consumer",
}
FITS = {
    "silent": tuple(KINDS),
    "slow": ("steady 20/s", "wave", "growing"),
    "expires": ("steady 20/s", "wave", "growing", "business hours"),
    "dead letters": ("steady 20/s", "wave", "growing", "business hours"),
    "outage": (
        "steady 20/s",
        "steady 0.5/s",
        "wave",
        "nightly consumer",
        "ten-minute consumer",
    ),
}


@dataclass
class Queue:
    """One queue of a kind; begins: of its fault, seconds since 1970."""

    kind: str
    fault: str = ""
    begins: float = np.inf


@dataclass
class Season:
    """The broker with its queues, poll by poll. step: seconds between two polls."""

    queues: list[Queue]
    weeks: float
    step: float
    seed: int
    clock: Polls = field(init=False)

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.seed)
        self.clock = clock = Polls.of(self.weeks, self.step)
        fine = Polls.of(self.weeks, min(self.step, FINE))
        size = (len(clock.at), len(self.queues))
        many = len(fine.at) // len(clock.at)
        self.rates = np.empty(size, np.float32)
        self.serves = np.empty(size, np.float32)
        self.there = np.empty(size, np.bool_)
        for i, queue in enumerate(self.queues):
            self.rates[:, i] = (
                KINDS[queue.kind](fine, random).reshape(-1, many).mean(axis=1)
            )
            here = present(queue.kind, fine, random).reshape(-1, many)
            self.serves[:, i], self.there[:, i] = here.mean(axis=1), here[:, -1]
            for week in range(
                1, int(self.weeks), 2
            ):  # a producer is deployed every other week
                begin = START + week * WEEK + random.uniform(0, WEEK)
                self.rates[
                    (clock.at >= begin)
                    & (clock.at < begin + random.lognormal(4.5, 0.8)),
                    i,
                ] = 0.0
            self._break(i, queue, random)
        wobble = random.lognormal(
            0, 0.15, (len(clock.at) // int(3600 / self.step) + 1, len(self.queues))
        )
        self.rates *= np.repeat(wobble, int(3600 / self.step), axis=0)[: len(clock.at)]
        self.unread = np.zeros(len(clock.at), np.bool_)
        for week in range(1, int(self.weeks), 2):
            self._away(START + week * WEEK + random.uniform(0, WEEK), RESTART)
        for _ in range(2):
            self._away(
                START + random.uniform(WEEK, max(self.weeks * WEEK - DAY, WEEK)), AWAY
            )
        self._random = random

    def _away(self, begin: float, seconds: float) -> None:
        self.unread |= (self.clock.at >= begin) & (self.clock.at < begin + seconds)

    def _break(self, i: int, queue: Queue, random: Random) -> None:
        """It begins right after a message of the last half of the season."""
        if not queue.fault:
            return
        half = self.clock.at >= START + self.weeks * WEEK * 5 / 8
        works = np.flatnonzero(half & (self.rates[:, i] > 0) & (self.serves[:, i] > 0))
        works = works[works < len(self.clock.at) * 0.85]
        begin = int(random.choice(works)) + 1
        queue.begins = float(self.clock.at[begin])
        if queue.fault == "silent":
            self.rates[begin:, i] = 0.0
        if queue.fault == "outage":
            self.there[begin:, i], self.serves[begin:, i] = False, 0.0

    def snapshots(self) -> Iterator[Snapshot]:
        """Of the polls that are made."""
        size = len(self.queues)
        clock = self.clock
        added, settled, expired, killed, depth = (np.zeros(size) for _ in range(5))
        delivered = np.zeros(size)
        fault = np.array([one.fault for one in self.queues])
        begins = np.array([one.begins for one in self.queues])
        index: Index[Any] = Index.of(
            [queue_row(i, one) for i, one in enumerate(self.queues)]
        )
        addresses: Index[Any] = Index.of(
            [AddressRow(row.address, "page") for row in index]
        )
        consumers: Index[Any] = Index.empty()
        rows = [
            ConsumerRow(str(i), r.name, r.name, "app", "s", "CORE", "u", f"h{i}", "")
            for i, r in enumerate(index)
        ]
        zeros = np.zeros(size)
        for poll, now in enumerate(clock.at):
            came = self._random.poisson(self.rates[poll] * self.step).astype(np.float64)
            broken = now >= begins
            there = self.there[poll]
            dies = self._random.binomial(
                came.astype(np.int64),
                np.where(broken & (fault == "dead letters"), 0.9, 0.001),
            )
            late = self._random.binomial(
                (came - dies).astype(np.int64),
                np.where(broken & (fault == "expires"), 0.9, 0),
            )
            added = added + came
            killed = killed + dies
            expired = expired + late
            depth = depth + came - dies - late
            pace = np.where(
                broken & (fault == "slow"), self.rates[poll] * 0.3, 50.0
            )  # each has one consumer
            served = np.floor(np.minimum(depth, pace * self.step * self.serves[poll]))
            depth = depth - served
            settled = settled + served
            delivered = delivered + served
            if self.unread[poll]:
                continue
            held = np.where(there, np.minimum(depth, 1000.0), 0.0)
            keys = np.flatnonzero(there)
            there_now = [rows[i] for i in keys.tolist()]
            consumers, _ = consumers.advance(
                keys.astype(np.int64), partial(_these, there_now)
            )
            broker = Broker(
                BrokerKind.ARTEMIS,
                "2.44.0",
                "",
                "season",
                Role.ACTIVE,
                now,
                now - START + DAY,
            )
            yield Snapshot(
                stamp=now,
                broker=broker,
                observation=Observation(Process("season", now, now - START + DAY)),
                queues=Table(index, {
                    "messages": depth, "delivering": held, "scheduled": zeros, "consumers": there.astype(np.float64),
                    "added": added, "acknowledged": settled, "expired": expired, "killed": killed, "paused": zeros,
                    "ring_limit": np.full(size, np.nan), "exclusive": zeros, "grouped": zeros, "last_value": zeros,
                    "acknowledge_attempts": settled,
                }),
                addresses=Table(addresses, {"paused": zeros}),
                consumers=Table(consumers, {
                    "buffered": held[keys], "delivered": (delivered + held)[keys], "acknowledged": delivered[keys],
                    "awaiting_commit": zeros[keys], "last_delivery": np.full(len(keys), now),
                    "last_acknowledgement": np.full(len(keys), now),
                }),
                consumer_queue=index.keys[keys],
                consumer_connection=np.full(len(keys), -1, np.int64),
                collectors={name: Collector(0.1, now) for name in ("queues", "consumers", "addresses")},
            )  # fmt: skip


def _these(rows: list[ConsumerRow], at: list[int]) -> list[ConsumerRow]:
    return [rows[i] for i in at]


def queue_row(i: int, queue: Queue) -> QueueRow:
    name = f"{queue.kind}.{queue.fault or 'healthy'}.{i}"
    return QueueRow(
        name, name, "anycast", True, False, "", QueueKind.USER, RingSource.NONE, "", ""
    )


@dataclass
class Result:
    """alarms: of healthy queues, by name and week. found: seconds that each fault took, None where it was not found.

    judgement: as it was in the end.
    """

    alarms: dict[str, list[float]]
    where: dict[str, int]
    found: dict[str, list[float | None]]
    judgement: Judgement
    polls: int


@dataclass
class History:
    """Polls that are kept, and what the trend job makes of them: by its kernel, and as `i1.sql` and `profiles` do."""

    season: Season
    polls: list[tuple[float, dict[str, Column]]] = field(default_factory=list)

    def take(self, snapshot: Snapshot) -> None:
        assert snapshot.queues is not None
        columns = snapshot.queues.columns
        self.polls.append((snapshot.stamp, {name: columns[name] for name in KEPT}))

    def profile(self) -> Profile:
        stamps = np.array([stamp for stamp, _ in self.polls])
        kept = {
            name: np.stack([columns[name] for _, columns in self.polls])
            for name in KEPT
        }
        self.polls.clear()
        found = []
        for i, queue in enumerate(self.season.queues):
            one = {
                name: np.ascontiguousarray(column[:, i])
                for name, column in kept.items()
            }
            name = queue_row(i, queue).name
            found.append(
                (
                    "season",
                    (name, name),
                    profile_of(*hours_of(self._hours(stamps, one))),
                )
            )
        return by_broker(found)["season"]

    def _hours(self, stamps: Column, one: dict[str, Column]) -> dict[str, NDArray[Any]]:
        """The hourly rows of a queue, with what its counters grew."""
        size = len(stamps)
        rows: dict[str, NDArray[Any]] = {
            name: np.full(size, np.nan) for name in QUEUE.columns
        }
        rows |= {
            name: np.zeros(size, np.int64)
            for name in ("broker", "sid", "inc", *QUEUE.texts)
        }
        rows |= {
            **one,
            "stamp": (stamps * MICRO).astype(np.int64),
            "interval": np.full(size, self.season.step),
        }
        found = hourly(QUEUE, rows)
        gap = found["t0"][1:] - found["t1"][:-1] > GAP_POLLS * self.season.step
        for name in QUEUE.counters:
            low = found[f"lo_{name}"]
            high = found[f"hi_{name}"]
            low[1:] = np.where(gap, low[1:], high[:-1])
            found[name] = high - low
        return found | {"complete": found["n"] >= found["expected"] / 2}


def replay(season: Season, begin: float = 0.0) -> Result:
    """All polls since `begin` (seconds since 1970) through the agent's judgement, those before are its history."""
    policy = Policy("season", calendar=Calendar(ZONE, HOLIDAYS))
    grouping = Queues()
    clients = Consumers()
    judgement = Judgement()
    history = History(season)
    before: dict[tuple[str, str], float] = {}
    alarms: dict[str, list[float]] = defaultdict(list)
    where: dict[str, int] = defaultdict(int)
    first: dict[tuple[str, str], float] = {}
    polls = told = 0
    for snapshot in season.snapshots():
        if snapshot.stamp < begin:
            history.take(snapshot)
            continue
        if history.polls:
            judgement = judgement.with_profile(history.profile())
        assert snapshot.queues is not None
        assert snapshot.consumers is not None
        grouping = grouping.advance(
            snapshot.queues, policy, snapshot.observation, counts_reloaded=False
        )
        clients = clients.group(snapshot, snapshot.consumers, grouping.grouping, policy)
        groups = Groups(grouping.grouping, clients.clients, policy.broker)
        judgement = judged(judgement, snapshot, groups, policy)
        polls += 1
        if (snapshot.stamp - max(begin, START)) // WEEK > told:
            told += 1
            print(f"after week {told}:", dict(where), file=sys.stderr, flush=True)
        for one in judgement.conditions:
            key = (one.name, one.queue)
            fresh = snapshot.stamp - before.get(key, -np.inf) > SAME
            before[key] = snapshot.stamp
            queue = season.queues[int(one.queue.rsplit(".", 1)[1])]
            if (
                queue.fault
                and one.name == WANTED[queue.fault]
                and snapshot.stamp >= queue.begins
            ):
                first.setdefault(key, snapshot.stamp)
            if (
                fresh
                and not queue.fault
                and (one.severity is not Severity.INFO or one.name in OF_NORMAL)
            ):
                name = (
                    one.name
                    if one.severity is not Severity.INFO
                    else f"{one.name} (notice)"
                )
                alarms[name].append((snapshot.stamp - max(begin, START)) / WEEK)
                where[f"{queue.kind}: {name}"] += 1
    found: dict[str, list[float | None]] = defaultdict(list)
    for i, queue in enumerate(season.queues):
        if queue.fault:
            at = first.get((WANTED[queue.fault], queue_row(i, queue).name))
            found[f"{queue.fault}: {queue.kind}"].append(
                None if at is None else at - queue.begins
            )
    return Result(alarms, where, found, judgement, polls)


def judged(
    state: Judgement, snapshot: Snapshot, groups: Groups, policy: Policy
) -> Judgement:
    """As `rule_engine.judgement.judge`, without the account and the conditions that rest on single messages."""
    assert snapshot.broker is not None
    pair = facts(state.seen, snapshot, policy.constants)
    assert pair is not None
    seen, found = pair
    progress = progress_of(found.consumer, found.now)
    now = judging.advance(
        state, found, progress, groups, policy.constants, policy.calendar
    )
    now = replace(
        now,
        account=replace(now.account, losses=now.account.losses.reindexed(found.queues)),
    )
    poll = judging.rule_inputs(
        now, found, snapshot, snapshot.broker, groups, policy.constants, None
    )
    debounced = {
        one.name: advance_one(
            state.debounced.get(one.name, Debounce()), one, one.rule, poll, np.nan
        )
        for one in JUDGED
        if one.rule is not None
    }
    conditions = active_conditions(debounced, poll, now.churn, Clock())
    return replace(now, seen=seen, debounced=debounced, conditions=conditions)


def queues_of(healthy: int, faulty: int) -> list[Queue]:
    kinds = list(KINDS)
    found = [Queue(kinds[i % len(kinds)]) for i in range(healthy)]
    for i in range(faulty):
        fault = FAULTS[i % len(FAULTS)] if i % 2 else "silent"
        found.append(Queue(FITS[fault][i // 2 % len(FITS[fault])], fault))
    return found


def per_queue_week(
    result: Result, begin: float, end: float, healthy: int, *, notices: bool
) -> float:
    """Alarms of all conditions."""
    weeks = [
        week
        for name, at in result.alarms.items()
        if notices == ("(notice)" in name)
        for week in at
    ]
    return round(
        sum(begin <= week < end for week in weeks) / (healthy * (end - begin)), 4
    )


@click.command()
@click.option("--queues", default=200, show_default=True, help="Healthy ones.")
@click.option("--faults", default=60, show_default=True, help="Queues with a fault.")
@click.option("--weeks", default=8.0, show_default=True)
@click.option(
    "--step", default=60.0, show_default=True, help="Seconds between two polls."
)
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--history",
    default=0.0,
    show_default=True,
    help="Weeks before, of which the agent has a profile.",
)
def main(
    *, queues: int, faults: int, weeks: float, step: float, seed: int, history: float
) -> None:
    began = time.process_time()
    season = Season(queues_of(queues, faults), weeks + history, step, seed)
    result = replay(season, START + history * WEEK)
    for name, at in sorted(result.alarms.items()):
        print(
            f"{name:34} {len(at):5}  weeks {sorted(int(one) + 1 for one in at)}"[:160]
        )
    for name, count in sorted(result.where.items(), key=lambda one: -one[1]):
        print(f"{count:6}  {name}")
    for name, seconds in sorted(result.found.items()):
        known = sorted(one for one in seconds if one is not None)
        middle = f"{known[len(known) // 2] / 60:.0f} min" if known else "-"
        print(f"{name:34} found {len(known)} of {len(seconds)}, median {middle}")
    times = {
        fault: sorted(
            one
            for name, of in result.found.items()
            if name.startswith(fault)
            for one in of
            if one is not None
        )
        for fault in FAULTS
    }
    print(json.dumps({
        "bench": "season", "queues": queues, "weeks": weeks, "step_seconds": step, "seed": seed,
        "weeks_of_history": history,
        "warnings_per_queue_week_1_2": per_queue_week(result, 0, 2, queues, notices=False),
        "warnings_per_queue_week_3_on": per_queue_week(result, 2, weeks, queues, notices=False),
        "notices_per_queue_week_3_on": per_queue_week(result, 2, weeks, queues, notices=True),
        "faults": {name: len([1 for key, of in result.found.items() if key.startswith(name) for _ in of])
                   for name in FAULTS},
        "found": {name: len(of) for name, of in times.items()},
        "median_minutes": {name: round(of[len(of) // 2] / 60, 1) for name, of in times.items() if of},
        "polls": result.polls, "cpu_seconds": round(time.process_time() - began, 1),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
