"""From the results of the rules at each poll to active conditions: two polls must agree to raise or clear one.

A rule returns, for each row (the broker, a queue or a consumer), whether it holds at one poll. `Debounce` remembers the
results of the polls before, and decides from them at which rows the condition is active.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
"""The columns of `Debounce`, in their order, with the value of a new row."""


@dataclass(frozen=True, slots=True)
class Debounce:
    """One condition at those rows where it holds, is active, or was active a while ago: most rows never have it.

    Attributes:
        index: All rows that the condition may have.
        at: (rows with it,) Their positions in `index`, ascending; the columns have the same order.
        run: Polls in a row with the same result of the rule, negative where it does not hold.
        on: Whether it is active.
        since: When it began, by the rule as it began to hold; NaN where it neither holds nor is active.
        left_since, left_at: When it last began and ended: it goes on from there if it comes back soon.
        last: When an event last happened.
    """

    index: Index[object] = field(default_factory=Index.empty)
    at: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    run: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    on: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    since: Column = field(default_factory=lambda: np.empty(0))
    left_since: Column = field(default_factory=lambda: np.empty(0))
    left_at: Column = field(default_factory=lambda: np.empty(0))
    last: Column = field(default_factory=lambda: np.empty(0))

    def advance(self, index: Index[object]) -> "Debounce":
        """Return the condition with its positions in another index; rows that this index lacks are forgotten."""
        if index is self.index:
            return self
        positions = index.positions(self.index.keys[self.at])
        remaining = np.flatnonzero(positions >= 0)
        return self._only(remaining, index, positions[remaining])

    def _only(
        self, rows: Positions | Mask, index: Index[object], positions: Positions
    ) -> "Debounce":
        """Return the condition with only some of its rows, whose positions in `index` are `positions`."""
        columns = [getattr(self, name)[rows] for name in COLUMNS]
        return Debounce(index, positions, *columns)

    def active(self) -> tuple[Positions, Column]:
        """Return the positions at which it is active, and since when."""
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
        """Return the condition after one more poll, without the rows that no longer need to be remembered.

        It is raised where `POLLS` polls in a row agree that it holds, and cleared where as many agree that it does not.
        A row is remembered while the condition is active there, or may become so at the next poll, or may come back
        (`Constants.rejoin`).

        Args:
            holds: The positions at which the rule says that it holds.
            begins: Since when it holds there; NaN: since this poll.
            now: The time of the poll.
            constants: The times that operators may change.
            event: It needs no second poll, neither to be raised nor to be cleared, and is shown for a while.
            for_elapsed: Whether it may be raised there at this poll, if the poll before agrees; None: everywhere.
        """
        if not len(holds) and not len(self.at):
            return self
        before = self._with(holds)
        size = len(before.at)
        rows = np.searchsorted(before.at, holds)
        now_holds = np.zeros(size, np.bool_)
        now_holds[rows] = True
        begin = np.full(size, now)
        begin[rows] = np.where(np.isnan(begins), now, begins)
        may_be_raised = np.ones(size, np.bool_)
        if for_elapsed is not None:
            may_be_raised[rows] = for_elapsed
        needed_polls = POLLS
        last = before.last
        if event:
            needed_polls = 1
            last = np.where(now_holds, now, last)
            now_holds |= before.on & (now - last <= constants.event)
        on, run = before._decided(now_holds, may_be_raised, needed_polls)  # noqa: SLF001
        judged = before._after(on, run, begin, now, constants.rejoin)  # noqa: SLF001
        judged = replace(judged, last=last)
        return judged._remembered(now, constants.rejoin)  # noqa: SLF001

    def _decided(
        self, holds: Mask, may_be_raised: Mask, needed_polls: int
    ) -> tuple[Mask, NDArray[np.int64]]:
        """Return where it is active after one more poll, and for how many polls in a row the rule said the same.

        As in the attribute `run`, polls at which it did not hold in a row are a negative number.
        """
        polls_true = np.maximum(self.run, 0) + 1
        polls_false = np.minimum(self.run, 0) - 1
        run = np.where(holds, polls_true, polls_false)
        is_raised = (run >= needed_polls) & may_be_raised
        is_cleared = run <= -needed_polls
        return is_raised | (self.on & ~is_cleared), run

    def _after(
        self, on: Mask, run: NDArray[np.int64], begin: Column, now: float, rejoin: float
    ) -> "Debounce":
        """Return the condition with its times after one more poll.

        Args:
            on: Where it is active now.
            run: As the attribute, now.
            begin: When it began by the rule, if it began at this poll.
            now: The time of the poll.
            rejoin: A condition that comes back within so many seconds is the same one: it keeps its earlier begin.
        """
        is_raised = on & ~self.on
        is_cleared = self.on & ~on
        # It began with the first of the polls that must agree, not with the last.
        has_begun = self.on | (run > 1)
        begin = np.where(has_begun, self.since, begin)
        comes_back = is_raised & (now - self.left_at <= rejoin)
        earlier_begin = np.fmin(begin, self.left_since)
        begin = np.where(comes_back, earlier_begin, begin)
        return Debounce(
            index=self.index,
            at=self.at,
            run=run,
            on=on,
            since=np.where(on | (run > 0), begin, np.nan),
            left_since=np.where(is_cleared, self.since, self.left_since),
            left_at=np.where(is_cleared, now, self.left_at),
            last=self.last,
        )

    def _remembered(self, now: float, rejoin: float) -> "Debounce":
        """Return the condition without the rows that no longer matter, as `judge` says. now, rejoin: as in `_after`."""
        may_come_back = now - self.left_at <= rejoin
        matters = self.on | (self.run > 0) | may_come_back
        if matters.all():
            return self
        return self._only(matters, self.index, self.at[matters])

    def _with(self, wanted: Positions) -> "Debounce":
        """Return the condition with rows for these positions, too; a new row has the values of `COLUMNS`."""
        if (positions(self.at, wanted) >= 0).all():
            return self
        union = np.union1d(self.at, wanted)
        rows_before = np.searchsorted(union, self.at)
        columns: list[NDArray[Any]] = []
        for name, fill in COLUMNS.items():
            column = getattr(self, name)
            values = np.full(len(union), fill, column.dtype)
            values[rows_before] = column
            columns.append(values)
        return Debounce(self.index, union, *columns)


def advance_conditions(
    before: Mapping[str, Debounce], poll: RuleInputs, resumed_at: float
) -> dict[str, Debounce]:
    """Return the conditions of this kind of broker after one more poll, by name.

    Left out are conditions without a rule over rows, and those that need the numbers of each consumer where this
    version of the broker shows none.

    resumed_at: The last poll before the restart of the agent, else NaN.
    """
    never = Debounce()
    after: dict[str, Debounce] = {}
    for name, condition in for_kind(poll.broker.kind.name).items():
        has_numbers = poll.found.counted or not condition.by_consumer
        if condition.rule is not None and has_numbers:
            after[name] = advance_one(
                before.get(name, never), condition, condition.rule, poll, resumed_at
            )
    return after


THE_BROKER: Index[None] = Index.of([None])
"""The one row of a broker's conditions."""


def rows_of(
    scope: Scope, queues: Index[object], consumers: Index[object]
) -> Index[object]:
    """Return the rows that a condition of this scope may have."""
    rows = {Scope.BROKER: THE_BROKER, Scope.QUEUE: queues, Scope.CLIENT: consumers}
    return rows[scope]


def advance_one(
    before: Debounce,
    condition: Condition,
    rule: Rule,
    poll: RuleInputs,
    resumed_at: float,
) -> Debounce:
    """Return one condition after one more poll. resumed_at: as in `advance_conditions`."""
    facts = poll.found
    raised = poll.of(rule)
    debounce = before.advance(
        rows_of(condition.scope, facts.queues, facts.consumer.index)
    )
    has_nothing_to_judge = not len(debounce.at) and not raised.mask.any()
    if has_nothing_to_judge:  # nearly all conditions, at nearly all polls
        return debounce
    mask = unsilenced(raised, condition, poll)
    if condition.stays is not None or looks_back_too_far(condition, poll, resumed_at):
        mask = with_staying(mask, condition, debounce, poll)
    holds = np.flatnonzero(mask)
    since = np.full(len(holds), facts.now)
    if raised.since is not None:
        since = raised.since[holds]
    for_elapsed = None  # the condition may be raised everywhere, at once
    if raised.lasting is not None:
        for_elapsed = longer(since, facts.now, raised.lasting[holds])
    return debounce.judge(
        holds,
        since,
        facts.now,
        poll.constants,
        event=condition.event,
        for_elapsed=for_elapsed,
    )


def unsilenced(raised: Raised, condition: Condition, poll: RuleInputs) -> Mask:
    """(rows,) Where the rule is true, and no rule that explains the same is true at this poll."""
    mask = raised.mask
    for other in condition.silenced_by:
        if other.rule is not None:
            mask = mask & ~poll.of(other.rule).mask
    return mask


def with_staying(
    mask: Mask, condition: Condition, debounce: Debounce, poll: RuleInputs
) -> Mask:
    """(rows,) Where the rule holds, and where the condition is active and must not be cleared yet.

    A condition with a rule `stays` is not cleared where that rule holds; one without is not cleared at all.
    """
    mask = mask.copy()
    active, _ = debounce.active()
    if condition.stays is None:
        mask[active] = True
    else:
        mask[active] |= condition.stays(poll)[active]
    return mask


def looks_back_too_far(
    condition: Condition, poll: RuleInputs, resumed_at: float
) -> bool:
    """Return whether the agent has seen less than the condition's window since its restart.

    Until it has seen more, a condition that was active stays so.
    """
    if condition.window is None:
        return False
    interval = poll.found.interval
    needed = condition.window(poll.constants, interval) + 2 * interval
    return bool(poll.found.now - resumed_at < needed)


def blockers(
    debounced: Mapping[str, Debounce], poll: RuleInputs
) -> tuple[tuple[int, str], ...]:
    """Return the connections at their flow limit, each with the client that uses it up, from the active conditions."""
    pairs: list[tuple[int, str]] = []
    for name, condition in for_kind(poll.broker.kind.name).items():
        if condition.blockers is not None and name in debounced:
            active, _ = debounced[name].active()
            pairs += condition.blockers(poll, active)
    return tuple(pairs)
