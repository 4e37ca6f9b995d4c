"""How deep destinations are: the attributes that walk all messages of one under its lock are read under a budget of the
broker's CPU; in between, depths are carried on from the counters of what came in and went out, which are free.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.brokers.openmq.answers import Depth, Destination
from penstock.core.table import SLACK

SHARE = 0.03
"""The share of one core of the broker that the expensive attributes may take in the long run."""
SAVED = 2.0
"""CPU seconds that may be saved up while little is read."""
ATTRIBUTES = 5
PER_MESSAGE = 0.8e-6
"""CPU seconds that one expensive attribute takes per message,"""
PER_DELAYED_SQUARED = 4e-9
"""and per delayed message squared. As measured on 6.5.1."""
TOO_LONG = 1.0
"""A destination whose reading took more seconds than this is left alone, as its lock is held so long,"""
LEFT_ALONE = 600.0
"""for so many seconds."""
AT_ONCE = 200
"""Destinations that are read one by one in one poll."""
COSTLY = 0.05
"""CPU seconds from which on a destination is read in a call of its own, so that its time is known."""

Name = tuple[str, str]
"""Type (q or t) and name."""


@dataclass(slots=True)
class _Known:
    """A destination when it was last read: its depth, and its row with the counters at that time."""

    depth: Depth
    row: Destination
    stamp: float
    not_before: float = -np.inf


class Carried(Depth, gc=False, kw_only=True):
    """Numbers of one destination now. exact: they were read in this poll."""

    exact: bool


@dataclass(slots=True)
class Depths:
    """The last depths of each destination, and which may be read next. Times are stamps of the answers."""

    _known: dict[Name, _Known] = field(default_factory=dict)
    _allowance: float = SAVED
    _stamp: float = np.nan
    _factor: float = 1.0
    """How much dearer reading is here than estimated."""

    def begin(self, now: float) -> None:
        """A poll starts: what may be spent grows with the time since the last one."""
        if now > self._stamp:
            self._allowance = min(SAVED, self._allowance + SHARE * (now - self._stamp))
        self._stamp = now

    def may_read_all(self, messages: float) -> bool:
        """Whether every destination may be read in one call; messages: in the whole broker, NaN = unknown."""
        delayed = sum(known.depth.scheduled or 0.0 for known in self._known.values())
        left_alone = any(
            known.not_before > self._stamp for known in self._known.values()
        )
        if left_alone or np.isnan(messages):
            return False
        return self._cost(messages, delayed) <= self._allowance

    def spend_on_all(self, messages: float, rows: int, seconds: float) -> None:
        """All were read in one call that took `seconds`, of which some are for the rows themselves."""
        cost = self._cost(messages, 0.0)
        spent = max(cost, seconds - 0.25e-3 * rows - 0.1)
        if cost > COSTLY:
            factor = 0.5 * self._factor * (1 + spent / cost)
            self._factor = min(max(factor, 1.0), 20.0)
        self._allowance -= spent

    def spend(self, name: Name, seconds: float) -> None:
        """One destination was read in a call of its own that took `seconds`."""
        self._allowance -= seconds
        if seconds > TOO_LONG and name in self._known:
            self._known[name].not_before = self._stamp + LEFT_ALONE

    def due(self, rows: Sequence[Destination]) -> tuple[list[Name], list[Name]]:
        """Which to read now, the longest unread first: those that cost nearly nothing, and those to be timed."""
        light: list[Name] = []
        costly: list[Name] = []
        left = self._allowance

        for row in sorted(rows, key=self._last_read):
            cost = self.cost_of(row)
            if self._is_left_alone(row) or cost > min(TOO_LONG, left):
                continue
            left -= cost
            if cost > COSTLY:
                costly.append(row.key)
            else:
                self._allowance -= cost
                light.append(row.key)
            if len(light) + len(costly) == AT_ONCE:
                break
        return light, costly

    def _last_read(self, row: Destination) -> float:
        """The stamp when this destination was last read; -inf: never."""
        last = self._known.get(row.key)
        return last.stamp if last else -np.inf

    def _is_left_alone(self, row: Destination) -> bool:
        """Whether reading this destination took so long that it must not be read yet."""
        last = self._known.get(row.key)
        return last is not None and last.not_before > self._stamp

    def cost_of(self, row: Destination) -> float:
        """CPU seconds that reading this destination will take, estimated; where its depth is unknown, a second."""
        last = self._known.get(row.key)
        delayed = last.depth.scheduled if last else 0.0
        if np.isnan(delayed):
            delayed = 0.0
        cost = self._cost(self.carried(row).messages, delayed)
        return TOO_LONG if np.isnan(cost) else cost

    def cost_of_all(self, rows: Sequence[Destination]) -> float:
        """CPU seconds that reading all these destinations will take, estimated."""
        return sum(self.cost_of(row) for row in rows)

    def note(self, row: Destination, depth: Depth) -> None:
        """`depth` of this destination was read now; `row` has its counters."""
        before = self._known.get(row.key)
        self._known[row.key] = _Known(
            depth, row, self._stamp, before.not_before if before else -np.inf
        )

    def carried(self, row: Destination) -> Carried:
        """The depth now: as read in this poll, else carried on from the counters."""
        last = self._known.get(row.key)
        if last is None or row.messages_added < last.row.messages_added:
            # Never read, or destroyed and created again.
            return Carried(max(row.messages_added - row.removed, 0.0), exact=False)
        depth = last.depth
        before = last.row
        added = row.messages_added - before.messages_added
        removed = row.removed - before.removed
        added_bytes = row.added_bytes - before.added_bytes
        removed_bytes = row.removed_bytes - before.removed_bytes
        return Carried(
            max(depth.messages + (added - removed), 0.0),
            depth.pending,
            depth.uncommitted,
            depth.scheduled,
            max(depth.bytes + (added_bytes - removed_bytes), 0.0),
            exact=last.stamp == self._stamp,
        )

    def forget_all_but(self, rows: Sequence[Destination]) -> None:
        if len(self._known) > 2 * len(rows) + SLACK:
            current = {row.key for row in rows}
            self._known = {
                name: known for name, known in self._known.items() if name in current
            }

    def _cost(self, messages: float, delayed: float) -> float:
        return (
            ATTRIBUTES
            * (PER_MESSAGE * messages + PER_DELAYED_SQUARED * delayed**2)
            * self._factor
        )
