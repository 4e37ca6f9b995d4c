"""Real clients for the tests. AMQP on Qpid Proton here, exact to the message; STOMP and JMS come from the demo."""

import contextlib
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Self

from proton import Delivery, Link, Message, symbol
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import (
    ApplicationEvent,
    Container,
    DurableSubscription,
    EventInjector,
    LinkOption,
    Selector,
)

from penstock_demo.broker import Endpoint
from penstock_demo.load import (
    Counts,
    OpenTransaction,
    StompConsumer,
    StompProducer,
    body,
    paced,
)

__all__ = [
    "AmqpConsumer",
    "AmqpHolder",
    "AmqpProducer",
    "AmqpSendTransaction",
    "AmqpTransaction",
    "ClientError",
    "Counts",
    "OpenTransaction",
    "StompConsumer",
    "StompProducer",
]

_PATIENCE = 10.0  # s, for an answer of the broker

_FAREWELL = 2.0  # s, for a frozen broker to take a leave


class ClientError(Exception):
    """The broker refused something, or did not answer in time."""


class AmqpClient(MessagingHandler):
    """One connection in a thread of its own, open when constructed; `client_id` is its container id."""

    def __init__(self, endpoint: Endpoint, *, client_id: str = "") -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=True)
        self.counts = Counts()
        self.trouble = ""
        self._endpoint = endpoint
        self._calls = EventInjector()
        self._open = threading.Event()
        self._gone = threading.Event()
        self._container = Container(self)
        if client_id:
            self._container.container_id = client_id
        self._thread = threading.Thread(
            target=self._container.run, name="amqp", daemon=True
        )
        self._thread.start()
        if not self._open.wait(_PATIENCE):
            self._failed("the broker did not answer in time")
        if self.trouble:
            self.drop()
            raise ClientError(self.trouble)

    def close(self) -> None:
        """Leave in good order; what is in hand goes back to its queue."""
        self._end(self._connection.close)

    def drop(self) -> None:
        """Cut the connection without a word, as a crash does."""
        self._end(self._cut)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def attach(self) -> Link:
        """Open the link that this client works with; runs in the client's thread."""
        raise NotImplementedError

    # What Proton calls, in the client's thread.

    def on_start(self, _event: Any) -> None:
        self._container.selectable(self._calls)
        self._connection = self._container.connect(
            f"amqp://{self._endpoint.host}:{self._endpoint.port}",
            user=self._endpoint.account.user,
            password=self._endpoint.account.password,
            allowed_mechs="PLAIN",
            reconnect=False,
        )
        self._link = self.attach()

    def on_link_opened(self, event: Any) -> None:
        if event.link == self._link:
            self._open.set()

    def on_link_error(self, event: Any) -> None:
        self._failed(event.link.remote_condition)

    def on_connection_error(self, event: Any) -> None:
        self._failed(event.connection.remote_condition)

    def on_transport_error(self, event: Any) -> None:
        self._failed(event.transport.condition)

    def on_transport_closed(self, _event: Any) -> None:
        self._failed("the connection has ended")
        self._gone.set()

    def on_call(self, event: Any) -> None:
        event.subject()

    # Between the caller's thread and the client's.

    def _do(self, function: Callable[[], None]) -> None:
        """Run a function in the client's thread, where alone Proton may be touched."""
        done: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

        def run() -> None:
            try:
                function()
            except Exception as error:  # noqa: BLE001 - raised at the caller's
                done.put(error)
            else:
                done.put(None)

        self._calls.trigger(ApplicationEvent("call", subject=run))
        try:
            error = done.get(timeout=_PATIENCE)
        except queue.Empty:
            raise ClientError(
                self.trouble or "the client's thread does not answer"
            ) from None
        if error is not None:
            raise error

    def _until(self, holds: Callable[[], bool]) -> None:
        """Wait for the broker's answer to what `_do` sent."""
        deadline = time.monotonic() + _PATIENCE
        while not holds():
            if self.trouble or time.monotonic() > deadline:
                raise ClientError(self.trouble or "the broker did not answer in time")
            time.sleep(0.002)

    def _end(self, leave: Callable[[], None]) -> None:
        if not self._thread.is_alive():
            return
        if not self._gone.is_set():
            self._do(leave)
            if not self._gone.wait(_FAREWELL):
                self._do(self._cut)
        self._calls.close()
        self._thread.join(_PATIENCE)
        for end in self._calls.pipe:
            os.close(end)

    def _cut(self) -> None:
        transport = self._connection.transport
        if transport is None:
            return
        socket = transport._selectable
        transport.close_head()
        transport.close_tail()
        if socket is not None:  # as Proton does at a socket's end of file
            socket.terminate()
            socket.update()
            socket._transport = transport._selectable = None

    def _failed(self, trouble: object) -> None:
        self.trouble = self.trouble or str(trouble or "refused")
        self._open.set()


class AmqpProducer(AmqpClient):
    """Sends numbered durable messages to an address; `counts.sent` is what the broker has accepted."""

    def __init__(
        self,
        endpoint: Endpoint,
        address: str,
        *,
        client_id: str = "",
        topic: bool = False,
        size: int = 200,
    ) -> None:
        self._address = address
        self._capability = "topic" if topic else "queue"
        self._size = size
        self._number = 0
        self._waiting: deque[Message] = deque()
        self._ending = threading.Event()
        self._pace: threading.Thread | None = None
        super().__init__(endpoint, client_id=client_id)

    def send(
        self,
        count: int = 1,
        *,
        delay_ms: int = 0,
        properties: Mapping[str, Any] | None = None,
        wait: bool = True,
        **fields: Any,
    ) -> None:
        """
        Send `count` messages and wait until the broker took them all, unless `wait` is off (a blocked producer).

        `delay_ms`: scheduled for later; `properties`: of the application; `fields`: `priority=9`, `ttl=1.0`.
        """
        for _ in range(count):
            text = body(self._number, self._size)
            message = Message(
                text, durable=True, properties=dict(properties or {}), **fields
            )
            if delay_ms:
                message.annotations = {symbol("x-opt-delivery-delay"): delay_ms}
            self._waiting.append(message)
            self._number += 1
        self._do(self._push)
        if wait:
            self._until(lambda: self.counts.sent + self.counts.refused == self._number)

    def run(self, rate: float) -> Self:
        """Go on sending `rate` messages a second until `close`; never waits for the broker."""
        self._pace = threading.Thread(
            target=self._run, args=(rate,), name="amqp-pace", daemon=True
        )
        self._pace.start()
        return self

    def close(self) -> None:
        self._stop_pace()
        super().close()

    def drop(self) -> None:
        self._stop_pace()
        super().drop()

    def attach(self) -> Link:
        capability = _Capability(self._capability)
        return self._container.create_sender(
            self._connection, self._address, options=capability
        )

    def on_sendable(self, _event: Any) -> None:
        self._push()

    def on_accepted(self, _event: Any) -> None:
        self.counts.sent += 1

    def on_rejected(self, _event: Any) -> None:
        self.counts.refused += 1

    def on_released(self, _event: Any) -> None:
        self.counts.refused += 1

    def _push(self) -> None:
        while self._waiting and self._link.credit > 0:
            self._link.send(self._waiting.popleft())

    def _run(self, rate: float) -> None:
        with contextlib.suppress(ClientError):
            for _ in paced(rate, self._ending):
                self.send(wait=False)

    def _stop_pace(self) -> None:
        self._ending.set()
        if self._pace is not None:
            self._pace.join()


class _TransactionClient(AmqpClient, TransactionHandler):
    """A client with one transaction at a time; `_ended` is set when that is committed or rolled back."""

    _transaction: Any
    _ended: threading.Event

    def on_transaction_declared(self, event: Any) -> None:
        self._transaction = event.transaction

    def on_transaction_declare_failed(self, _event: Any) -> None:
        self._failed("the broker refused a transaction")

    def on_transaction_committed(self, _event: Any) -> None:
        self._ended.set()

    def on_transaction_aborted(self, _event: Any) -> None:
        self._ended.set()

    def on_transaction_commit_failed(self, _event: Any) -> None:
        self._failed("the broker refused the commit")

    def _discharge(self, how: Callable[[], None]) -> None:
        self._ended.clear()
        self._do(how)
        self._until(self._ended.is_set)


class AmqpSendTransaction(_TransactionClient):
    """Sends messages in transactions, one after the other; `counts.sent` is what was committed."""

    def __init__(self, endpoint: Endpoint, address: str) -> None:
        self._address = address
        self._transaction: Any = None
        self._accepted = 0
        self._ended = threading.Event()
        super().__init__(endpoint)

    def send(self, count: int) -> None:
        """In a transaction that stays open."""
        self._accepted = 0
        self._do(self._declare)
        self._until(lambda: self._transaction is not None)
        self._do(lambda: self._send_all(count))
        self._until(lambda: self._accepted == count)

    def commit(self) -> None:
        self._discharge(self._transaction.commit)
        self.counts.sent += self._accepted

    def abort(self) -> None:
        self._discharge(self._transaction.abort)
        self.counts.returned += self._accepted

    def attach(self) -> Link:
        return self._container.create_sender(
            self._connection, self._address, options=_Capability("queue")
        )

    def on_settled(self, _event: Any) -> None:
        self._accepted += 1

    def _declare(self) -> None:
        self._container.declare_transaction(self._connection, handler=self)

    def _send_all(self, count: int) -> None:
        for number in range(count):
            self._transaction.send(self._link, Message(body(number, 200), durable=True))

    def _discharge(self, how: Callable[[], None]) -> None:
        super()._discharge(how)
        self._transaction = None


class AmqpHolder(AmqpClient):
    """
    Receives exactly `credit` messages and holds them, until told to acknowledge or to give back.

    `durable`: name of a durable subscription; `temporary`: of a queue the broker makes for it, see `address`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        address: str = "",
        *,
        credit: int,
        client_id: str = "",
        topic: bool = False,
        selector: str = "",
        durable: str = "",
        temporary: bool = False,
    ) -> None:
        self._source = None if temporary else address
        self._dynamic = temporary
        self._credit = credit
        self._name = durable or None
        self._options: list[LinkOption] = [_Capability("topic" if topic else "queue")]
        if selector:
            self._options.append(Selector(selector))
        if durable:
            self._options.append(DurableSubscription())
        self._held: deque[Delivery] = deque()
        super().__init__(endpoint, client_id=client_id)

    @property
    def address(self) -> str:
        """Where it receives from, as the broker says."""
        return str(self._link.remote_source.address)

    def flow(self, credit: int) -> None:
        """Allow the broker to send `credit` messages more."""
        self._do(lambda: self._link.flow(credit))

    def acknowledge(self, count: int) -> None:
        """Acknowledge the oldest `count` in hand."""
        self._do(lambda: self._update(count, Delivery.ACCEPTED))

    def give_back(self, count: int) -> None:
        """Give the oldest `count` back, as never delivered."""
        self._do(lambda: self._update(count, Delivery.RELEASED))

    def unsubscribe(self) -> None:
        """Close the link; a durable subscription is removed by that."""
        self._do(self._link.close)

    def attach(self) -> Link:
        receiver = self._container.create_receiver(
            self._connection,
            self._source,
            name=self._name,
            dynamic=self._dynamic,
            options=self._options,
        )
        if self._credit:
            receiver.flow(self._credit)
        return receiver

    def on_message(self, event: Any) -> None:
        self.counts.arrived(str(event.message.body))
        self._held.append(event.delivery)
        self.arrived()

    def arrived(self) -> None:
        """A message has come into hand; runs in the client's thread."""

    def _update(self, count: int, state: Any) -> None:
        for _ in range(count):
            delivery = self._held.popleft()
            delivery.update(state)
            delivery.settle()
            if state == Delivery.ACCEPTED:
                self.counts.acknowledged += 1
                self.counts.last_ack = time.time()
            else:
                self.counts.returned += 1


class AmqpConsumer(AmqpHolder):
    """Healthy: acknowledges each message after `work` seconds and asks for the next; `credit` bounds what it holds."""

    def __init__(
        self,
        endpoint: Endpoint,
        address: str,
        *,
        credit: int = 100,
        work: float = 0.0,
        **options: Any,
    ) -> None:
        self._work = work
        self._working = False
        super().__init__(endpoint, address, credit=credit, **options)

    def arrived(self) -> None:
        if not self._work:
            self._next()
        elif not self._working:
            self._working = True
            self._container.schedule(self._work, self)

    def on_timer_task(self, _event: Any) -> None:
        self._working = False
        if self._held and not self._gone.is_set():
            self._next()
            if self._held:
                self.arrived()

    def _next(self) -> None:
        self._update(1, Delivery.ACCEPTED)
        self._link.flow(1)


class AmqpTransaction(AmqpHolder, _TransactionClient):
    """Acknowledges `credit` messages in a transaction that stays open until `commit` or `abort` (then none is open)."""

    def __init__(
        self, endpoint: Endpoint, address: str, *, credit: int, **options: Any
    ) -> None:
        self._transaction: Any = None
        self._ended = threading.Event()
        super().__init__(endpoint, address, credit=credit, **options)

    def commit(self) -> None:
        """Make the acknowledgements final."""
        self._discharge(self._transaction.commit)
        self.counts.acknowledged += self.counts.uncommitted
        self.counts.uncommitted = 0

    def abort(self) -> None:
        """Roll back: the messages return to the queue."""
        self._discharge(self._transaction.abort)
        self.counts.returned += self.counts.uncommitted
        self.counts.uncommitted = 0

    def attach(self) -> Link:
        self._container.declare_transaction(self._connection, handler=self)
        return super().attach()

    def on_transaction_declared(self, event: Any) -> None:
        super().on_transaction_declared(event)
        self.arrived()

    def arrived(self) -> None:
        while self._transaction is not None and self._held:
            self._transaction.accept(self._held.popleft())
            self.counts.uncommitted += 1
            self.counts.last_ack = time.time()


class _Capability(LinkOption):
    """Tells the broker whether an address is meant as a queue or a topic."""

    def __init__(self, kind: str) -> None:
        self._kind = symbol(kind)

    def apply(self, link: Link) -> None:
        terminus = link.source if link.is_receiver else link.target
        terminus.capabilities.put_object(self._kind)
