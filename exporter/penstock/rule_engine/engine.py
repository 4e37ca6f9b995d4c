"""From the results of the rules at each poll to the active conditions: two polls to enter, two to leave."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.conditions.catalogue import for_kind
from penstock.conditions.condition import Condition, Raised, Rule, Scope
from penstock.core.table import Column, Index, Mask, Positions, positions
from penstock.core.windows import longer
from penstock.observation.poll import RuleInputs
from penstock.settings.constants import POLLS, Constants

COLUMNS = {
    "run": 0,
    "on": False,
    "since": np.nan,
    "left_since": np.nan,
    "left_at": -np.inf,
    "last": -np.inf,
}
"""Of `Debounce`, in their order, with the value where nothing is known."""


@dataclass(frozen=True, slots=True)
class Debounce:
    """One condition, of those rows of `index` at which it holds, is active, or was a while ago: most never have it.

    at: their positions, ascending; the columns have its order. run: polls in a row with the same result of the rule,
    negative for "does not hold". on: it is active. since: its beginning by the rule when it began to hold,
    NaN where neither is so. left_since, left_at: its last beginning and end, to go on from.
    """

    index: Index[Any] = field(default_factory=Index.empty)
    at: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    run: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    on: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    since: Column = field(default_factory=lambda: np.empty(0))
    left_since: Column = field(default_factory=lambda: np.empty(0))
    left_at: Column = field(default_factory=lambda: np.empty(0))
    last: Column = field(default_factory=lambda: np.empty(0))
    """Of an event: when it last happened."""

    def advance(self, index: Index[Any]) -> "Debounce":
        """By the rows of `index`; what is gone is forgotten."""
        if index is self.index:
            return self
        at = index.positions(self.index.keys[self.at])
        return self._of(np.flatnonzero(at >= 0), index, at[at >= 0])

    def _of(
        self, rows: Positions | Mask, index: Index[Any], at: Positions
    ) -> "Debounce":
        return Debounce(index, at, *(getattr(self, name)[rows] for name in COLUMNS))

    def active(self) -> tuple[Positions, Column]:
        """Where it is active, and since when."""
        return self.at[self.on], self.since[self.on]

    def judge(
        self,
        holds: Positions,
        begins: Column,
        now: float,
        constants: Constants,
        *,
        event: bool = False,
        for_elapsed: Mask | None = None,
    ) -> "Debounce":
        """After a poll at which the rule says that it `holds` there, with the beginnings `begins` (NaN: this poll).

        event: it needs no second poll, neither to come nor to go, and is shown for a while. for_elapsed: of those that
        hold, which may come at this poll; the poll before may have agreed already.
        """
        if not len(holds) and not len(self.at):
            return self
        before = self._with(holds)
        here = np.searchsorted(before.at, holds)
        now_holds = np.zeros(len(before.at), np.bool_)
        now_holds[here] = True
        begin = np.full(len(before.at), now)
        begin[here] = np.where(np.isnan(begins), now, begins)
        last = np.where(now_holds, now, before.last) if event else before.last
        if event:
            now_holds |= before.on & (now - last <= constants.event)
        may_come = np.ones(len(before.at), np.bool_)
        if for_elapsed is not None:
            may_come[here] = for_elapsed
        need = 1 if event else POLLS
        return before._judged(  # noqa: SLF001
            now_holds, begin, last, now, constants.rejoin, need, may_come
        )

    def _judged(
        self,
        holds: Mask,
        begin: Column,
        last: Column,
        now: float,
        rejoin: float,
        need: int,
        may_come: Mask,
    ) -> "Debounce":
        run = np.where(holds, np.maximum(self.run, 0) + 1, np.minimum(self.run, 0) - 1)
        on = ((run >= need) & may_come) | (self.on & (run > -need))
        came = on & ~self.on
        went = self.on & ~on
        back = now - self.left_at <= rejoin
        # Of the first of the polls that must agree: it did not begin with the last of them.
        begin = np.where(self.on | (run > 1), self.since, begin)
        begin = np.where(came & back, np.fmin(begin, self.left_since), begin)
        since = np.where(on | holds, begin, np.nan)
        left_since = np.where(went, self.since, self.left_since)
        left_at = np.where(went, now, self.left_at)
        judged = Debounce(
            self.index, self.at, run, on, since, left_since, left_at, last
        )
        lasts = on | (run > 0) | (now - left_at <= rejoin)
        return judged if lasts.all() else judged._of(lasts, self.index, self.at[lasts])

    def _with(self, more: Positions) -> "Debounce":
        """Also with the rows `more`, of which nothing is known where they were not there."""
        if (positions(self.at, more) >= 0).all():
            return self
        at = np.union1d(self.at, more)
        moved = {
            name: np.full(len(at), unknown, getattr(self, name).dtype)
            for name, unknown in COLUMNS.items()
        }
        for name, values in moved.items():
            values[np.searchsorted(at, self.at)] = getattr(self, name)
        return Debounce(self.index, at, **moved)


def advance_conditions(
    before: Mapping[str, Debounce], poll: RuleInputs, resumed_at: float
) -> dict[str, Debounce]:
    """Those of this kind of broker, by name. resumed_at: last poll before the restart of the agent, else NaN."""
    never = Debounce()
    return {
        condition.name: advance_one(
            before.get(condition.name, never),
            condition,
            condition.rule,
            poll,
            resumed_at,
        )
        for condition in for_kind(poll.broker.kind.name).values()
        if condition.rule is not None
        and (poll.found.counted or not condition.by_consumer)
    }


THE_BROKER: Index[None] = Index.of([None])
"""The one row of a broker's conditions."""


def rows_of(scope: Scope, queues: Index[Any], consumers: Index[Any]) -> Index[Any]:
    return {Scope.BROKER: THE_BROKER, Scope.QUEUE: queues, Scope.CLIENT: consumers}[
        scope
    ]


def advance_one(
    before: Debounce,
    condition: Condition,
    rule: Rule,
    poll: RuleInputs,
    resumed_at: float,
) -> Debounce:
    found = poll.found
    raised = poll.of(rule)
    debounce = before.advance(
        rows_of(condition.scope, found.queues, found.consumer.index)
    )
    if (
        not len(debounce.at) and not raised.mask.any()
    ):  # as of nearly all conditions at nearly all polls
        return debounce
    mask = unsilenced(raised, condition, poll)
    if condition.stays is not None or looks_back_too_far(condition, poll, resumed_at):
        mask = mask.copy()
        active = debounce.active()[0]
        mask[active] |= (
            True if condition.stays is None else condition.stays(poll)[active]
        )
    at = np.flatnonzero(mask)
    since = np.full(len(at), found.now) if raised.since is None else raised.since[at]
    lasting = (
        None if raised.lasting is None else longer(since, found.now, raised.lasting[at])
    )
    return debounce.judge(
        at, since, found.now, poll.constants, event=condition.event, for_elapsed=lasting
    )


def unsilenced(raised: Raised, condition: Condition, poll: RuleInputs) -> Mask:
    """Not where another condition, as its rule says at this poll, explains the same."""
    mask = raised.mask
    for other in condition.silenced_by:
        if other.rule is not None:
            mask = mask & ~poll.of(other.rule).mask
    return mask


def looks_back_too_far(
    condition: Condition, poll: RuleInputs, resumed_at: float
) -> bool:
    """The agent has seen less than its window since a restart: until then what was active stays so."""
    if condition.window is None:
        return False
    interval = poll.found.interval
    return bool(
        poll.found.now - resumed_at
        < condition.window(poll.constants, interval) + 2 * interval
    )


def blockers(
    debounced: Mapping[str, Debounce], poll: RuleInputs
) -> tuple[tuple[int, str], ...]:
    """Connections whose limit one client uses up, by the active conditions that come of it."""
    return tuple(
        pair
        for name, condition in for_kind(poll.broker.kind.name).items()
        if condition.blockers is not None and name in debounced
        for pair in condition.blockers(poll, debounced[name].active()[0])
    )
