"""Raw rows with everything that goes wrong: resets, gaps, rows that stand twice, late ones, series of one sample."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.history.schema import QUEUE, series_id
from penstock.history.store import Store
from penstock_demo.history import _table
from penstock_trends.kernel import HOUR, MICRO, hourly
from penstock_trends.kernel import QUEUE as TIER
from penstock_trends.raw import rolled
from penstock_trends.tables import KEYS

START = 1_788_220_800


def untidy(
    seed: int, series: int = 6, samples: int = 700, every: int = 60, reset: float = 0.01
) -> Any:
    """Rows of kind queue in no order. reset: share of the samples at which the counters begin anew."""
    random = np.random.default_rng(seed)
    parts: list[dict[str, np.ndarray[Any, Any]]] = []
    for number in range(series):
        size = 1 if number == 0 else samples
        stamp = START + np.sort(random.choice(samples * 2, size, replace=False)) * every
        lives = np.cumsum(random.random(size) < reset)
        added = np.concatenate(
            [
                np.cumsum(random.integers(0, 9, (lives == life).sum()))
                + random.integers(0, 50)
                for life in range(lives.max() + 1)
            ]
        )
        part = {
            "stamp": stamp.astype(float),
            "series": np.full(size, number),
            "inc": START * 1000.0 + lives,
            "added": np.where(random.random(size) < 0.02, np.nan, added),
            "messages": np.where(
                number == 1, 0.0, random.integers(0, 5000, size).astype(float)
            ),
        }
        if number > 1:
            keep = (stamp // HOUR) % 5 != 3
            part = {name: column[keep] for name, column in part.items()}
        parts.append(part)
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    twice = random.choice(len(rows["stamp"]), len(rows["stamp"]) // 10)
    order = random.permutation(np.concatenate([np.arange(len(rows["stamp"])), twice]))
    rows = {name: column[order] for name, column in rows.items()}
    names = np.array([f"q{i}" for i in range(series)])[rows["series"]]
    sids = np.array([series_id("b", f"q{i}", f"q{i}") for i in range(series)])[
        rows["series"]
    ]
    numbers = {
        "inc": rows["inc"],
        "added": rows["added"],
        "messages": rows["messages"],
        "sid": sids,
    }
    numbers["interval"] = np.full(len(sids), float(every))
    texts = {
        name: pa.array(names.tolist()).dictionary_encode()
        for name in ("address", "queue")
    }
    return _table(
        QUEUE, rows["stamp"], numbers, texts, {"broker": "b", "queue_kind": "user"}
    )


def polls_of(queue: str, stamp: Any, every: float, **numbers: Any) -> Any:
    """Raw rows of a queue in one life, as the agent keeps them."""
    zero = np.zeros(len(stamp))
    size = len(stamp)
    said = (
        dict.fromkeys(("killed", "expired", "delivering", "scheduled"), zero) | numbers
    )
    said |= {
        "sid": np.full(size, series_id("b", queue, queue)),
        "inc": zero + START * 1000.0,
        "interval": zero + every,
    }
    name = pa.array([queue] * size).dictionary_encode()
    return _table(
        QUEUE,
        stamp,
        said,
        {"address": name, "queue": name},
        {"broker": "b", "queue_kind": "user"},
    )


def hours_of(store: Store, kind: str, paths: Sequence[str]) -> Any:
    """What the kernel makes of some raw files, ascending by series, life and hour."""
    problems: dict[str, str] = {}
    found = pa.concat_tables(rolled(store, kind, paths, problems))
    assert not problems
    return found.sort_by([(name, "ascending") for name in KEYS])


def grown(table: Any, counter: str) -> np.ndarray[Any, Any]:
    """How much a counter grew in each hourly row, by numpy: what `sql/i1.sql` says, the gaps with it."""
    columns = {
        name: table[name].to_numpy().astype(float)
        for name in (f"lo_{counter}", f"hi_{counter}")
    }
    sid, inc, start = (table[name].to_numpy() for name in KEYS)
    low, high = columns.values()
    order = np.lexsort((inc, start, sid))
    order = order[np.isfinite(high[order])]
    before = order[:-1]
    after = order[1:]
    same = (sid[before] == sid[after]) & (inc[before] == inc[after])
    step = np.zeros(len(low))
    step[after] = np.where(same, low[after] - high[before], 0.0)
    found: np.ndarray[Any, Any] = np.maximum(high - low + np.nan_to_num(step), 0.0)
    return found


def total(table: Any) -> dict[int, float]:
    """How many messages were added to each queue."""
    sid = table["sid"].to_numpy()
    came = np.nan_to_num(grown(table, "added"))
    return {int(one): float(came[sid == one].sum()) for one in np.unique(sid)}


def rows_of_hours(polls: dict[str, Any], step: int = 60) -> dict[str, Any]:
    """What the kernel keeps of the polls of a queue, with what its counters grew. stamp: in seconds."""
    size = len(polls["stamp"])
    rows: dict[str, Any] = {name: np.full(size, np.nan) for name in TIER.columns}
    rows |= {
        name: np.zeros(size, np.int64) for name in ("broker", "sid", "inc", *TIER.texts)
    }
    rows |= {
        name: np.zeros(size)
        for name in ("delivering", "acknowledged", "expired", "killed", "messages")
    }
    rows |= {
        "consumers": np.ones(size),
        "interval": np.full(size, float(step)),
        **polls,
    }
    found = hourly(TIER, rows | {"stamp": np.asarray(polls["stamp"], np.int64) * MICRO})
    for name in TIER.counters:
        found[name] = found[f"hi_{name}"] - np.append(
            found[f"lo_{name}"][:1], found[f"hi_{name}"][:-1]
        )
    return found | {"complete": found["n"] * step >= HOUR / 2}
