"""What another setting would have done: the polls of a queue, replayed with another ring, limit, number of consumers or
traffic. Advice is given only with what it would have done.

Assumes that producers would not have reacted, and that consumers in a larger number each keep their pace.
"""

from dataclasses import dataclass
from math import isnan
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]
Policy = Literal["drop", "block", "page"]
BUSY_POLLS: Final = 50
UNSEEN: Final = 3.0
"""Times the usual interval, after which what came between two polls is not replayed."""
RESERVE: Final = 1.1
KEPT: Final = 0.999
"""Of the messages, that a size is good enough for."""


@dataclass(frozen=True, slots=True)
class Steps:
    """From poll to poll of one queue. seconds; came; able: messages that its consumers could take in it; depth: before
    it, NaN where the step goes on from the one before.
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
    """ring, limit: messages. policy: of a full limit; drop includes FAIL and REJECT_NEWEST, block for
    FLOW_CONTROL; REMOVE_OLDEST is a ring. consumers, traffic: times what there was.
    """

    ring: float = np.inf
    limit: float = np.inf
    policy: Policy = "drop"
    consumers: float = 1.0
    traffic: float = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """came, lost (evicted, or refused by the limit): messages. waited: seconds that all messages together waited
    outside of a blocking limit. paging: seconds over a paging limit; paged: most messages over it. peak: most messages
    in it. drain: longest time with more in it than one step takes, seconds. left: messages at the end.
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
    """Of polls in any order: seconds, life of the counters, counters of all that came and of all that left but for
    evictions, message count. NaN where a poll did not say; such polls are left out.
    """
    known = np.isfinite(added + left + messages)
    order = np.flatnonzero(known)[np.argsort(stamp[known], kind="stable")]
    stamp, added, left, messages = (
        column[order] for column in (stamp, added, left, messages)
    )
    seconds = np.diff(stamp)
    came = np.diff(added)
    taken = np.diff(left)
    usual = float(np.median(seconds[seconds > 0])) if (seconds > 0).any() else 0.0
    whole = (
        (np.diff(inc[order]) == 0)
        & (came >= 0)
        & (taken >= 0)
        & (seconds > 0)
        & (seconds <= UNSEEN * usual)
    )
    depth = np.where(np.concatenate([[False], whole])[:-1], np.nan, messages[:-1])
    able = capacity(seconds, taken, messages[:-1], whole)
    return Steps(seconds[whole], came[whole], able[whole], depth[whole])


def capacity(
    seconds: Series, taken: Series, before: Series, whole: NDArray[np.bool_]
) -> Series:
    """What the consumers could take in each step. Where there was more before it than they took, they never waited:
    it is what they took. Else at least what they took in the last such steps, those of a standstill left out.
    """
    busy = whole & (before > taken)
    if not whole.any():
        return taken
    often, at_best = np.quantile((taken / seconds)[whole], [0.9, 0.99])
    # Chosen by what was there, not by what they took: else it would be their slow steps.
    works = busy & (before >= 1.5 * often * seconds) & (taken > 0)
    before_it = np.append(False, works[:-1])
    after_it = np.append(works[1:], False)
    # A standstill, and the step in which it begins or ends, say nothing of the pace.
    at = np.flatnonzero(
        (works & (before_it | after_it)) | (busy & before_it & after_it)
    )
    if not len(at):
        return np.where(busy, taken, np.maximum(taken, at_best * seconds))
    sums = np.concatenate(
        [np.zeros((2, 1)), np.cumsum([taken[at], seconds[at]], axis=1)], axis=1
    )
    end = np.clip(np.searchsorted(at, np.arange(len(taken)), side="right"), 1, len(at))
    messages, time = sums[:, end] - sums[:, np.maximum(end - BUSY_POLLS, 0)]
    return np.where(busy, taken, np.maximum(taken, messages / time * seconds))


def replay(of: Steps, setting: Setting) -> Outcome:
    """One pass over the steps; 80,000 take 50 ms."""
    came = of.came * setting.traffic
    able = of.able * setting.consumers
    ring = min(setting.ring, setting.limit if setting.policy == "drop" else np.inf)
    gate = setting.limit if setting.policy == "block" else np.inf
    edge = setting.limit if setting.policy == "page" else np.inf
    depth = outside = lost = waited = paging = paged = peak = drain = draining = 0.0
    rows = zip(
        of.seconds.tolist(),
        came.tolist(),
        able.tolist(),
        of.depth.tolist(),
        strict=True,
    )
    for seconds, more, could, begin in rows:
        if not isnan(begin):  # it does not go on from the step before
            depth = min(begin, ring)
            outside = 0.0
            draining = 0.0
        depth += more + outside
        depth -= min(depth, could)
        outside = max(depth - gate, 0.0)
        depth -= outside
        waited += outside * seconds
        lost += max(depth - ring, 0.0)
        depth = min(depth, ring)
        peak = max(peak, depth)
        if depth > edge:
            paging += seconds
            paged = max(paged, depth - edge)
        draining = draining + seconds if depth > could else 0.0
        drain = max(drain, draining)
    return Outcome(float(came.sum()), lost, waited, paging, paged, peak, drain, depth)


@dataclass(frozen=True, slots=True)
class Advice:
    """setting: the smallest that keeps what is wanted, None where no size helps; now: with the present one."""

    setting: Setting | None
    outcome: Outcome
    now: Outcome


def better_ring(of: Steps, present: float) -> Advice | None:
    """The smallest ring that would have lost at most a thousandth; None where the present one lost no more than that.

    No size helps where a backlog without a bound would still be there at the end: more comes than leaves.
    """
    now = replay(of, Setting(ring=present))
    unbounded = replay(of, Setting())
    bearable = (1 - KEPT) * now.came
    if now.lost <= bearable:
        return None
    if unbounded.left > unbounded.peak / 2:
        return Advice(None, unbounded, now)
    low = present
    good = unbounded.peak
    while good - low > 0.05 * good:
        size = (low + good) / 2
        low, good = (
            (low, size)
            if replay(of, Setting(ring=size)).lost <= bearable
            else (size, good)
        )
    setting = Setting(ring=float(rounded(RESERVE * good)))
    return Advice(setting, replay(of, setting), now)


def better_consumers(of: Steps, present: float, drain: float) -> Advice | None:
    """So many consumers that no backlog would have lasted longer than `drain` seconds, at most three times as many;
    None where none did.
    """
    now = replay(of, Setting())
    if now.drain <= drain:
        return None
    count = max(round(present), 1)
    outcome = now
    for more in sorted(
        {count + 1, *(int(np.ceil(count * times)) for times in (1.25, 1.5, 2, 3))}
        - {count}
    ):
        outcome = replay(of, Setting(consumers=more / count))
        if outcome.drain <= drain:
            return Advice(Setting(consumers=more / count), outcome, now)
    return Advice(None, outcome, now)


def rounded(value: float) -> int:
    """Up, to two digits."""
    unit = 10 ** max(len(str(int(value))) - 2, 0)
    return int(-(-value // unit) * unit)
