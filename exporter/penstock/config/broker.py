"""A broker: where it is, how it is asked, and which of its queues are looked at."""

import re
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import pydantic
from pydantic import Field, SecretStr, StrictBool, StrictInt, ValidationInfo
from pydantic import field_validator as check

from penstock.brokers.budget import RowBudgets
from penstock.brokers.registry import KINDS
from penstock.config import values
from penstock.config.section import Section
from penstock.core.errors import ConfigError
from penstock.settings import rules as flow
from penstock.settings.business_hours import check_zone
from penstock.settings.policy import Limits

LIMITS = Limits()
ROWS = RowBudgets()
RowCount = Annotated[StrictInt, Field(ge=1, le=10_000_000)]


class Budgets(Section):
    """How much of a broker is read and shown; what is beyond is left out and counted."""

    queues: RowCount = ROWS.queues
    addresses: RowCount = ROWS.addresses
    consumers: RowCount = ROWS.consumers
    connections: RowCount = ROWS.connections
    sessions: RowCount = ROWS.sessions
    producers: RowCount = ROWS.producers
    listing_bytes: Annotated[
        values.Size, values.between(2**20, 2**36, values.format_size)
    ] = ROWS.listing_bytes
    series: Annotated[StrictInt, Field(ge=1000, le=100_000_000)] = LIMITS.series
    label_length: Annotated[StrictInt, Field(ge=64, le=65_536)] = LIMITS.label_length

    def rows(self) -> RowBudgets:
        return RowBudgets(
            **{one.name: getattr(self, one.name) for one in fields(RowBudgets)}
        )


class OwnBudgets(Budgets):
    """Of one broker: what is said here, in place of the general budgets."""

    ONLY_GIVEN = True


MARGIN = 0.5
"""Seconds left between a poll's deadline and the next poll."""

Interval = Annotated[values.Duration, values.between(1, 3600)]
Timeout = Annotated[values.Duration, values.between(0.1, 3600)]
Pattern = values.Text
Zone = Annotated[values.Text, pydantic.AfterValidator(check_zone)]


class Transport(StrEnum):
    """How a broker is asked."""

    JOLOKIA = "jolokia"
    JMX = "jmx"
    RECORDING = "recording"


def read_kind(value: object) -> str:
    if not isinstance(value, str) or value not in KINDS:
        raise ValueError(f"must be one of {' or '.join(map(repr, KINDS))}")
    return value


KindName = Annotated[
    str,
    pydantic.BeforeValidator(read_kind),
    pydantic.WithJsonSchema({"type": "string", "enum": list(KINDS)}, mode="validation"),
]


class ClientTls(Section):
    """TLS of a client; the system's authorities are trusted where nothing else is said."""

    ca_file: values.File | None = None
    cert_file: values.File | None = None
    key_file: values.File | None = None
    server_name: values.Text | None = None

    @check("key_file")
    @classmethod
    def _with_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value is not None and info.data.get("cert_file", value) is None:
            raise ValueError("needs a cert_file beside it")
        return value


class Tls(ClientTls):
    """TLS to the broker; the system's authorities are trusted where nothing else is said."""

    insecure: StrictBool = False


class QueueMatch(Section):
    """Queues of one broker by pattern."""

    address: Pattern = "*"
    queue: Pattern = "*"

    def compiled(self) -> flow.Match:
        return flow.Match(**dict(self))


MAX_LABELS = 16
LABEL_LENGTH = 100


def check_labels(value: dict[str, str]) -> dict[str, str]:
    """The errors show neither names nor texts."""
    if len(value) > MAX_LABELS:
        raise ValueError(f"must be at most {MAX_LABELS} labels")
    for name, text in value.items():
        if not re.fullmatch(
            rf"(?!__)[A-Za-z_][A-Za-z0-9_]{{0,{LABEL_LENGTH - 1}}}", name
        ):
            raise ValueError(
                f"must have names of at most {LABEL_LENGTH} letters, digits and underscores, that begin with neither"
                " a digit nor __"
            )
        if len(text) > LABEL_LENGTH or not text.isprintable():
            raise ValueError(
                f"must have values of at most {LABEL_LENGTH} printable characters"
            )
    return value


def unique_name(value: str, info: ValidationInfo) -> str:
    """Refuse a name that another broker has."""
    if not value.isprintable():
        raise ValueError("must hold printable characters only")
    names = values.Reading.of(info).names
    if value in names:
        raise ValueError("is the name of an earlier broker; names are unique")
    names.add(value)
    return value


class Broker(Section):
    """One broker: where it is and how it is asked."""

    name: Annotated[values.EnvText, pydantic.AfterValidator(unique_name)]
    kind: KindName
    transport: Transport = Transport.JOLOKIA
    url: values.EnvText
    username: values.EnvText | None = None
    inline_password: values.EnvSecret | None = Field(default=None, alias="password")
    password_file: values.File | None = None
    origin: (
        Annotated[values.EnvText, pydantic.AfterValidator(values.check_origin)] | None
    ) = None
    tls: Tls = Tls()
    timezone: Zone | None = None
    interval: Interval | None = None
    timeout: Timeout | None = None
    include: tuple[QueueMatch, ...] = ()
    exclude: tuple[QueueMatch, ...] = ()
    port_mapper: Annotated[values.EnvText, values.refusing(values.host_port)] | None = (
        None
    )
    java: values.File | None = None
    imqjmx_jar: values.File | None = None
    page_rows: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 5000
    max_answer: Annotated[
        values.Size, values.between(2**16, 2**32, values.format_size)
    ] = 64 * 2**20
    budgets: OwnBudgets = OwnBudgets()
    labels: Annotated[dict[str, values.Text], pydantic.AfterValidator(check_labels)] = (
        Field(default={})
    )
    mirror_of: values.Text | None = None

    @check("url")
    @classmethod
    def _usable_url(cls, value: str, info: ValidationInfo) -> str:
        """Refuse a URL that does not fit the transport."""
        transport = info.data.get("transport")
        if (
            transport is None
        ):  # refused above: what its URL would have to be is not known
            return value
        if value.startswith("recording:"):
            if transport is not Transport.RECORDING:
                raise ValueError("a recording needs transport: recording beside it")
            file = value.removeprefix("recording:")
            if not file:
                raise ValueError("recording: must be followed by the name of a file")
            return f"recording:{values.existing_file(file, info)}"
        if transport is Transport.RECORDING:
            raise ValueError("must be recording:FILE, as transport is recording")
        value = values.plain_zone(value)
        if transport is Transport.JOLOKIA:
            values.http_url(value)
        else:
            kind = KINDS.get(info.data.get("kind", ""))
            values.jmx_url(value, port_mapper=kind is not None and kind.port_mapper)
        return value

    @check("inline_password", "password_file")
    @classmethod
    def _with_user(
        cls, value: SecretStr | Path | None, info: ValidationInfo
    ) -> SecretStr | Path | None:
        """Refuse a password without a user."""
        if value is not None and info.data.get("username", "") is None:
            raise ValueError("needs a username beside it")
        return value

    _one_password = check("password_file")(values.one_password)

    @check("tls")
    @classmethod
    def _over_https(cls, value: Tls, info: ValidationInfo) -> Tls:
        if value != Tls() and not info.data.get("url", "https:").startswith("https:"):
            raise ValueError("needs an https URL")
        return value

    @check("timeout")
    @classmethod
    def _within_interval(
        cls, value: float | None, info: ValidationInfo
    ) -> float | None:
        """Refuse a timeout that is not shorter than the broker's interval."""
        if "interval" not in info.data:  # refused above
            return value
        return check_timeout(
            value, info.data["interval"] or values.Reading.of(info).interval
        )

    def password(self) -> str | None:
        """The password as it is now; None = none configured. ConfigError when its file cannot be read any more."""
        if self.password_file is None:
            return (
                None
                if self.inline_password is None
                else self.inline_password.get_secret_value()
            )
        try:
            return values.read_password(self.password_file)
        except ValueError as error:
            raise ConfigError(f"broker {self.name}: password_file: {error}") from None

    @property
    def recording(self) -> Path | None:
        """The file to read in place of a broker."""
        return (
            Path(self.url.removeprefix("recording:"))
            if self.transport is Transport.RECORDING
            else None
        )

    def port_mapper_at(self) -> tuple[str, int | None]:
        """Host and port of the OpenMQ port mapper; None: at the port that the broker says."""
        if self.port_mapper is not None:
            return values.host_port(self.port_mapper)
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port if parts.scheme == "mq" else None

    def selection(self) -> flow.Selection:
        return flow.Selection(
            tuple(match.compiled() for match in self.include),
            tuple(match.compiled() for match in self.exclude),
        )


def check_timeout(timeout: float | None, interval: float | None) -> float | None:
    """Refuse a timeout that is not shorter than the interval."""
    if timeout is not None and interval is not None and timeout >= interval:
        raise ValueError(
            f"must be less than the interval, {values.format_duration(interval)}"
        )
    return timeout
