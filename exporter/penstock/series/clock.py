"""Two clocks: the broker's and the agent's.

The broker states times by its own clock. They are shown by the agent's: corrected by the skew, the smoothed difference
of the two.
"""

from dataclasses import dataclass, field

import numpy as np

from penstock.model import Broker, Process

SMOOTHING = 0.3
"""The weight of a new measurement of the skew; the weight of those before is the rest."""
STEP_SECONDS = 0.25
"""A smaller change of skew moves no time that is shown: idle rows must not change from poll to poll."""
JITTER_SECONDS = 1.0
"""A start that differs by less from the one known is the same start, read at another moment."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The difference between the broker's clock and the agent's.

    Attributes:
        skew: Broker minus agent in seconds, smoothed; NaN where the broker shows no clock.
        applied: The skew by which times are corrected.
        start: When the broker started, by the agent's clock.
        process: The process that started then.
    """

    skew: float = np.nan
    applied: float = 0.0
    start: float = np.nan
    process: Process = field(default_factory=Process)

    def advance(self, broker: Broker, stamp: float, process: Process) -> "Clock":
        """Return the clock after a poll at `stamp` (agent's clock) that was answered by `process`."""
        skew = self._smoothed(broker.clock - stamp)
        has_moved = not np.isnan(skew) and abs(skew - self.applied) > STEP_SECONDS
        applied = skew if has_moved else self.applied
        return Clock(skew, applied, self._start(broker, stamp, process), process)

    def _smoothed(self, measured: float) -> float:
        """Return the skew after one more measurement, which is NaN where the broker showed no clock.

        A measurement that differs by more than jitter replaces the mean: somebody has set one of the clocks.
        """
        if np.isnan(measured):
            return self.skew
        if np.isnan(self.skew) or abs(measured - self.skew) > JITTER_SECONDS:
            return measured
        return (1 - SMOOTHING) * self.skew + SMOOTHING * measured

    def _start(self, broker: Broker, stamp: float, process: Process) -> float:
        """Return when the broker started, by the agent's clock.

        It is measured at each poll, and each result differs a little. The time that was shown before stays for the same
        process while the difference is jitter, and where the broker shows no uptime.
        """
        start = stamp - broker.uptime
        is_same_process = not process.replaces(self.process)
        is_jitter = abs(start - self.start) < JITTER_SECONDS
        is_same_start = is_same_process and is_jitter
        return self.start if np.isnan(start) or is_same_start else start
