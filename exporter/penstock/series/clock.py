"""Two clocks: the broker's and ours. Times that are shown are the broker's, moved to ours by the smoothed skew."""

from dataclasses import dataclass, field

import numpy as np

from penstock.model import Broker, Process

SMOOTHING = 0.3
STEP_SECONDS = 0.25
"""A smaller change of skew moves no time that is shown: idle rows must not change from poll to poll."""
JITTER_SECONDS = 1.0
"""A start that differs by less from the one known is the same start, read at another moment."""


@dataclass(frozen=True, slots=True)
class Clock:
    """skew: broker minus agent in seconds, smoothed; NaN where the broker shows no clock.
    applied: the skew by which times are corrected. start: start of the broker by the agent's clock. process: whose.
    """

    skew: float = np.nan
    applied: float = 0.0
    start: float = np.nan
    process: Process = field(default_factory=Process)

    def advance(self, broker: Broker, stamp: float, process: Process) -> "Clock":
        measured = broker.clock - stamp
        if np.isnan(measured):
            skew = self.skew
        elif np.isnan(self.skew) or abs(measured - self.skew) > JITTER_SECONDS:
            skew = measured
        else:
            skew = (1 - SMOOTHING) * self.skew + SMOOTHING * measured
        applied = (
            skew
            if not np.isnan(skew) and abs(skew - self.applied) > STEP_SECONDS
            else self.applied
        )
        return Clock(skew, applied, self._start(broker, stamp, process), process)

    def _start(self, broker: Broker, stamp: float, process: Process) -> float:
        start = stamp - broker.uptime
        same = (
            not process.replaces(self.process)
            and abs(start - self.start) < JITTER_SECONDS
        )
        return self.start if same or np.isnan(start) else start
