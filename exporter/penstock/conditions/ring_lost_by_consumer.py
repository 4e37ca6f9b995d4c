"""`ring_lost_by_consumer`: a consumer went, and its messages did not fit back into the ring."""

from collections.abc import Mapping

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import numbers
from penstock.conditions.wording import KNOBS, NAMES
from penstock.core.formatting import some
from penstock.observation.facts import or_zero
from penstock.observation.poll import RuleInputs

CLOSES: Mapping[str, str] = {
    name: f"{of}: {KNOBS[name]} keeps fewer there"
    for name, of in NAMES["closes"].items()
}
"""What clients do at their close, by protocol, and what keeps fewer messages with them."""


def rule(poll: RuleInputs) -> Raised:
    return Raised(poll.found.judged & (poll.evictions.low > 0))


def who_returned(poll: RuleInputs, queue: int) -> str:
    """The clients that made a ring lose last, with bounds; empty where none is known by name."""
    lost = poll.evictions
    clients = lost.latest.get(int(poll.found.queues.keys[queue]), {})
    if not clients:
        return ""
    least, most = (max(0.0, one[queue]) for one in (lost.low_last, lost.high_last))
    amount = f"{least:.0f}" if least == most else f"{least:.0f} to {most:.0f}"
    together = " together" if len(clients) > 1 else ""
    went = (
        f"{some(sorted(clients), ' and ')} closed, lost the connection or rolled back"
    )
    ways = (CLOSES[protocol] for protocol in sorted(CLOSES.keys() & clients.values()))
    return "; ".join([f"{went}: {amount} messages{together}", *ways])


evidence = numbers(
    lost=lambda poll: or_zero(poll.evictions.by_consumers), evicted="evictions.evicted"
)
"""In all, as the account has it; what went last, and by whom, is in `who_returned`."""
RING_LOST_BY_CONSUMER = Condition(
    rule=rule, evidence=evidence, why=who_returned, **declared("ring_lost_by_consumer")
)
