"""The constants of the rules, each with its reason; `cold`, `trend` and `proof` can be configured."""

from dataclasses import dataclass

POLLS = 2
"""In a row that must agree before a condition is raised, and before it is cleared."""


@dataclass(frozen=True, slots=True)
class Constants:
    """Times in seconds."""

    cold: float = 300.0
    """Patience before anything is learned: jobs of minutes are common, a false alarm costs more than minutes."""
    factor: float = 3.0
    """Times the usual: one rare slow job must not alarm."""
    floor: float = 30.0
    floor_polls: float = 3.0
    """A gap below three polls is not measured."""
    cap: float = 3600.0
    """Longer jobs belong in the configuration."""
    decay: float = 0.999
    """Of the weight of older gaps at each new one: half is forgotten in 700."""
    window: float = 60.0
    window_polls: float = 6.0
    """Rates need polls."""
    trend: float = 300.0
    trend_polls: int = 8
    proof: float = 15.0
    """Where the broker says it, or arithmetic proves it."""
    persistent: float = 30.0
    """Least length of a window over which returned messages count as a loop."""
    margin: float = 3.0
    """Messages; beside four times the noise that is measured on the queue itself."""
    noise: float = 4.0
    event: float = 300.0
    """For how long an event is shown."""
    rejoin: float = 60.0
    """A condition that returns within this time goes on as the same."""
    verdicts: float = 60.0
    """For how long what was reported stays when nothing can be judged any more; at least three polls."""
    after_restart: float = 60.0
    """For how long absence and returns are not judged after the broker's start: clients reconnect."""
    churn_ids: int = 3
    """Consumers that came and went; one reconnect is an accident."""

    def window_seconds(self, interval: float) -> float:
        return max(self.window, self.window_polls * interval)

    def trend_seconds(self, interval: float) -> float:
        """One poll more than is needed: they do not come to the millisecond."""
        return max(self.trend, (self.trend_polls + 1) * interval)

    def floor_seconds(self, interval: float) -> float:
        return max(self.floor, self.floor_polls * interval)
