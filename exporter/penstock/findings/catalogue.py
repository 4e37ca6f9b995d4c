"""All rules of the findings, in the order in which they are shown."""

from penstock.findings.finding import FindingRule
from penstock.findings.rules import addresses, clients, openmq

RULES: tuple[FindingRule, ...] = (
    addresses.RING_ON_PAGING_ADDRESS, addresses.NO_DEAD_LETTER_ADDRESS, addresses.NO_EXPIRY_ADDRESS,
    addresses.DEAD_LETTER_ADDRESS_UNBOUND, addresses.EXPIRY_ADDRESS_UNBOUND, addresses.UNLIMITED_DELIVERY_ATTEMPTS,
    clients.WINDOW_EXCEEDS_RING, clients.SLOW_CONSUMER_POLICY, clients.CONSUMER_PER_MESSAGE,
    clients.PREFETCH_EXCEEDS_QUEUE, addresses.MANAGEMENT_GUARD_OFF, clients.SESSION_OVERLOADED,
    openmq.FLOW_THRESHOLD_EXTREME, openmq.FLOW_LIMIT_EXCEEDS_MEMORY, openmq.CONNECTION_LIMIT_ADVISED,
    openmq.CONNECTION_COUNT_ADVISED, openmq.LIMIT_BELOW_BUFFER,
)  # fmt: skip
