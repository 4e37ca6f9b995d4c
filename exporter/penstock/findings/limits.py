"""The arithmetic of consumer and connection flow control: when delivery stops, when it goes on, how much comes then.

Limits and levels are messages; None is a limit that is not there. Of Artemis they are bytes.
"""

import math
from dataclasses import dataclass

DEFAULT_LIMIT = 1000
"""imqConsumerFlowLimit of a client and ConsumerFlowLimit of a destination where no one set them."""
DEFAULT_THRESHOLD = 50
"""imqConsumerFlowThreshold, percent."""
SHARED_LIMIT = 5
"""The same of the consumers of a shared topic subscription."""
CONNECTION_COUNT = 100
"""imqConnectionFlowCount: messages after which the broker waits until the client has let its acknowledgements pass."""
ARTEMIS_WINDOW = 1024 * 1024
"""consumerWindowSize of a Core client, bytes."""


# --- OpenMQ: one consumer


def effective_limit(client: int, destination: int) -> int | None:
    """The limit in force, from that of the client (imqConsumerFlowLimit) and of the destination (ConsumerFlowLimit).

    The destination's -1 leaves it to the client; 0, and a client's -1, are no limit.
    """
    limit = client if destination == -1 or client == -1 else min(client, destination)
    return None if limit <= 0 else limit


def resume_level(limit: int, threshold: float) -> int:
    """So many buffered messages or fewer let the client ask again; threshold: percent, outside of 0 … 100 clamped."""
    level = int(limit * min(max(threshold, 0), 100) / 100)
    return min(level, limit - 1)


@dataclass(frozen=True, slots=True)
class ConsumerWindow:
    """One consumer's buffer of unprocessed messages: delivery stops at `limit`, goes on at `resume` or fewer."""

    limit: int
    resume: int

    @property
    def consumed_before_resume(self) -> int:
        """Of a full buffer: what the application takes before the next batch is asked for."""
        return self.limit - self.resume

    @property
    def batch(self) -> tuple[int, int]:
        """Least and most that one request asks for: at the resume level, and of an empty buffer."""
        return self.limit - self.resume, self.limit

    def next_batch(self, buffered: int) -> int:
        """What is asked for with so many buffered; 0 above the resume level."""
        return self.limit - buffered if buffered <= self.resume else 0

    def requests_per_second(self, rate: float) -> float:
        """Control messages of a consumer that takes `rate` messages a second from a backlog, at most."""
        return rate / self.consumed_before_resume

    @property
    def reserve(self) -> float:
        """Messages that last while a batch is on its way, at most half of the limit.

        Above that a request asks for so little that the next one follows at once: two of them make up the limit.
        """
        return min(self.resume, self.limit / 2)

    def dry_seconds(self, rate: float, round_trip: float) -> float:
        """Seconds without messages in each cycle, at `rate` a second; round_trip: seconds from asking to the first."""
        return max(0.0, round_trip - self.reserve / rate)

    def throughput(self, rate: float, round_trip: float) -> float:
        """Messages a second that it can really take: each cycle brings a batch and may wait for it."""
        batch = self.limit - self.reserve
        return batch / (batch / rate + self.dry_seconds(rate, round_trip))


def threshold_for(limit: int, rate: float, round_trip: float) -> int | None:
    """The least percentage at which the buffer outlasts a round trip; None where no percentage of this limit does."""
    needed = math.ceil(rate * round_trip)
    if needed > limit / 2:
        return None
    percent = math.ceil(100 * needed / limit)
    return percent if resume_level(limit, percent) >= needed else None


# --- OpenMQ: memory and connection


def limit_for_memory(memory: float, message_size: float, consumers: int) -> int:
    """The consumer limit at which `consumers` of a client fill no more than `memory` bytes; 0: not even one message."""
    return int(memory // (message_size * consumers))


def connection_limit_for_memory(memory: float, message_size: float, count: int) -> int:
    """The connection limit at which no more than `memory` bytes are buffered, with what `count` may add; at least 1."""
    return max(int(memory // message_size) - count + 1, 1)


@dataclass(frozen=True, slots=True)
class ConnectionWindow:
    """All consumers of a connection together, with imqConnectionFlowLimitEnabled: stops at `limit`, goes on below it.

    The client is asked after each `count` messages only, so the last of them may all come on top.
    """

    limit: int
    count: int

    @property
    def resume(self) -> int:
        """So many buffered messages or fewer let it go on: strictly fewer than the limit."""
        return self.limit - 1

    @property
    def most(self) -> int:
        """The most that is buffered: one below the limit, and a whole count more."""
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
        """Of this size, the most that a client buffers: the last one may exceed the window."""
        return math.ceil(self.window / size) if self.window > 0 else 1

    def batch(self, size: float) -> int:
        """Messages that one return of credits lets pass, rounded up."""
        return math.ceil(self.returned / size) if self.window > 1 else 1


def window_for_ring(ring: int, message_size: float, consumers: int) -> int:
    """consumerWindowSize, bytes, at which all consumers together hold no more than a ring does; 0: one at a time."""
    return int(ring // consumers * message_size) if ring >= consumers else 0
