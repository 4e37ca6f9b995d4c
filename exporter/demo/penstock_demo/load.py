"""Real clients whose own counts are the truth about what they did. They run beside the caller and end with `close`."""

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import stomp

from penstock_demo.artemis import fetch
from penstock_demo.broker import Endpoint
from penstock_demo.errors import DemoError
from penstock_demo.process import Process

# At DEBUG stomp.py logs the password, at ERROR the traceback of a lost connection, which `trouble` describes better.
logging.getLogger("stomp.py").setLevel(logging.CRITICAL)

_PATIENCE = 10.0  # s, for an answer of the broker
_SENT_HEARTBEAT_MS = 60_000
"""Without heart-beats the broker drops a silent client after 60 s; with them after two that did not come. On a busy
machine a client may be held up for many seconds.
"""
_RECEIVED_HEARTBEAT_MS = 10_000


@dataclass(slots=True)
class Counts:
    """The messages of one client; `last_ack` is time.time() of its last acknowledgement, 0 = none."""

    sent: int = 0
    refused: int = 0
    """Sent, but the broker did not take it (AMQP; a STOMP client is cut off instead)."""
    received: int = 0
    acknowledged: int = 0
    uncommitted: int = 0
    """Acknowledged in a transaction that is still open."""
    returned: int = 0
    """Given back: released or rolled back."""
    last_ack: float = 0.0
    numbers: list[int] = field(default_factory=list, repr=False)
    """The number of each message received, in order."""

    @property
    def in_hand(self) -> int:
        """Received, neither acknowledged nor returned."""
        return self.received - self.acknowledged - self.uncommitted - self.returned

    def arrived(self, text: str) -> None:
        """Count a message; -1 is the number of one that `body` did not make."""
        first = text.partition(" ")[0]
        self.received += 1
        self.numbers.append(int(first) if first.isdigit() else -1)


def body(number: int, size: int) -> str:
    """The text of a message that carries its number, padded to `size` characters."""
    return f"{number} ".ljust(size, "x")


def paced(rate: float, ending: threading.Event) -> Iterator[None]:
    """Yield `rate` times a second until `ending` is set; after a hold-up it goes on without making up for it."""
    gap = 1 / rate
    due = time.monotonic()
    while not ending.wait(max(due - time.monotonic(), 0)):
        yield
        due = max(due + gap, time.monotonic() - gap)


class StompClient(stomp.ConnectionListener):  # type: ignore[misc]
    """One connection, opened at construction. `client_id` is what the broker shows as the client's id."""

    def __init__(self, endpoint: Endpoint, *, client_id: str = "") -> None:
        self.counts = Counts()
        self.trouble = ""
        self._answers: set[str] = set()
        self._changed = threading.Condition()
        self._stomp = stomp.Connection12(
            [(endpoint.host, endpoint.port)],
            heartbeats=(_SENT_HEARTBEAT_MS, _RECEIVED_HEARTBEAT_MS),
            heart_beat_receive_scale=6,  # a frozen broker is what is tested: stay
            reconnect_attempts_max=1,
            auto_content_length=False,  # a text message, not a bytes message
        )
        self._stomp.set_listener("penstock", self)
        headers = {"client-id": client_id} if client_id else {}
        try:
            self._stomp.connect(
                endpoint.account.user, endpoint.account.password, headers=headers
            )
        except (OSError, stomp.exception.StompException) as error:
            raise DemoError(
                f"no STOMP connection to {endpoint.host}:{endpoint.port}: {error!r}"
            ) from None
        try:
            self._await("connected")
        except DemoError:
            self.drop()
            raise

    def close(self) -> None:
        """Leave in good order; unacknowledged messages go back to their queue."""
        if self._stomp.is_connected() and not self.trouble:
            self._stomp.disconnect()  # its receipt ends the connection
            if self._io.is_alive():
                self._io.join(_PATIENCE)
        self.drop()

    def drop(self) -> None:
        """Cut the connection without a word, as a crash does."""
        self._stomp.transport.disconnect_socket()
        if self._io.is_alive():
            self._io.join(_PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _io(self) -> threading.Thread:
        thread: threading.Thread = self._stomp.transport.io_thread
        return thread

    def on_connected(self, _frame: Any) -> None:
        """stomp.py: the broker took the login."""
        self._answered("connected")

    def on_receipt(self, frame: Any) -> None:
        """stomp.py: the broker has carried out a command."""
        self._answered(frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:
        """stomp.py: the broker refused something and ends the connection."""
        self._failed(frame.headers.get("message") or frame.body or "refused")

    def on_disconnected(self) -> None:
        """stomp.py: the connection has ended."""
        self._failed("the connection has ended")

    def _confirmed(
        self, command: Callable[..., None], *arguments: Any, **named: Any
    ) -> None:
        """Send a command and wait until the broker has carried it out."""
        receipt = uuid.uuid4().hex
        command(*arguments, receipt=receipt, **named)
        self._await(receipt)

    def _answered(self, answer: str) -> None:
        with self._changed:
            self._answers.add(answer)
            self._changed.notify_all()

    def _failed(self, trouble: str) -> None:
        with self._changed:
            self.trouble = self.trouble or trouble
            self._changed.notify_all()

    def _await(self, answer: str) -> None:
        with self._changed:
            answered = self._changed.wait_for(
                lambda: answer in self._answers or bool(self.trouble), _PATIENCE
            )
            if answer not in self._answers:
                raise DemoError(
                    f"STOMP: {self.trouble}"
                    if answered
                    else "STOMP: the broker did not answer in time"
                )
            self._answers.discard(answer)


class StompProducer(StompClient):
    """Sends numbered persistent messages to one destination, by call or at a rate."""

    def __init__(
        self,
        endpoint: Endpoint,
        destination: str,
        *,
        client_id: str = "",
        routing_type: str = "ANYCAST",
        size: int = 200,
    ) -> None:
        self._destination = destination
        self._size = size
        self._headers = {"persistent": "true"} | (
            {"destination-type": routing_type} if routing_type else {}
        )
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        super().__init__(endpoint, client_id=client_id)

    def send(
        self,
        count: int = 1,
        *,
        delay_ms: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send `count` messages and wait until the broker has the last; `delay_ms`: scheduled for later."""
        named = {**self._headers, **(headers or {})}
        if delay_ms:
            named["AMQ_SCHEDULED_DELAY"] = str(delay_ms)
        for _ in range(count - 1):
            self._send(named)
        self._confirmed(lambda receipt: self._send({**named, "receipt": receipt}))

    def run(self, rate: float) -> Self:
        """Go on sending `rate` messages a second, until `close`; falls behind when the broker blocks it."""
        self._thread = threading.Thread(
            target=self._run, args=(rate,), name="stomp-producer", daemon=True
        )
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop sending and leave."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE)
        super().close()

    def _run(self, rate: float) -> None:
        for _ in paced(rate, self._ending):
            try:
                self._send(self._headers)
            except (OSError, stomp.exception.StompException) as error:
                self._failed(repr(error))
                return

    def _send(self, headers: Mapping[str, str]) -> None:
        self._stomp.send(
            self._destination, body(self.counts.sent, self._size), headers=dict(headers)
        )
        self.counts.sent += 1


class StompConsumer(StompClient):
    """
    Subscribes to one destination.

    `acknowledge`: each message after `work` seconds; otherwise it holds them, see the method `acknowledge`.
    `durable`: name of a durable subscription (with `routing_type="MULTICAST"` and a client id).
    """

    def __init__(  # noqa: PLR0913 - all optional, by name
        self,
        endpoint: Endpoint,
        destination: str,
        *,
        client_id: str = "",
        routing_type: str = "ANYCAST",
        acknowledge: bool = True,
        work: float = 0.0,
        selector: str = "",
        durable: str = "",
    ) -> None:
        self._held: deque[str] = deque()
        self._acknowledges = acknowledge
        self._work = work
        self._ending = threading.Event()
        super().__init__(endpoint, client_id=client_id)
        headers = {"subscription-type": routing_type} if routing_type else {}
        if selector:
            headers["selector"] = selector
        if durable:
            headers["durable-subscription-name"] = durable
        self._confirmed(self._subscribe, destination, headers)

    def acknowledge(self, count: int) -> None:
        """Acknowledge the `count` oldest messages received and wait until the broker has taken it."""
        for position in range(count):
            message = self._held.popleft()
            if position < count - 1:
                self._ack(message)
            else:
                self._confirmed(self._ack, message)

    def close(self) -> None:
        """Leave; what was not acknowledged goes back to the queue."""
        self._ending.set()
        super().close()

    def on_message(self, frame: Any) -> None:
        """stomp.py: a message."""
        self.counts.arrived(frame.body)
        message = frame.headers["ack"]
        if not self._acknowledges:
            self._held.append(message)
        elif not self._work or not self._ending.wait(self._work):
            self._ack(message)

    def _subscribe(
        self, destination: str, headers: Mapping[str, str], *, receipt: str
    ) -> None:
        named = {**headers, "receipt": receipt}
        self._stomp.subscribe(
            destination, id="1", ack="client-individual", headers=named
        )

    def _ack(self, message: str, *, receipt: str = "") -> None:
        self._stomp.ack(message, receipt=receipt or None)
        self.counts.acknowledged += 1
        self.counts.last_ack = time.time()


class OpenTransaction:
    """
    A JMS client (Core protocol) that consumes one queue in a transaction which it never commits.

    A process of its own, made of the broker's command-line client; it begins to consume shortly after construction.
    STOMP cannot do it: Artemis carries out a STOMP acknowledgement at once even when it names a transaction.
    `folder` gets its log and, for its life, its password.
    """

    def __init__(
        self, endpoint: Endpoint, queue: str, folder: Path, *, client_id: str
    ) -> None:
        self._arguments = folder / f"{client_id}.arguments"
        command = [str(fetch() / "bin" / "artemis"), "consumer", f"@{self._arguments}"]
        self._process = Process(
            f"client {client_id}", command, folder / f"{client_id}.log"
        )
        # In a file, for the command line of a process can be read by every user of the machine.
        self._arguments.touch(mode=0o600)
        self._arguments.write_text("\n".join(self._options(endpoint, queue, client_id)))
        try:
            self._process.start("Consumer ActiveMQQueue")
        except DemoError:
            self.close()
            raise

    def close(self) -> None:
        """End the client; what it consumed goes back to the queue."""
        self._process.stop()
        self._arguments.unlink(missing_ok=True)

    def pause(self) -> None:
        """Freeze the client (SIGSTOP): its connection stays open and silent."""
        self._process.pause()

    def resume(self) -> None:
        """Undo pause."""
        self._process.resume()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _options(endpoint: Endpoint, queue: str, client_id: str) -> list[str]:
        never = "1000000000"
        return [
            # transactionBatchSize=0: each acknowledgement reaches the broker at once
            f"--url=tcp://{endpoint.host}:{endpoint.port}?transactionBatchSize=0",
            f"--user={endpoint.account.user}",
            f"--password={endpoint.account.password}",
            f"--clientID={client_id}",
            f"--destination=queue://{queue}",
            f"--commit-interval={never}",
            f"--message-count={never}",
            "--receive-timeout=-1",
        ]
