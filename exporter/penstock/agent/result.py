"""How a poll goes: counted by `result`, shown and logged with its error."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np


class Result(StrEnum):
    """How a scheduled poll went."""

    OK = "ok"
    PARTIAL = "partial"
    """The broker was read, some of its collectors failed."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not made: the one before was still under way, or the broker needed a pause."""


@dataclass(frozen=True, slots=True)
class PollResult:
    """How the last poll went."""

    result: Result
    error: str = ""
    seconds: float = np.nan
    """How long the broker was read; NaN: it was not."""
    pause: float = 0.0
    """Seconds for which the broker is better left alone."""
