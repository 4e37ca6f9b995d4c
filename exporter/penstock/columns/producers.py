"""Producers: the numbers that brokers send for each."""

from typing import Generic

from penstock.columns.spec import Frame, Kind, Metric, RowT, Unit, measured


class ProducerColumns(Frame[RowT], Generic[RowT]):
    """Columns of shape (producers,), in the order of the stored history."""

    THING = "producer"

    produced = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages that the producer sent since it was created.",
        artemis="listProducers msgSent",
        openmq="getProducerInfo NumMsgs",
        classic="SentCount",
        metric=Metric(
            "mq_client_produced_messages_total",
            help="Messages that the client sent to the address, over all its producers ever"
            " polled.",
            at="producer.produced",
            omits="classic",
        ),
    )
    produced_bytes = measured(
        Kind.COUNT,
        Unit.BYTES,
        "Size of the messages that the producer sent since it was created.",
        artemis="listProducers msgSizeSent",
    )
    created = measured(
        Kind.TIME,
        Unit.TIMESTAMP,
        "When the producer was created.",
        openmq="getProducerInfo CreationTime",
    )
