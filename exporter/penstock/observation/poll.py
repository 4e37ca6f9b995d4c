"""All that the rules of one poll read, gathered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from penstock.core.table import Column, Mask
from penstock.core.windows import Window
from penstock.model import Broker, LeftOut, Snapshot
from penstock.observation.activity import Activity, Returns, Trend
from penstock.observation.buffers import Buffers
from penstock.observation.facts import Facts
from penstock.observation.losses import Evictions, Losses
from penstock.observation.openmq import Openmq
from penstock.observation.unacked import QueueTimers, Unacked
from penstock.observation.usual import Usual
from penstock.series.labels import ClientSeries, Grouping, QueueSeries
from penstock.settings.constants import Constants

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Groups:
    """The queues' and the clients' series, and the broker's name."""

    queues: Grouping[QueueSeries]
    clients: Grouping[ClientSeries]
    broker: str = ""


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """All that the rules of one poll read.

    client_patience: per consumer, NaN where it is not judged; eager: with those of a mask, against which more
    than their age speaks.
    works_since: since when each settles without a longer pause; NaN while it does not. service_window: the last polls
    of the time that consumers need, as `learned.service` has it.
    queue_patience: the longest of its clients', else cold. expected: consumers that the operator expects, NaN where
    nothing is said. closed: outside of the business hours that the operator gave. rivals: other brokers that are active
    with the same node id. left_out: beyond the broker's budgets. losses: by the account of an Artemis broker.
    accounted: the account of an OpenMQ broker, by queue.
    """

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
    queue_patience: Column
    dispatch: Column
    absence: Column
    usual: Usual
    """What is normal in this hour of the week."""
    expected: Column
    closed: Mask
    at_risk: Column
    service_rate: Column
    works_since: Column
    service_window: Window = field(default_factory=Window)
    buffers: Buffers = field(default_factory=Buffers)
    rivals: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    losses: Losses = field(default_factory=Losses)
    openmq: Openmq | None = None
    accounted: Mapping[str, Column | Mask] = field(default_factory=dict)
    eager: Callable[[Mask], Column] = lambda _: np.empty(0)
    _results: dict[Callable[["RuleInputs"], Any], Any] = field(default_factory=dict)

    def of(self, function: Callable[["RuleInputs"], ResultT]) -> ResultT:
        """The function's result for this poll, computed once."""
        if function not in self._results:
            self._results[function] = function(self)
        result: ResultT = self._results[function]
        return result
