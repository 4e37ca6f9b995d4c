"""Asking a running agent."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from typing import Self, TypedDict, TypeVar

import aiohttp
import msgspec

from penstock import __version__
from penstock.config.http import HttpConfig
from penstock.config.loading import load_as
from penstock.config.values import http_url, plain_zone
from penstock.core.errors import ConfigError, PenstockError
from penstock.insight.answers import Error
from penstock.server import DEFAULT_PORT
from penstock.transports.http_errors import reason
from penstock.transports.tls import RenewedContext, TlsFiles


class TlsOptions(TypedDict, total=False):
    """The options of a request, as aiohttp takes them."""

    ssl: SSLContext
    server_hostname: str | None


DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
TIMEOUT = aiohttp.ClientTimeout(total=120, sock_connect=15, sock_read=15)
"""Seconds. A large answer may come slowly, but must not pause for long."""
MAX_BYTES = 64 * 2**20

AnswerT = TypeVar("AnswerT")

REFUSED = {
    401: "asks for a user and password, or refuses those given; write them into --http.config.file",
    403: "refuses the client's certificate; give another in --http.config.file",
    421: "does not take this host name; give its address with --url, or start it with --web.allowed-host",
    429: "answers too many requests at present; try again in a while",
}
"""By status: what an agent says so."""
OVERLOADED = "it has too many connections, or a proxy in front of it cannot reach it; try again in a while"
UNREACHED = {
    502: "a proxy in front of it cannot reach it; is it running?",
    503: OVERLOADED,
    504: OVERLOADED,
}
"""By status, where the answer has no explanation of an agent: what does not answer."""
DESCRIPTION = "/api/v1/openapi.json"
"""Where every version of the agent says what it is."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ApiInfo(msgspec.Struct):
    """What a description of an API says of the program behind it."""

    title: str
    version: str


class Description(msgspec.Struct):
    """As far as it is read here."""

    info: ApiInfo


class AgentClient:
    """Asks the agent at `url`, as the file `http` says; a context manager. Every failure is a PenstockError."""

    def __init__(self, url: str, http: Path | None = None) -> None:
        self.url = checked(url)
        self._http = (
            HttpConfig()
            if http is None
            else load_as(HttpConfig, http, flag="--http.config.file")
        )
        tls = self._http.tls_config
        files = TlsFiles(
            tls.ca_file, tls.cert_file, tls.key_file, insecure=tls.insecure_skip_verify
        )
        self._tls = RenewedContext(files) if url.startswith("https:") else None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=TIMEOUT)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(
        self, path: str, kind: type[AnswerT], **parameters: str | float | None
    ) -> AnswerT:
        """The answer, which is of this kind; parameters that are None or empty are left out."""
        query = {
            name: str(value)
            for name, value in parameters.items()
            if value not in (None, "")
        }
        answer = await self._get(path, query)
        if answer.status in REFUSED:
            raise PenstockError(f"the agent at {self.url} {REFUSED[answer.status]}")
        try:
            if answer.status == 200:
                return msgspec.json.decode(answer.body, type=kind)
            error = msgspec.json.decode(answer.body, type=Error)
        except msgspec.DecodeError:
            raise PenstockError(await self._why_not_understood(path, answer)) from None
        raise PenstockError(f"{error.error}; {error.hint}")

    async def _get(self, path: str, query: Mapping[str, str]) -> Answered:
        headers = self._login()
        tls: TlsOptions = {}
        if self._tls is not None:
            self._tls.renew()
            tls = {
                "ssl": self._tls.context,
                "server_hostname": self._http.tls_config.server_name,
            }
        try:
            async with self._session.get(
                self.url + path,
                params=query,
                headers=headers,
                allow_redirects=False,
                **tls,
            ) as response:
                return Answered(
                    response.status, response.headers, await self._whole_body(response)
                )
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise PenstockError(
                f"no agent answers at {self.url}: {reason(error)}; {self._advice(error)}"
            ) from None

    def _login(self) -> dict[str, str]:
        """The header of the user, whose password is read each time. PenstockError: its file cannot be read now."""
        login = self._http.basic_auth
        if login is None:
            return {}
        try:
            password = login.secret()
        except ValueError as error:
            raise PenstockError(
                f"--http.config.file: basic_auth.password_file: {error}"
            ) from None
        return {"Authorization": aiohttp.encode_basic_auth(login.username, password)}

    async def _whole_body(self, response: aiohttp.ClientResponse) -> bytes:
        """Every piece of the body. Raises PenstockError where it is too large or does not come to its end."""
        body = bytearray()
        try:
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > MAX_BYTES:
                    raise PenstockError(
                        f"{self.url} answers with more than {MAX_BYTES} bytes; is this an agent?"
                    )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise PenstockError(self._breaks_off(len(body), reason(error))) from None
        return bytes(body)

    def _breaks_off(self, size: int, why: str) -> str:
        return f"the answer of {self.url} ends after {size} bytes, before it is complete ({why}); try again"

    async def _why_not_understood(self, path: str, answer: Answered) -> str:
        """One sentence about an answer that is none of the API's of this version."""
        if answer.status in UNREACHED:
            why = UNREACHED[answer.status]
            return f"the agent at {self.url} does not answer (status {answer.status}): {why}"
        if 300 <= answer.status < 400:
            target = answer.headers.get("Location", "another URL")[:200]
            return f"{self.url} redirects to {target}; give the agent's own address with --url"
        if answer.status == 200 and _is_cut_off(answer.body):
            return self._breaks_off(len(answer.body), "the connection was closed")
        version = await self._version()
        if version is None:
            refusal = f"{self.url} (status {answer.status}) is not a Penstock agent"
            return f"{refusal}; give the URL of an agent with --url"
        return (
            f"{self.url} is a Penstock agent, but not of this version: its answer to {path} cannot be read. It says"
            f" version {version}, this command is {__version__}; use the command that came with the agent"
        )

    async def _version(self) -> str | None:
        """Which Penstock answers there; None: no Penstock."""
        try:
            answer = await self._get(DESCRIPTION, {})
            description = msgspec.json.decode(answer.body, type=Description)
        except (PenstockError, msgspec.DecodeError):
            return None
        if description.info.title != "Penstock":
            return None
        return description.info.version

    @staticmethod
    def _advice(error: Exception) -> str:
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return "say whom to trust in --http.config.file (tls_config: ca_file)"
        if isinstance(error, aiohttp.ClientSSLError | aiohttp.ServerDisconnectedError):
            return "correct the scheme in --url"
        return "start one with penstock run, or name it with --url"


def _is_cut_off(body: bytes) -> bool:
    """Whether it begins as JSON and ends before its end; an empty body is none."""
    try:
        msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        return bool(body.strip()) and "truncated" in str(error)
    return False


def checked(url: str) -> str:
    """The URL without the slash at its end. ConfigError: it is none, or holds a password."""
    try:
        http_url(url)
    except ValueError as error:
        text = str(error).replace(
            "username and password or password_file", "--http.config.file"
        )
        raise ConfigError(f"--url {text}; the default is {DEFAULT_URL}") from None
    return plain_zone(url).rstrip("/")


async def ask(
    url: str,
    http: Path | None,
    path: str,
    kind: type[AnswerT],
    **parameters: str | float | None,
) -> AnswerT:
    """One answer of the agent at `url`, as `AgentClient.get` gives it."""
    async with AgentClient(url, http) as client:
        return await client.get(path, kind, **parameters)
