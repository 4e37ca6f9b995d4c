"""A broker: where it is, how it is asked, and which of its queues are looked at."""

import re
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    StrictBool,
    StrictInt,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic import field_validator as check

from penstock.brokers.budget import RowBudgets
from penstock.brokers.registry import KINDS
from penstock.config.section import Section
from penstock.config.values import (
    Duration,
    EnvSecret,
    EnvText,
    File,
    Reading,
    Size,
    Text,
    between,
    check_origin,
    existing_file,
    format_duration,
    format_size,
    host_port,
    http_url,
    jmx_url,
    one_password,
    read_password,
    refusing,
)
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
    """Queues read; of more, those with the most messages (OpenMQ: destinations)."""
    addresses: RowCount = ROWS.addresses
    """Addresses read; of more, the largest."""
    consumers: RowCount = ROWS.consumers
    """Consumers read; of more, the oldest, as of all that follow."""
    connections: RowCount = ROWS.connections
    """Connections read."""
    sessions: RowCount = ROWS.sessions
    """Sessions read (Artemis)."""
    producers: RowCount = ROWS.producers
    """Producers read."""
    listing_bytes: Annotated[Size, between(2**20, 2**36, format_size)] = ROWS.listing_bytes
    """Largest listing in all its pages (Artemis); a larger one fails its collector."""
    series: Annotated[StrictInt, Field(ge=1000, le=100_000_000)] = LIMITS.series
    """Series shown in /metrics; of more, those of what is unhealthy, then of the largest backlogs."""
    label_length: Annotated[StrictInt, Field(ge=64, le=65_536)] = LIMITS.label_length
    """Bytes of the value of a label in /metrics; a longer one is cut, and ends with ~ and a hash of the whole."""

    def rows(self) -> RowBudgets:
        return RowBudgets(**{one.name: getattr(self, one.name) for one in fields(RowBudgets)})


class OwnBudgets(Budgets):
    """Of one broker: what is said here, in place of the general budgets."""

    def masked(self) -> dict[str, Any]:
        return {key: value for key, value in super().masked().items() if key in self.model_fields_set}


MARGIN = 0.5
"""Seconds left between a poll's deadline and the next poll."""

Interval = Annotated[Duration, between(1, 3600, format_duration)]
Timeout = Annotated[Duration, between(0.1, 3600, format_duration)]
Pattern = Text
Zone = Annotated[Text, AfterValidator(check_zone)]


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
    str, BeforeValidator(read_kind), WithJsonSchema({"type": "string", "enum": list(KINDS)}, mode="validation")
]


class ClientTls(Section):
    """TLS of a client; the system's authorities are trusted where nothing else is said."""

    ca_file: File | None = None
    """Authorities to trust, PEM."""
    cert_file: File | None = None
    """The client's certificate, PEM."""
    key_file: File | None = None
    """Its key, PEM; may be left out when cert_file holds both."""
    server_name: Text | None = None
    """Name expected in the server's certificate, when it is not the URL's host."""

    @check("key_file")
    @classmethod
    def _with_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value is not None and info.data.get("cert_file", value) is None:
            raise ValueError("needs a cert_file beside it")
        return value


class Tls(ClientTls):
    """TLS to the broker; the system's authorities are trusted where nothing else is said."""

    insecure: StrictBool = False
    """Trust any certificate. For tests only: whoever is in between reads the password."""


class QueueMatch(Section):
    """Queues of one broker by pattern."""

    address: Pattern = "*"
    """Pattern on the address."""
    queue: Pattern = "*"
    """Pattern on the queue."""

    def compiled(self) -> flow.Match:
        return flow.Match(**dict(self))


MAX_LABELS = 16
LABEL_LENGTH = 100


def check_labels(value: dict[str, str]) -> dict[str, str]:
    """The errors show neither names nor texts."""
    if len(value) > MAX_LABELS:
        raise ValueError(f"must be at most {MAX_LABELS} labels")
    for name, text in value.items():
        if not re.fullmatch(rf"(?!__)[A-Za-z_][A-Za-z0-9_]{{0,{LABEL_LENGTH - 1}}}", name):
            raise ValueError(
                f"must have names of at most {LABEL_LENGTH} letters, digits and underscores, that begin with neither"
                " a digit nor __"
            )
        if len(text) > LABEL_LENGTH or not text.isprintable():
            raise ValueError(f"must have values of at most {LABEL_LENGTH} printable characters")
    return value


def unique_name(value: str, info: ValidationInfo) -> str:
    if not value.isprintable():
        raise ValueError("must hold printable characters only")
    names = Reading.of(info).names
    if value in names:
        raise ValueError("is the name of an earlier broker; names are unique")
    names.add(value)
    return value


class Broker(Section):
    """One broker: where it is and how it is asked."""

    name: Annotated[EnvText, AfterValidator(unique_name)]
    """Its name: the label `broker` of every metric; unique."""
    kind: KindName
    """`artemis` or `openmq`."""
    transport: Transport = Transport.JOLOKIA
    """How it is asked: `jolokia`, `jmx` or `recording`."""
    url: EnvText
    """Its Jolokia URL, such as http://127.0.0.1:8161/console/jolokia/; over JMX `service:jmx:…` or, for OpenMQ, its
    port mapper as mq://127.0.0.1:7676; for a recording `recording:FILE`."""
    username: EnvText | None = None
    """User with the right to read management attributes."""
    inline_password: EnvSecret | None = Field(default=None, alias="password")
    """The user's password, best as ${VARIABLE}."""
    password_file: File | None = None
    """File that holds the password; read at each use, so that it can be rotated."""
    origin: Annotated[EnvText, AfterValidator(check_origin)] | None = None
    """Origin header to send, where the broker checks it."""
    tls: Tls = Tls()
    """TLS to the broker, for an https URL."""
    timezone: Zone | None = None
    """Zone of the hours by which its load repeats, when not the general one."""
    interval: Interval | None = None
    """Time between two polls of this broker, when not the general one."""
    timeout: Timeout | None = None
    """Deadline of a whole poll of this broker, when not the general one."""
    include: tuple[QueueMatch, ...] = ()
    """Only queues that one of these matches; none = all."""
    exclude: tuple[QueueMatch, ...] = ()
    """Not the queues that one of these matches."""
    port_mapper: Annotated[EnvText, refusing(host_port)] | None = None
    """HOST:PORT of an OpenMQ port mapper, where it is not reached at the URL's host and the broker's own port."""
    java: File | None = None
    """The `java` (11 or later) of jmx, when not that of JAVA_HOME or PATH."""
    imqjmx_jar: File | None = None
    """OpenMQ's `imqjmx.jar`, which `jmx` needs where the broker runs with `imq.hostname`."""
    page_rows: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 5000
    """Consumers of an Artemis asked for in one call."""
    max_answer: Annotated[Size, between(2**16, 2**32, format_size)] = 64 * 2**20
    """Largest answer that is read; a larger one fails its collector."""
    budgets: OwnBudgets = OwnBudgets()
    """How much of this broker is read and shown: what is said here, in place of the general budgets."""
    labels: Annotated[dict[str, Text], AfterValidator(check_labels)] = Field(default={})
    """Said about the broker itself: labels of mq_broker_labels, `label_` before their names."""

    @check("url")
    @classmethod
    def _usable_url(cls, value: str, info: ValidationInfo) -> str:
        transport = info.data.get("transport")
        if transport is None:  # refused above: what its URL would have to be is not known
            return value
        if value.startswith("recording:"):
            if transport is not Transport.RECORDING:
                raise ValueError("a recording needs transport: recording beside it")
            file = value.removeprefix("recording:")
            if not file:
                raise ValueError("recording: must be followed by the name of a file")
            return f"recording:{existing_file(file, info)}"
        if transport is Transport.RECORDING:
            raise ValueError("must be recording:FILE, as transport is recording")
        if transport is Transport.JOLOKIA:
            http_url(value)
        else:
            kind = KINDS.get(info.data.get("kind", ""))
            jmx_url(value, port_mapper=kind is not None and kind.port_mapper)
        return value

    @check("inline_password", "password_file")
    @classmethod
    def _with_user(cls, value: SecretStr | Path | None, info: ValidationInfo) -> SecretStr | Path | None:
        if value is not None and info.data.get("username", "") is None:
            raise ValueError("needs a username beside it")
        return value

    _one_password = check("password_file")(one_password)

    @check("tls")
    @classmethod
    def _over_https(cls, value: Tls, info: ValidationInfo) -> Tls:
        if value != Tls() and not info.data.get("url", "https:").startswith("https:"):
            raise ValueError("needs an https URL")
        return value

    @check("timeout")
    @classmethod
    def _within_interval(cls, value: float | None, info: ValidationInfo) -> float | None:
        if "interval" not in info.data:  # refused above
            return value
        return check_timeout(value, info.data["interval"] or Reading.of(info).interval)

    def password(self) -> str | None:
        """The password as it is now; None = none configured. ConfigError when its file cannot be read any more."""
        if self.password_file is None:
            return None if self.inline_password is None else self.inline_password.get_secret_value()
        try:
            return read_password(self.password_file)
        except ValueError as error:
            raise ConfigError(f"broker {self.name}: password_file: {error}") from None

    @property
    def recording(self) -> Path | None:
        """The file to read in place of a broker."""
        return Path(self.url.removeprefix("recording:")) if self.transport is Transport.RECORDING else None

    def port_mapper_at(self) -> tuple[str, int | None]:
        """Host and port of the OpenMQ port mapper; None: at the port that the broker says."""
        if self.port_mapper is not None:
            return host_port(self.port_mapper)
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port if parts.scheme == "mq" else None

    def selection(self) -> flow.Selection:
        return flow.Selection(
            tuple(match.compiled() for match in self.include), tuple(match.compiled() for match in self.exclude)
        )


def check_timeout(timeout: float | None, interval: float | None) -> float | None:
    if timeout is not None and interval is not None and timeout >= interval:
        raise ValueError(f"must be less than the interval, {format_duration(interval)}")
    return timeout
