"""`dead_letters_full`: the address of dead letters is at its limit: the next ones are stuck, lost, or beyond it."""

from penstock.conditions.condition import ARTEMIS, Alert, Condition, Raised, Scope
from penstock.conditions.dead_letters_lost import DEAD_LETTERS_LOST
from penstock.conditions.evidence import at_this_poll, full_address
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Where an address has no limit of its own the broker says how full it is itself."""
    found, addresses = poll.found, poll.snapshot.addresses
    full = found.judged & found.parked & (found.address.limit_percent >= 100)
    if full.any() and addresses is not None:
        own = (addresses["limit_bytes"] > 0) | (addresses["limit_messages"] > 0)
        limited = {row.name for row in addresses.index.rows[own] if row.policy in ("drop", "fail", "block")}
        limited &= {row.dead_letter_address for row in found.queues}
        full[full] = [row.address in limited for row in found.queues.rows[full]]
    return Raised(full, at_this_poll(poll))


DEAD_LETTERS_FULL = Condition(
    name="dead_letters_full",
    scope=Scope.QUEUE,
    title="The address of dead letters is full: the next ones are stuck, lost, or beyond its limit.",
    rule=rule,
    when="the address of dead letters is at its own limit, its policy is DROP, FAIL or BLOCK, and other queues send"
    " their dead letters there",
    quiet_on="addresses that page; those without a limit of their own while the broker is full; dead letters that are"
    " being lost already (dead_letters_lost)",
    evidence=full_address,
    causes={"dead_letter_address_full": "no one empties it, and its address has a limit and does not page"},
    action="{ready:.0f} dead letters fill {limit_percent:.0f} % of the limit. With DROP the next ones are gone, with"
    " FAIL they stay in delivery with no consumer, BLOCK does not stop them: read or remove some, raise the limit, or"
    " have the address page",
    silenced_by=(DEAD_LETTERS_LOST,),
    may_be_critical=False,
    brokers=ARTEMIS,
    alert=Alert(
        name="PenstockDeadLettersFull",
        description="{in_queue} is at the limit of its address with {queue.messages} dead letters; the next ones are"
        " stuck, lost, or beyond it.",
        runbook="queues",
    ),
)
