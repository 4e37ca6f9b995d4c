"""All that the rules of one poll read, gathered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from penstock.core.table import Column
from penstock.core.windows import Mask
from penstock.model import Broker, LeftOut, Snapshot
from penstock.observation.activity import Activity, Returns, Trend
from penstock.observation.buffers import Buffers
from penstock.observation.facts import Facts
from penstock.observation.losses import Losses
from penstock.observation.openmq import Openmq
from penstock.observation.ring import Evictions
from penstock.observation.unacked import QueueTimers, Unacked
from penstock.observation.usual import Usual
from penstock.series.labels import ClientSeries, Grouping, QueueSeries
from penstock.settings.constants import Constants

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Groups:
    """How the broker and its things are shown: its name, the queues' and the clients' series."""

    queues: Grouping[QueueSeries]
    clients: Grouping[ClientSeries]
    broker: str = ""


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """All that the rules of one poll read."""

    snapshot: Snapshot
    found: Facts
    unacked: Unacked
    timers: QueueTimers
    returns: Returns
    trend: Trend
    evictions: Evictions
    activity: Activity
    constants: Constants
    broker: Broker
    groups: Groups
    client_patience: Column
    """Per consumer; NaN where it is not judged."""
    queue_patience: Column
    """Per queue: the longest of its clients', else cold."""
    dispatch: Column
    absence: Column
    usual: Usual
    """What is normal in this hour of the week."""
    expected: Column
    """Consumers that the operator expects, NaN where nothing is said."""
    closed: Mask
    """Outside of the business hours that the operator gave."""
    at_risk: Column
    service_rate: Column
    buffers: Buffers = field(default_factory=Buffers)
    rivals: tuple[str, ...] = ()
    """Other brokers that are active with the same node id."""
    left_out: tuple[LeftOut, ...] = ()
    """What is beyond the broker's budgets."""
    losses: Losses = field(default_factory=Losses)
    """By the account of an Artemis broker."""
    openmq: Openmq | None = None
    """Of an OpenMQ broker."""
    accounted: Mapping[str, Column | Mask] = field(default_factory=dict)
    """What the account says of the queues (OpenMQ)."""
    eager: Column = field(default_factory=lambda: np.empty(0))
    """Per consumer: its patience where more than its age speaks against it."""
    _results: dict[Callable[["RuleInputs"], Any], Any] = field(default_factory=dict)

    def of(self, function: Callable[["RuleInputs"], ResultT]) -> ResultT:
        """What the function says of this poll, computed once."""
        if function not in self._results:
            self._results[function] = function(self)
        result: ResultT = self._results[function]
        return result
