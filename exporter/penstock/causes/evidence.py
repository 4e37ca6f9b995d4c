"""What was read, and what follows from it: yes, no, or not known because something was not read.

A missing number makes nothing true and nothing false. Every rule of a cause compares `NumberRead`s, which gives
`Claim`s; `concluded` of `verdict.py` makes a verdict of these, and only a claim that is known can prove or exclude.
"""

from collections.abc import Callable
from enum import Enum
from math import isinf, isnan
from typing import NamedTuple

import numpy as np

from penstock.core.formatting import duration


class Truth(Enum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Claim(NamedTuple):
    """Whether something is so. lacks: where it is unknown, what was not read; empty where no number shows it."""

    truth: Truth
    lacks: tuple[str, ...] = ()

    @property
    def is_so(self) -> bool:
        return self.truth is Truth.YES

    @property
    def is_not_so(self) -> bool:
        return self.truth is Truth.NO


UNKNOWN = Claim(Truth.UNKNOWN)
"""No number of the broker shows it."""


def known(is_so: bool | np.bool_) -> Claim:
    """A claim about what was read.

    Not for comparisons of numbers: one that was not read is NaN, which compares as false. `NumberRead` compares these.

    Raises:
        TypeError: it is no truth value, such as a number or an array.
    """
    if not isinstance(is_so, bool | np.bool_):
        raise TypeError(f"a claim is yes or no, not {type(is_so).__name__}")
    return Claim(Truth.YES if is_so else Truth.NO)


def unread(*names: str) -> Claim:
    """A claim about what was not read at all."""
    return Claim(Truth.UNKNOWN, tuple(f"{name} was not read" for name in names))


def negated(claim: Claim) -> Claim:
    opposite = {Truth.YES: Truth.NO, Truth.NO: Truth.YES, Truth.UNKNOWN: Truth.UNKNOWN}
    return Claim(opposite[claim.truth], claim.lacks)


def all_of(*claims: Claim) -> Claim:
    """No as soon as one is not so; yes where all are so; else unknown, with what the unknown ones lack."""
    if any(claim.is_not_so for claim in claims):
        return known(False)
    if all(claim.is_so for claim in claims):
        return known(True)
    return Claim(Truth.UNKNOWN, lacks_of(*claims))


def any_of(*claims: Claim) -> Claim:
    """Yes as soon as one is so; no where none is so; else unknown."""
    return negated(all_of(*(negated(claim) for claim in claims)))


def lacks_of(*claims: Claim) -> tuple[str, ...]:
    """What was not read for these claims, each once."""
    return tuple(dict.fromkeys(lack for claim in claims for lack in claim.lacks))


class NumberRead(NamedTuple):
    """A number that the broker gave, or did not.

    name: what it is called, for people. value: NaN where it was not read. stale_seconds: how long before the condition
    began it was read; 0 where it was read since. source: what it was read with, where that is more than itself.
    """

    name: str
    value: float
    stale_seconds: float = 0.0
    source: str = ""

    @property
    def is_known(self) -> bool:
        return not isnan(self.value) and not self.stale_seconds > 0

    @property
    def lack(self) -> str:
        """Why it says nothing."""
        if isnan(self.value):
            return f"{self.name} was not read"
        what = self.source or self.name
        if isinf(self.stale_seconds):
            return f"{what}: last read at an unknown time"
        return f"{what}: last read {duration(self.stale_seconds)} before this began"

    def satisfies(self, test: Callable[[float], bool]) -> Claim:
        return (
            known(test(self.value))
            if self.is_known
            else Claim(Truth.UNKNOWN, (self.lack,))
        )

    def above(self, bound: float) -> Claim:
        return self._compared(lambda value: value > bound, bound)

    def below(self, bound: float) -> Claim:
        return self._compared(lambda value: value < bound, bound)

    def at_least(self, bound: float) -> Claim:
        return self._compared(lambda value: value >= bound, bound)

    def equals(self, wanted: float) -> Claim:
        return self._compared(lambda value: value == wanted, wanted)

    def _compared(self, test: Callable[[float], bool], bound: float) -> Claim:
        if isnan(bound):
            return Claim(
                Truth.UNKNOWN, (f"what {self.name} is compared with was not read",)
            )
        return self.satisfies(test)

    def reaches(self, limit: "NumberRead") -> Claim:
        """Whether this number is as high as another one that was read."""
        missing = tuple(
            reading.lack for reading in (self, limit) if not reading.is_known
        )
        if limit.is_known and isinf(limit.value):
            return known(False)
        if missing:
            return Claim(Truth.UNKNOWN, missing)
        return self.at_least(limit.value)
