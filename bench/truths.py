"""
Series whose truth is known, for `make bench-conclusions`: what fills up and when, what grows, jumps, stops.

Fixed before anything was tuned on them: shapes marked `own` are not those on which the methods were developed. A change
here makes earlier figures worthless.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]
Random = np.random.Generator
Shape = Callable[[Series], Series]
HOURS_BACK: Final = 90 * 24
HOURS_AHEAD: Final = 200 * 24
LIMIT: Final = 100.0
SEED: Final = 20_261_123


def wandering(random: Random, size: int, memory: float = 0.7) -> Series:
    """Noise of standard deviation 1 that remembers `memory` of the step before."""
    steps = random.standard_normal(size) * np.sqrt(1 - memory**2)
    out = np.empty(size)
    last = float(random.standard_normal())
    for at, step in enumerate(steps.tolist()):
        last = memory * last + step
        out[at] = last
    return out


# --- time to a limit of 100


@dataclass(frozen=True, slots=True)
class Fill:
    """kind: the row of the figures. shape: the level by days from now, without noise. noise: share of the level.
    spoil: what is done to the history that is seen. days: how long the history is. own: a shape beyond the reference's.
    """

    kind: str
    shape: Shape
    noise: float
    meets: bool
    days: int = 90
    spoil: Callable[[Random, Series], Series] | None = None
    own: bool = False

    def history(self, random: Random, now: float = 0.0) -> Series:
        """Hourly levels up to `now` (days), oldest first; NaN where nothing was seen."""
        at = now + np.arange(-self.days * 24 + 1, 1) / 24
        level = self.shape(at)
        seen = np.maximum(level * (1 + self.noise * wandering(random, len(at))), 0.0)
        return seen if self.spoil is None else self.spoil(random, seen)

    def truth(self, now: float = 0.0) -> float:
        """Days from `now` until the level meets the limit; inf: never."""
        ahead = self.shape(now + np.arange(1, HOURS_AHEAD) / 24)
        met = np.flatnonzero(ahead >= LIMIT)
        return (float(met[0]) + 1) / 24 if len(met) else np.inf


def line(days: float, start: float = 10.0, back: float = 90.0) -> Shape:
    """From `start` at `back` days ago up to the limit in `days`."""
    return lambda t: start + (LIMIT - start) * np.maximum(t + back, 0.0) / (back + days)


def doubling(days: float, every: float) -> Shape:
    return lambda t: LIMIT * 2.0 ** ((t - days) / every)


def daily(shape: Shape, depth: float = 0.1) -> Shape:
    """Its highest hour of the day is that of `shape`."""
    return lambda t: shape(t) * (1 + depth * np.sin(2 * np.pi * t)) / (1 + depth)


def weekly(shape: Shape, weekend: float = 0.85) -> Shape:
    return lambda t: shape(t) * np.where(np.floor(t + 3) % 7 >= 5, weekend, 1.0)


def kinked(days: float, ago: float, before: float) -> Shape:
    """To the limit in `days`; until `ago` days ago with `before` times the slope of now."""
    slope = 40.0 / (days + ago)
    return lambda t: (
        LIMIT + slope * np.where(t > -ago, t - days, before * (t + ago) - (days + ago))
    )


def stairs(days: float, every: float) -> Shape:
    smooth = line(days)
    return lambda t: smooth(np.floor(t / every) * every)


def plateau(ago: float, level: float = 85.0, rise: float = 15.0) -> Shape:
    """Rising for `rise` days, flat since `ago` days."""
    return lambda t: level - 50 * np.clip((-ago - t) / rise, 0.0, 1.0)


def saturating(level: float, days: float) -> Shape:
    return lambda t: level * (1 - 0.8 * np.exp(-(t + 90) / days))


def teeth(period: float, low: float, high: float, phase: float = 0.4) -> Shape:
    return lambda t: low + (high - low) * ((t / period + phase) % 1.0)


def step(ago: float, low: float = 40.0, high: float = 85.0) -> Shape:
    return lambda t: np.where(t > -ago, high, low)


def wave(
    period: float, low: float = 50.0, high: float = 90.0, phase: float = 0.0
) -> Shape:
    return lambda t: (
        (low + high) / 2 + (high - low) / 2 * np.sin(2 * np.pi * (t / period + phase))
    )


def holiday(ago: float, for_days: float, low: float, high: float) -> Shape:
    return lambda t: np.where((t > -ago) & (t <= -ago + for_days), low, high)


def gaps(share: float, outage: int) -> Callable[[Random, Series], Series]:
    """`share` of the hours unseen at random, and `outage` hours in a row about half-way."""

    def spoil(random: Random, values: Series) -> Series:
        out = np.where(random.random(len(values)) < share, np.nan, values)
        begin = int(len(values) * random.uniform(0.3, 0.7))
        out[begin : begin + outage] = np.nan
        return out

    return spoil


def dips(random: Random, values: Series) -> Series:
    """Three restarts: a fifth is left for six hours."""
    out = values.copy()
    for begin in random.integers(0, len(values) - 72, 3).tolist():
        out[begin : begin + 6] *= 0.2
    return out


def spikes(random: Random, values: Series) -> Series:
    """Single hours far off, as a compaction or a burst makes them."""
    at = random.integers(0, len(values) - 6, len(values) // 60)
    out = values.copy()
    out[at] *= random.uniform(0.7, 1.25, len(at))
    return out


def fills() -> Iterator[Fill]:
    yield from meeting()
    yield from never()
    yield from own_fills()


def meeting() -> Iterator[Fill]:
    """The reference's kinds that meet the limit."""
    for days in (1, 3, 7, 14, 30, 60, 89):
        for noise in (0.002, 0.01, 0.03):
            yield Fill("linear", line(days), noise, meets=True)
    for ago, days in (
        (3, 3),
        (3, 8),
        (5, 10),
        (10, 10),
        (10, 30),
        (20, 20),
        (30, 60),
        (45, 80),
    ):
        yield Fill("ramp since", line(days, 40.0, ago), 0.01, meets=True)
    yield from (
        Fill("ramp since", line(days, 40.0, ago), 0.03, meets=True)
        for ago, days in ((5, 5), (15, 15))
    )
    for every, days in (
        (10, 5),
        (10, 15),
        (20, 5),
        (20, 20),
        (20, 40),
        (40, 10),
        (40, 30),
        (40, 60),
    ):
        yield Fill("doubling", doubling(days, every), 0.02, meets=True)
    for back, days in ((5, 3), (5, 10), (10, 10), (10, 20), (20, 10), (20, 40)):
        yield Fill("short history", line(days, 30.0, back), 0.01, meets=True, days=back)
    for days in (10, 20, 40):
        yield Fill("season", daily(line(days)), 0.02, meets=True)
        yield Fill("season", weekly(daily(line(days))), 0.02, meets=True)
    yield from (
        Fill("gaps", line(days), 0.01, meets=True, spoil=gaps(0.2, 48))
        for days in (7, 20, 45)
    )
    yield from (
        Fill("restarts", line(days), 0.01, meets=True, spoil=dips)
        for days in (7, 20, 45)
    )
    for days, ago, before in (
        (10, 10, 0.5),
        (20, 15, 0.4),
        (30, 20, 1.8),
        (15, 30, 0.2),
    ):
        yield Fill("kink", kinked(days, ago, before), 0.01, meets=True)
    yield from (
        Fill("stairs", stairs(days, every), 0.01, meets=True)
        for days, every in ((10, 1), (30, 1), (30, 2))
    )


def never() -> Iterator[Fill]:
    """Its kinds that never do."""
    for ago in (3, 5, 10, 20, 40, 60):
        yield Fill("plateau", plateau(ago), 0.01, meets=False)
    yield from (
        Fill("plateau", plateau(ago, 92.0, 30.0), 0.005, meets=False) for ago in (4, 8)
    )
    yield from (
        Fill("saturation", saturating(level, 15.0), 0.01, meets=False)
        for level in (80.0, 95.0)
    )
    for period in (7, 14, 30, 45):
        yield Fill("saw-teeth", teeth(period, 30.0, 85.0), 0.01, meets=False)
        yield Fill("saw-teeth", teeth(period, 20.0, 90.0, 0.75), 0.03, meets=False)
    yield from (
        Fill("step", step(ago), 0.01, meets=False) for ago in (0.5, 1, 2, 4, 10)
    )
    for period in (7, 14, 28):
        yield from (
            Fill("wave", wave(period, phase=phase), 0.01, meets=False)
            for phase in (0.0, 0.1, 0.9)
        )
    yield Fill("holiday", holiday(6, 3, 40.0, 80.0), 0.02, meets=False)
    yield Fill("holiday", holiday(2, 2, 40.0, 80.0), 0.02, meets=False)
    yield from (
        Fill("flat at 99 %", lambda t: 0 * t + 99.0, noise, meets=False)
        for noise in (0.0005, 0.002)
    )


def own_fills() -> Iterator[Fill]:
    """Shapes of our own, never looked at while the method was made."""
    yield from (
        Fill("accelerating", accelerating(days), 0.01, meets=True, own=True)
        for days in (10.0, 30.0)
    )
    for days in (12.0, 35.0):
        base = line(days, 30.0)
        yield Fill("daily clean-up", cleaned_daily(base), 0.01, meets=True, own=True)
        yield Fill("night batch", by_night(base), 0.01, meets=True, own=True)
        yield Fill("spikes", line(days), 0.01, meets=True, spoil=spikes, own=True)
        yield Fill(
            "a third unseen",
            line(days),
            0.02,
            meets=True,
            spoil=gaps(0.33, 96),
            own=True,
        )
        yield Fill(
            "after a fall",
            after_fall(line(days, 30, 25), 25),
            0.01,
            meets=True,
            own=True,
        )
    yield Fill("slow-down", kinked(25.0, 12.0, 4.0), 0.01, meets=True, own=True)
    for period in (3.0, 9.0):
        yield Fill("uneven teeth", uneven(period), 0.01, meets=False, own=True)
    yield from (
        Fill("falling", falling(slope), 0.02, meets=False, own=True)
        for slope in (0.1, 0.4)
    )
    yield Fill(
        "two steps",
        lambda t: 30 + 25.0 * (t > -20) + 30.0 * (t > -6),
        0.02,
        meets=False,
        own=True,
    )
    yield from (
        Fill("drifting", drifting(seed), 0.005, meets=False, own=True)
        for seed in range(3)
    )
    yield Fill(
        "busy month end",
        lambda t: 40 + 45 * np.exp(-(((t + 4) % 30 - 3) ** 2) / 2),
        0.02,
        meets=False,
        own=True,
    )


def accelerating(days: float) -> Shape:
    return lambda t: 20 + 80 * np.clip((t + 90) / (90 + days), 0, None) ** 1.5


def cleaned_daily(shape: Shape) -> Shape:
    return lambda t: shape(t) - 8 * (1 - t % 1.0)


def by_night(shape: Shape) -> Shape:
    """A day's rise within its first four hours."""
    return lambda t: shape(np.floor(t) + np.clip((t % 1.0) * 6, 0, 1))


def after_fall(shape: Shape, ago: float) -> Shape:
    return lambda t: np.where(t > -ago, shape(t), 60.0)


def falling(slope: float) -> Shape:
    return lambda t: 60 - slope * t


def uneven(period: float) -> Shape:
    """Teeth whose length and height differ, each emptied at a height of its own, below the limit."""
    random = np.random.default_rng(SEED + int(period))
    lengths = random.uniform(0.6, 1.5, 400) * period
    ends = np.cumsum(lengths) - 100
    heights = random.uniform(60, 92, 400)

    def shape(t: Series) -> Series:
        number = np.searchsorted(ends, t)
        share = 1 - (ends[number] - t) / lengths[number]
        level: Series = 15 + (heights[number] - 15) * share
        return level

    return shape


def drifting(seed: int) -> Shape:
    """A level that wanders about 70 and comes back, within a week or so."""
    random = np.random.default_rng(SEED + 100 + seed)
    path = 70 + 8 * np.clip(wandering(random, 400 * 24, 0.995), -3, 3)
    hours = np.arange(400 * 24) / 24 - 150
    return lambda t: np.interp(t, hours, path)


# --- traffic by day


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages a day for twelve weeks. growth: share a week. jump: share, `ago` days before the end. own: not one of
    the reference's.
    """

    kind: str
    growth: float = 0.0
    jump: float = 0.0
    ago: int = 0
    noise: float = 0.1
    weekend: float = 0.5
    days: int = 84
    tails: bool = False
    unseen: float = 0.0
    holiday: int = -1
    earlier: float = 0.0
    own: bool = False

    def daily(self, random: Random) -> Series:
        """NaN = unseen."""
        at = np.arange(self.days)
        level = (
            10_000
            * (1 + self.growth) ** (at / 7)
            * np.where(at % 7 >= 5, self.weekend, 1.0)
        )
        level = level * np.where(at >= self.days - self.ago, 1 + self.jump, 1.0)
        level = level * np.where(at >= self.days - self.ago - 30, 1 + self.earlier, 1.0)
        noise = np.exp(self.noise * wandering(random, self.days, 0.3))
        if self.tails:
            noise *= np.where(
                random.random(self.days) < 0.05,
                random.uniform(0.3, 3.0, self.days),
                1.0,
            )
        out = level * noise
        if self.holiday >= 0:
            out[self.days - self.holiday] *= 0.2
        return np.where(random.random(self.days) < self.unseen, np.nan, out)


def growing() -> Iterator[Traffic]:
    for growth in (-0.10, -0.05, -0.03, 0.0, 0.01, 0.02, 0.03, 0.05, 0.10, 0.20):
        yield Traffic(f"{100 * growth:+.0f} % a week", growth)
        yield Traffic(f"{100 * growth:+.0f} % a week", growth, noise=0.2)
    yield Traffic("holiday last week", 0.03, holiday=4)
    yield Traffic("six weeks", 0.05, days=42, own=True)
    yield Traffic("heavy tails", 0.03, tails=True, own=True)
    yield Traffic("a fifth unseen", -0.05, unseen=0.2, own=True)
    yield Traffic("no weekend", 0.02, weekend=0.02, own=True)
    yield Traffic("after a jump", 0.03, jump=0.8, ago=42, own=True)


def jumping() -> Iterator[Traffic]:
    for jump in (0.8, 0.5, 0.3, -0.3, -0.5, -0.8):
        for ago in (3, 5, 7, 10, 20, 40):
            yield Traffic(f"{100 * jump:+.0f} %", jump=jump, ago=ago)
    yield from (
        Traffic("noise 15 %", jump=0.5, ago=ago, noise=0.15, own=True)
        for ago in (4, 9, 30)
    )
    yield from (
        Traffic("with growth", 0.02, jump=0.6, ago=ago, own=True) for ago in (6, 25)
    )
    yield from (
        Traffic("heavy tails", jump=1.0, ago=ago, tails=True, own=True)
        for ago in (8, 30)
    )
    yield from (
        Traffic("some unseen", jump=0.5, ago=ago, unseen=0.1, own=True)
        for ago in (7, 21)
    )
    yield Traffic("second of two", jump=0.6, ago=6, earlier=-0.4, own=True)
    yield Traffic("five weeks", jump=0.5, ago=7, days=35, own=True)


def steady() -> Iterator[Traffic]:
    for growth in (0.0, 0.0, 0.03, -0.03):
        yield from (Traffic("steady", growth, noise=noise) for noise in (0.1, 0.2, 0.3))
    yield Traffic("holiday", holiday=5)
    yield Traffic("heavy tails", tails=True, own=True)
    yield Traffic("doubling in six weeks", 0.12, own=True)


# --- one queue by seconds


@dataclass(frozen=True, slots=True)
class Second:
    """A queue, its consumers and its ring, second by second. came: messages; able: that its consumers could take."""

    came: NDArray[np.int64]
    able: NDArray[np.int64]

    def run(self, ring: float) -> tuple[int, Series, Series, Series]:
        """Messages lost; and at each second added, acknowledged, message count."""
        size = len(self.came)
        left = np.empty(size)
        depth = np.empty(size)
        count = 0.0
        lost = 0
        for at, (came, able) in enumerate(
            zip(self.came.tolist(), self.able.tolist(), strict=True)
        ):
            count += came
            taken = min(count, able)
            count -= taken
            if count > ring:
                lost += int(count - ring)
                count = ring
            left[at], depth[at] = taken, count
        return lost, np.cumsum(self.came).astype(float), np.cumsum(left), depth


def second_worlds(days: int = 4) -> dict[str, Second]:
    """Bursts, a sustained overload for hours, overload by day, and two of our own: stalls, and a slow trickle."""
    random = np.random.default_rng(SEED + 7)
    at = np.arange(days * 86400)
    day = 1 + 0.6 * np.sin(2 * np.pi * at / 86400)
    steady = np.full(len(at), 2.2)
    bursts = 1.2 * day
    for begin in random.integers(0, len(at) - 3600, 6 * days).tolist():
        bursts[begin : begin + int(random.integers(60, 1200))] += random.uniform(5, 30)
    sustained = np.where((at // 3600) % 24 < 5, 3.2, 0.9)
    over_by_day = 2.0 * day
    stalled = steady.copy()
    for begin in random.integers(0, len(at) - 3600, 4 * days).tolist():
        stalled[begin : begin + int(random.integers(120, 2400))] = 0.0
    rates = {
        "bursts": (bursts, steady),
        "sustained": (sustained, steady),
        "overload by day": (over_by_day, steady),
        "stalls (own)": (1.5 * day, stalled),
        "trickle (own)": (0.05 * day, np.where((at // 7200) % 3 == 0, 0.0, 0.12)),
    }
    return {
        name: Second(random.poisson(came), random.poisson(able))
        for name, (came, able) in rates.items()
    }


# --- pace of consumers


@dataclass(frozen=True, slots=True)
class Paced:
    """Hours of a queue with `consumers`, each of which can take `rate` a second; `change`: share over the 60 days."""

    kind: str
    rate: float
    change: float = 0.0
    noise: float = 0.08
    busy: float = 0.06
    gaps: float = 0.0
    scaled: bool = False

    def hours(self, random: Random) -> dict[str, Series]:
        """acknowledged: an hour; consumers; backlog: share of the polls with one. NaN = unseen."""
        size = 60 * 24
        at = np.arange(size)
        consumers = np.where(self.scaled & (at > size // 2), 6.0, 3.0)
        rate = (
            self.rate
            * (1 + self.change * at / size)
            * np.exp(self.noise * random.standard_normal(size))
        )
        backlog = np.where(
            random.random(size) < self.busy, 1.0, random.choice([0.0, 0.0, 0.3], size)
        )
        able = 3600 * rate * consumers
        acknowledged = np.where(
            backlog == 1.0, able, able * random.uniform(0.05, 0.6, size)
        )
        unseen = random.random(size) < self.gaps
        return {
            "acknowledged": np.where(unseen, np.nan, acknowledged),
            "consumers": np.where(unseen, np.nan, consumers),
            "backlog": np.where(unseen, np.nan, backlog),
        }

    @property
    def truth(self) -> float:
        """A second and consumer, at the end."""
        return self.rate * (1 + self.change)


def paces() -> Iterator[Paced]:
    yield from (
        Paced(f"{100 * change:+.0f} %", 2.0, change)
        for change in (0.0, -0.1, -0.2, -0.3, 0.1)
    )
    yield Paced("gaps", 1.0, gaps=0.2)
    yield Paced("twice the consumers", 0.4, scaled=True)
    yield Paced("rarely busy", 5.0, busy=0.02)
