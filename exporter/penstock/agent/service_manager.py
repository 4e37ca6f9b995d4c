"""The agent reports to the service manager that started it: systemd, or another one that gives NOTIFY_SOCKET."""

import logging
import os
import socket
import time
from typing import Self

log = logging.getLogger(__name__)

SEND_SECONDS = 1.0
"""A service manager that takes no message must not hold the agent up for longer."""


class ServiceManager:
    """Takes the states of the agent's life. address: of its socket, as in NOTIFY_SOCKET; empty: there is none."""

    def __init__(self, address: str = "") -> None:
        self._address = address
        self._is_stopping = False

    @classmethod
    def from_environment(cls) -> Self:
        """Programs that the agent starts do not get the socket: they are not the service."""
        return cls(os.environ.pop("NOTIFY_SOCKET", ""))

    def ready(self, status: str) -> None:
        """The start, or the reload under way, has ended. status: one sentence for `systemctl status`."""
        if self._is_stopping:  # a reload was cut short
            return
        self._send("READY=1", f"STATUS={status.splitlines()[0]}")

    def reloading(self) -> None:
        """A reload begins; `ready` ends it."""
        microseconds = time.monotonic_ns() // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={microseconds}")

    def stopping(self) -> None:
        """The last state of all."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._send("STOPPING=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        is_abstract = self._address.startswith("@")  # not a file
        address = f"\0{self._address[1:]}" if is_abstract else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(SEND_SECONDS)
                sender.sendto("\n".join(lines).encode(), address)
        except OSError as error:
            log.warning(
                "the service manager does not take %s: %s",
                lines[0],
                error.strerror or error,
            )
