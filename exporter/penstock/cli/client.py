"""Asking a running agent."""

from pathlib import Path
from typing import Self, TypeVar

import aiohttp
import msgspec

from penstock.config.http import HttpConfig
from penstock.config.loading import load_as
from penstock.config.values import http_url
from penstock.core.errors import ConfigError, PenstockError
from penstock.insight.answers import Error
from penstock.server import DEFAULT_PORT
from penstock.transports.http_errors import reason
from penstock.transports.jolokia import TlsFiles, ssl_context

DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
TIMEOUT = aiohttp.ClientTimeout(total=15)
MAX_BYTES = 64 * 2**20

AnswerT = TypeVar("AnswerT")

REFUSED = {
    401: "asks for a user and password, or refuses those given; write them into --http.config.file",
    403: "refuses the client's certificate; give another in --http.config.file",
    429: "answers too many requests at present; try again in a while",
}


class AgentClient:
    """Asks the agent at `url`, as the file `http` says; a context manager. Every failure is a PenstockError."""

    def __init__(self, url: str, http: Path | None = None) -> None:
        self.url = checked(url)
        self._http = HttpConfig() if http is None else load_as(HttpConfig, http, flag="--http.config.file")
        said = self._http.tls_config
        files = TlsFiles(said.ca_file, said.cert_file, said.key_file, insecure=said.insecure_skip_verify)
        self._tls = ssl_context(files) if url.startswith("https:") else None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=TIMEOUT)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, path: str, kind: type[AnswerT], **parameters: str | float | None) -> AnswerT:
        """The answer, which is of this kind; parameters that are None or empty are left out."""
        status, body = await self._get(path, {k: str(v) for k, v in parameters.items() if v not in (None, "")})
        if status in REFUSED:
            raise PenstockError(f"the agent at {self.url} {REFUSED[status]}")
        try:
            if status == 200:
                return msgspec.json.decode(body, type=kind)
            error = msgspec.json.decode(body, type=Error)
        except msgspec.DecodeError:
            raise PenstockError(
                f"{self.url} (status {status}) is not a Penstock agent of this version; name an agent with --url"
            ) from None
        raise PenstockError(f"{error.error}; {error.hint}")

    async def _get(self, path: str, parameters: dict[str, str]) -> tuple[int, bytes]:
        login = self._http.basic_auth
        headers = login and {"Authorization": aiohttp.encode_basic_auth(login.username, login.secret())}
        try:
            async with self._session.get(
                self.url + path,
                params=parameters,
                headers=headers,
                ssl=self._tls if self._tls is not None else True,
                server_hostname=self._http.tls_config.server_name if self._tls is not None else None,
                allow_redirects=False,
            ) as response:
                return response.status, await response.content.read(MAX_BYTES)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise PenstockError(f"no agent answers at {self.url}: {reason(error)}; {self._advice(error)}") from None

    @staticmethod
    def _advice(error: Exception) -> str:
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return "say whom to trust in --http.config.file (tls_config: ca_file)"
        if isinstance(error, aiohttp.ClientSSLError | aiohttp.ServerDisconnectedError):
            return "correct the scheme in --url"
        return "start one with penstock run, or name it with --url"


def checked(url: str) -> str:
    """The URL without the slash at its end. ConfigError: it is none, or holds a password."""
    try:
        http_url(url)
    except ValueError as error:
        text = str(error).replace("username and password or password_file", "--http.config.file")
        raise ConfigError(f"--url {text}; the default is {DEFAULT_URL}") from None
    return url.rstrip("/")


async def ask(url: str, http: Path | None, path: str, kind: type[AnswerT], **parameters: str | float | None) -> AnswerT:
    """One answer of the agent at `url`, as `AgentClient.get` gives it."""
    async with AgentClient(url, http) as client:
        return await client.get(path, kind, **parameters)
