"""Transactions that are under way (OpenMQ), or prepared (Artemis): their numbers."""

from typing import Generic

from penstock.columns.spec import Frame, Kind, RowT, Unit, measured


class TransactionColumns(Frame[RowT], Generic[RowT]):
    """Columns of shape (transactions,), in the order of the stored history."""

    THING = "transaction"

    messages = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages that were sent in it.",
        openmq="getTransactionInfo NumMsgs",
    )
    acknowledgements = measured(
        Kind.COUNT,
        Unit.MESSAGES,
        "Messages that were acknowledged in it.",
        openmq="getTransactionInfo NumAcks",
    )
    created = measured(
        Kind.TIME,
        Unit.TIMESTAMP,
        "When it was begun.",
        openmq="getTransactionInfo CreationTime",
    )
    state = measured(
        Kind.STATE,
        Unit.NONE,
        "A `TransactionState`.",
        artemis="listPreparedTransactions",
        openmq="getTransactionInfo State",
    )
    distributed = measured(
        Kind.FLAG,
        Unit.FLAG,
        "Whether it is a branch of a distributed (XA) transaction.",
        artemis="listPreparedTransactions",
        openmq="getTransactionInfo XID",
    )
