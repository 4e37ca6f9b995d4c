"""The seam between a reader and the way to a broker: bulk requests in, one raw answer out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.core.errors import BadAnswer, SourceError
from penstock.model import Snapshot

Request = Mapping[str, Any]
"""One Jolokia request as its JSON object; never holds a secret."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The raw answer to one bulk of requests.

    body: JSON text in UTF-8, a list of Jolokia responses in the order of the requests.
    stamp: agent's clock halfway through the call, seconds since 1970 (nearest to when the broker spoke).
    seconds: how long the call took.
    """

    body: bytes
    stamp: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Hint:
    """Hints for a broker of this kind that refuses, over HTTP or JMX, and where its Jolokia is."""

    refused: str = "check username and password"
    refused_jmx: str = "check username and password"
    certificate: str = "does the agent know it, and its authority (caCert)?"
    path: str = "check the URL's path"


@dataclass(frozen=True, slots=True)
class Target:
    """Where and as whom to ask. `password` is called for each connection, so that a rotated file is picked up."""

    url: str = field(repr=False)  # may hold something of the environment
    username: str | None = field(default=None, repr=False)
    password: Callable[[], str] | None = field(default=None, repr=False)
    max_answer_bytes: int = field(default=64 * 1024 * 1024, kw_only=True)
    hint: Hint = field(default_factory=Hint, kw_only=True)


def check_size(where: str, size: int, most: int) -> None:
    """Raises BadAnswer for an answer of more bytes than there may be."""
    if size > most:
        raise BadAnswer(
            f"{where}: the answer is larger than {most} bytes; raise max_answer if the broker is that large"
        )


class Transport(Protocol):
    """Asks one broker. Raises only `SourceError`s."""

    async def begin_poll(self) -> None:
        """A new poll starts."""

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        """The answer to `requests`, sent as one bulk, within `timeout` seconds."""

    async def close(self) -> None:
        """Give back what is held; the transport is not used afterwards."""


class PassingOn:
    """The common part of transports that pass everything on to another."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def begin_poll(self) -> None:
        await self._inner.begin_poll()

    async def close(self) -> None:
        await self._inner.close()


class WithMaskedErrors(PassingOn):
    """Its errors say what `mask` makes of their texts."""

    def __init__(self, inner: Transport, mask: Callable[[str], str]) -> None:
        super().__init__(inner)
        self._mask = mask

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        """Pass the requests on; secrets in the text of an error are masked."""
        try:
            return await self._inner.ask(requests, timeout)
        except SourceError as error:
            error.args = (self._mask(str(error)),)
            raise


class Reader(Protocol):
    """Reads one broker through a transport."""

    async def poll(self, timeout: float) -> Snapshot:
        """A snapshot within `timeout` seconds; SourceError when the broker itself could not be read."""

    async def close(self) -> None:
        """Give back what is held; the reader is not used afterwards."""
