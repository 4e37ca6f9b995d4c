"""Advice on ring sizes and numbers of consumers, each with its effect on the polls of the last days.

Each queue with losses or a backlog is replayed: its recorded polls are the input, another setting is tried, and the
advice names the outcome (`what_if.py`). A queue is known by its sid, the number that the history gives each series;
`inc` names one life of its counters, from one restart of the broker to the next.
"""

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
from penstock_trends.untyped import ArrowBatch, SparkSession
from penstock_trends.what_if import Advice, Steps, better_consumers, better_ring, steps

Plain = dict[str, Any]
QUEUES: Final = 20
"""Most queues for each kind of advice: those that lost or waited most."""
DAYS: Final = 14
"""Days at the end of the history, of which the polls are replayed."""
LEAST_DAYS: Final = 1.0
"""Days of polls, below which a replay says too little for advice."""
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
    session: SparkSession,
    history: Store,
    queues: Sequence[Plain],
    failed: dict[str, str] | None = None,
) -> list[Plain]:
    """The advice for queues that lost messages by their ring, or had a backlog; the polls are read on the workers.

    One queue that cannot be replayed does not keep the others from their advice. Raises
    StoreError.

    Args:
        session: Of Spark.
        history: Raw polls.
        queues: Their facts.
        failed: A second result: gets queue → why its polls could not be replayed.
    """
    failed = {} if failed is None else failed
    names = names_by_sid([*most_lost(queues), *longest_waiting(queues)])
    units = [
        json.dumps({"paths": paths, "sids": list(names)})
        for paths in last_days(history)
    ]
    if not names or not units:
        return []
    results = replayed_by_sid(session, history, units)
    rows = []
    for sid, labels in names.items():
        result = results.get(sid, NOTHING)
        rows += [advice | labels for advice in result["advice"]]
        if result["problem"]:
            failed["{queue} on {broker}".format(**labels)] = result["problem"]
    return rows


def names_by_sid(queues: Sequence[Plain]) -> dict[int, dict[str, str]]:
    """Broker, address and name of each queue, by its sid."""
    names = {}
    for queue in queues:
        broker, address, name = queue_name(queue)
        sid = series_id(broker, address, name)
        names[sid] = {"broker": broker, "address": address, "queue": name}
    return names


def most_lost(queues: Sequence[Plain]) -> list[Plain]:
    """At most QUEUES queues whose rings evicted messages, those with the most first."""
    losing = [
        queue for queue in queues if queue["ring"] and (queue["evicted"] or 0) > 0
    ]
    losing.sort(key=lambda queue: -queue["evicted"])
    return losing[:QUEUES]


def longest_waiting(queues: Sequence[Plain]) -> list[Plain]:
    """At most QUEUES queues with consumers that often had a backlog, those with the largest share of the time first.

    A queue with a ring is left out: its ring bounds the backlog, and `most_lost` has it.
    """
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
    session: SparkSession, history: Store, units: Sequence[str]
) -> dict[int, Plain]:
    """The result for each queue by its sid, as `replayed` makes it on the workers.

    A worker reads the polls of one unit, which are those of a day; then the polls of a
    queue, of all days, are brought together on one worker and replayed.

    units: each as JSON, the files to read and the queues that are wanted.
    """
    types = {"sid": "long", "inc": "long"}
    columns = [f"{name} {types.get(name, 'double')}" for name in COLUMNS]
    read_polls = partial(read_units, history.url)
    rows = [(unit,) for unit in units]
    table = session.createDataFrame(rows, "unit string")
    table = table.repartition(len(units))
    polls = table.mapInArrow(read_polls, ", ".join(columns))
    by_queue = polls.groupBy("sid")
    results = by_queue.applyInPandas(replayed, "sid long, result string")
    frame = results.toPandas()
    return {
        sid: json.loads(text)
        for sid, text in zip(frame["sid"], frame["result"], strict=True)
    }


def last_days(history: Store, days: float = DAYS) -> list[list[str]]:
    """For each of the last days of the history the paths of its raw files of queues, the oldest day first.

    The last day is the newest one in the history, not today: the history may be a copy.
    """
    paths_by_day: dict[str, list[str]] = {}
    for entry in current(history):
        kind, day, _ = partition(entry)
        if kind == QUEUE.name:
            paths = paths_by_day.setdefault(day, [])
            paths.append(entry.path)
    begins = {day: start_of(day, ALL_DAY) for day in paths_by_day}
    newest = max(begins.values(), default=0.0)
    return [
        sorted(paths_by_day[day])
        for day in sorted(paths_by_day)
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
        has_stamp = pc.is_valid(rows["stamp"])
        return pc.and_(is_wanted, has_stamp)

    # The empty table has the schema, also where no file can be read.
    tables = [read(history, [], QUEUE, COLUMNS)]
    for path in paths:
        table = attempt({}, path, read, history, [path], QUEUE, COLUMNS, mask)
        if table is not None:
            tables.append(table)
    rows, _ = possible(pa.concat_tables(tables), QUEUE)
    columns = {
        name: filled_column(rows, name, pa.float64(), np.nan) for name in NUMBERS
    }
    for name in ("sid", "inc", "stamp"):
        columns[name] = filled_column(rows, name, pa.int64(), 0)
    polls = dict(observed_once(columns))
    polls["stamp"] = polls["stamp"] / MICRO
    return polls


def filled_column(rows: Any, name: str, kind: Any, missing: float) -> Any:
    """(rows,) A column of an Arrow table as an array of a type, with `missing` for null."""
    column = rows[name].cast(kind)
    filled = pc.fill_null(column, missing)
    return filled.to_numpy()


def of_present_ring(polls: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """The polls since the ring was last resized, ascending by time; and its size at the last poll, inf without a ring.

    Losses under another size say nothing of the present one.
    """
    by_time = np.argsort(polls["stamp"])
    limits = polls["ring_limit"][by_time]
    rings = np.where(limits > 0, limits, np.inf)
    present = np.inf
    first = 0
    if len(rings):
        present = float(rings[-1])
        with_other_ring = np.flatnonzero(rings != present)
        if len(with_other_ring):
            first = int(with_other_ring[-1]) + 1
    kept = by_time[first:]
    polls_of_ring = {name: column[kept] for name, column in polls.items()}
    return polls_of_ring, present


def read_units(url: str, batches: Iterator[ArrowBatch]) -> Iterator[ArrowBatch]:
    """In a Spark worker: yields the polls of each unit as one batch with the columns COLUMNS.

    A unit is one text in the batches, see `replayed_by_sid`.
    """
    store = Store(url)
    for batch in batches:
        units = batch.column(0).to_pylist()
        for text in units:
            unit = json.loads(text)
            polls = polls_of(store, unit["paths"], unit["sids"])
            arrays = [pa.array(polls[name]) for name in COLUMNS]
            yield pa.record_batch(arrays, names=list(COLUMNS))


def replayed(polls: Any) -> Any:
    """In a Spark worker: one row with sid and result of a queue, made of a pandas frame of its polls.

    The result is JSON of the form of NOTHING: the advice, or the problem that prevented
    it.
    """
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
            "result": [json.dumps(result)],
        }
    )


def steps_of(polls: dict[str, Any]) -> Steps:
    """The steps between the polls of a queue, as a replay takes them: messages that came, that left, and that wait.

    Brokers that do not count acknowledgements have one counter of all that left. A
    scheduled message counts from when it is due. A buffered one takes no room of a
    ring, and no other consumer gets it, so it does not wait.
    """
    acknowledged = polls["acknowledged"]
    expired = np.nan_to_num(polls["expired"])
    killed = np.nan_to_num(polls["killed"])
    left = np.where(
        np.isnan(acknowledged),
        polls["removed"],
        acknowledged + (expired + killed),
    )
    scheduled = np.nan_to_num(polls["scheduled"])
    buffered = np.nan_to_num(polls["delivering"])
    ready = np.maximum(polls["messages"] - scheduled - buffered, 0)
    due = polls["added"] - scheduled
    return steps(polls["stamp"], polls["inc"], due, left, ready)


def advice_of(polls: dict[str, Any]) -> list[Plain]:
    """The advice for one queue: a size for its ring, or without a ring a number of consumers; at most one row.

    Empty where the setting is good enough, and where less than LEAST_DAYS of polls can
    be replayed.
    """
    polls, ring = of_present_ring(polls)
    replayable = steps_of(polls)
    if replayable.days < LEAST_DAYS:
        return []
    span = f"In the {replayable.days:.0f} days seen"
    if np.isfinite(ring):
        better = better_ring(replayable, ring)
        if better is None:
            return []
        return [ring_advice(better, ring, span)]
    consumers = float(polls["consumers"][-1])
    if not consumers > 0:
        return []
    better = better_consumers(replayable, consumers, DRAIN)
    if better is None:
        return []
    present = round(consumers)
    # Without a better number it is asked whether any consumer more would get messages.
    wanted = present + 1
    if better.setting:
        wanted = round(present * better.setting.consumers)
    idle = more_are_idle(polls, wanted)
    return [consumer_advice(better, present, span, idle)]


def more_are_idle(polls: dict[str, Any], wanted: int) -> str:
    """Why not all of `wanted` consumers would get messages, as a sentence; empty where they would.

    It rests on the last known settings of the queue and on its message groups: a group
    stays with its consumer unless the queue rebalances groups (`grouped`).
    """
    names = ("exclusive", "max_consumers", "groups", "grouped")
    last = {name: last_known(polls[name]) for name in names}
    if last["exclusive"] > 0:
        return "More consumers would stand by: the queue is exclusive. Make its one consumer faster"
    most = last["max_consumers"]
    if 0 < most < wanted:
        return f"It takes {most:.0f} consumers and no more: raise max-consumers, or make them faster"
    if last["groups"] > 0 and not last["grouped"] > 0:
        return "More consumers would get new message groups only: make those that are there faster"
    return ""


def last_known(values: Any) -> float:
    """The last known value; NaN without any."""
    known_values = values[np.isfinite(values)]
    if not len(known_values):
        return np.nan
    return float(known_values[-1])


def ring_advice(better: Advice, ring: float, span: str) -> Plain:
    """The row of advice on the size of a ring.

    Args:
        better: A size that is good enough, if there is one, with its outcome.
        ring: The present size.
        span: The days that were replayed, as a text.
    """
    setting = better.setting
    outcome = better.outcome
    now = better.now
    lost_now = f"{now.lost:,.0f} of {now.came:,.0f}"
    lost_then = f"{outcome.lost:,.0f} of {outcome.came:,.0f}"
    evidence = f"{span} a ring of {ring:,.0f} lost {lost_now} messages."
    if setting is None:
        do = (
            f"No size helps: more is added than acknowledged, {outcome.left:,.0f} messages would still be there. Add"
            " consumers, or make each message cheaper."
        )
    else:
        do = f"ring-size {setting.ring:.0f}: it would have lost {lost_then}."
    return {"subject": "ring size", "evidence": evidence, "do": do}


def consumer_advice(better: Advice, count: int, span: str, idle: str) -> Plain:
    """The row of advice on the number of consumers.

    Args:
        better: A number that is good enough, if there is one.
        count: The present number.
        span: The days that were replayed, as a text.
        idle: Why more consumers would get no messages; empty where they would.
    """
    outcome = better.outcome
    now = better.now
    consumers = "1 consumer" if count == 1 else f"{count} consumers"
    evidence = (
        f"{span} a backlog lasted up to {duration(now.drain)} and reached {now.peak:,.0f} messages,"
        f" with {consumers}."
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
    """Add to each client, in place, `pace` and `utilisation`.

    pace: messages a second that one consumer of its queue settles when it has enough to
    do. utilisation: the inflow of the queue in its busiest hours over the rate that the
    consumers of the client can handle. None: not known, as they never had enough to do.
    """
    by_name = {queue_name(queue): queue for queue in queues}
    for client in clients:
        queue = by_name.get(queue_name(client))
        pace = queue and queue["pace"]["rate"]
        capacity = (pace or 0.0) * (client["consumers"] or 0.0)
        client["pace"] = pace
        client["utilisation"] = None
        if queue and queue["busiest_rate"] and capacity:
            client["utilisation"] = queue["busiest_rate"] / capacity


def queue_name(row: Plain) -> tuple[str, str, str]:
    """Broker, address and queue."""
    return row["broker"], row["address"], row["queue"]
