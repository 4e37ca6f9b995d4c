"""Objects that belong to another one: queues of an address, where dead letters come from and go to."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.core.table import Table
from penstock.insight.answers import Related
from penstock.insight.formatting import amount_text
from penstock.series.labels import QueueSeries

MOST = 50
"""Things of one kind that are told with an object, the largest."""


def queues_with(
    table: Table[QueueSeries], role: str, chosen: Callable[[QueueSeries], bool], numbers: Sequence[str]
) -> list[Related]:
    """The largest by the first of the numbers."""
    at, read = [i for i, row in enumerate(table.index) if chosen(row)], [name for name in numbers if name in table]
    if read:
        at.sort(key=lambda i: -np.nan_to_num(table[read[0]][i]))
    return [Related(role, "queue", table.index.rows[i].queue, numbers_text(table, read, i)) for i in at[:MOST]]


def numbers_text(table: Table[Any], names: Sequence[str], i: int) -> str:
    told = {name: table[name][i] for name in names if name in table}
    return ", ".join(f"{name} {amount_text(None if np.isnan(one) else int(one))}" for name, one in told.items())


def dead_letters(table: Table[QueueSeries], address: str, queue: str = "") -> list[Related]:
    """Who sends dead letters to the address; and where those of the queue go."""
    found = queues_with(table, "gets dead letters of", lambda row: row.dead_letter_address == address, ("killed",))
    for row in table.index:
        if queue and (row.address, row.queue) == (address, queue) and row.dead_letter_address:
            held = any(one.address == row.dead_letter_address for one in table.index)
            told = "" if held else "it has no queue: dead letters are lost"
            found.append(Related("sends dead letters to", "address", row.dead_letter_address, told))
    return found
