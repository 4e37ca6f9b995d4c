"""All rules of the findings, in the order in which they are shown."""

from penstock.findings.finding import FindingRule
from penstock.findings.rules import addresses, clients, openmq

RULES: tuple[FindingRule, ...] = (
    addresses.ring_on_paging_address, addresses.no_dead_letter_address, addresses.no_expiry_address,
    addresses.dead_letter_address_unbound, addresses.expiry_address_unbound, addresses.unlimited_delivery_attempts,
    clients.window_exceeds_ring, clients.slow_consumer_policy, clients.consumer_per_message,
    clients.prefetch_exceeds_queue, addresses.management_guard_off, clients.session_overloaded,
    openmq.flow_threshold_extreme, openmq.flow_limit_exceeds_memory, openmq.connection_limit_advised,
    openmq.connection_count_advised, openmq.limit_below_buffer,
)  # fmt: skip
