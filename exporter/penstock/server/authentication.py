"""Which requests are allowed: TLS, users, headers and rate limit of the web configuration, and its reload."""

import asyncio
import logging
import math
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Protocol

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from penstock.config.web import (
    OPENSSL_NAMES,
    VERSIONS,
    ClientAuth,
    RateLimit,
    TlsServer,
    WebConfig,
    load_web,
)
from penstock.core.errors import ConfigError
from penstock.core.safe_files import replace_file
from penstock.core.watched_files import Contents, FileContents
from penstock.server.connection_limit import PROBE_PATHS
from penstock.server.passwords import Login, Passwords

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""Between two checks of the files."""


class RefusedLogin(Protocol):
    """Notes a login that was refused, by the address that it came from; not checked: too many waited."""

    def __call__(self, address: str, *, checked: bool) -> None: ...


class Authentication:
    """The web configuration in force. refused: called in the event loop for each login that is refused.

    Raises ConfigError when it cannot be taken. A later change that cannot be taken leaves the old one in force.
    """

    def __init__(self, path: Path, refused: RefusedLogin | None = None) -> None:
        self._path = path
        self._contents = FileContents()
        self._config, self._taken = self._load()
        self._last_look = self._taken
        """What the files held when they were looked at last."""
        self._not_taken: tuple[str, ...] = ()
        """Why what they held then was not taken."""
        self.faults: tuple[str, ...] = ()
        """The same, of contents that two looks in a row have found: a file may be read while it is being written."""
        self._passwords = Passwords(_hashes(self._config))
        self._refused = refused
        self._limit = Bucket(self._config.rate_limit)
        self.context = _context(self._config)
        """TLS of new connections; None: plain HTTP."""
        self._looking = asyncio.Lock()
        self._renew: Callable[[], Awaitable[None]] | None = None

    def slow_users(self) -> Iterator[str]:
        """A sentence for each user whose password takes seconds to check."""
        return self._config.slow_users()

    async def take_changes(self) -> tuple[str, ...]:
        """Take what the files hold now. Returns why that cannot be taken, a line for each fault."""
        async with self._looking:
            needs_renewal = await asyncio.to_thread(self.reload_changed)
            if needs_renewal and self._renew is not None:
                await self._renew()
            return self._not_taken

    def reload_changed(self) -> bool:
        """Reload the files when one changed; whether new connections need another `context`."""
        now = self._contents.of(_files(self._path, self._config))
        at_rest = now == self._last_look
        self._last_look = now
        self._not_taken = ()
        needs_renewal = False
        if now != self._taken:
            try:
                needs_renewal = self._take()
            except ConfigError as error:
                self._not_taken = tuple(
                    f"web configuration: {line}" for line in error.args
                )
        if at_rest or not self._not_taken:
            self.faults = self._not_taken
        return needs_renewal

    def _take(self) -> bool:
        """Put in force what the files hold; whether new connections need another `context`. Raises ConfigError."""
        config, taken = self._load()
        self._check_tls_stays(config)
        context = _context(config)
        if config.rate_limit != self._config.rate_limit:
            self._limit = Bucket(config.rate_limit)
        self._passwords.replace(_hashes(config))
        self._config = config
        self._taken = taken
        self.context = context
        log.info("the web configuration was reloaded")
        return context is not None

    def _check_tls_stays(self, config: WebConfig) -> None:
        """Raises ConfigError where it would switch TLS on or off: an emptied file must not end the encryption."""
        has_tls = config.tls_server_config is not None
        had_tls = self.context is not None
        if has_tls == had_tls:
            return
        if had_tls:
            change = "has no tls_server_config any more; the server goes on with TLS, restart it to serve plain HTTP"
        else:
            change = "has a tls_server_config now; the server goes on with plain HTTP, restart it to serve TLS"
        raise ConfigError(f"{self._path}: {change}")

    def _load(self) -> tuple[WebConfig, Contents]:
        """The configuration, and what its files held before they were read. Raises ConfigError."""
        main_file = self._contents.of([self._path])
        config = load_web(self._path)
        return config, {**self._contents.of(_files(self._path, config)), **main_file}

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        """Lets a request through, or answers 401, 403 or 429."""
        refused = await self._refusal(request)
        return await handler(request) if refused is None else refused

    async def _refusal(self, request: web.Request) -> web.Response | None:
        """Return the answer to a request that may not pass; None for one that may."""
        tls = self._config.tls_server_config
        if (
            tls is not None
            and tls.client_allowed_sans
            and not _names(request) & set(tls.client_allowed_sans)
        ):
            return web.Response(
                status=403,
                text="The client's certificate bears none of the allowed names.\n",
            )
        if request.path in PROBE_PATHS:
            return None
        if not self._limit.take(time.monotonic()):
            return web.Response(
                status=429, headers={hdrs.RETRY_AFTER: "1"}, text="Too many requests.\n"
            )
        if not self._config.basic_auth_users:
            return None
        login = await self._passwords.login(request)
        if self._refused is not None and login in (Login.WRONG, Login.UNCHECKED):
            self._refused(
                request.remote or "an unknown address", checked=login is Login.WRONG
            )
        return _refusal_of(login)

    async def set_headers(self, _: web.Request, response: web.StreamResponse) -> None:
        """The configured headers, over the product's own."""
        response.headers.update(self._config.http_server_config.headers)

    def guard(self, app: web.Application) -> None:
        """Let every request to `app` pass through here."""
        app.middlewares.append(self.middleware)
        app.on_response_prepare.append(self.set_headers)

    async def watch(self, renew: Callable[[], Awaitable[None]]) -> None:
        """Reload changed files for ever; `renew` is called when new connections need another `context`."""
        self._renew = renew
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.take_changes()

    def close(self) -> None:
        self._passwords.close()


class Bucket:
    """A token bucket: one token an interval, `burst` at most."""

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._tokens = float(limit.burst)
        self._last = -math.inf

    def take(self, now: float) -> bool:
        """now: seconds of a clock that never goes back."""
        if not self._limit.interval:
            return True
        gained = (now - self._last) / self._limit.interval
        self._tokens = min(self._tokens + gained, float(self._limit.burst))
        self._last = now
        if taken := self._tokens >= 1:
            self._tokens -= 1
        return taken


def _refusal_of(login: Login) -> web.Response | None:
    """Return the answer to a failed login; None for a right one."""
    if login is Login.RIGHT:
        return None
    if login is Login.UNCHECKED:
        text = "Too many passwords wait to be checked; try again in a second.\n"
        return web.Response(status=429, headers={hdrs.RETRY_AFTER: "1"}, text=text)
    headers = {hdrs.WWW_AUTHENTICATE: 'Basic realm="penstock", charset="UTF-8"'}
    return web.Response(
        status=401, headers=headers, text="A user and password are needed.\n"
    )


def _hashes(config: WebConfig) -> dict[str, bytes]:
    return {
        user: one.get_secret_value().encode()
        for user, one in config.basic_auth_users.items()
    }


def _names(request: web.Request) -> set[str]:
    """The subject alternative names of the client's certificate, which TLS has verified."""
    certificate = request.get_extra_info("peercert") or {}
    return {name for _, name in certificate.get("subjectAltName", ())}


def _files(path: Path, config: WebConfig) -> list[Path]:
    """The file itself, and those that it names."""
    tls = config.tls_server_config
    return [path, *(tls.files() if tls is not None else ())]


def _context(config: WebConfig) -> ssl.SSLContext | None:
    """Return the TLS context of the configuration; None where TLS is off. Raises ConfigError."""
    tls = config.tls_server_config
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[tls.min_version]
    context.maximum_version = VERSIONS[tls.max_version]
    if tls.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    if tls.cipher_suites:
        context.set_ciphers(
            ":".join(
                OPENSSL_NAMES[name]
                for name in tls.cipher_suites
                if name in OPENSSL_NAMES
            )
        )
    _load_certificate(context, tls)
    _load_authorities(context, tls)
    return context


def _load_certificate(context: ssl.SSLContext, tls: TlsServer) -> None:
    """Load certificate and key; those given as text pass through a directory that only its owner can enter."""
    cert_text = tls.cert
    key_text = tls.key.get_secret_value() if tls.key is not None else None
    with tempfile.TemporaryDirectory(
        prefix="penstock-"
    ) as directory:  # only its owner can enter
        cert = tls.cert_file or Path(directory, "cert")
        key = tls.key_file or Path(directory, "key")
        try:
            for file, text in ((cert, cert_text), (key, key_text)):
                if text is not None:
                    replace_file(file, text.encode())
            context.load_cert_chain(cert, key, password=_no_password)
        except (OSError, ValueError) as error:
            named = (
                " and ".join(
                    str(file) for file in (tls.cert_file, tls.key_file) if file
                )
                or "cert and key"
            )
            raise ConfigError(f"cannot use {named} for TLS: {_reason(error)}") from None


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one that is not")


def _load_authorities(context: ssl.SSLContext, tls: TlsServer) -> None:
    """Load the authorities of clients' certificates, where certificates are asked for."""
    if tls.client_auth_type not in (ClientAuth.IF_GIVEN, ClientAuth.REQUIRE):
        return
    required = tls.client_auth_type is ClientAuth.REQUIRE
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    try:
        context.load_verify_locations(cafile=tls.client_ca_file, cadata=tls.client_ca)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot use {tls.client_ca_file or 'client_ca'}: {_reason(error)}"
        ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"it is no matching PEM certificate and key ({error.reason or 'unreadable'})"
    return getattr(error, "strerror", None) or str(error)
