"""The rules in words, evidence with its units, advice with its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.flow.judge.conditions import Condition
from penstock.model import BrokerKind

RULES: Mapping[str, str] = {
    "stalled": "a consumer holds messages, has acknowledged none for longer than its client's patience, and none of"
    " them is acknowledged and uncommitted",
    "open_transaction": "a consumer has acknowledged messages without committing them, and settled none for longer"
    " than its client's patience",
    "orphaned": "the broker says that a consumer which got or holds messages is orphaned: its session is gone",
    "redelivery_loop": "messages keep coming back to the queue while deliveries go on: in both halves of the window, at"
    " three polls or more, and more than the noise of reading",
    "churn_without_progress": "consumers of one client come and go for longer than its patience, at least three of them"
    " and more than twice those present, while the queue settles nothing",
    "not_dispatching": "messages wait, nothing is delivered or settled for longer than usual, and a consumer that could"
    " take them holds nothing",
    "no_consumer": "messages wait, nobody is there and nothing is settled, for longer than an absence usually lasts",
    "too_few_consumers": "fewer consumers are there than the configuration expects, while messages wait or come",
    "paused": "the broker says that the queue or its address is paused",
    "depaging_frozen": "the address pages, what is delivered and unacknowledged reaches what the queue may read from"
    " its pages, and nothing moves for 15 s",
    "producers_blocked": "nothing comes in for 15 s while the address is full and does not page, an operator blocks"
    " it, or the broker's disk or memory is full",
    "rejecting": "the address is at its limit and has no pages: its policy drops or refuses messages",
    "ring_losing": "messages were evicted from the ring since the last poll",
    "ring_lost_by_consumer": "more messages were evicted than arrivals can explain, while messages were in delivery",
    "expiring": "messages expire in both halves of the window",
    "dead_lettering": "messages are given up in both halves of the window",
    "falling_behind": "consumers work, and the backlog rises over all four quarters of the trend window, by ten"
    " messages and a tenth of what comes",
    "hoarding": "one consumer holds at least ten messages and four fifths of all, needs half a minute or more for"
    " them, and another has had nothing for 15 s while nothing waits",
    "connection_paused": "messages wait and nothing is delivered for longer than usual, while another consumer of the"
    " same connection holds messages, is not paused by its own limit and gets no more",
    "producer_transaction_open": "messages stand in an open transaction and nothing is settled, or the transaction"
    " itself is old; both for longer than the patience",
    "limit_losing": "the destination is at its limit, its behaviour removes messages, and more than three left that no"
    " consumer let go, or the dead message queue took some in",
    "removed_unsettled": "messages leave that no consumer let go: in both halves of the window, at three polls or more,"
    " and more than the noise of reading",
    "holder_gone": "a consumer went away that had held messages for half a minute or more without settling any, and"
    " they went back to the queue",
    "unknown": "what the rules need was not read, or was seen at fewer than three polls, or queues of this kind are not"
    " judged",
}

ON_OPENMQ: Mapping[str, str] = {
    "open_transaction": "the transaction of a consumer's connection holds acknowledgements and the consumer settled"
    " none for longer than its client's patience, or the broker says for 15 s that the transaction has failed",
    "producers_blocked": "nothing comes in for 15 s while the destination is full and its behaviour is FLOW_CONTROL, or"
    " an operator closed it to producers; or for longer than the patience while it is within a batch of each producer"
    " of its limit",
    "rejecting": "messages come in, are counted, and are neither there nor have left: in both halves of the window, at"
    " three polls or more, and more than the noise of reading",
}
"""Where the rule is another on OpenMQ."""


def rule(condition: Condition, broker: BrokerKind) -> str:
    """What the condition holds by."""
    own = ON_OPENMQ.get(condition.name, "") if broker is BrokerKind.OPENMQ else ""
    return own or RULES.get(condition.name, "")


UNITS: Mapping[str, str] = {
    "held": "messages",
    "uncommitted": "messages",
    "age": "seconds",
    "patience": "seconds",
    "at_risk": "messages",
    "returned": "messages",
    "delivered": "messages",
    "settled": "messages",
    "killed": "messages",
    "consumers_seen": "consumers",
    "consumers": "consumers",
    "dispatch_at": "consumers",
    "expected": "consumers",
    "consumers_needed": "consumers",
    "ready": "messages",
    "rate": "messages/second",
    "rate_in": "messages/second",
    "rate_out": "messages/second",
    "delivering_bytes": "bytes",
    "limit_bytes": "bytes",
    "limit_percent": "percent",
    "evicted": "messages",
    "ring": "messages",
    "lost": "messages",
    "lost_in_all": "messages",
    "growth": "messages",
    "most": "messages",
    "removed": "messages",
    "rejected": "messages",
    "limit": "messages",
    "paused": "consumers",
    "producers": "producers",
    "polls": "polls",
}


def advice(condition: Condition, broker: BrokerKind) -> str:
    """One sentence with the numbers that it rests on."""
    numbers: dict[str, object] = dict(condition.evidence)
    at_risk = condition.evidence.get("at_risk", 0.0)
    numbers["at_risk_text"] = f" and loses {at_risk:.0f} of the ring" if at_risk > 0 else ""
    present, needed = condition.evidence.get("consumers", 0.0), condition.evidence.get("dispatch_at", 0.0)
    numbers["dispatch_text"] = f"; the queue waits for {needed - present:.0f} more" if needed > present else ""
    numbers["paused_text"] = "; the application does not ask for any" if condition.evidence.get("paused", 0.0) else ""
    return condition.kind.advice_on(broker).format_map(_Known(numbers))


class _Known(dict[str, object]):
    def __missing__(self, key: str) -> "_Unknown":
        return _Unknown()


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A number that the broker did not give."""

    def __format__(self, spec: str) -> str:
        return "an unknown number of"
