"""`rejecting`: a full address drops or refuses messages."""

from penstock.causes import limits
from penstock.conditions import openmq
from penstock.conditions.condition import Condition, Raised, Scope, Variant
from penstock.conditions.evidence import at_this_poll, full_address, full_destination, window, window_begin
from penstock.conditions.texts import texts
from penstock.model import BrokerKind
from penstock.observation.activity import PERSISTENT_POLLS
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """A full address that drops or refuses says that it pages, and has no pages."""
    address = poll.found.address
    refuses = (address.limit_percent >= 100) & (address.paging > 0) & (address.pages == 0)
    return Raised(poll.found.judged & refuses, at_this_poll(poll))


def openmq_rule(poll: RuleInputs) -> Raised:
    """Messages come in, are counted, and are neither there nor have left; and did not just expire on arrival."""
    return Raised(poll.found.judged & openmq.accounted(poll, "refuses"), window_begin(poll))


REJECTING = Condition(
    name="rejecting",
    scope=Scope.QUEUE,
    rule=rule,
    evidence=full_address,
    decide=limits.refused,
    of_address=True,
    variants={
        BrokerKind.OPENMQ.name: Variant(
            rule=openmq_rule,
            when="messages come in, are counted, and are neither there nor have left: in both halves of the window, at"
            f" {PERSISTENT_POLLS} polls or more, and more than the noise of reading; below the limit not while the dead"
            " message queue takes in as many: those had expired when they came",
            causes={
                "address_full": "the destination is full and its behaviour is REJECT_NEWEST",
                "too_large": "messages are larger than MaxBytesPerMsg",
            },
            action="{rejected:.0f} messages were refused since the agent watches, {ready:.0f} wait, the limit is"
            " {limit:.0f}; those that are not persistent vanish silently",
            evidence=full_destination,
            window=window,
        )
    },
    **texts("rejecting"),
)
