"""Advice on ring sizes and numbers of consumers, each with what it would have done to the polls of the last days."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.history.compact import DAY, current, partition, read, start_of
from penstock.history.publish import ALL_DAY
from penstock.history.schema import QUEUE, series_id
from penstock.history.store import Store
from penstock.insight.formatting import duration
from penstock_trends.kernel import MICRO, observed_once
from penstock_trends.raw import attempt, possible
from penstock_trends.what_if import Advice, Steps, better_consumers, better_ring, steps

Plain = dict[str, Any]
QUEUES: Final = 20
"""Most queues for each kind of advice: those that lost or waited most."""
DAYS: Final = 14
LEAST_DAYS: Final = 1.0
WAITING: Final = 0.05
"""Share of the polls with a backlog, from which more consumers may be advised."""
DRAIN: Final = 900.0
"""Seconds that a backlog may last before more consumers are advised."""
NUMBERS: Final = (
    "added", "acknowledged", "expired", "killed", "removed", "messages", "delivering", "scheduled", "ring_limit",
    "consumers", "max_consumers", "exclusive", "groups", "grouped",
)  # fmt: skip
COLUMNS: Final = ("stamp", "sid", "inc", *NUMBERS)
NOTHING: Final[Plain] = {"advice": [], "problem": ""}
"""The result of a worker for a queue without advice."""


def advise(
    session: Any,
    history: Store,
    queues: Sequence[Plain],
    failed: dict[str, str] | None = None,
) -> list[Plain]:
    """Advice for queues that lost messages by their ring, or had a backlog; the polls are read on the workers.

    Raises StoreError.

    Args:
        session: Of Spark.
        history: Raw polls.
        queues: Their facts.
        failed: Gets queue → why its polls could not be replayed; the others have their
            advice all the same.
    """
    failed = {} if failed is None else failed
    by_sid = {
        series_id(queue["broker"], queue["address"], queue["queue"]): queue
        for queue in (*most_lost(queues), *longest_waiting(queues))
    }
    units = [
        json.dumps({"paths": paths, "sids": list(by_sid)})
        for paths in last_days(history)
    ]
    if not by_sid or not units:
        return []
    results = replayed_by_sid(session, history, units)
    rows = []
    for sid, queue in by_sid.items():
        result = results.get(sid, NOTHING)
        name = {key: queue[key] for key in ("broker", "address", "queue")}
        rows += [advice | name for advice in result["advice"]]
        if result["problem"]:
            failed[f"{queue['queue']} on {queue['broker']}"] = result["problem"]
    return rows


def most_lost(queues: Sequence[Plain]) -> list[Plain]:
    """The queues whose rings evicted most messages."""
    losing = [
        queue for queue in queues if queue["ring"] and (queue["evicted"] or 0) > 0
    ]
    losing.sort(key=lambda queue: -queue["evicted"])
    return losing[:QUEUES]


def longest_waiting(queues: Sequence[Plain]) -> list[Plain]:
    """The queues with consumers and without a ring that had a backlog for most of the time."""
    waiting = [
        queue
        for queue in queues
        if not queue["ring"]
        and queue["consumers"]
        and (queue["backlog_share"] or 0) >= WAITING
    ]
    waiting.sort(key=lambda queue: -queue["backlog_share"])
    return waiting[:QUEUES]


def replayed_by_sid(
    session: Any, history: Store, units: Sequence[str]
) -> dict[int, Plain]:
    """The result for each queue by its sid, as `replayed` makes it on the workers. units: files and queues as JSON."""
    types = {"sid": "long", "inc": "long"}
    columns = ", ".join(f"{name} {types.get(name, 'double')}" for name in COLUMNS)
    rows = [(unit,) for unit in units]
    polls = session.createDataFrame(rows, "unit string").repartition(len(units))
    polls = polls.mapInArrow(partial(read_units, history.url), columns)
    results = polls.groupBy("sid").applyInPandas(replayed, "sid long, found string")
    table = results.toPandas()
    return {
        sid: json.loads(text)
        for sid, text in zip(table["sid"], table["found"], strict=True)
    }


def last_days(history: Store, days: float = DAYS) -> list[list[str]]:
    """The paths of the raw files of queues, by day, of the last days of the history."""
    by_day: dict[str, list[str]] = {}
    for entry in current(history):
        kind, day, _ = partition(entry)
        if kind == QUEUE.name:
            by_day.setdefault(day, []).append(entry.path)
    begins = {day: start_of(day, ALL_DAY) for day in by_day}
    newest = max(begins.values(), default=0.0)
    return [
        sorted(by_day[day])
        for day in sorted(by_day)
        if newest - begins[day] < days * DAY
    ]


def polls_of(
    history: Store, paths: Sequence[str], sids: Sequence[int]
) -> dict[str, Any]:
    """The polls of some queues; stamp in seconds, NaN where a poll did not report a number.

    Files that cannot be read are left out: messages that came in them are not replayed,
    like those of a gap. Raises StoreError where it is the fault of the store.
    """
    wanted = pa.array(sids, pa.int64())

    def mask(rows: Any) -> Any:
        is_wanted = pc.is_in(rows["sid"], wanted)
        return pc.and_(is_wanted, pc.is_valid(rows["stamp"]))

    empty = read(history, [], QUEUE, COLUMNS)
    tables = [
        attempt({}, path, read, history, [path], QUEUE, COLUMNS, mask) for path in paths
    ]
    readable = [table for table in tables if table is not None]
    table, _ = possible(pa.concat_tables([empty, *readable]), QUEUE)
    columns = {
        name: pc.fill_null(table[name].cast(pa.float64()), np.nan).to_numpy()
        for name in NUMBERS
    }
    for name in ("sid", "inc", "stamp"):
        columns[name] = pc.fill_null(table[name].cast(pa.int64()), 0).to_numpy()
    polls = dict(observed_once(columns))
    return polls | {"stamp": polls["stamp"] / MICRO}


def of_present_ring(polls: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """The polls since the ring was set to its size at the last poll, ascending; and that size, inf without one."""
    order = np.argsort(polls["stamp"])
    rings = np.where(polls["ring_limit"] > 0, polls["ring_limit"], np.inf)[order]
    if not len(rings):
        return {name: column[order] for name, column in polls.items()}, np.inf
    present = float(rings[-1])
    others = np.flatnonzero(rings != present)
    begin = int(others[-1]) + 1 if len(others) else 0
    since = order[begin:]
    return {name: column[since] for name, column in polls.items()}, present


def read_units(url: str, batches: Iterator[Any]) -> Iterator[Any]:
    """The polls of each unit, in a Spark worker."""
    store = Store(url)
    for batch in batches:
        for text in batch.column(0).to_pylist():
            unit = json.loads(text)
            polls = polls_of(store, unit["paths"], unit["sids"])
            arrays = [pa.array(polls[name]) for name in COLUMNS]
            yield pa.record_batch(arrays, names=list(COLUMNS))


def replayed(polls: Any) -> Any:
    """One row with the advice for a queue, or why there is none, of a pandas frame of its polls; in a Spark worker."""
    import pandas as pd  # noqa: PLC0415 - comes with Spark

    result = dict(NOTHING)
    try:
        columns = {name: polls[name].to_numpy() for name in COLUMNS}
        result["advice"] = advice_of(columns)
    except Exception as error:  # noqa: BLE001 - one queue's surprise must not end the report of the fleet
        result["problem"] = f"{type(error).__name__}: {error}"
    return pd.DataFrame(
        {
            "sid": polls["sid"].iloc[:1],
            "found": [json.dumps(result)],
        }
    )


def steps_of(polls: dict[str, Any]) -> Steps:
    """The steps between polls.

    Messages that left are counted by reason, or in one number where that is all there
    is. A scheduled message comes when it is due; a buffered one takes no room of a
    ring, and no other consumer gets it.
    """
    expired = np.nan_to_num(polls["expired"])
    killed = np.nan_to_num(polls["killed"])
    left = np.where(
        np.isnan(polls["acknowledged"]),
        polls["removed"],
        polls["acknowledged"] + (expired + killed),
    )
    scheduled = np.nan_to_num(polls["scheduled"])
    buffered = np.nan_to_num(polls["delivering"])
    ready = np.maximum(polls["messages"] - scheduled - buffered, 0)
    due = polls["added"] - scheduled
    return steps(polls["stamp"], polls["inc"], due, left, ready)


def advice_of(polls: dict[str, Any]) -> list[Plain]:
    """The setting that a ring with losses, or a queue with a backlog, should have; nothing without a day of polls."""
    polls, ring = of_present_ring(polls)
    replayable = steps_of(polls)
    if replayable.days < LEAST_DAYS:
        return []
    span = f"In the {replayable.days:.0f} days seen"
    if np.isfinite(ring):
        better = better_ring(replayable, ring)
        return [] if better is None else [ring_advice(better, ring, span)]
    consumers = float(polls["consumers"][-1])
    if not consumers > 0:
        return []
    better = better_consumers(replayable, consumers, DRAIN)
    if better is None:
        return []
    present = round(consumers)
    wanted = present + 1
    if better.setting:
        wanted = round(present * better.setting.consumers)
    idle = more_are_idle(polls, wanted)
    return [consumer_advice(better, present, span, idle)]


def more_are_idle(polls: dict[str, Any], wanted: int) -> str:
    """Why not all of so many consumers would get messages, by what was last known; empty where they would."""
    names = ("exclusive", "max_consumers", "groups", "grouped")
    last = {name: last_known(polls[name]) for name in names}
    if last["exclusive"] > 0:
        return "More consumers would stand by: the queue is exclusive. Make its one consumer faster"
    if 0 < last["max_consumers"] < wanted:
        return f"It takes {last['max_consumers']:.0f} consumers and no more: raise max-consumers, or make them faster"
    if last["groups"] > 0 and not last["grouped"] > 0:
        return "More consumers would get new message groups only: make those that are there faster"
    return ""


def last_known(values: Any) -> float:
    """The last known value; NaN without any."""
    known_values = values[np.isfinite(values)]
    return float(known_values[-1]) if len(known_values) else np.nan


def ring_advice(better: Advice, ring: float, span: str) -> Plain:
    setting = better.setting
    outcome = better.outcome
    now = better.now
    evidence = f"{span} a ring of {ring:,.0f} lost {now.lost:,.0f} of {now.came:,.0f} messages."
    if setting is None:
        do = (
            f"No size helps: more is added than acknowledged, {outcome.left:,.0f} messages would still be there. Add"
            " consumers, or make each message cheaper."
        )
    else:
        do = f"ring-size {setting.ring:.0f}: it would have lost {outcome.lost:,.0f} of {outcome.came:,.0f}."
    return {"subject": "ring size", "evidence": evidence, "do": do}


def consumer_advice(better: Advice, count: int, span: str, idle: str) -> Plain:
    """Advice on the number of consumers.

    Args:
        better: A number that is good enough, if there is one.
        count: The present number.
        span: The days that were replayed, as a text.
        idle: Why more consumers would get no messages; empty where they would.
    """
    outcome = better.outcome
    now = better.now
    evidence = (
        f"{span} a backlog lasted up to {duration(now.drain)} and reached {now.peak:,.0f} messages, with {count}"
        f" consumer{'' if count == 1 else 's'}."
    )
    if idle:
        return {"subject": "too slow consumers", "evidence": evidence, "do": f"{idle}."}
    would = f"would have lasted {duration(outcome.drain)} at most and reached {outcome.peak:,.0f} messages."
    if better.setting:
        wanted = round(count * better.setting.consumers)
        do = f"{wanted} consumers: the backlog {would}"
    else:
        do = f"Three times the consumers do not help: the backlog {would}"
    return {"subject": "too few consumers", "evidence": evidence, "do": do}


def utilised(clients: Sequence[Plain], queues: Sequence[Plain]) -> None:
    """Add to each client the pace of one consumer of its queue, and its utilisation.

    That is the inflow at the busiest over the rate that its consumers can handle. None
    = not known: they never had enough to do.
    """
    by_name = {queue_name(queue): queue for queue in queues}
    for client in clients:
        queue = by_name.get(queue_name(client))
        client["pace"] = queue and queue["pace"]["rate"]
        able = (client["pace"] or 0.0) * (client["consumers"] or 0.0)
        client["utilisation"] = None
        if queue and queue["busiest_rate"] and able:
            client["utilisation"] = queue["busiest_rate"] / able


def queue_name(row: Plain) -> tuple[str, str, str]:
    """Broker, address and queue."""
    return row["broker"], row["address"], row["queue"]
