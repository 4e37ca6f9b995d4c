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
"""For which each kind of advice is worked out, those that lost or waited most."""
DAYS: Final = 14
LEAST_DAYS: Final = 1.0
WAITING: Final = 0.05
DRAIN: Final = 900.0
"""Seconds that a backlog may last before more consumers are advised."""
NUMBERS: Final = (
    "added", "acknowledged", "expired", "killed", "removed", "messages", "delivering", "scheduled", "ring_limit",
    "consumers", "max_consumers", "exclusive", "groups", "grouped",
)  # fmt: skip
COLUMNS: Final = ("stamp", "sid", "inc", *NUMBERS)
NOTHING: Final[Plain] = {"advice": [], "problem": ""}
"""What a worker returns of a queue for which there is no advice."""


def advise(
    session: Any,
    history: Store,
    queues: Sequence[Plain],
    failed: dict[str, str] | None = None,
) -> list[Plain]:
    """Of the queues that lost by their ring or had a backlog; the polls are read on the workers. Raises StoreError.

    failed: gets queue → why its polls could not be replayed; the others have their advice all the same.
    """
    failed = {} if failed is None else failed
    lost = sorted(
        (q for q in queues if q["ring"] and (q["evicted"] or 0) > 0),
        key=lambda q: -q["evicted"],
    )
    waited = sorted(
        (
            q
            for q in queues
            if not q["ring"] and q["consumers"] and (q["backlog_share"] or 0) >= WAITING
        ),
        key=lambda q: -q["backlog_share"],
    )
    named = {
        series_id(q["broker"], q["address"], q["queue"]): q
        for q in (*lost[:QUEUES], *waited[:QUEUES])
    }
    units = [
        (json.dumps({"paths": paths, "sids": list(named)}),)
        for paths in last_days(history)
    ]
    if not named or not units:
        return []
    columns = ", ".join(
        f"{name} {'long' if name in ('sid', 'inc') else 'double'}" for name in COLUMNS
    )
    polls = session.createDataFrame(units, "unit string").repartition(len(units))
    polls = polls.mapInArrow(partial(read_units, history.url), columns)
    found = (
        polls.groupBy("sid")
        .applyInPandas(replayed, "sid long, found string")
        .toPandas()
    )
    by_sid = {
        sid: json.loads(text)
        for sid, text in zip(found["sid"], found["found"], strict=True)
    }
    rows = []
    for sid, queue in named.items():
        of_queue = by_sid.get(sid, NOTHING)
        rows += [
            one | {name: queue[name] for name in ("broker", "address", "queue")}
            for one in of_queue["advice"]
        ]
        if of_queue["problem"]:
            failed[f"{queue['queue']} on {queue['broker']}"] = of_queue["problem"]
    return rows


def last_days(history: Store, days: float = DAYS) -> list[list[str]]:
    """The raw files of queues, by day, of the last days there are."""
    by_day: dict[str, list[str]] = {}
    for entry in current(history):
        kind, day, _ = partition(entry)
        if kind == QUEUE.name:
            by_day.setdefault(day, []).append(entry.path)
    newest = max((start_of(day, ALL_DAY) for day in by_day), default=0.0)
    return [
        sorted(by_day[day])
        for day in sorted(by_day)
        if newest - start_of(day, ALL_DAY) < days * DAY
    ]


def polls_of(
    history: Store, paths: Sequence[str], sids: Sequence[int]
) -> dict[str, Any]:
    """The polls of some queues; stamp in seconds, what a poll did not say NaN. Files that cannot be read are left out:
    what came in them is not replayed, like a gap. Raises StoreError where it is the store's fault.
    """
    wanted = pa.array(sids, pa.int64())

    def mask(rows: Any) -> Any:
        return pc.and_(pc.is_in(rows["sid"], wanted), pc.is_valid(rows["stamp"]))

    there = [
        attempt({}, path, read, history, [path], QUEUE, COLUMNS, mask) for path in paths
    ]
    table = pa.concat_tables(
        [read(history, [], QUEUE, COLUMNS), *(one for one in there if one is not None)]
    )
    table, _ = possible(table, QUEUE)
    found = {
        name: pc.fill_null(table[name].cast(pa.float64()), np.nan).to_numpy()
        for name in NUMBERS
    }
    found |= {
        name: pc.fill_null(table[name].cast(pa.int64()), 0).to_numpy()
        for name in ("sid", "inc", "stamp")
    }
    found = dict(observed_once(found))
    return found | {"stamp": found["stamp"] / MICRO}


def of_present_ring(polls: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """The polls since the ring was set to what it is at the last poll, and its size; inf without one."""
    order = np.argsort(polls["stamp"])
    rings = np.where(polls["ring_limit"] > 0, polls["ring_limit"], np.inf)[order]
    since = np.flatnonzero(rings != rings[-1:])[-1:] + 1
    begin = int(since[0]) if len(since) else 0
    return {name: column[order[begin:]] for name, column in polls.items()}, float(
        rings[-1]
    ) if len(rings) else np.inf


def read_units(url: str, batches: Iterator[Any]) -> Iterator[Any]:
    """In a Spark worker."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            unit = json.loads(text)
            found = polls_of(Store(url), unit["paths"], unit["sids"])
            yield pa.record_batch(
                [pa.array(found[name]) for name in COLUMNS], names=list(COLUMNS)
            )


def replayed(polls: Any) -> Any:
    """In a Spark worker: the polls of one queue as a pandas frame → one row with its advice, or why there is none."""
    import pandas as pd  # noqa: PLC0415 - comes with Spark

    found = dict(NOTHING)
    try:
        found["advice"] = advice_of({name: polls[name].to_numpy() for name in COLUMNS})
    except Exception as error:  # noqa: BLE001 - one queue's surprise must not end the report of the fleet
        found["problem"] = f"{type(error).__name__}: {error}"
    return pd.DataFrame({"sid": polls["sid"].iloc[:1], "found": [json.dumps(found)]})


def steps_of(polls: dict[str, Any]) -> Steps:
    """What left: by reason, or in one number where that is all there is. A scheduled message comes when it is due;
    what a consumer buffers takes no room of a ring, and no other consumer gets it.
    """
    reasons = [np.nan_to_num(polls[name]) for name in ("expired", "killed")]
    left = np.where(
        np.isnan(polls["acknowledged"]),
        polls["removed"],
        polls["acknowledged"] + sum(reasons),
    )
    scheduled, buffered = (
        np.nan_to_num(polls[name]) for name in ("scheduled", "delivering")
    )
    ready = np.maximum(polls["messages"] - scheduled - buffered, 0)
    return steps(polls["stamp"], polls["inc"], polls["added"] - scheduled, left, ready)


def advice_of(polls: dict[str, Any]) -> list[Plain]:
    """What a ring with losses, or a queue with a backlog, should have; nothing without a day of polls."""
    polls, ring = of_present_ring(polls)
    of = steps_of(polls)
    if of.days < LEAST_DAYS:
        return []
    consumers = float(polls["consumers"][-1])
    span = f"In the {of.days:.0f} days seen"
    if np.isfinite(ring):
        found = better_ring(of, ring)
        return [] if found is None else [ring_advice(found, ring, span)]
    found = better_consumers(of, consumers, DRAIN) if consumers > 0 else None
    if found is None:
        return []
    present = round(consumers)
    wanted = round(present * found.setting.consumers) if found.setting else present + 1
    return [consumer_advice(found, present, span, more_are_idle(polls, wanted))]


def more_are_idle(polls: dict[str, Any], wanted: int) -> str:
    """Why not all of so many consumers would get messages, by what was last known; empty where they would."""
    names = "exclusive", "max_consumers", "groups", "grouped"
    last = {
        name: next(iter(polls[name][np.isfinite(polls[name])][::-1]), np.nan)
        for name in names
    }
    if last["exclusive"] > 0:
        return "More consumers would stand by: the queue is exclusive. Make its one consumer faster"
    if 0 < last["max_consumers"] < wanted:
        return f"It takes {last['max_consumers']:.0f} consumers and no more: raise max-consumers, or make them faster"
    if last["groups"] > 0 and not last["grouped"] > 0:
        return "More consumers would get new message groups only: make those that are there faster"
    return ""


def ring_advice(found: Advice, ring: float, span: str) -> Plain:
    setting = found.setting
    outcome = found.outcome
    now = found.now
    evidence = f"{span} a ring of {ring:,.0f} lost {now.lost:,.0f} of {now.came:,.0f} messages."
    if setting is None:
        do = (
            f"No size helps: more is added than acknowledged, {outcome.left:,.0f} messages would still be there. Add"
            " consumers, or make each message cheaper."
        )
    else:
        do = f"ring-size {setting.ring:.0f}: it would have lost {outcome.lost:,.0f} of {outcome.came:,.0f}."
    return {"subject": "ring size", "evidence": evidence, "do": do}


def consumer_advice(found: Advice, count: int, span: str, idle: str) -> Plain:
    outcome = found.outcome
    now = found.now
    evidence = (
        f"{span} a backlog lasted up to {duration(now.drain)} and reached {now.peak:,.0f} messages, with {count}"
        f" consumer{'' if count == 1 else 's'}."
    )
    if idle:
        return {"subject": "too slow consumers", "evidence": evidence, "do": f"{idle}."}
    wanted = (
        f"{round(count * found.setting.consumers)} consumers" if found.setting else ""
    )
    would = f"would have lasted {duration(outcome.drain)} at most and reached {outcome.peak:,.0f} messages."
    do = (
        f"{wanted}: the backlog {would}"
        if wanted
        else f"Three times the consumers do not help: the backlog {would}"
    )
    return {"subject": "too few consumers", "evidence": evidence, "do": do}


def utilised(clients: Sequence[Plain], queues: Sequence[Plain]) -> None:
    """Adds to each client `pace`, of one consumer of its queue, and `utilisation`: what comes at the busiest over what
    its consumers can do. None = not known: there was never enough to do.
    """
    by_name = {(q["broker"], q["address"], q["queue"]): q for q in queues}
    for client in clients:
        queue = by_name.get((client["broker"], client["address"], client["queue"]))
        client["pace"] = queue and queue["pace"]["rate"]
        able = (client["pace"] or 0.0) * (client["consumers"] or 0.0)
        client["utilisation"] = (
            queue["busiest_rate"] / able
            if queue and queue["busiest_rate"] and able
            else None
        )
