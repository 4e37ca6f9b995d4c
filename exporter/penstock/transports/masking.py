"""Errors of a transport, without what may not be shown."""

from collections.abc import Callable, Sequence

from penstock.core.errors import SourceError
from penstock.transports.transport import Answer, Request, Transport


class WithMaskedErrors:
    """A transport that passes everything on to another, and whose errors say what `mask` makes of their texts."""

    def __init__(self, inner: Transport, mask: Callable[[str], str]) -> None:
        self._inner = inner
        self._mask = mask

    async def begin_poll(self) -> None:
        await self._inner.begin_poll()

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        try:
            return await self._inner.ask(requests, timeout)
        except SourceError as error:
            error.args = (self._mask(str(error)),)
            raise

    async def close(self) -> None:
        await self._inner.close()
