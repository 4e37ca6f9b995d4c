"""`not_dispatching`: messages wait although a free consumer is there."""

from penstock.causes import undelivered as deciding
from penstock.conditions.condition import Alert, Condition, Scope, Variant
from penstock.conditions.connection_paused import CONNECTION_PAUSED
from penstock.conditions.depaging_frozen import DEPAGING_FROZEN
from penstock.conditions.evidence import undelivered
from penstock.conditions.paused import PAUSED
from penstock.conditions.starving import starving
from penstock.model import BrokerKind

NOT_DISPATCHING = Condition(
    name="not_dispatching",
    scope=Scope.QUEUE,
    title="Messages wait although a free consumer is there.",
    rule=starving,
    when="messages wait, nothing is delivered or settled for longer than usual, and a consumer that could take them"
    " holds nothing",
    quiet_on="the standby of an exclusive queue, consumers that all hold something (that is `stalled`), `receive()`"
    " every few minutes once learned, leftovers that no selector wants; a queue that is paused or frozen in depaging,"
    " or that may be non-destructive",
    evidence=undelivered,
    causes={
        "selector": "a selector that matches nothing here",
        "no_credit": "no AMQP credit",
        "not_started": "a connection that is not started",
        "never_receives": "consumerWindowSize=0 (OpenWire: prefetch 0), and receive() is not called",
        "consumers_before_dispatch": "the queue waits for more consumers (consumers-before-dispatch)",
        "groups": "message groups owned by another consumer",
        "exclusive": "an exclusive queue whose one consumer takes none",
        "browser": "a browser, which takes nothing",
        "socket_full": "a socket that cannot be written",
    },
    decide=deciding.decide,
    action="{ready:.0f} messages wait, {consumers:.0f} consumers take none for {age:.0f} s",
    silenced_by=(PAUSED, DEPAGING_FROZEN, CONNECTION_PAUSED),
    by_consumer=True,
    alert=Alert(
        name="PenstockNotDispatching",
        description="{queue.ready} messages of {in_queue} wait, its {queue.consumers} consumers take none.",
        runbook="queues",
    ),
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
)
