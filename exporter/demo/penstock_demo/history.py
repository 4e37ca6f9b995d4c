"""
Realistic history of an imagined fleet, seeded: for tests, benches and the demo of the reports.

Queues have a daily and a weekly rhythm, noise, growth; consumers that stall, brokers that restart, rings that lose,
queues that no one uses. Written as the agent would have published it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.history.publish import RAW, in_order
from penstock.history.schema import (
    BROKER,
    CONDITION,
    CONSUMER,
    FATE,
    QUEUE,
    TOLD_EVERY,
    VERSION,
    RowType,
    series_id,
)
from penstock.history.snapshots import constant
from penstock.history.store import Store

DAY: Final = 86400
WEEK: Final = 168
GIB: Final = 2**30
LOSER: Final = "ring-reader"
LOSERS_SHARE: Final = 0.25
SERVICES: Final = (
    "orders",
    "invoices",
    "payments",
    "shipping",
    "stock",
    "audit",
    "mail",
    "reports",
    "sync",
    "events",
)


@dataclass(frozen=True, slots=True)
class Fleet:
    """
    What to imagine. active: share of the queues with traffic. growth: of the first queues, per week.
    stalls: per queue and week. gaps: share of days that lack an hour. start: midnight, seconds since 1970.
    """

    brokers: int = 2
    queues: int = 10
    days: int = 120
    interval: int = 60
    active: float = 0.8
    growth: float = 0.03
    stalls: float = 0.5
    gaps: float = 0.03
    seed: int = 1
    start: int = 1_788_220_800  # 2026-09-01
    consumers: int = 0
    """Of each queue with traffic: their rows too. The first queues of each broker then show a window that is far too
    large, one that is far too small, and consumers that are too slow at the peak."""


@dataclass(slots=True)
class Truth:
    """The imagined values, to compare with. `stalls`: (queue number, begin, end), seconds since 1970."""

    growth: NDArray[np.float64]
    rate: NDArray[np.float64]
    """Messages per second at the start, a week's mean."""
    stalls: list[tuple[int, int, int]] = field(default_factory=list)


def rhythm(random: np.random.Generator, queues: int) -> NDArray[np.float64]:
    """(queues, 168): traffic by hour of the week, mean 1; Monday 00:00 UTC first."""
    peak_hour = random.uniform(9, 16, (queues, 1))
    width = random.uniform(2.5, 5, (queues, 1))
    weekend_share = random.uniform(0.1, 0.6, (queues, 1))
    # Hours from the peak, around midnight: from -12 to 12.
    from_peak = (np.arange(24) - peak_hour + 12) % 24 - 12
    bell = np.exp(-(from_peak**2) / (2 * width**2))
    day = 0.15 + bell
    week = np.concatenate([day] * 5 + [day * weekend_share] * 2, axis=1)
    mean = week.mean(axis=1, keepdims=True)
    shape: NDArray[np.float64] = week / mean
    return shape


def generate(store: Store, fleet: Fleet) -> Truth:
    """Write the whole history of `fleet` into `store`, an hour a file."""
    random = np.random.default_rng(fleet.seed)
    world = _World(fleet, random)
    for day in range(fleet.days):
        for samples in _by_hour(world.day(day)):
            _write(store, QUEUE, world.queue_rows(samples))
            _write(store, BROKER, world.broker_rows(samples))
            _write(store, FATE, world.fate_rows(samples))
            if fleet.consumers:
                _write(store, CONSUMER, world.consumer_rows(samples))
        conditions = world.condition_rows(day)
        if conditions is not None:
            _write(store, CONDITION, conditions)
    return world.truth


def _by_hour(
    samples: dict[str, NDArray[np.float64]],
) -> Iterator[dict[str, NDArray[np.float64]]]:
    """A day of a large fleet at once would need 300 bytes a row."""
    hours = samples["stamp"] // 3600
    for hour in np.unique(hours):
        yield {name: values[hours == hour] for name, values in samples.items()}


def _write(store: Store, kind: RowType, rows: Any) -> None:
    """Write the rows, a file for each hour."""
    microseconds = rows["stamp"].cast(pa.int64()).to_numpy()
    hours = microseconds // 3_600_000_000
    for hour in np.unique(hours).tolist():
        part = rows.filter(pa.array(hours == hour))
        begin = np.datetime64(hour * 3600, "s")
        day = str(begin.astype("datetime64[D]"))
        clock = f"{hour % 24:02d}"
        folder = f"{RAW}/kind={kind.name}/dt={day}/hour={clock}"
        store.write_table(f"{folder}/generated.parquet", in_order(part, kind))


def repeated_texts(
    words: Mapping[str, Sequence[str]], steps: int
) -> dict[str, pa.DictionaryArray]:
    """Return the texts of some rows, which are the same at each of `steps` polls, as Arrow dictionaries by column."""
    columns: dict[str, pa.DictionaryArray] = {}
    for name, texts in words.items():
        number_of_row = np.arange(len(texts), dtype=np.int32)
        numbers = pa.array(np.tile(number_of_row, steps))
        columns[name] = pa.DictionaryArray.from_arrays(numbers, pa.array(texts))
    return columns


def name_of(number: int, queues: int) -> tuple[str, str]:
    """Return broker and name of a queue, by its number over all brokers of `queues` queues each."""
    broker = number // queues + 1
    service = SERVICES[number % len(SERVICES)]
    step = number % queues // len(SERVICES)
    return f"broker-{broker}", f"{service}.{step}"


class _World:
    def __init__(self, fleet: Fleet, random: np.random.Generator) -> None:
        self.fleet = fleet
        self.random = random
        size = fleet.brokers * fleet.queues
        self.week = rhythm(random, size)
        active = random.random(size) < fleet.active
        active[: min(3, size)] = True
        rates = np.exp(random.uniform(np.log(0.05), np.log(20), size))
        self.rate = np.where(active, rates, 0.0)
        growth = np.zeros(size)
        growing = max(size // 4, 1)
        growth[:growing] = fleet.growth
        self.truth = Truth(growth, self.rate)
        self.noise = random.uniform(0.1, 0.3, size)
        place = np.arange(size) % fleet.queues
        last_of_broker = place == fleet.queues - 1
        self.ring = np.where(last_of_broker, 5000.0, np.nan)
        sizes = np.exp(random.uniform(np.log(500), np.log(20_000), size))
        self.size_of = np.round(sizes)
        self.depth = np.zeros(size)
        self.counters = {
            name: np.zeros(size)
            for name in ("added", "acknowledged", "expired", "killed", "evicted")
        }
        self.lost = np.zeros(size)
        """By rings, also over restarts: as the account has it."""
        self.inc = np.full(size, fleet.start * 1000)
        self.begun = np.full(fleet.brokers, float(fleet.start - 5 * DAY))
        self.names = [name_of(number, fleet.queues) for number in range(size)]
        series_ids = [series_id(broker, name, name) for broker, name in self.names]
        self.sids = np.array(series_ids, np.int64)
        self.stalled: list[tuple[int, int, int]] = []
        # what a consumer may hold, and what all of a queue can do at the peak
        self.window = np.full(size, 100.0)
        self.power = np.full(size, 1.6)
        if fleet.consumers and fleet.queues > 4:
            hoarding = place == 1
            narrow = place == 2
            too_slow = place == 3
            self.window[hoarding] = 20_000.0
            self.window[narrow] = 2.0
            self.power[narrow] = 0.95
            self.power[too_slow] = 0.75
            self.rate[hoarding] = 0.5
            self.rate[narrow] = 6.0
            self.rate[too_slow] = 8.0

    def day(self, number: int) -> dict[str, NDArray[np.float64]]:
        fleet = self.fleet
        random = self.random
        begin = fleet.start + number * DAY
        stamps = begin + np.arange(0, DAY, fleet.interval)
        self._plan_stalls(begin)
        hourly_noise = random.standard_normal((24, len(self.rate)))
        polls_of_hour = 3600 // fleet.interval
        wave = 1 + self.noise * np.repeat(hourly_noise, polls_of_hour, axis=0)
        hour = (stamps // 3600 + 72) % WEEK  # 1970-01-01 was a Thursday
        weeks = (stamps - fleet.start) / (7 * DAY)
        grown = (1 + self.truth.growth) ** weeks[:, None]
        rates = self.rate * self.week[:, hour].T * grown * np.maximum(wave, 0.05)
        arrivals = random.poisson(rates * fleet.interval).astype(float)
        peak = self.rate * self.week.max(axis=1) * grown[-1]
        power = np.maximum(peak * self.power, 0.02) * fleet.interval
        served = np.broadcast_to(power, arrivals.shape).copy()
        for queue, since, until in self.stalled:
            stalled = (stamps >= since) & (stamps < until)
            served[stalled, queue] = 0.0
        samples = self._run(stamps, arrivals, served)
        if random.random() >= fleet.gaps:
            return samples
        lost_hour = random.integers(0, 24)
        keep = (stamps - begin) // 3600 != lost_hour
        return {name: values[keep] for name, values in samples.items()}

    def _plan_stalls(self, begin: int) -> None:
        """Add the stalls of the day that begins at `begin`; forget those that have ended."""
        self.stalled = [stall for stall in self.stalled if stall[2] > begin]
        chance = self.fleet.stalls / 7
        draws = self.random.random(len(self.rate))
        stalls = (self.rate > 0) & (draws < chance)
        for queue in np.flatnonzero(stalls).tolist():
            since = begin + int(self.random.integers(0, DAY - 7200))
            seconds = np.clip(self.random.lognormal(6.5, 0.8), 120, 6 * 3600)
            until = since + int(seconds)
            self.stalled.append((queue, since, until))
            self.truth.stalls.append((queue, since, until))

    def _run(
        self, stamps: NDArray[np.int64], arrivals: Any, served: Any
    ) -> dict[str, NDArray[np.float64]]:
        steps, size = arrivals.shape
        out = {
            name: np.empty((steps, size))
            for name in (*self.counters, "messages", "inc", "lost", "lost_before")
        }
        restart = self.random.random(self.fleet.brokers) < 1 / 30
        restarts_at = self.random.integers(0, steps)
        for step in range(steps):
            if step == restarts_at and restart.any():
                self._restart(restart, int(stamps[step]))
            depth = self.depth + arrivals[step]
            left = np.minimum(depth, served[step])
            depth = depth - left
            over = np.maximum(depth - self.ring, 0.0)
            lost = np.where(np.isnan(self.ring), 0.0, over)
            self.depth = depth - lost
            self.counters["added"] = self.counters["added"] + arrivals[step]
            self.counters["acknowledged"] = self.counters["acknowledged"] + left
            self.counters["evicted"] = self.counters["evicted"] + lost
            for name, values in self.counters.items():
                out[name][step] = values
            out["messages"][step] = self.depth
            out["inc"][step] = self.inc
            out["lost_before"][step] = self.lost
            self.lost = self.lost + lost
            out["lost"][step] = self.lost
        # A window that is small is empty at every other poll, however much waits.
        dry = (self.window < 10) & (self.random.random((steps, size)) < 0.4)
        windows = self.window * max(self.fleet.consumers, 1)
        in_delivery = np.minimum(out["messages"], windows)
        out["delivering"] = np.where(dry, 0.0, in_delivery)
        return {
            **out,
            "stamp": stamps.astype(float),
            "begun": np.broadcast_to(self.begun, (steps, len(self.begun))),
        }

    def _restart(self, brokers: NDArray[np.bool_], stamp: int) -> None:
        restarts = np.repeat(brokers, self.fleet.queues)
        for name, values in self.counters.items():
            self.counters[name] = np.where(restarts, 0.0, values)
        # A broker that starts counts what it reloads as added.
        self.counters["added"] = np.where(restarts, self.depth, self.counters["added"])
        self.inc = np.where(restarts, stamp * 1000, self.inc)
        self.begun = np.where(brokers, float(stamp), self.begun)

    def queue_rows(self, samples: dict[str, NDArray[np.float64]]) -> Any:
        steps, size = samples["messages"].shape
        words = {
            "broker": [broker for broker, _ in self.names],
            "queue": [name for _, name in self.names],
        }
        text = repeated_texts(words, steps)
        every = {
            name: np.tile(column, steps)
            for name, column in (("sid", self.sids), ("key", np.arange(size)))
        }
        messages = samples["messages"].ravel()
        numbers = {
            **{name: samples[name].ravel() for name in self.counters},
            "messages": messages,
            "delivering": samples["delivering"].ravel(),
            "scheduled": np.zeros(len(messages)),
            "bytes": messages * np.tile(self.size_of, steps),
            "consumers": np.tile(
                np.where(self.rate > 0, self.fleet.consumers or 2.0, 0.0), steps
            ),
            "ring_limit": np.tile(self.ring, steps),
            "inc": samples["inc"].ravel(),
            "interval": np.full(len(messages), float(self.fleet.interval)),
        }
        numbers["evicted"] = np.where(
            np.isnan(numbers["ring_limit"]), np.nan, numbers["evicted"]
        )
        stamp = np.repeat(samples["stamp"], size)
        constants = {
            "routing_type": "anycast",
            "queue_kind": "user",
            "ring_source": "queue",
        }
        return _table(
            QUEUE,
            stamp,
            {**numbers, **every},
            {**text, "address": text["queue"]},
            constants,
        )

    def fate_rows(self, samples: dict[str, NDArray[np.float64]]) -> Any:
        """Return the messages that rings evicted, a quarter of them by a client."""
        steps = len(samples["stamp"])
        rings = np.flatnonzero(~np.isnan(self.ring))
        pick = np.tile(rings, 2)
        clients = ["", LOSER]
        named = [
            (*self.names[queue], client)
            for client in clients
            for queue in rings.tolist()
        ]
        words = {
            "broker": [broker for broker, _, _ in named],
            "queue": [queue for _, queue, _ in named],
            "client": [client for _, _, client in named],
        }
        text = repeated_texts(words, steps)
        part = np.repeat([1.0, LOSERS_SHARE], len(rings))
        totals = {
            name: np.floor(samples[name][:, pick] * part).ravel()
            for name in ("lost", "lost_before")
        }
        numbers = {
            "messages": totals["lost"],
            "most": totals["lost"],
            "before": totals["lost_before"],
            "sid": np.tile(
                [series_id(b, q, q, "evicted", c) for b, q, c in named], steps
            ),
            "key": np.tile(np.arange(len(pick)), steps),
            "inc": np.full(steps * len(pick), self.fleet.start * 1000.0),
        }
        stamp = np.repeat(samples["stamp"], len(pick))
        return _table(
            FATE,
            stamp,
            numbers,
            {**text, "address": text["queue"]},
            {"fate": "evicted"},
        )

    def consumer_rows(self, samples: dict[str, NDArray[np.float64]]) -> Any:
        """Each queue's consumers share what is delivered and what was acknowledged."""
        steps = len(samples["stamp"])
        each = self.fleet.consumers
        busy = np.flatnonzero(self.rate > 0)
        pick = np.repeat(busy, each)
        names = [self.names[queue] for queue in pick.tolist()]
        clients = [f"{queue.split('.')[0]}-worker" for _, queue in names]
        sids = [
            series_id(broker, queue, queue, client)
            for (broker, queue), client in zip(names, clients, strict=True)
        ]
        words = {
            "broker": [broker for broker, _ in names],
            "queue": [queue for _, queue in names],
            "client": clients,
            "consumer": [str(number) for number in range(len(pick))],
        }
        text = repeated_texts(words, steps)
        buffered = np.floor(samples["delivering"][:, pick] / each)
        buffered_bytes = buffered * self.size_of[pick]
        acknowledged = np.floor(samples["acknowledged"][:, pick] / each)
        rows = steps * len(pick)
        numbers = {
            "buffered": buffered.ravel(),
            "buffered_bytes": buffered_bytes.ravel(),
            "acknowledged": acknowledged.ravel(),
            "sid": np.tile(np.array(sids), steps),
            "key": np.tile(np.arange(len(pick)), steps),
            "inc": samples["inc"][:, pick].ravel(),
            "interval": np.full(rows, float(self.fleet.interval)),
        }
        stamp = np.repeat(samples["stamp"], len(pick))
        return _table(
            CONSUMER,
            stamp,
            numbers,
            {**text, "address": text["queue"]},
            {"protocol": "CORE"},
        )

    def broker_rows(self, samples: dict[str, NDArray[np.float64]]) -> Any:
        steps = len(samples["stamp"])
        brokers = self.fleet.brokers
        stamp = np.repeat(samples["stamp"], brokers)
        bytes_of_messages = samples["messages"] * self.size_of
        bytes_of_brokers = bytes_of_messages.reshape(steps, brokers, -1).sum(axis=2)
        used = bytes_of_brokers.ravel() + 0.05 * GIB
        since = (samples["stamp"] - self.fleet.start) / (7 * DAY)
        numbers = {
            "uptime": stamp - samples["begun"].ravel(),
            "clock": stamp,
            "agent_clock": stamp,
            "interval": np.full(len(stamp), float(self.fleet.interval)),
            "connections": np.full(len(stamp), 2.0 * self.fleet.queues),
            "memory_used_bytes": used,
            "memory_limit_bytes": np.full(len(stamp), float(GIB)),
            "disk_used_ratio": np.repeat(0.35 + 0.018 * since, brokers),
            "disk_limit_ratio": np.full(len(stamp), 0.9),
        }
        names = [f"broker-{number + 1}" for number in range(brokers)]
        text = repeated_texts({"broker": names}, steps)
        return _table(
            BROKER,
            stamp,
            numbers,
            text,
            {"broker_kind": "artemis", "version": "2.44.0", "role": "active"},
        )

    def condition_rows(self, number: int) -> Any:
        """A stall is reported when it has lasted a minute."""
        begin = self.fleet.start + number * DAY
        rows = [
            row
            for one in self.truth.stalls
            for row in self._told(one)
            if begin <= row["stamp"] < begin + DAY
        ]
        if not rows:
            return None
        stamp = np.array([row["stamp"] for row in rows], float)
        text = {
            name: pa.array([str(row[name]) for row in rows]).dictionary_encode()
            for name in (
                "broker",
                "event",
                "condition",
                "address",
                "queue",
                "client",
                "severity",
                "evidence",
            )
        }
        numbers = {
            name: np.array([row[name] for row in rows], float)
            for name in ("since", "seen")
        }
        numbers["consumers"] = np.ones(len(rows))
        return _table(CONDITION, stamp, numbers, text, {})

    def _told(self, stall: tuple[int, int, int]) -> Iterator[dict[str, Any]]:
        queue, since, until = stall
        broker, name = self.names[queue]
        every = self.fleet.interval
        raised, ended = (-(-moment // every) * every for moment in (since + 60, until))
        if raised == ended:  # over before a poll could report it
            return
        first_of_hours = (
            -(-hour // every) * every
            for hour in range(
                (raised // TOLD_EVERY + 1) * TOLD_EVERY, ended, TOLD_EVERY
            )
        )
        holds = [
            ("hold", moment, moment)
            for moment in first_of_hours
            if raised < moment < ended
        ]
        for event, moment, stamp in (
            ("enter", since + 60, raised),
            *holds,
            ("leave", until, ended),
        ):
            yield {
                "stamp": stamp,
                "broker": broker,
                "event": event,
                "condition": "stalled",
                "address": name,
                "queue": name,
                "client": f"{name.split('.')[0]}-worker",
                "severity": "critical",
                "evidence": json.dumps({"age": moment - since, "held": 100}),
                "since": since,
                "seen": stamp if event != "leave" else stamp - every,
            }


def _table(
    kind: RowType,
    stamp: Any,
    numbers: dict[str, Any],
    text: dict[str, Any],
    constants: dict[str, str],
) -> Any:
    """Rows of a kind; columns that are not given are null."""
    rows = len(stamp)
    columns = []
    for column in kind.schema:
        if column.name == "stamp":
            columns.append(pa.array((stamp * 1e6).astype(np.int64)).cast(column.type))
        elif column.name in text:
            columns.append(text[column.name])
        elif column.name in constants:
            columns.append(constant(constants[column.name], rows))
        elif column.name in numbers:
            columns.append(_number(numbers[column.name], column.type))
        else:
            columns.append(pa.nulls(rows, column.type))
    return pa.table(
        columns,
        schema=kind.schema.with_metadata({b"penstock.history": str(VERSION).encode()}),
    )


def _number(values: NDArray[np.float64], kind: Any) -> Any:
    missing = np.isnan(values)
    if pa.types.is_timestamp(kind):
        return pa.array((values * 1e3).astype(np.int64)).cast(kind)
    if pa.types.is_integer(kind):
        return pa.array(np.nan_to_num(values).astype(np.int64), mask=missing).cast(kind)
    return pa.array(values, mask=missing).cast(kind)
