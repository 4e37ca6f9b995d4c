"""Every threshold of the alerts. Conditions have been judged already, so most alerts compare with 1 or 2 only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Ratios are 0 to 1, times are Prometheus durations or seconds as named.

    judged_for: `for` of an alert on a condition, which two polls and the client's patience have confirmed before.
    measured_for: `for` of an alert on a number that may cross its threshold for a moment.
    keep_firing: outlasts two minutes of a broker that hangs and a restart of the agent, which both take series away.
    """

    judged_for: str = "1m"
    measured_for: str = "5m"
    slow_for: str = "10m"
    keep_firing: str = "5m"
    keep_down: str = "2m"

    warning: int = 1
    critical: int = 2

    address_used_ratio: float = 0.9
    disk_of_limit_ratio: float = 0.9
    dead_letters: int = 10
    dead_letters_window: str = "15m"
    unrouted_window: str = "5m"
    failed_polls_ratio: float = 0.5
    failed_polls_window: str = "5m"
    broker_down_for: str = "1m"
    poll_failing_for: str = "2m"
    stale_seconds: int = 300
    agent_down_for: str = "5m"
    agent_seen_window: str = "1d"
    two_actives_for: str = "3m"
    two_actives_start_seconds: int = 5
    """Start times of one broker as two agents see them differ by less."""
    link_down_for: str = "2m"
    dropped_for: str = "15m"
    trend_stale_seconds: int = 52 * 3600
    """Two missed runs of a daily job."""


THRESHOLDS = Thresholds()

BROKERS_OWN = "activemq[.].*|ActiveMQ[.]Advisory[.].*|mq[.].*|[$].*"
"""Addresses to which brokers send notices of their own, whether or not anybody listens: a regular expression."""
