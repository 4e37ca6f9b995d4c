"""What is not read at every poll: parts that are slow or rarely change, and settings of many things by their names."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
        """By the names of `values` the clock when each was read; another object when any was read again."""
        self._stamps: dict[NameT, float] = {}
        self._idle: tuple[object, float] = None, -np.inf
        """Of the names of this object none is due before then."""

    def due(
        self, names: Iterable[NameT], now: float, source: object = None
    ) -> list[NameT]:
        """Those to read now. source: what the names are taken from; of the same object they are the same."""
        if source is not None and source is self._idle[0] and now < self._idle[1]:
            return []
        names = list(names)
        stamps = self._stamps
        if len(stamps) > 2 * len(names) + SLACK:
            here = set(names)
            self._stamps = stamps = {
                name: stamp for name, stamp in stamps.items() if name in here
            }
            self.values = {
                name: value for name, value in self.values.items() if name in here
            }
            self.read_at = {
                name: stamp for name, stamp in self.read_at.items() if name in here
            }
        due = [
            name for name in names if now - stamps.get(name, -np.inf) >= SETTINGS_AGE
        ]
        if not due:
            self._idle = (
                source,
                min((stamps[name] for name in names), default=np.inf) + SETTINGS_AGE,
            )
        return due

    def note(
        self, asked: Iterable[NameT], read: Mapping[NameT, ValueT], now: float
    ) -> bool:
        """Those were asked now, with this result. Whether any value is another than before."""
        self._stamps.update(dict.fromkeys(asked, now))
        if read:
            self.read_at = {**self.read_at, **dict.fromkeys(read, now)}
        changed = any(self.values.get(name) != value for name, value in read.items())
        if changed:
            self.values = {**self.values, **read}
        return changed


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
    return (
        read,
        f"{len(errors)} of {len(names)} failed; the first: {errors[0]}"
        if errors
        else "",
    )
