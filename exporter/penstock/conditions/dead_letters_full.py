"""`dead_letters_full`: the address of dead letters is at its limit: the next ones are stuck, lost, or beyond it."""

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.dead_letters_lost import DEAD_LETTERS_LOST
from penstock.conditions.evidence import full_address
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Where an address has no limit of its own the broker says how full it is itself."""
    found = poll.found
    addresses = poll.snapshot.addresses
    full = found.judged & found.parked & (found.address.limit_percent >= 100)
    if full.any() and addresses is not None:
        own = (addresses["limit_bytes"] > 0) | (addresses["limit_messages"] > 0)
        limited = {
            row.name
            for row in addresses.index.rows[own]
            if row.policy in ("drop", "fail", "block")
        }
        limited &= {row.dead_letter_address for row in found.queues}
        full[full] = [row.address in limited for row in found.queues.rows[full]]
    return Raised(full)


DEAD_LETTERS_FULL = Condition(
    rule=rule,
    evidence=full_address,
    silenced_by=(DEAD_LETTERS_LOST,),
    **declared("dead_letters_full"),
)
