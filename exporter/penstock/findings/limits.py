"""The arithmetic of consumer and connection flow control: when delivery stops, when it goes on, how much comes then.

OpenMQ delivers to a consumer until its client buffers as many messages as the *limit*; the client asks for more when no
more than the *resume level* are left. Artemis counts bytes: the *window* of a consumer, and *credits* that its client
gives back. None is a limit that is not there.
"""

import math
from dataclasses import dataclass

DEFAULT_LIMIT = 1000
"""imqConsumerFlowLimit of a client and ConsumerFlowLimit of a destination where no one set them."""
DEFAULT_THRESHOLD = 50
"""imqConsumerFlowThreshold, percent."""
SHARED_LIMIT = 5
"""The limit of each consumer of a shared topic subscription."""
CONNECTION_COUNT = 100
"""imqConnectionFlowCount: messages after which the broker waits until the client has let its acknowledgements pass."""
ARTEMIS_WINDOW = 1024 * 1024
"""consumerWindowSize of a Core client, bytes."""


# --- OpenMQ: one consumer


def effective_limit(client: int, destination: int) -> int | None:
    """Return the limit in force, the lower of the two; None where there is none.

    client: its imqConsumerFlowLimit. destination: its ConsumerFlowLimit, where -1 leaves the limit to the client. 0 is
    no limit, and so is a client's -1.
    """
    limit = client if destination == -1 or client == -1 else min(client, destination)
    return None if limit <= 0 else limit


def resume_level(limit: int, threshold: float) -> int:
    """Return the resume level: the client asks for more when it buffers so many messages or fewer.

    It is a percentage of the limit, but below the limit in any case. threshold: percent, clamped to 0 … 100.
    """
    percent = min(max(threshold, 0), 100)
    level = int(limit * percent / 100)
    return min(level, limit - 1)


@dataclass(frozen=True, slots=True)
class ConsumerWindow:
    """One consumer's buffer of unprocessed messages: delivery stops at `limit`, goes on at `resume` or fewer."""

    limit: int
    resume: int

    @property
    def consumed_before_resume(self) -> int:
        """How many messages of a full buffer the application takes before the client asks for the next batch."""
        return self.limit - self.resume

    @property
    def batch(self) -> tuple[int, int]:
        """The fewest and the most messages that one request asks for: at the resume level, and with an empty buffer."""
        return self.limit - self.resume, self.limit

    def next_batch(self, buffered: int) -> int:
        """Return for how many messages the client asks when it buffers so many; 0 above the resume level."""
        return self.limit - buffered if buffered <= self.resume else 0

    def requests_per_second(self, rate: float) -> float:
        """Return the most requests per second of a consumer that takes `rate` messages per second from a backlog."""
        return rate / self.consumed_before_resume

    @property
    def reserve(self) -> float:
        """The messages from which the application lives while a batch is on its way, at most half of the limit.

        Above that a request asks for so little that the next one follows at once: two of them make up the limit.
        """
        return min(self.resume, self.limit / 2)

    def dry_seconds(self, rate: float, round_trip: float) -> float:
        """Return the seconds without messages in each cycle of a batch.

        rate: messages that it takes per second. round_trip: seconds from a request to the first message.
        """
        return max(0.0, round_trip - self.reserve / rate)

    def throughput(self, rate: float, round_trip: float) -> float:
        """Return the messages per second that a consumer really gets, if it can take `rate`.

        Each cycle brings a batch. It lasts until the batch is taken, and as long again as the buffer is empty.
        """
        batch = self.limit - self.reserve
        return batch / (batch / rate + self.dry_seconds(rate, round_trip))


def threshold_for(limit: int, rate: float, round_trip: float) -> int | None:
    """Return the least threshold, percent, with which the buffer lasts for a round trip; None where none does.

    limit: of the consumer, messages. rate: messages that it takes per second. round_trip: seconds.
    """
    needed = math.ceil(rate * round_trip)
    if needed > limit / 2:
        return None
    percent = math.ceil(100 * needed / limit)
    return percent if resume_level(limit, percent) >= needed else None


# --- OpenMQ: memory and connection


def limit_for_memory(memory: float, message_size: float, consumers: int) -> int:
    """Return the limit of each of some consumers with which all together buffer no more than `memory` bytes.

    0: not even one message fits for each.
    """
    return int(memory // (message_size * consumers))


def connection_limit_for_memory(memory: float, message_size: float, count: int) -> int:
    """Return the limit of a connection with which its client buffers no more than `memory` bytes; at least 1.

    Up to the limit less one are buffered, and a whole `count` more (`ConnectionWindow.most`).
    """
    return max(int(memory // message_size) - count + 1, 1)


@dataclass(frozen=True, slots=True)
class ConnectionWindow:
    """All consumers of a connection together, with imqConnectionFlowLimitEnabled: stops at `limit`, goes on below it.

    The broker asks how many are buffered only after each `count` messages: so many may come beyond the limit.
    """

    limit: int
    count: int

    @property
    def resume(self) -> int:
        """The resume level: delivery goes on with so many buffered messages or fewer, one less than the limit."""
        return self.limit - 1

    @property
    def most(self) -> int:
        """The most messages that are buffered: one less than the limit, and a whole count more."""
        return self.limit - 1 + self.count


# --- Artemis


@dataclass(frozen=True, slots=True)
class CreditWindow:
    """The window of a Core consumer, bytes: credits are given back by halves of it.

    A window of 0 holds nothing in advance (each receive asks for one message), -1 holds without bound.
    """

    window: int

    @property
    def returned(self) -> int:
        """Bytes that are given back at a time."""
        return self.window // 2

    def messages(self, size: float) -> int:
        """Return the most messages of this size that a client buffers: the last one may exceed the window."""
        return math.ceil(self.window / size) if self.window > 0 else 1

    def batch(self, size: float) -> int:
        """Return how many messages of this size one return of credits lets pass, rounded up."""
        return math.ceil(self.returned / size) if self.window > 1 else 1


def window_for_ring(ring: int, message_size: float, consumers: int) -> int:
    """Return the consumerWindowSize, in bytes, with which all consumers together buffer no more than a ring holds.

    0, one message at a time, where the ring has fewer messages than there are consumers.
    """
    return int(ring // consumers * message_size) if ring >= consumers else 0
