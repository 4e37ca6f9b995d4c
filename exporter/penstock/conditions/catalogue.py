"""All conditions, in the order of the documentation. A new one is one module and one line here."""

from collections.abc import Mapping
from functools import cache

from penstock.conditions.blocked_by_operator import BLOCKED_BY_OPERATOR
from penstock.conditions.churn_without_progress import CHURN_WITHOUT_PROGRESS
from penstock.conditions.condition import Condition
from penstock.conditions.connection_paused import CONNECTION_PAUSED
from penstock.conditions.crash_looping import CRASH_LOOPING
from penstock.conditions.dead_lettering import DEAD_LETTERING
from penstock.conditions.dead_lettering_unusually import DEAD_LETTERING_UNUSUALLY
from penstock.conditions.dead_letters_full import DEAD_LETTERS_FULL
from penstock.conditions.dead_letters_lost import DEAD_LETTERS_LOST
from penstock.conditions.delivered_to_none import DELIVERED_TO_NONE
from penstock.conditions.depaging_frozen import DEPAGING_FROZEN
from penstock.conditions.disabled import DISABLED
from penstock.conditions.duplicates_dropped import DUPLICATES_DROPPED
from penstock.conditions.expiring import EXPIRING
from penstock.conditions.expiring_unusually import EXPIRING_UNUSUALLY
from penstock.conditions.falling_behind import FALLING_BEHIND
from penstock.conditions.hoarding import HOARDING
from penstock.conditions.holder_gone import HOLDER_GONE
from penstock.conditions.in_doubt import IN_DOUBT
from penstock.conditions.leaking import LEAKING
from penstock.conditions.limit_losing import LIMIT_LOSING
from penstock.conditions.no_consumer import NO_CONSUMER
from penstock.conditions.not_dispatching import NOT_DISPATCHING
from penstock.conditions.open_transaction import OPEN_TRANSACTION
from penstock.conditions.orphaned import ORPHANED
from penstock.conditions.over_budget import OVER_BUDGET
from penstock.conditions.paused import PAUSED
from penstock.conditions.producer_rolls_back import PRODUCER_ROLLS_BACK
from penstock.conditions.producer_silent import PRODUCER_SILENT
from penstock.conditions.producer_transaction_open import PRODUCER_TRANSACTION_OPEN
from penstock.conditions.producers_blocked import PRODUCERS_BLOCKED
from penstock.conditions.purged import MESSAGES_PURGED
from penstock.conditions.redelivery_loop import REDELIVERY_LOOP
from penstock.conditions.rejecting import REJECTING
from penstock.conditions.removed_unsettled import REMOVED_UNSETTLED
from penstock.conditions.ring_losing import RING_LOSING
from penstock.conditions.ring_lost_by_consumer import RING_LOST_BY_CONSUMER
from penstock.conditions.slowed import SLOWED
from penstock.conditions.stalled import STALLED
from penstock.conditions.surge import SURGE
from penstock.conditions.too_few_consumers import TOO_FEW_CONSUMERS
from penstock.conditions.two_actives import TWO_ACTIVES
from penstock.conditions.unaccounted import UNACCOUNTED
from penstock.conditions.unheld import UNHELD
from penstock.conditions.unknown import UNKNOWN
from penstock.conditions.unwanted import UNWANTED_MESSAGES

_ALL = (
    STALLED, OPEN_TRANSACTION, ORPHANED, REDELIVERY_LOOP, CHURN_WITHOUT_PROGRESS, CRASH_LOOPING, LEAKING,
    NOT_DISPATCHING, NO_CONSUMER, TOO_FEW_CONSUMERS, PAUSED, DISABLED, DEPAGING_FROZEN, PRODUCERS_BLOCKED,
    BLOCKED_BY_OPERATOR, REJECTING, UNHELD, DEAD_LETTERS_FULL,
    RING_LOSING, RING_LOST_BY_CONSUMER, EXPIRING, DEAD_LETTERING, DEAD_LETTERS_LOST, DUPLICATES_DROPPED,
    UNWANTED_MESSAGES, PRODUCER_ROLLS_BACK, MESSAGES_PURGED, UNACCOUNTED, SLOWED, FALLING_BEHIND, HOARDING,
    PRODUCER_SILENT, EXPIRING_UNUSUALLY, DEAD_LETTERING_UNUSUALLY, SURGE,
    CONNECTION_PAUSED, PRODUCER_TRANSACTION_OPEN, LIMIT_LOSING, REMOVED_UNSETTLED, IN_DOUBT, DELIVERED_TO_NONE,
    HOLDER_GONE, TWO_ACTIVES, OVER_BUDGET, UNKNOWN,
)  # fmt: skip

CONDITIONS: dict[str, Condition] = {condition.name: condition for condition in _ALL}
"""By name."""


@cache
def for_kind(kind: str) -> Mapping[str, Condition]:
    """Those of one kind of broker, each as it is there."""
    return {name: condition.on(kind) for name, condition in CONDITIONS.items() if condition.exists_on(kind)}


def on(kind: str, name: str) -> Condition:
    """As it is on a kind of broker, also where that kind does not have it."""
    return for_kind(kind).get(name, CONDITIONS[name])
