"""`rejecting`: a full address drops or refuses messages."""

from penstock.causes import limits
from penstock.conditions import openmq
from penstock.conditions.condition import Condition, Raised, Variant, declared
from penstock.conditions.evidence import full_address, full_destination, window
from penstock.observation.activity import PERSISTENT_POLLS
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """A full address that drops or refuses says that it pages, and has no pages."""
    address = poll.found.address
    refuses = (
        (address.limit_percent >= 100) & (address.paging > 0) & (address.pages == 0)
    )
    return Raised(poll.found.judged & refuses)


def openmq_rule(poll: RuleInputs) -> Raised:
    """Messages come in, are counted, and are neither there nor have left; and did not just expire on arrival."""
    mask = poll.found.judged & openmq.accounted(poll, "refuses")
    return Raised(mask, openmq.accounted_since(poll, "refuses"))


REJECTING = Condition(
    rule=rule,
    evidence=full_address,
    decide=limits.refused,
    variants={
        "openmq": Variant(
            rule=openmq_rule,
            evidence=full_destination,
            window=window,
            decide=limits.refused_openmq,
            **declared("rejecting", "openmq", polls=PERSISTENT_POLLS),
        )
    },
    **declared("rejecting"),
)
