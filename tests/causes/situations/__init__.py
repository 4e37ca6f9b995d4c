"""Situations whose true cause is known, by what they raise: importing this registers them all."""

from causes.situations import (
    absent,
    failing,
    falling_behind,
    full,
    not_dispatching,
    open_transaction,
    stalled,
)

__all__ = [
    "absent",
    "failing",
    "falling_behind",
    "full",
    "not_dispatching",
    "open_transaction",
    "stalled",
]
