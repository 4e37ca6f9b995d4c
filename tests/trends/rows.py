"""Raw rows with everything that goes wrong: resets, gaps, rows that stand twice, late ones, series of one sample."""

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.history.schema import QUEUE, series_id
from penstock.trends.kernel import HOUR
from penstock_demo.history import _table

START = 1_788_220_800


def untidy(seed: int, series: int = 6, samples: int = 700, every: int = 60, reset: float = 0.01) -> Any:
    """Rows of kind queue in no order. reset: share of the samples at which the counters begin anew."""
    random = np.random.default_rng(seed)
    parts: list[dict[str, np.ndarray[Any, Any]]] = []
    for number in range(series):
        size = 1 if number == 0 else samples
        stamp = START + np.sort(random.choice(samples * 2, size, replace=False)) * every
        lives = np.cumsum(random.random(size) < reset)
        added = np.concatenate(
            [
                np.cumsum(random.integers(0, 9, (lives == life).sum())) + random.integers(0, 50)
                for life in range(lives.max() + 1)
            ]
        )
        part = {
            "stamp": stamp.astype(float),
            "series": np.full(size, number),
            "inc": START * 1000.0 + lives,
            "added": np.where(random.random(size) < 0.02, np.nan, added),
            "messages": np.where(number == 1, 0.0, random.integers(0, 5000, size).astype(float)),
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
    sids = np.array([series_id("b", f"q{i}", f"q{i}") for i in range(series)])[rows["series"]]
    numbers = {"inc": rows["inc"], "added": rows["added"], "messages": rows["messages"], "sid": sids}
    numbers["interval"] = np.full(len(sids), float(every))
    texts = {name: pa.array(names.tolist()).dictionary_encode() for name in ("address", "queue")}
    return _table(QUEUE, rows["stamp"], numbers, texts, {"broker": "b", "queue_kind": "user"})
