"""Bridges, cluster connections, mirrors and federations: the numbers of each."""

from typing import Generic

from penstock.columns.spec import Frame, Kind, RowT, Unit, measured


class LinkColumns(Frame[RowT], Generic[RowT]):
    """Columns of shape (links,), in the order of the stored history."""

    THING = "link"

    pending = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages that wait to cross the link.",
        artemis="messageCount of its queue",
        metric="mq_link_pending_messages",
    )
    up = measured(
        Kind.FLAG,
        Unit.FLAG,
        "1 while the bridge, cluster connection, mirror or federation is connected, else 0.",
        artemis="Connected, Started, consumerCount of its queue",
        metric="mq_link_up",
    )
    started = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether no operator has stopped it; NaN where the broker does not say.",
        artemis="Started",
    )
