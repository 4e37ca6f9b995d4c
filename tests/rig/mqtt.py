"""MQTT 3.1.1 clients that subscribe with QoS 1."""

import contextlib
import socket
import threading
import time
from typing import Self

from penstock_demo.broker import Endpoint
from penstock_demo.load import Counts

_CONNECTED = 0x20
_PUBLISH = 3
_PUBACK = 0x40


def text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


class MqttHolder:
    """Acknowledges nothing: what it receives stays in its socket. A context manager; its session outlives it."""

    def __init__(self, endpoint: Endpoint, topic: str, *, client_id: str) -> None:
        self.counts = Counts()
        self._socket = socket.create_connection(
            (endpoint.host, endpoint.port), timeout=10
        )
        account = endpoint.account
        flags = b"\x04\xc0\x00\x00"  # MQTT 3.1.1; user, password, a session that stays; no keep-alive
        self._packet(
            0x10,
            text("MQTT")
            + flags
            + b"".join(map(text, (client_id, account.user, account.password))),
        )
        self._packet(0x82, b"\x00\x01" + text(topic) + b"\x01")
        assert self._socket.recv(4)[0] == _CONNECTED

    def close(self) -> None:
        self._socket.close()

    def _packet(self, head: int, body: bytes) -> None:
        assert len(body) < 128
        self._socket.sendall(bytes([head, len(body)]) + body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MqttConsumer(MqttHolder):
    """Acknowledges each message after `work` seconds, until it has acknowledged `hangs_after`."""

    def __init__(
        self,
        endpoint: Endpoint,
        topic: str,
        *,
        client_id: str,
        work: float = 0.0,
        hangs_after: float = float("inf"),
    ) -> None:
        super().__init__(endpoint, topic, client_id=client_id)
        self._work = work
        self._hangs_after = hangs_after
        self._ending = threading.Event()
        self._socket.settimeout(None)
        self._thread = threading.Thread(target=self._run, name="mqtt", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        super().close()
        self._thread.join(5)

    def _run(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                kind, body = self._read()
                if kind >> 4 == _PUBLISH:
                    self._take(body)

    def _take(self, body: bytes) -> None:
        self.counts.received += 1
        if self.counts.acknowledged >= self._hangs_after or self._ending.wait(
            self._work
        ):
            return
        topic = int.from_bytes(body[:2], "big")
        self._packet(_PUBACK, body[2 + topic : 4 + topic])
        self.counts.acknowledged += 1
        self.counts.last_ack = time.time()

    def _read(self) -> tuple[int, bytes]:
        kind = self._exactly(1)[0]
        length = 0
        shift = 0
        while True:
            (digit,) = self._exactly(1)
            length = length | (digit & 127) << shift
            shift = shift + 7
            if digit < 128:
                return kind, self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            if not (more := self._socket.recv(count - len(found))):
                raise EOFError
            found += more
        return found
