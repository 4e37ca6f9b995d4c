"""`depaging_frozen`: page files are no longer read because one consumer buffers too much."""

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import nearly, numbers, proof
from penstock.core.table import Mask
from penstock.core.windows import longer
from penstock.observation.facts import Facts
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    lasts = longer(poll.timers.still, poll.found.now, nearly(poll, proof(poll)))
    return Raised(frozen(poll.found) & lasts, poll.timers.still, proof(poll))


def frozen(facts: Facts) -> Mask:
    """So much is delivered and unacknowledged that the queue reads no more pages, and all its consumers starve."""
    address = facts.address
    full = (address.page_read_limit_bytes > 0) & (
        facts.delivering_bytes >= 0.9 * address.page_read_limit_bytes
    )
    many = (address.page_read_limit_messages > 0) & (
        facts.delivering >= address.page_read_limit_messages
    )
    return facts.judged & (address.paging > 0) & (full | many) & (facts.ready > 0)


evidence = numbers(
    delivering_bytes="found.delivering_bytes",
    limit_bytes="found.address.page_read_limit_bytes",
    ready="found.ready",
)
DEPAGING_FROZEN = Condition(rule=rule, evidence=evidence, **declared("depaging_frozen"))
