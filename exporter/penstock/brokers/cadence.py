"""Parts that are not read at every poll: slow ones, and settings of many things by their names."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from penstock.core.errors import SourceError
from penstock.core.table import SLACK

NameT = TypeVar("NameT")
ValueT = TypeVar("ValueT")
ReplyT = TypeVar("ReplyT")

SETTINGS_AGE = 600.0
"""Seconds after which settings are read again."""
SPARE = 20.0
"""A call that is not needed at every poll is made when it took less than 1/SPARE of the time since."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """When something was last read and how long it took, by the stamps of the answers."""

    stamp: float = -np.inf
    seconds: float = 0.0

    def due(self, now: float, age: float = 0.0) -> bool:
        return now - self.stamp >= max(age, SPARE * self.seconds)


class Aged(Generic[NameT, ValueT]):
    """Settings by name, each read again after SETTINGS_AGE, whether or not it could be read. values: as last read;
    another object when any of them changed.
    """

    def __init__(self) -> None:
        self.values: dict[NameT, ValueT] = {}
        self.read_at: dict[NameT, float] = {}
        """The clock when each of `values` was read, by name; another object when any was read again."""
        self._stamps: dict[NameT, float] = {}
        self._idle_source: object = None
        self._idle_until = -np.inf
        """None of the names of that object is due before then."""

    def due(
        self, names: Iterable[NameT], now: float, source: object = None
    ) -> list[NameT]:
        """The names to read now. source: the object that has the names; the same object has the same names."""
        is_same = source is not None and source is self._idle_source
        if is_same and now < self._idle_until:
            return []
        names = list(names)
        if len(self._stamps) > 2 * len(names) + SLACK:
            self._forget_all_but(set(names))
        stamps = self._stamps
        due = [
            name for name in names if now - stamps.get(name, -np.inf) >= SETTINGS_AGE
        ]
        if not due:
            oldest = min((stamps[name] for name in names), default=np.inf)
            self._idle_source = source
            self._idle_until = oldest + SETTINGS_AGE
        return due

    def _forget_all_but(self, names: AbstractSet[NameT]) -> None:
        """Forget the values of all other names."""
        self._stamps = _only(names, self._stamps)
        self.values = _only(names, self.values)
        self.read_at = _only(names, self.read_at)

    def note(
        self, asked: Iterable[NameT], read: Mapping[NameT, ValueT], now: float
    ) -> bool:
        """Note that these names were asked now, with this result. Returns whether any value has changed."""
        self._stamps.update(dict.fromkeys(asked, now))
        if read:
            self.read_at = {**self.read_at, **dict.fromkeys(read, now)}
        changed = any(self.values.get(name) != value for name, value in read.items())
        if changed:
            self.values = {**self.values, **read}
        return changed


def _only(
    names: AbstractSet[NameT], values: Mapping[NameT, ValueT]
) -> dict[NameT, ValueT]:
    """The values of these names."""
    return {name: value for name, value in values.items() if name in names}


def read_each(
    names: Sequence[NameT],
    replies: Sequence[ReplyT],
    decode: Callable[[ReplyT, NameT], ValueT | None],
) -> tuple[dict[NameT, ValueT], str]:
    """The values by name, and why some could not be read; `decode` returns None for what is gone."""
    read: dict[NameT, ValueT] = {}
    errors: list[str] = []
    for name, reply in zip(names, replies, strict=True):
        try:
            value = decode(reply, name)
        except SourceError as error:
            errors.append(str(error))
        else:
            if value is not None:
                read[name] = value
    if not errors:
        return read, ""
    return read, f"{len(errors)} of {len(names)} failed; the first: {errors[0]}"
