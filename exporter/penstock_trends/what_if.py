"""What another setting would have done: the polls of a queue, replayed with another ring, limit, number of consumers or
traffic. Each piece of advice names the outcome that it would have had.

A replay assumes that producers would not have reacted, and that each of more consumers keeps its pace.

A step is the time from one poll to the next, with the messages that came in it and those that consumers could take. A
replay goes from step to step with the number of messages in the queue.
"""

from dataclasses import dataclass, replace
from math import isnan
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]
Mask = NDArray[np.bool_]
Policy = Literal["drop", "block", "page"]
BUSY_POLLS: Final = 50
"""Steps with a pace, from the last of which the pace of the consumers is taken."""
UNSEEN: Final = 3.0
"""Times the usual interval, after which a step between two polls is not replayed."""
RESERVE: Final = 1.1
"""Times the smallest ring that is good enough, which is advised."""
KEPT: Final = 0.999
"""Share of the messages, from which a size is good enough."""
MORE_CONSUMERS: Final = (1.25, 1.5, 2, 3)
"""Times the present number, that are tried."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps from poll to poll of one queue, (steps,) columns.

    Attributes:
        seconds: Length of the step.
        came: Messages that came in it.
        able: Messages that its consumers could take in it.
        depth: Messages before it; NaN where the step goes on from the one before.
    """

    seconds: Series
    came: Series
    able: Series
    depth: Series

    @property
    def days(self) -> float:
        return float(self.seconds.sum()) / 86400


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that is tried.

    Attributes:
        ring: Messages.
        limit: Messages.
        policy: Of a full limit; drop includes FAIL and REJECT_NEWEST, block is
            FLOW_CONTROL; REMOVE_OLDEST is a ring.
        consumers: Times the present number.
        traffic: Times the present traffic.
    """

    ring: float = np.inf
    limit: float = np.inf
    policy: Policy = "drop"
    consumers: float = 1.0
    traffic: float = 1.0

    def limit_if(self, policy: Policy) -> float:
        """The limit if it has this policy; else inf."""
        return self.limit if self.policy == policy else np.inf


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a setting.

    Attributes:
        came: Messages.
        lost: Messages that were evicted, or refused by the limit.
        waited: Seconds that all messages together waited outside of a blocking limit.
        paging: Seconds over a paging limit.
        paged: Most messages over it.
        peak: Most messages in the queue.
        drain: Longest time, in seconds, with more in it than one step takes.
        left: Messages at the end.
    """

    came: float
    lost: float
    waited: float
    paging: float
    paged: float
    peak: float
    drain: float
    left: float


def steps(
    stamp: Series, inc: NDArray[np.int64], added: Series, left: Series, messages: Series
) -> Steps:
    """The steps between polls. Polls of which a number is not known are left out.

    Args:
        stamp: (polls,) Seconds, in any order.
        inc: (polls,) Life of the counters.
        added: (polls,) Counter of all messages that came.
        left: (polls,) Counter of all that left except by eviction.
        messages: (polls,) Message count.
    """
    is_known = np.isfinite(added + left + messages)
    known_rows = np.flatnonzero(is_known)
    by_time = np.argsort(stamp[known_rows], kind="stable")
    order = known_rows[by_time]
    return steps_in_order(
        stamp[order],
        inc[order],
        added[order],
        left[order],
        messages[order],
    )


def steps_in_order(
    stamp: Series, inc: NDArray[np.int64], added: Series, left: Series, messages: Series
) -> Steps:
    """The steps between polls that ascend by time, all of whose numbers are known; arguments: see `steps`."""
    seconds = np.diff(stamp)
    arrived = np.diff(added)
    taken = np.diff(left)
    before = messages[:-1]
    # A counter that fell, or that is of another life, began again: what came meanwhile is not known.
    never_fell = (np.diff(inc) == 0) & (arrived >= 0) & (taken >= 0)
    is_whole = never_fell & is_near(seconds)
    follows_whole = np.concatenate([[False], is_whole])[:-1]
    return Steps(
        seconds=seconds[is_whole],
        came=arrived[is_whole],
        able=capacity(seconds, taken, before, is_whole)[is_whole],
        depth=np.where(follows_whole, np.nan, before)[is_whole],
    )


def is_near(seconds: Series) -> Mask:
    """(steps,) True where a step has a length and is no gap: it is at most UNSEEN times as long as usual."""
    has_length = seconds > 0
    if not has_length.any():
        return has_length
    usual = float(np.median(seconds[has_length]))
    is_short: Mask = seconds <= UNSEEN * usual
    return has_length & is_short


def capacity(seconds: Series, taken: Series, before: Series, is_whole: Mask) -> Series:
    """(steps,) Messages that the consumers could take in each step.

    A step is busy where the queue had more messages before it than the consumers took:
    they never waited for one, so they could take what they took. In other steps they
    could take at least their pace of late, see `recent_pace`.

    Args:
        seconds: (steps,) Length.
        taken: (steps,) Messages that they took.
        before: (steps,) Messages before the step.
        is_whole: (steps,) True for steps that are replayed.
    """
    if not is_whole.any():
        return taken
    is_busy = is_whole & (before > taken)
    # Messages a second in a good step, and in one of the best.
    often, at_best = np.quantile((taken / seconds)[is_whole], [0.9, 0.99])
    # Chosen by the messages before it, not by those taken: these would be slow steps.
    has_enough = before >= 1.5 * often * seconds
    paced = steps_with_pace(is_busy, is_busy & has_enough & (taken > 0))
    pace = at_best
    if len(paced):
        pace = recent_pace(seconds, taken, paced)
    return np.where(
        is_busy,
        taken,
        np.maximum(taken, pace * seconds),
    )


def steps_with_pace(is_busy: Mask, works: Mask) -> NDArray[np.intp]:
    """The numbers of the steps that show a pace, ascending.

    These are steps in which the consumers work, next to another such step, and busy
    steps between two. So a standstill, and the step in which it begins or ends, show
    none.

    Args:
        is_busy: (steps,) True where consumers never waited for a message.
        works: (steps,) True where consumers had enough messages and took some.
    """
    worked_before = np.append(False, works[:-1])
    works_after = np.append(works[1:], False)
    has_neighbour = works & (worked_before | works_after)
    is_between = is_busy & worked_before & works_after
    return np.flatnonzero(has_neighbour | is_between)


def recent_pace(seconds: Series, taken: Series, paced: NDArray[np.intp]) -> Series:
    """(steps,) Messages a second in the last BUSY_POLLS paced steps up to each step.

    Before the first paced step it is the pace of that one.

    paced: the numbers of the steps that show a pace.
    """
    messages = sums_from_0(taken[paced])
    time = sums_from_0(seconds[paced])
    step = np.arange(len(taken))
    paced_so_far = np.searchsorted(paced, step, side="right")
    end = np.clip(paced_so_far, 1, len(paced))
    begin = np.maximum(end - BUSY_POLLS, 0)
    pace: Series = (messages[end] - messages[begin]) / (time[end] - time[begin])
    return pace


def sums_from_0(values: Series) -> Series:
    """(values + 1,) The sum of the values before each number."""
    return np.concatenate(
        [
            [0.0],
            np.cumsum(values),
        ]
    )


def replay(steps: Steps, setting: Setting) -> Outcome:
    """The outcome of a setting: the queue is followed step by step with it. 80,000 steps take 50 ms.

    A limit that drops is a ring; one that blocks keeps messages outside of the queue;
    one that pages loses none, and it is counted how many messages are over it.
    """
    steps = replace(
        steps,
        came=steps.came * setting.traffic,
        able=steps.able * setting.consumers,
    )
    course = course_of(
        steps,
        ring=min(setting.ring, setting.limit_if("drop")),
        gate=setting.limit_if("block"),
    )
    paging_limit = setting.limit_if("page")
    over_limit = [max(depth - paging_limit, 0.0) for depth in course.depth]
    is_paging = np.array(over_limit) > 0
    waited = course.outside * steps.seconds
    paging = steps.seconds * is_paging
    return Outcome(
        came=float(steps.came.sum()),
        lost=total(course.lost),
        waited=total(waited),
        paging=total(paging),
        paged=highest(over_limit),
        peak=highest(course.depth),
        drain=longest_drain(steps, np.array(course.depth)),
        left=course.depth[-1] if course.depth else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a replay, in messages by step.

    Attributes:
        depth: In the queue after the step; an int where it is that of a setting.
        outside: Kept outside of a blocking limit after the step.
        lost: In the step.
    """

    depth: list[float]
    outside: Series
    lost: Series


def course_of(steps: Steps, ring: float, gate: float) -> Course:
    """The course of a queue with a ring, whose producers wait at a gate.

    Args:
        steps: With the traffic and the consumers that are tried.
        ring: Messages beyond which the queue loses some.
        gate: Messages beyond which none gets into the queue.
    """
    depths: list[float] = []
    outsides = []
    losses = []
    depth = 0.0
    outside = 0.0
    rows = zip(
        steps.came.tolist(),
        steps.able.tolist(),
        steps.depth.tolist(),
        strict=True,
    )
    for arriving, able, depth_before in rows:
        if not isnan(depth_before):  # the step does not go on from the one before
            depth = min(depth_before, ring)
            outside = 0.0
        depth += arriving + outside
        depth -= min(depth, able)
        outside = max(depth - gate, 0.0)
        depth -= outside
        losses.append(max(depth - ring, 0.0))
        depth = min(depth, ring)
        depths.append(depth)
        outsides.append(outside)
    return Course(depths, np.array(outsides), np.array(losses))


def longest_drain(steps: Steps, depth: Series) -> float:
    """The longest time, in seconds, with more messages after each step than the consumers could take in it.

    Where a step does not go on from the one before, the time begins again.

    depth: (steps,) Messages after the step.
    """
    is_draining = depth > steps.able
    begins_anew = ~np.isnan(steps.depth)
    longest = 0.0
    drain = 0.0
    rows = zip(
        steps.seconds.tolist(),
        is_draining.tolist(),
        begins_anew.tolist(),
        strict=True,
    )
    for seconds, drains, begins in rows:
        if begins or not drains:
            drain = 0.0
        if drains:
            drain += seconds
            longest = max(longest, drain)
    return longest


def total(values: Series) -> float:
    """The sum, added up one by one (numpy's sum rounds otherwise); 0 without any."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def highest(values: list[float]) -> float:
    """The highest value; 0 without any."""
    return max(values, default=0.0)


@dataclass(frozen=True, slots=True)
class Advice:
    """A better setting.

    Attributes:
        setting: The smallest that is good enough; None where no size helps.
        outcome: Of that setting, or of the largest one.
        now: Outcome of the present setting.
    """

    setting: Setting | None
    outcome: Outcome
    now: Outcome


def better_ring(steps: Steps, present: float) -> Advice | None:
    """The smallest ring that would have lost at most a thousandth, with RESERVE; None where the present one did so.

    It is searched between the present size and the peak without a ring, by halves. No
    size helps where more comes than leaves: without a ring, at least half of the peak
    would still wait at the end.
    """
    now = replay(steps, Setting(ring=present))
    bearable = (1 - KEPT) * now.came
    if now.lost <= bearable:
        return None
    unbounded = replay(steps, Setting())
    if unbounded.left > unbounded.peak / 2:
        return Advice(None, unbounded, now)
    too_small = present
    enough = unbounded.peak
    while enough - too_small > 0.05 * enough:
        size = (too_small + enough) / 2
        if replay(steps, Setting(ring=size)).lost <= bearable:
            enough = size
        else:
            too_small = size
    setting = Setting(ring=float(rounded(RESERVE * enough)))
    return Advice(setting, replay(steps, setting), now)


def better_consumers(steps: Steps, present: float, drain: float) -> Advice | None:
    """The fewest consumers with which no backlog would have lasted longer than `drain` seconds; None where none did.

    At most three times the present number are tried.
    """
    now = replay(steps, Setting())
    if now.drain <= drain:
        return None
    count = max(round(present), 1)
    outcome = now
    for more in numbers_above(count):
        setting = Setting(consumers=more / count)
        outcome = replay(steps, setting)
        if outcome.drain <= drain:
            return Advice(setting, outcome, now)
    return Advice(None, outcome, now)


def numbers_above(count: int) -> list[int]:
    """The numbers of consumers to try, ascending: one more, then MORE_CONSUMERS times as many."""
    numbers = {count + 1}
    numbers |= {int(np.ceil(count * times)) for times in MORE_CONSUMERS}
    return sorted(numbers - {count})


def rounded(value: float) -> int:
    """The value, rounded up to two digits and zeros, as 1300 for 1234."""
    digits = len(str(int(value)))
    unit = 10 ** max(digits - 2, 0)
    return int(-(-value // unit) * unit)
