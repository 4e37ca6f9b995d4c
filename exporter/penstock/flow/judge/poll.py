"""All that the rules of one poll read, gathered."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.flow.judge.constants import Constants
from penstock.flow.judge.facts import Facts
from penstock.flow.judge.history import History, Returns, Trend
from penstock.flow.judge.holds import Holds
from penstock.flow.judge.ledger import Ledger
from penstock.flow.judge.openmq import Openmq
from penstock.flow.judge.spans import Mask, moved
from penstock.flow.series import ClientSeries, Grouping, QueueSeries
from penstock.model import Broker
from penstock.table import Column, Index


@dataclass(frozen=True, slots=True)
class Spans:
    """
    Per queue, times by the broker's clock: since when nothing moves, messages wait, nobody is there, nothing is
    settled, nothing comes in. had_consumer: one was seen at some poll, or something settled.
    """

    index: Index[Any] = field(default_factory=Index.empty)
    still: Column = field(default_factory=lambda: np.empty(0))
    ready: Column = field(default_factory=lambda: np.empty(0))
    absent: Column = field(default_factory=lambda: np.empty(0))
    unsettled: Column = field(default_factory=lambda: np.empty(0))
    blocked: Column = field(default_factory=lambda: np.empty(0))
    had_consumer: Mask = field(default_factory=lambda: np.empty(0, np.bool_))

    def begun_anew(self) -> "Spans":
        """After a restart of the broker: who was ever read is still known, nothing else."""
        none = np.full(len(self.index), np.nan)
        return Spans(self.index, none, none, none, none, none, self.had_consumer)

    def moved(self, found: Facts) -> "Spans":
        """By the queues of now; a queue in a new life has none."""

        def column(values: Column) -> Column:
            return np.where(found.known, moved(found.queues, self.index, values, np.nan), np.nan)

        return Spans(
            found.queues,
            column(self.still),
            column(self.ready),
            column(self.absent),
            column(self.unsettled),
            column(self.blocked),
            moved(found.queues, self.index, self.had_consumer, False),
        )


@dataclass(frozen=True, slots=True)
class Groups:
    """How the broker's things are shown: the queues' and the clients' series."""

    queues: Grouping[QueueSeries]
    clients: Grouping[ClientSeries]


@dataclass(frozen=True, slots=True)
class Poll:
    """All that the rules of one poll read."""

    found: Facts
    holds: Holds
    spans: Spans
    returns: Returns
    trend: Trend
    ledger: Ledger
    history: History
    constants: Constants
    broker: Broker
    groups: Groups
    client_patience: Column
    """Per consumer; NaN where it is not judged."""
    queue_patience: Column
    """Per queue: the longest of its clients', else cold."""
    dispatch: Column
    absence: Column
    expected: Column
    """Consumers that the operator expects, NaN where nothing is said."""
    closed: Mask
    """Outside of the business hours that the operator gave."""
    at_risk: Column
    pace: Column
    openmq: Openmq | None = None
    """Of an OpenMQ broker."""
    eager: Column = field(default_factory=lambda: np.empty(0))
    """Per consumer: its patience where more than its age speaks against it."""
