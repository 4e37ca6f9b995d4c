"""`not_dispatching`: messages wait although a free consumer is there."""

from penstock.causes import undelivered as deciding
from penstock.conditions.condition import Condition, Variant, declared
from penstock.conditions.connection_paused import CONNECTION_PAUSED
from penstock.conditions.depaging_frozen import DEPAGING_FROZEN
from penstock.conditions.evidence import undelivered
from penstock.conditions.paused import PAUSED
from penstock.conditions.starving import starving

NOT_DISPATCHING = Condition(
    rule=starving,
    evidence=undelivered,
    decide=deciding.decide,
    silenced_by=(PAUSED, DEPAGING_FROZEN, CONNECTION_PAUSED),
    variants={"openmq": Variant(decide=deciding.decide_openmq, **declared("not_dispatching", "openmq"))},
    **declared("not_dispatching"),
)
