"""The web configuration (`--web.config.file`): TLS, users, headers, rate limit, as Prometheus' exporters have it."""

import re
import ssl
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    SecretStr,
    StrictBool,
    StrictInt,
    ValidationInfo,
    model_validator,
)
from pydantic import field_validator as check

from penstock.config.loading import load_as
from penstock.config.section import Section
from penstock.config.values import Duration, File, Text, between
from penstock.core.catalogues import read_toml

_NAMES = read_toml("penstock.config", "web.toml")
OPENSSL_NAMES: Mapping[str, str] = _NAMES["openssl_names"]
TLS13_SUITES, CURVES, HEADERS = (
    tuple[str, ...](_NAMES[name]) for name in ("tls13_suites", "curves", "headers")
)
Version = Literal["TLS12", "TLS13"]
VERSIONS: dict[Version, ssl.TLSVersion] = {
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}

_BCRYPT = re.compile(r"\$2[aby]\$(?P<cost>0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
HIGHEST_COST = 16
"""Of a hash: one check takes about 5 s of CPU, and twice as long for each 1 more. A scrape may take 10 s by default."""
SLOW_COST = 14
"""Above it one check takes seconds; all other first logins wait for it."""


class ClientAuth(StrEnum):
    """What is asked of a client's certificate."""

    NONE = "NoClientCert"
    REQUEST = "RequestClientCert"
    IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRE = "RequireAndVerifyClientCert"


class TlsServer(Section):
    """TLS of the server. Certificate and key as files (re-read when they change) or as PEM text in place."""

    cert_file: File | None = None
    key_file: File | None = None
    cert: Text | None = Field(None, max_length=100_000)
    key: SecretStr | None = None
    client_auth_type: ClientAuth = ClientAuth.NONE
    client_ca_file: File | None = None
    client_ca: Text | None = Field(None, max_length=1_000_000)
    client_allowed_sans: tuple[Text, ...] = ()
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: StrictBool = True
    curve_preferences: tuple[str, ...] = ()

    @check("client_auth_type", mode="before")
    @classmethod
    def _verifiable(cls, value: object) -> object:
        if value == "RequireAnyClientCert":
            raise ValueError(
                "a certificate that nothing checks protects nothing; use RequireAndVerifyClientCert"
            )
        return value

    @check("cipher_suites")
    @classmethod
    def _suites(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in OPENSSL_NAMES and name not in TLS13_SUITES:
                raise ValueError(
                    f"knows no suite of that name; allowed: {', '.join(OPENSSL_NAMES)}"
                )
        if value and not any(name in OPENSSL_NAMES for name in value):
            raise ValueError(
                "names suites of TLS 1.3 only, which are always on; set min_version: TLS13 instead"
            )
        return value

    @check("curve_preferences")
    @classmethod
    def _curves(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not set(value).issubset(CURVES):
            raise ValueError(f"must hold names among {', '.join(CURVES)}")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        wants_ca = self.client_auth_type in (ClientAuth.IF_GIVEN, ClientAuth.REQUIRE)
        has_ca = self.client_ca_file is not None or self.client_ca is not None
        rules = {
            "needs cert_file or cert, one of them": (self.cert_file is None)
            == (self.cert is None),
            "needs key_file or key, one of them": (self.key_file is None)
            == (self.key is None),
            "must not hold both client_ca_file and client_ca": None
            not in (self.client_ca_file, self.client_ca),
            f"needs client_ca_file or client_ca for client_auth_type {self.client_auth_type}": wants_ca
            and not has_ca,
            "has client authorities, which client_auth_type leaves unused; set RequireAndVerifyClientCert": (
                has_ca and not wants_ca
            ),
            "has client_allowed_sans, which need client_auth_type RequireAndVerifyClientCert": (
                bool(self.client_allowed_sans)
                and self.client_auth_type is not ClientAuth.REQUIRE
            ),
            "has a min_version above its max_version": self.min_version
            > self.max_version,
        }
        if problem := next((text for text, broken in rules.items() if broken), ""):
            raise ValueError(problem)
        return self

    def files(self) -> tuple[Path, ...]:
        return tuple(
            file
            for file in (self.cert_file, self.key_file, self.client_ca_file)
            if file is not None
        )


class HttpServer(Section):
    """What every answer carries."""

    http2: StrictBool = True
    headers: dict[str, Text] = Field(default_factory=dict)

    @check("headers")
    @classmethod
    def _known(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if name not in HEADERS:
                raise ValueError(f"may hold only {', '.join(HEADERS)}")
            if not text.isprintable() or not text.isascii():
                raise ValueError(f"{name} must be one line of plain characters")
        return value


class RateLimit(Section):
    """Requests in all, health and readiness not counted; more are answered 429."""

    interval: Annotated[Duration, between(0, 3600)] = 0.0
    burst: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 1


class WebConfig(Section):
    """The whole web configuration."""

    tls_server_config: TlsServer | None = None
    http_server_config: HttpServer = HttpServer()
    basic_auth_users: dict[str, SecretStr] = Field(default_factory=dict)
    rate_limit: RateLimit = RateLimit()

    @check("tls_server_config", mode="before")
    @classmethod
    def _without_tls(cls, value: object) -> object:
        """An empty section is plain HTTP, as in other exporters."""
        return None if value == {} else value

    @check("basic_auth_users", mode="after")
    @classmethod
    def _hashed(
        cls, value: dict[str, SecretStr], _: ValidationInfo
    ) -> dict[str, SecretStr]:
        for at, (user, hashed) in enumerate(value.items(), 1):
            if not user or ":" in user:
                raise ValueError(
                    f"user {at} has an empty name or one with a colon, which no client can send"
                )
            cost = bcrypt_cost(hashed)
            if cost is None:
                raise ValueError(f"user {at} has no bcrypt hash; {_HOW_TO_HASH}")
            if cost > HIGHEST_COST:
                raise ValueError(
                    f"user {at} has a bcrypt hash of cost {cost}, which takes too long to check; the highest cost is"
                    f" {HIGHEST_COST}, {_HOW_TO_HASH}"
                )
        return value

    def slow_users(self) -> Iterator[str]:
        """A sentence for each user whose password takes seconds to check; without names and hashes."""
        for at, hashed in enumerate(self.basic_auth_users.values(), 1):
            cost = bcrypt_cost(hashed) or 0
            if cost > SLOW_COST:
                yield (
                    f"basic_auth_users: user {at} has a bcrypt hash of cost {cost}: the first login takes seconds, and"
                    f" other first logins wait; {_HOW_TO_HASH}"
                )


_HOW_TO_HASH = "make one with: htpasswd -nBC 10 USER"


def bcrypt_cost(hashed: SecretStr) -> int | None:
    """The binary logarithm of the rounds that one check takes; None where it is no bcrypt hash."""
    found = _BCRYPT.fullmatch(hashed.get_secret_value())
    return None if found is None else int(found["cost"])


def load_web(path: Path) -> WebConfig:
    """The web configuration in the file `path`. Raises ConfigError, one line per problem with its line number."""
    return load_as(WebConfig, path, {}, flag="--web.config.file")
