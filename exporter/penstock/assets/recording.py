"""Recording rules: one number a queue, whatever the number of its brokers and of the agents that watch them."""

from collections.abc import Iterator
from dataclasses import dataclass

_GAUGES = (
    "mq_queue_messages",
    "mq_queue_ready_messages",
    "mq_queue_delivering_messages",
    "mq_queue_scheduled_messages",
    "mq_queue_consumers",
)
_COUNTERS = (
    "mq_queue_messages_added_total",
    "mq_queue_messages_acknowledged_total",
    "mq_queue_messages_removed_total",
    "mq_queue_messages_evicted_total",
)


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule."""

    record: str
    expr: str


def over_brokers(value: str) -> str:
    """
    Sum of a value a queue over the brokers that hold a part of it.

    The maximum by node id first: two agents on one broker, under one name or two, and both brokers of a failover pair
    count once.
    """
    active = 'on (job, instance, broker) group_left (node_id) mq_broker_info{role="active"}'
    return f"sum by (address, queue) (max by (node_id, address, queue) ({value} * {active}))"


def recordings() -> Iterator[Recording]:
    """All, in the order of the file."""
    for name in _GAUGES:
        yield Recording(f"address_queue:{name}:sum", over_brokers(name))
    for name in _COUNTERS:
        rate = f"rate({name}[5m])"
        if "evicted" in name:
            rate = f"sum without (reason) ({rate})"
        yield Recording(f"address_queue:{name.removesuffix('_total')}:rate5m", over_brokers(rate))
