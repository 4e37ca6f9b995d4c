"""OpenMQ's port mapper: which services a broker has, where, and which start of the broker this is; no login needed.

It answers a line with the protocol's version by lines `NAME PROTOCOL TYPE PORT [key=value,…]` and a dot.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from penstock.core.errors import BadAnswer, Unreachable
from penstock.transports.transport import Answer, PassingOn, Request, Transport

ASKED = "portmapper"
_HELLO = b"101\n"
_LONGEST = 64 * 1024


class PortMap(NamedTuple):
    """session: another one at each start of the broker. jmx_url: of its JMX connector. Empty where there is none."""

    session: str
    jmx_url: str


def parse(text: str) -> PortMap:
    """Raises BadAnswer for what is no answer of a port mapper."""
    lines = text.splitlines()
    if not lines or not lines[0].startswith("101 "):
        raise BadAnswer(
            f"not an OpenMQ port mapper: {text[:60]!r}; give the broker's own port, 7676 unless changed"
        )
    services: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for line in lines[1:]:
        words, _, details = line.partition(" [")
        parts = words.split()
        if len(parts) >= 4 and parts[3].isdigit():
            pairs = (
                pair.partition("=") for pair in details.removesuffix("]").split(",")
            )
            services[parts[0]] = {key.strip(): value for key, _, value in pairs if key}
    return PortMap(
        services["portmapper"].get("sessionid", ""), services["jmxrmi"].get("url", "")
    )


async def ask_port_mapper(host: str, port: int, timeout: float) -> PortMap:
    """Raises SourceError."""
    where = f"port mapper {host}:{port}"
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, port, limit=_LONGEST)
            try:
                writer.write(_HELLO)
                text = (await reader.readuntil(b"\n.\n")).decode(errors="replace")
            finally:
                writer.close()
    except TimeoutError as error:
        raise Unreachable(f"{where}: no answer within {timeout:.1f} s") from error
    except asyncio.LimitOverrunError as error:
        raise BadAnswer(
            f"{where}: an endless answer; give the broker's own port, 7676 unless changed"
        ) from error
    except asyncio.IncompleteReadError as error:
        parse(
            error.partial.decode(errors="replace")
        )  # raises where it is something else
        raise Unreachable(
            f"{where}: the answer breaks off; is the broker stopping?"
        ) from error
    except (OSError, UnicodeError) as error:
        raise Unreachable(
            f"{where}: cannot connect: {error}; is the broker up?"
        ) from error
    return parse(text)


class WithPortMapper(PassingOn):
    """A transport that answers requests for the epoch itself, all others through another one."""

    def __init__(self, inner: Transport, host: str, port: int | None = None) -> None:
        """`port`: of the port mapper, where it is not the one that the broker names."""
        super().__init__(inner)
        self._host = host
        self._port = port

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        """Answer questions about the port mapper here, and pass all others on."""
        if len(requests) != 1 or requests[0].get("type") != ASKED:
            return await self._inner.ask(requests, timeout)
        began = time.monotonic()
        wall = time.time()
        port_map = await ask_port_mapper(
            self._host, self._port or requests[0]["port"], timeout
        )
        seconds = time.monotonic() - began
        body = msgspec.json.encode(
            [{"status": 200, "value": {"session": port_map.session}}]
        )
        return Answer(body, wall + seconds / 2, seconds)


def request_epoch(port: int) -> Request:
    """Asks which start of the broker this is; `port` is where the broker says that its port mapper listens."""
    return {"type": ASKED, "port": port}


class _Answered(msgspec.Struct):
    value: dict[str, str] = {}


def read_epoch(body: bytes) -> str | None:
    """The session in an answer to `request_epoch`; None where the broker says none."""
    try:
        return (
            msgspec.json.decode(body, type=list[_Answered])[0].value.get("session")
            or None
        )
    except (msgspec.DecodeError, IndexError) as error:
        raise BadAnswer(f"not an answer about the port mapper: {error}") from error
