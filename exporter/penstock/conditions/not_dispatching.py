"""`not_dispatching`: messages wait although a free consumer is there."""

from penstock.causes import undelivered as deciding
from penstock.conditions.condition import Condition, Scope, Variant
from penstock.conditions.connection_paused import CONNECTION_PAUSED
from penstock.conditions.depaging_frozen import DEPAGING_FROZEN
from penstock.conditions.evidence import undelivered
from penstock.conditions.paused import PAUSED
from penstock.conditions.starving import starving
from penstock.conditions.texts import texts
from penstock.model import BrokerKind

NOT_DISPATCHING = Condition(
    name="not_dispatching",
    scope=Scope.QUEUE,
    rule=starving,
    evidence=undelivered,
    decide=deciding.decide,
    silenced_by=(PAUSED, DEPAGING_FROZEN, CONNECTION_PAUSED),
    by_consumer=True,
    variants={
        BrokerKind.OPENMQ.name: Variant(
            causes={
                "selector": "a selector that matches nothing here",
                "not_started": "a connection that is not started",
                "never_receives": "prefetch is off (imqConsumerFlowLimitPrefetch) and the application does not"
                " call receive()",
                "connection_limit": "the flow limit of the connection, filled by another of its consumers",
            },
            decide=deciding.decide_openmq,
        )
    },
    **texts("not_dispatching"),
)
