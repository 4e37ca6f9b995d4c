"""`unwanted`: messages come to a queue's address, and no filter wants them."""

from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import lost, spell, window
from penstock.observation.losses import UNWANTED
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Subscribers of a topic choose what they want: what none of them wants is no surprise."""
    return spell(
        poll,
        UNWANTED,
        poll.found.queues.column("anycast", lambda row: row.routing_type == "anycast")
        > 0,
    )


def why(poll: RuleInputs, queue: int) -> str:
    return f"the filter of the queue is {poll.found.queues.rows[queue].filter}"


UNWANTED_MESSAGES = Condition(
    rule=rule,
    evidence=lost(UNWANTED, share=True),
    why=why,
    window=window,
    **declared("unwanted"),
)
