"""Every threshold of the alerts. Conditions have been judged already, so most alerts compare with 1 or 2 only."""

from typing import Annotated

from msgspec import Meta, Struct

Duration = Annotated[str, Meta(pattern=r"^([0-9]+(ms|[smhdwy]))+$")]
"""As Prometheus writes it."""


class Thresholds(Struct, frozen=True, forbid_unknown_fields=True):
    """Ratios are 0 to 1, times are Prometheus durations or seconds as named.

    judged_for: `for` of an alert on a condition, which two polls and the client's patience have confirmed before.
    measured_for: `for` of an alert on a number that may cross its threshold for a moment.
    keep_firing: outlasts two minutes of a broker that hangs and a restart of the agent, which both take series away.
    """

    judged_for: Duration = "1m"
    measured_for: Duration = "5m"
    slow_for: Duration = "10m"
    keep_firing: Duration = "5m"
    keep_down: Duration = "2m"

    address_used_ratio: float = 0.9
    disk_of_limit_ratio: float = 0.9
    memory_of_limit_ratio: float = 0.9
    heap_of_limit_ratio: float = 0.9
    heap_window: Duration = "10m"
    """The least in it: between two collections a heap fills up."""
    dead_letters: int = 10
    dead_letters_window: Duration = "15m"
    expired_ratio: float = 0.5
    expired_messages: int = 10
    expired_window: Duration = "15m"
    unrouted_window: Duration = "5m"
    failed_polls_ratio: float = 0.5
    failed_polls_window: Duration = "5m"
    broker_down_for: Duration = "1m"
    broker_down_window: Duration = "2m"
    """Outlasts scrapes that fail."""
    poll_failing_for: Duration = "2m"
    stale_seconds: int = 300
    unwatched_for: Duration = "5m"
    agent_down_for: Duration = "5m"
    agent_seen_window: Duration = "1d"
    agent_jobs: str = ".*penstock.*"
    """Jobs of Prometheus whose targets are agents, also before the first of them came up: a regular expression."""
    two_actives_for: Duration = "3m"
    two_actives_start_seconds: int = 5
    """Start times of one broker as two agents see them differ by less."""
    link_down_for: Duration = "2m"
    dropped_for: Duration = "15m"
    trend_stale_seconds: int = 52 * 3600
    """Two missed runs of a daily job."""
    trend_never_for: Duration = "52h"
    limit_ahead_seconds: int = 7 * 86400
    forecast_window: Duration = "1h"


THRESHOLDS = Thresholds()

BROKERS_OWN = "activemq[.].*|ActiveMQ[.]Advisory[.].*|mq[.].*|[$].*"
"""Addresses to which brokers send notices of their own, whether or not anybody listens: a regular expression."""
