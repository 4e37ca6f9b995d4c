"""An MQTT client that subscribes with QoS 1 and acknowledges nothing."""

import socket
from typing import Self

from penstock_demo.broker import Endpoint


def text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


class MqttHolder:
    """A context manager; what it receives stays in its socket."""

    def __init__(self, endpoint: Endpoint, topic: str, *, client_id: str) -> None:
        self._socket = socket.create_connection((endpoint.host, endpoint.port), timeout=10)
        account = endpoint.account
        flags = b"\x04\xc0\x00\x00"  # MQTT 3.1.1; user, password, a session that stays; no keep-alive
        self._packet(0x10, text("MQTT") + flags + b"".join(map(text, (client_id, account.user, account.password))))
        self._packet(0x82, b"\x00\x01" + text(topic) + b"\x01")
        assert self._socket.recv(4)[0] == 0x20

    def _packet(self, head: int, body: bytes) -> None:
        assert len(body) < 128
        self._socket.sendall(bytes([head, len(body)]) + body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
