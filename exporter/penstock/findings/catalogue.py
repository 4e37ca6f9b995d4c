"""All rules of the findings, in the order in which they are shown."""

from penstock.findings.finding import FindingRule
from penstock.findings.rules import (
    connection_count_advised,
    connection_limit_advised,
    consumer_per_message,
    dead_letter_address_unbound,
    expiry_address_unbound,
    flow_limit_exceeds_memory,
    flow_threshold_extreme,
    limit_below_buffer,
    management_guard_off,
    no_dead_letter_address,
    no_expiry_address,
    prefetch_exceeds_queue,
    ring_on_paging_address,
    session_overloaded,
    slow_consumer_policy,
    unlimited_delivery_attempts,
    window_exceeds_ring,
)

RULES: tuple[FindingRule, ...] = (
    ring_on_paging_address.RULE, no_dead_letter_address.RULE, no_expiry_address.RULE,
    dead_letter_address_unbound.RULE, expiry_address_unbound.RULE, unlimited_delivery_attempts.RULE,
    window_exceeds_ring.RULE, slow_consumer_policy.RULE, consumer_per_message.RULE,
    prefetch_exceeds_queue.RULE, management_guard_off.RULE, session_overloaded.RULE,
    flow_threshold_extreme.RULE, flow_limit_exceeds_memory.RULE,
    connection_limit_advised.RULE, connection_count_advised.RULE, limit_below_buffer.RULE,
)  # fmt: skip
