"""Jolokia over HTTP: one keep-alive session a broker, bulk POST, every failure a `SourceError` that says what to do."""

import asyncio
import io
import re
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import NotRequired, TypedDict

import aiohttp
import msgspec
from yarl import URL

from penstock.core.errors import BadAnswer, Refused, SourceError, Unreachable
from penstock.transports.http_errors import reason
from penstock.transports.tls import RenewedContext, TlsFiles
from penstock.transports.transport import Answer, Request, Target, check_size


class PostOptions(TypedDict):
    """The options of a request, as aiohttp takes them."""

    allow_redirects: bool
    ssl: NotRequired[SSLContext]
    server_hostname: NotRequired[str | None]


class ConnectionOptions(TypedDict, total=False):
    """The options that decide how long connections stay open, as aiohttp takes them; seconds."""

    keepalive_timeout: float
    force_close: bool


DNS_SECONDS = 1
"""For how long a broker's address is remembered: a name that moved is followed at the next poll."""
SHOW = "show a certificate, by tls.cert_file, where the broker asks for one"


@dataclass(frozen=True, slots=True)
class JolokiaTarget(Target):
    origin: str | None = field(default=None, repr=False)
    tls: TlsFiles | None = None
    reuse_connections: bool = True


class JolokiaTransport:
    """Asks a Jolokia agent (Artemis' console, or the JVM agent)."""

    def __init__(self, target: JolokiaTarget) -> None:
        self._target = target
        self._url = URL(target.url)
        self._tls = (
            RenewedContext(target.tls or TlsFiles())
            if self._url.scheme == "https"
            else None
        )
        self._session: aiohttp.ClientSession | None = None

    async def begin_poll(self) -> None:
        """Certificates that were renewed meanwhile are used from here on."""
        if self._tls is not None:
            self._tls.renew()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        """As `Transport.ask`. A connection that the broker had closed meanwhile is opened again once."""
        body = msgspec.json.encode(requests)
        deadline = time.monotonic() + timeout
        try:
            return await self._post(body, timeout)
        except _Dropped:
            try:
                return await self._post(body, deadline - time.monotonic())
            except _Dropped as again:
                raise Unreachable(str(again)) from again

    async def _post(self, body: bytes, timeout: float) -> Answer:
        """Send a body and return the answer. Raises SourceError."""
        began = time.monotonic()
        wall = time.time()
        how: PostOptions = {"allow_redirects": False}
        if self._tls is not None:
            how["ssl"] = self._tls.context
            how["server_hostname"] = (
                self._target.tls.server_name if self._target.tls else None
            )
        try:
            async with asyncio.timeout(timeout):
                async with self._open().post(
                    self._url, data=body, headers=self._headers(), **how
                ) as response:
                    self._check(response)
                    answer = await read_capped(
                        response, self._target.max_answer_bytes, self._target.url
                    )
        except TimeoutError as error:
            raise Unreachable(
                f"{self._target.url}: no answer within {timeout:.1f} s"
            ) from error
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            raise self._lost(error) from error
        except aiohttp.ClientError as error:
            raise BadAnswer(
                f"{self._target.url}: the answer breaks HTTP: {reason(error)}"
            ) from error
        except (UnicodeError, ValueError) as error:
            raise Unreachable(
                f"{self._target.url}: cannot be asked: {reason(error)}"
            ) from error
        seconds = time.monotonic() - began
        return Answer(answer, wall + seconds / 2, seconds)

    def _lost(self, error: aiohttp.ClientError) -> SourceError:
        """Return the error that says why there is no connection."""
        if isinstance(
            error,
            aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError,
        ):
            why = f"{self._target.url}: TLS failed: {reason(error)}; see tls: ca_file, server_name"
            fault = self._tls.fault if self._tls is not None else ""
            return Unreachable(
                f"{why}. What was read before is in use, because {fault}"
                if fault
                else why
            )
        if isinstance(error, aiohttp.ClientConnectorError):
            return Unreachable(
                f"{self._target.url}: cannot connect: {reason(error)}; is the broker's web server up?"
            )
        return _Dropped(f"{self._target.url}: the connection was lost: {reason(error)}")

    def _open(self) -> aiohttp.ClientSession:
        """Return the HTTP session, which is opened with the first request."""
        if self._session is None:
            lasting: ConnectionOptions = (
                {"keepalive_timeout": 75}
                if self._target.reuse_connections
                else {"force_close": True}
            )
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=2, ttl_dns_cache=DNS_SECONDS, **lasting
                ),
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session

    def _headers(self) -> dict[str, str]:
        """Return the headers of a request; the login is one of them."""
        headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": "penstock",
        }
        if self._target.origin:
            headers["Origin"] = self._target.origin
        if "%" in (
            self._url.raw_host or ""
        ):  # a zone holds on this machine only, and Jetty refuses it in a header
            headers["Host"] = re.sub("%[^]]*", "", self._url.raw_authority)
        if self._target.username is not None:
            password = self._target.password() if self._target.password else ""
            headers["Authorization"] = aiohttp.encode_basic_auth(
                self._target.username, password
            )
        return headers

    def _check(self, response: aiohttp.ClientResponse) -> None:
        """Raise for what is no Jolokia answer at all. Jolokia itself answers 200 even for errors."""
        answer = f"{self._target.url}: HTTP {response.status}"
        hint = self._target.hint
        user = f"user {self._target.username!r}" if self._target.username else "no user"
        match response.status:
            case 200:
                return
            case 401 | 403:
                if self._tls and self._target.username is None:
                    file = self._target.tls and self._target.tls.cert_file
                    credential = (
                        f"the certificate {file}: {hint.certificate}"
                        if file
                        else f"no user: {hint.refused}; or {SHOW}"
                    )
                    raise Refused(f"{answer} for {credential}")
                raise Refused(f"{answer} for {user}: {hint.refused}")
            case 429:
                why = "after failed logins; check the password and give Penstock an account of its own"
                wait = _seconds(response.headers.get("Retry-After"))
                raise Refused(
                    f"{answer}: the broker throttles {user} {why}", retry_after=wait
                )
            case 404:
                raise BadAnswer(f"{answer}: no Jolokia here; {hint.path}")
            case status if 300 <= status < 400:
                to = response.headers.get("Location", "nowhere")[:200]
                raise BadAnswer(f"{answer} to {to!r}: give the URL that answers itself")
        raise BadAnswer(f"{answer}; expected Jolokia's 200")


class _Dropped(SourceError):
    """The connection broke while a request was under way: reads may be asked again."""


async def read_capped(response: aiohttp.ClientResponse, cap: int, url: str) -> bytes:
    """The body, unpacked; `BadAnswer` above `cap` bytes, before they are in memory. url: as errors name it."""
    unpack = (
        zlib.decompressobj(31)
        if response.headers.get("Content-Encoding", "").lower() == "gzip"
        else None
    )
    body = io.BytesIO()  # joined parts would be there twice for a moment
    size = 0
    async for chunk in response.content.iter_any():
        try:
            part = unpack.decompress(chunk, cap - size + 1) if unpack else chunk
        except zlib.error as error:
            raise BadAnswer(f"{url}: the answer's gzip is broken: {error}") from error
        size += len(part)
        check_size(url, size, cap)
        body.write(part)
    if unpack and not unpack.eof:
        raise BadAnswer(f"{url}: the answer's gzip breaks off")
    return body.getvalue()


def _seconds(text: str | None) -> float | None:
    try:
        return min(max(float(text), 0.0), 3600.0) if text else None
    except ValueError:
        return None
