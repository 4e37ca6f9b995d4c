"""How much memory an agent needs, by the number of series that it shows: as measured, see docs/performance.md."""

import math

PROGRAM_MB = 80.0
"""Python, its libraries and a broker of 100 queues."""
SERIES_KB = 0.3
"""Each series more, up to 100,000 queues: what is kept of it, and its part of what a poll needs for a moment."""
SPARE = 0.1
"""Share of the need that a limit should have over it."""
STEP_MIB = 64
"""Limits are multiples of this."""
AGENT_SERIES, SIDECAR_SERIES = 3_750_000, 750_000
"""What the limits of chart and unit, and of the sidecars, hold: 100,000 and 20,000 queues with a consumer each."""


def needed_mb(series: int) -> float:
    """Peak resident memory in MB of an agent that shows so many series, of all its brokers, while it is scraped."""
    return PROGRAM_MB + series * SERIES_KB / 1000


def limit_mib(series: int) -> int:
    """The memory in MiB that a container or unit should be allowed."""
    return math.ceil(needed_mb(series) * (1 + SPARE) * 1e6 / 2**20 / STEP_MIB) * STEP_MIB
