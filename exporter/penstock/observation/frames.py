"""The frames that rules read: queues, consumers and the other things of one poll, each number an array.

`penstock.columns` declares the numbers that brokers send; here are those that Penstock adds.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.columns.addresses import AddressColumns
from penstock.columns.connections import ConnectionColumns
from penstock.columns.consumers import ConsumerColumns
from penstock.columns.producers import ProducerColumns
from penstock.columns.queues import QueueColumns
from penstock.columns.spec import Frame, Unit, derived, kept, kept_mask
from penstock.core.table import Column, Index, Keys, Mask, Positions, take_or_fill
from penstock.model import (
    AddressRow,
    Broker,
    ConnectionRow,
    ConsumerRow,
    ProducerRow,
    QueueRow,
)
from penstock.series.labels import ClientSeries
from penstock.settings.constants import Constants

ResultT = TypeVar("ResultT")
NumberT = TypeVar("NumberT", bound=np.generic)


class Queues(QueueColumns[QueueRow]):
    """Queues as rules see them; columns of shape (queues,)."""

    ready = kept(
        Unit.MESSAGES,
        "Messages that wait for a consumer; NaN where the queue keeps what is acknowledged.",
    )
    settled = kept(
        Unit.MESSAGES,
        "Messages that left because a consumer settled them, since the start of the broker.",
    )
    added_delta = kept(Unit.MESSAGES, "Messages added at this poll.")
    settled_delta = kept(Unit.MESSAGES, "Messages settled at this poll.")
    expired_delta = kept(Unit.MESSAGES, "Messages that expired at this poll.")
    killed_delta = kept(Unit.MESSAGES, "Messages killed at this poll.")
    scheduled_delta = kept(
        Unit.MESSAGES, "Growth of the scheduled messages at this poll."
    )
    evicted_delta = kept(Unit.MESSAGES, "Messages that its ring evicted at this poll.")
    redelivered_delta = kept(
        Unit.MESSAGES,
        "Messages that left buffers at this poll and were neither settled nor removed.",
    )
    is_known = kept_mask(
        "It was there at the last poll, in the same life of its counters."
    )
    is_set_back = kept_mask("An operator has set one of its counters back.")
    is_judged = kept_mask(
        "Conditions are raised on it: it is none of the broker's own."
    )
    is_parked = kept_mask("It holds dead letters or expired messages.")
    is_non_destructive = kept_mask("It keeps what is acknowledged.")
    is_for_one_consumer = kept_mask("One consumer gets all messages.")
    is_closed = kept_mask("It is outside of its business hours now.")

    consumers_listed = kept(Unit.CONSUMERS, "Consumers that the broker lists for it.")
    consumer_joined = kept_mask("A consumer is new at this poll.")
    buffered = kept(Unit.MESSAGES, "Messages that its consumers buffer.")
    acknowledged_uncommitted = kept(
        Unit.MESSAGES,
        "Messages that its consumers acknowledged and have not committed.",
    )
    left_buffers_delta = kept(Unit.MESSAGES, "Messages that left buffers at this poll.")
    delivered_delta = kept(Unit.MESSAGES, "Messages delivered at this poll.")
    expected_consumers = kept(
        Unit.CONSUMERS,
        "Consumers that the operator expects; NaN where the rules do not say.",
    )

    ready_since = kept(Unit.TIMESTAMP, "Since when messages are ready; NaN: none is.")
    idle_since = kept(Unit.TIMESTAMP, "Since when nothing moves; NaN: something does.")
    unattended_since = kept(
        Unit.TIMESTAMP, "Since when it has no consumer; NaN: it has."
    )
    unsettled_since = kept(Unit.TIMESTAMP, "Since when nothing is settled; NaN: it is.")
    no_input_since = kept(Unit.TIMESTAMP, "Since when nothing is added; NaN: it is.")
    is_once_attended = kept_mask(
        "A consumer was seen, or a message settled, at some poll."
    )

    longest_stall_threshold = kept(
        Unit.SECONDS, "The longest stall threshold of its clients."
    )
    delivery_timeout = kept(
        Unit.SECONDS, "How long ready messages may stay undelivered."
    )
    absence_timeout = kept(Unit.SECONDS, "How long it may have no consumer.")

    inflow = kept(
        Unit.MESSAGES_PER_SECOND,
        "Messages that became ready each second, over the trend window.",
    )
    outflow = kept(
        Unit.MESSAGES_PER_SECOND,
        "Messages that were settled each second, over the trend window.",
    )
    is_growing = kept_mask("Its backlog grows by the rule of falling behind.")
    messages_at_risk = kept(
        Unit.MESSAGES,
        "Messages that its ring would evict if all its consumers left now.",
    )

    service_seconds = kept(
        Unit.SECONDS, "Time of a consumer for a message, now; NaN without a backlog."
    )
    usual_service_seconds = kept(
        Unit.SECONDS, "The usual time; learned, else what the best pace so far allows."
    )
    learned_service_seconds = kept(
        Unit.SECONDS, "The usual time, only as learned; NaN where nothing is."
    )
    longest_service_seconds = kept(
        Unit.SECONDS, "The longest time of a day, of 28 days; NaN where none is known."
    )
    is_service_learned = kept_mask("Enough windows with a backlog were seen.")

    expiry_delay_ms = kept(
        Unit.MILLISECONDS, "Expiry delay of its address; negative: none is set."
    )

    @derived(Unit.TIMES)
    def slowdown(self) -> Column:
        """How many times as long as usual a message takes."""
        return self.service_seconds / self.usual_service_seconds


class Consumers(ConsumerColumns[ConsumerRow]):
    """Consumers as rules see them; columns of shape (consumers,).

    Attributes:
        queue: (consumers,) Position of the queue in `Queues`; -1 where it is not known.
        client: (consumers,) Position of the client in `Clients`; -1 for a hidden one.
        connection: (consumers,) Key of the connection; -1 where it is not known.
    """

    left_buffer_delta = kept(
        Unit.MESSAGES, "Messages that left its buffer at this poll."
    )
    delivered_delta = kept(Unit.MESSAGES, "Messages delivered at this poll.")
    uncommitted = kept(
        Unit.MESSAGES,
        "Messages acknowledged and not committed; 0 where the broker does not say.",
    )
    is_new = kept_mask("It was not there at the last poll.")
    is_selective = kept_mask("It has a filter.")

    unacknowledged_since = kept(
        Unit.TIMESTAMP,
        "Since when it buffers messages and has acknowledged none; NaN while it buffers none.",
    )
    settled_at = kept(Unit.TIMESTAMP, "When it last settled a message; NaN for never.")
    known_since = kept(Unit.TIMESTAMP, "When it was first seen.")
    smallest_batch_bytes = kept(
        Unit.BYTES, "The least that it ever settled at one poll; NaN for never."
    )
    service_rate = kept(
        Unit.MESSAGES_PER_SECOND,
        "The most that it settled each second, at one of the last three polls.",
    )
    works_since = kept(
        Unit.TIMESTAMP,
        "Since when it settles without a longer pause; NaN: it does not.",
    )
    stall_threshold = kept(
        Unit.SECONDS, "How long it may settle nothing; NaN for one that is not judged."
    )

    def __init__(
        self,
        index: Index[ConsumerRow],
        columns: Mapping[str, NDArray[np.generic]],
        *,
        queue: Positions,
        client: Positions,
        connection: Keys,
    ) -> None:
        super().__init__(index, columns)
        self.queue = queue
        self.client = client
        # Some versions of the broker list no connections: none is known then.
        is_listed = len(connection) == len(queue)
        self.connection = connection if is_listed else np.full(len(queue), -1, np.int64)

    @derived(Unit.FLAG)
    def is_core(self) -> Mask:
        """Whether it speaks Core."""
        return self.index.column("core", lambda row: row.protocol == "CORE") > 0

    def of_queues(
        self, column: NDArray[NumberT], missing: NumberT | float | bool
    ) -> NDArray[NumberT]:
        """(consumers,) A column of the queues; `missing` where the queue is not known."""
        return take_or_fill(column, self.queue, missing)


class Clients(Frame[ClientSeries]):
    """Clients of a queue as they are shown; columns of shape (clients,)."""

    THING = "client"

    consumers = kept(Unit.CONSUMERS, "Its consumers on the queue.")
    buffered = kept(Unit.MESSAGES, "Messages that its consumers buffer.")
    uncommitted = kept(
        Unit.MESSAGES,
        "Messages that its consumers acknowledged and have not committed.",
    )


class Addresses(AddressColumns[AddressRow]):
    """Addresses as rules see them; columns of shape (addresses,)."""


class Producers(ProducerColumns[ProducerRow]):
    """Producers as rules see them; columns of shape (producers,).

    Attributes:
        connection: (producers,) Key of the connection; -1 where it is not known.
    """

    def __init__(
        self,
        index: Index[ProducerRow],
        columns: Mapping[str, NDArray[np.generic]],
        *,
        connection: Keys,
    ) -> None:
        super().__init__(index, columns)
        self.connection = connection


class Connections(ConnectionColumns[ConnectionRow]):
    """Connections as rules see them; columns of shape (connections,)."""


class Poll(Protocol):
    """One poll, as far as rules may see it: no clock of the agent, no answer of a broker, no metric."""

    @property
    def now(self) -> float:
        """The time of the poll, by the broker's clock."""

    @property
    def interval(self) -> float:
        """Mean seconds between two polls; NaN at the first."""

    @property
    def constants(self) -> Constants:
        """The limits that an operator may set."""

    @property
    def broker(self) -> Broker: ...

    @property
    def queues(self) -> Queues: ...

    @property
    def consumers(self) -> Consumers: ...

    @property
    def clients(self) -> Clients: ...

    @property
    def addresses(self) -> Addresses: ...

    @property
    def producers(self) -> Producers: ...

    @property
    def connections(self) -> Connections: ...

    def shorter_stall_threshold(self, consumers: Mask) -> Column:
        """(consumers,) The stall threshold, seconds; shorter for those in the mask, which show more than silence."""

    def of(self, function: Callable[[Any], ResultT]) -> ResultT:
        """The function's result for this poll, computed once."""
