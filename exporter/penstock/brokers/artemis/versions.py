"""Versions of Artemis: which can be read, how far, and what AMQ Broker calls them."""

import re

from penstock.core.errors import BadAnswer, Unsupported

Version = tuple[int, int, int]

OLDEST: Version = (2, 21, 0)
CONSUMER_NUMBERS: Version = (2, 28, 0)
"""Per-consumer counters in listConsumers."""
FULL_ADDRESS_ROWS: Version = (2, 41, 0)
"""listAddresses with numbers; before, only names."""
BLOCKED_ATTRIBUTE: Version = (2, 50, 0)
"""BlockedViaManagement of an address."""

# The vendor's own tables; 2.18 (7.9) is not in them.
_AMQ_BROKER = {
    (2, 16): "7.8",
    (2, 21): "7.10",
    (2, 28): "7.11",
    (2, 33): "7.12",
    (2, 40): "7.13",
}


def parse(text: str) -> Version:
    """The version in `2.44.0`, `2.40.0.redhat-00004`. `Unsupported` where it is too old; `BadAnswer` where the text is
    no version, which says nothing about the version that the broker has.
    """
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise BadAnswer(
            f"the broker returned {text[:40]!r} as its version: it is starting or stopping; poll again"
        )
    version = (int(match[1]), int(match[2]), int(match[3] or 0))
    if version < OLDEST:
        raise Unsupported(
            f"Apache Artemis {text} is too old: Penstock reads 2.21 (AMQ Broker 7.10) and later,"
            " with numbers per consumer from 2.28 (AMQ Broker 7.11) on"
        )
    return version


def product_version(text: str) -> str:
    """`AMQ Broker 7.13` for Red Hat's builds, else empty."""
    if "redhat" not in text:
        return ""
    return f"AMQ Broker {_AMQ_BROKER.get(parse(text)[:2], '')}".rstrip()
