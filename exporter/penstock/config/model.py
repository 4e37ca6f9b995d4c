"""The configuration as typed, frozen values. Docstrings of fields are the descriptions in the JSON schema."""

import re
from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    StrictBool,
    StrictInt,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic import field_validator as check

from penstock.brokers.budget import RowBudgets
from penstock.brokers.registry import KINDS
from penstock.config.values import (
    Duration,
    EnvSecret,
    EnvText,
    File,
    Reading,
    Size,
    Text,
    between,
    check_host_port,
    check_origin,
    existing_file,
    format_duration,
    format_size,
    host_port,
    http_url,
    jmx_url,
    read_password,
)
from penstock.core.errors import ConfigError
from penstock.model import QueueKind
from penstock.settings import rules as flow
from penstock.settings.business_hours import ALLOWED, Hours, parse_hours
from penstock.settings.constants import Constants
from penstock.settings.policy import Limits

MARGIN = 0.5
"""Seconds left between a poll's deadline and the next poll."""

Interval = Annotated[Duration, between(1, 3600, format_duration)]
Timeout = Annotated[Duration, between(0.1, 3600, format_duration)]
Pattern = Text


def read_kind(value: object) -> str:
    if not isinstance(value, str) or value not in KINDS:
        raise ValueError(f"must be one of {' or '.join(map(repr, KINDS))}")
    return value


KindName = Annotated[
    str, BeforeValidator(read_kind), WithJsonSchema({"type": "string", "enum": list(KINDS)}, mode="validation")
]


def read_hours(value: object) -> Hours:
    if not isinstance(value, str):
        raise ValueError(f"must be text; {ALLOWED}")  # noqa: TRY004 - pydantic's way
    return parse_hours(value)


Target = Annotated[Duration, between(1, 365 * 86400, format_duration)]
BusinessHours = Annotated[
    Hours,
    BeforeValidator(read_hours),
    PlainSerializer(lambda hours: hours.text, return_type=str),
    WithJsonSchema({"type": "string", "description": "Business hours such as Mon-Fri 08:00-18:00 Europe/Berlin"}),
]
DEFAULTS = Constants()
LIMITS = Limits()
Span = Annotated[Duration, between(1, 3600, format_duration)]
"""Polls of every queue are held for so long, faster ones summed up."""
Seconds = Annotated[Duration, between(1, 7 * 86400, format_duration)]
Count = Annotated[StrictInt, Field(ge=1, le=1000)]


class Transport(StrEnum):
    """How a broker is asked."""

    JOLOKIA = "jolokia"
    JMX = "jmx"
    JMXQUERY = "jmxquery"
    RECORDING = "recording"


class TemporaryQueues(StrEnum):
    """Whether temporary queues are shown as one sum or each by its name."""

    SUMMED = "summed"
    EACH = "each"


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        validate_by_alias=True,
    )


class Tls(Section):
    """TLS to the broker; the system's authorities are trusted where nothing else is said."""

    ca_file: File | None = None
    """Authorities to trust, PEM."""
    cert_file: File | None = None
    """The client's certificate, PEM."""
    key_file: File | None = None
    """Its key, PEM; may be left out when cert_file holds both."""
    insecure: StrictBool = False
    """Trust any certificate. For tests only: whoever is in between reads the password."""
    server_name: Text | None = None
    """Name expected in the broker's certificate, when it is not the URL's host."""

    @check("key_file")
    @classmethod
    def _with_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value is not None and info.data.get("cert_file", value) is None:
            raise ValueError("needs a cert_file beside it")
        return value


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


class QueueMatch(Section):
    """Queues of one broker by pattern."""

    address: Pattern = "*"
    """Pattern on the address."""
    queue: Pattern = "*"
    """Pattern on the queue."""

    def compiled(self) -> flow.Match:
        return flow.Match(address=self.address, queue=self.queue)


class Broker(Section):
    """One broker: where it is and how it is asked."""

    name: EnvText
    """Its name: the label `broker` of every metric; unique."""
    kind: KindName
    """`artemis` or `openmq`."""
    allow_password_in_process_list: StrictBool = False
    """Needed for `jmxquery`, which shows the password to whoever may list processes on the agent's machine."""
    transport: Transport = Transport.JOLOKIA
    """How it is asked: `jolokia`, `jmx`, `jmxquery` (attributes only, a Java process a call) or `recording`."""
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
    interval: Interval | None = None
    """Time between two polls of this broker, when not the general one."""
    timeout: Timeout | None = None
    """Deadline of a whole poll of this broker, when not the general one."""
    include: tuple[QueueMatch, ...] = ()
    """Only queues that one of these matches; none = all."""
    exclude: tuple[QueueMatch, ...] = ()
    """Not the queues that one of these matches."""
    port_mapper: Annotated[EnvText, AfterValidator(check_host_port)] | None = None
    """HOST:PORT of an OpenMQ port mapper, where it is not reached at the URL's host and the broker's own port."""
    java: File | None = None
    """The `java` (11 or later) of jmx and jmxquery, when not that of JAVA_HOME or PATH."""
    imqjmx_jar: File | None = None
    """OpenMQ's `imqjmx.jar`, which `jmx` needs where the broker runs with `imq.hostname`."""
    page_rows: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 5000
    """Consumers of an Artemis asked for in one call."""
    max_answer: Annotated[Size, between(2**16, 2**32, format_size)] = 64 * 2**20
    """Largest answer that is read; a larger one fails its collector."""
    budgets: Annotated[Budgets, PlainSerializer(lambda own: own.model_dump(exclude_unset=True))] = Budgets()
    """How much of this broker is read and shown: what is said here, in place of the general budgets."""

    @check("name")
    @classmethod
    def _unique(cls, value: str, info: ValidationInfo) -> str:
        if not value.isprintable():
            raise ValueError("must hold printable characters only")
        names = Reading.of(info).names
        if value in names:
            raise ValueError("is the name of an earlier broker; names are unique")
        names.add(value)
        return value

    @check("transport")
    @classmethod
    def _allowed_transport(cls, value: Transport, info: ValidationInfo) -> Transport:
        if value is Transport.JMXQUERY and not info.data.get("allow_password_in_process_list"):
            raise ValueError(
                "jmxquery shows the password in the list of processes; use jolokia or jmx, or say"
                " allow_password_in_process_list: true beside it"
            )
        return value

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

    @check("password_file")
    @classmethod
    def _one_password(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value is not None:
            if info.data.get("inline_password") is not None:
                raise ValueError("stands beside password; give only one of the two")
            read_password(value)
        return value

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


class RuleMatch(QueueMatch):
    """What a rule speaks about; every pattern must match."""

    broker: Pattern = "*"
    """Pattern on the broker's name."""
    client: Pattern = "*"
    """Pattern on the client; anything but `*` speaks about clients, not about their queues."""

    def compiled(self) -> flow.Match:
        return flow.Match(self.broker, self.address, self.queue, self.client)


class Rule(Section):
    """What is said about the queues and clients that it matches; of each key the first rule that says it counts."""

    match: RuleMatch = RuleMatch()
    """What it speaks about."""
    owner: Text | None = None
    """Label `owner` of mq_queue_info."""
    team: Text | None = None
    """Label `team` of mq_queue_info."""
    kind: QueueKind | None = None
    """What the queue is there for, when the broker's own settings do not tell."""
    ignore: StrictBool | None = None
    """Leave it out of everything."""
    expected_consumers: Annotated[StrictInt, Field(ge=0, le=1_000_000)] | None = None
    """Consumers that a queue should have."""
    patience: Annotated[Duration, between(1, 7 * 86400, format_duration)] | None = None
    """How long a client may hold messages without settling any, in place of what is learned."""
    ring_loss: flow.RingLoss | None = None
    """Whether evictions of a ring queue are `expected`, a notice, or an `alert`."""
    ring_retention: Target | None = None
    """Time span that a ring should cover; evictions below it are a warning."""
    drain_target: Target | None = None
    """Time in which a backlog should be worked off."""
    client_memory: Annotated[Size, between(1, 2**50, format_size)] | None = None
    """What messages given ahead on one connection of an OpenMQ client may take."""
    connection_flow_limit: Annotated[StrictInt, Field(ge=0, le=1_000_000_000)] | None = None
    """OpenMQ: imqConnectionFlowLimit of the client, 0 where imqConnectionFlowLimitEnabled is off."""
    silence: StrictBool | None = None
    """Conditions are judged and shown by `explain`, and not exported."""
    hours: BusinessHours | None = None
    """Business hours; outside of them missing consumers are no condition."""

    def compiled(self) -> flow.Rule:
        return flow.Rule(self.match.compiled(), flow.RuleSettings(**{key: getattr(self, key) for key in flow.KEYS}))


class Series(Section):
    """How many series of what comes and goes are shown, per broker."""

    consumers_per_broker: Annotated[StrictInt, Field(ge=0, le=100_000)] = 20
    """Consumers shown one by one, the worst of the broker."""
    consumers_per_queue: Annotated[StrictInt, Field(ge=0, le=100_000)] = 3
    """Of these, from any one queue."""
    clients: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 10_000
    """Distinct clients; further ones are counted together."""
    connections: Annotated[StrictInt, Field(ge=0, le=100_000)] = 20
    """Connections shown one by one, the worst of the broker."""


class Judgement(Section):
    """The constants of the rules that docs/conditions.md explains."""

    cold: Seconds = DEFAULTS.cold
    """Patience before anything is learned."""
    factor: Annotated[float, Field(ge=1, le=100)] = DEFAULTS.factor
    """Learned patience is so many times the usual gap."""
    floor: Seconds = DEFAULTS.floor
    """Least learned patience."""
    floor_polls: Annotated[float, Field(ge=1, le=100)] = DEFAULTS.floor_polls
    """Least learned patience in polls; the longer of the two counts."""
    cap: Seconds = DEFAULTS.cap
    """Longest learned patience."""
    decay: Annotated[float, Field(ge=0.5, le=1)] = DEFAULTS.decay
    """What is left of the weight of older gaps at each new one."""
    window: Span = DEFAULTS.window
    """Over which rates are judged."""
    window_polls: Annotated[float, Field(ge=3, le=1000)] = DEFAULTS.window_polls
    """The same in polls; the longer of the two counts."""
    trend: Span = DEFAULTS.trend
    """Over which a backlog's growth is judged."""
    trend_polls: Annotated[StrictInt, Field(ge=4, le=1000)] = DEFAULTS.trend_polls
    """Least polls of a trend."""
    proof: Seconds = DEFAULTS.proof
    """How long something must last that the broker says itself."""
    persistent: Span = DEFAULTS.persistent
    """Least time over which returned messages count as a loop."""
    margin: Annotated[float, Field(ge=0, le=1_000_000)] = DEFAULTS.margin
    """Messages by which a balance must differ from zero."""
    noise: Annotated[float, Field(ge=0, le=100)] = DEFAULTS.noise
    """How many times the measured noise is added to the margin."""
    event: Seconds = DEFAULTS.event
    """How long an event is shown."""
    rejoin: Annotated[Duration, between(0, 86400, format_duration)] = DEFAULTS.rejoin
    """A condition that returns within this time keeps its begin."""
    after_restart: Annotated[Duration, between(0, 86400, format_duration)] = DEFAULTS.after_restart
    """How long after a broker's start absence and returns are not judged."""
    churn_ids: Count = DEFAULTS.churn_ids
    """Consumers that must come and go before it is churn."""

    def compiled(self) -> Constants:
        return Constants(**dict(self))


class ClientName(Section):
    """One replacement in the names of clients."""

    match: Text
    """Regular expression (Python), searched for in the name."""
    replace: Annotated[str, Field(max_length=1000)]
    r"""What stands in place of each match; \1 is the first group."""

    @check("match")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"is not a regular expression: {error}") from None
        return value

    @check("replace")
    @classmethod
    def _fits(cls, value: str, info: ValidationInfo) -> str:
        try:
            re.sub(info.data.get("match", ""), value, "")
        except (re.error, IndexError) as error:
            raise ValueError(f"does not fit match: {error}") from None
        return value


class Clients(Section):
    """How clients are named."""

    map: tuple[ClientName, ...] = ()
    """Replacements, applied in this order."""


class Records(StrEnum):
    """Which DNS records name the brokers."""

    SRV = "SRV"
    A = "A"


HOST = "{host}"
NAME = "{name}"
PORT = "{port}"
_WITHOUT_PORT = re.compile(r"^(https?://\{host\})(?=[/?#]|$)")


class Found(Broker):
    """A broker for each thing found: `{name}` stands for what it is called, `{host}` for where it is, `{port}` for the
    port of its SRV record, which is also used where an HTTP url names none.
    """

    @check("name")
    @classmethod
    def _distinct(cls, value: str) -> str:
        if NAME not in value:
            raise ValueError(f"must hold {NAME}, so that each broker found has a name of its own")
        return value

    @check("url")
    @classmethod
    def _usable_url(cls, value: str, info: ValidationInfo) -> str:
        super()._usable_url(value.replace(PORT, "1"), info)
        return value

    @check("url")
    @classmethod
    def _somewhere(cls, value: str) -> str:
        if HOST not in value:
            raise ValueError(f"must hold {HOST}, which stands for each broker found")
        return value

    def takes_port(self) -> bool:
        """Whether the port that DNS names is used: the URL asks for it, or is one of HTTP that names no other."""
        return PORT in self.url or _WITHOUT_PORT.search(self.url) is not None

    def broker(self, name: str, host: str, port: int | None = None) -> Broker:
        """The broker `name` at `host` (a name or an address; IPv6 is put into brackets). port: of its SRV record."""
        where, url = f"[{host}]" if ":" in host else host, self.url
        if port is not None:
            url = _WITHOUT_PORT.sub(rf"\1:{PORT}", url).replace(PORT, str(port))
        values = {key: getattr(self, key) for key in Broker.model_fields}
        values["name"] = self.name.replace(NAME, name)
        values["url"] = url.replace(HOST, where)
        if self.tls.server_name is not None:
            values["tls"] = self.tls.model_copy(
                update={"server_name": self.tls.server_name.replace(HOST, host).replace(NAME, name)}
            )
        return Broker.model_construct(**values)


class DnsTarget(Section):
    """Brokers behind a name in DNS, such as a headless Service; asked again each minute."""

    dns: EnvText
    """The name. SRV: `_PORT._tcp.SERVICE.NAMESPACE.svc`, each target a broker; A: each address (A, AAAA) a broker."""
    records: Records = Records.SRV
    """SRV names pods, and so keeps a broker's name when its address changes; A has addresses only."""
    broker: Found
    """How each is watched."""

    @check("broker")
    @classmethod
    def _with_port(cls, value: Found, info: ValidationInfo) -> Found:
        if PORT in value.url and info.data.get("records") is Records.A:
            raise ValueError(f"url holds {PORT}, which only SRV records have")
        return value


class Discovery(Section):
    """Brokers that are not known in advance."""

    dns: tuple[DnsTarget, ...] = ()
    """Names in DNS."""
    files: tuple[Text, ...] = ()
    """Files with a list `brokers:` each, `*` and `?` allowed in the last part; read anew when they change."""
    forget: Annotated[Duration, between(0, 30 * 86400, format_duration)] = 900.0
    """A broker that is found no more is still asked for so long, so that an alert can tell that it is gone."""


class History(Section):
    """The history of every poll, as Parquet, for the trend reports. Needs `pip install 'penstock[history]'`."""

    enabled: StrictBool = False
    """Write it."""
    url: EnvText | None = None
    """Directory, or s3://BUCKET/PREFIX, where it is published; default: history in the directory of --storage.path."""
    agent: EnvText = "agent"
    """Name of this agent in the names of its files; agents that publish to one place need different ones."""
    publish: Annotated[Duration, between(10, 3600, format_duration)] = 300.0
    """Time between two publications."""
    keep: Annotated[Duration, between(2 * 86400, 3650 * 86400, format_duration)] = 35 * 86400.0
    """How long single polls are kept; what the trend jobs made of them stays."""
    max_size: Annotated[Size, between(2**20, 2**50, format_size)] = 20 * 2**30
    """Most that published polls may take; beyond it the oldest days go."""
    max_spool: Annotated[Size, between(2**20, 2**50, format_size)] = 2 * 2**30
    """Most that may wait to be published; beyond it the oldest goes and is counted."""
    trends: EnvText | None = None
    """gauges.json of the trend job, for /metrics; default: trends/gauges.json in the directory of --storage.path."""

    @check("agent")
    @classmethod
    def _file_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", value) or value.startswith((".", "_")):
            raise ValueError(
                "must be 1 to 100 letters, digits, dots, dashes, underscores, and begin with none of . and _"
            )
        return value

    @check("url", "trends")
    @classmethod
    def _no_credentials(cls, value: str | None) -> str | None:
        if value is not None and "@" in urlsplit(value).netloc:
            raise ValueError("must hold no credentials; give them by the environment (AWS_ACCESS_KEY_ID …)")
        return value


class Config(Section):
    """The whole configuration. Durations are seconds, sizes bytes."""

    interval: Annotated[Interval, Field(validate_default=True)] = 15.0
    """Time between two polls."""
    timeout: Timeout | None = None
    """Deadline of a whole poll; less than the interval. Default: half a second less."""
    discovery: Discovery = Discovery()
    """Where more brokers are found."""
    brokers: tuple[Broker, ...]
    """The brokers to watch; at least one unless discovery finds some."""
    rules: tuple[Rule, ...] = ()
    """What is said about queues and clients."""
    judgement: Judgement = Judgement()
    """The constants of the rules."""
    series: Series = Series()
    """How many series are shown."""
    budgets: Budgets = Budgets()
    """How much of each broker is read and shown."""
    clients: Clients = Clients()
    """How clients are named."""
    history: History = History()
    """The history of every poll, for the trend reports."""
    temporary_queues: TemporaryQueues = TemporaryQueues.SUMMED
    """Temporary queues `summed` into one, or `each` by its name."""

    @check("interval")
    @classmethod
    def _noted(cls, value: float, info: ValidationInfo) -> float:
        Reading.of(info).interval = value
        return value

    @check("timeout")
    @classmethod
    def _within_interval(cls, value: float | None, info: ValidationInfo) -> float | None:
        return check_timeout(value, info.data.get("interval"))

    @check("brokers")
    @classmethod
    def _some(cls, value: tuple[Broker, ...], info: ValidationInfo) -> tuple[Broker, ...]:
        found = info.data.get("discovery", Discovery())
        if not value and not found.dns and not found.files:  # pydantic's own min_length counts the valid ones only
            raise ValueError("must have at least one entry")
        return value

    def interval_of(self, broker: Broker) -> float:
        return self.interval if broker.interval is None else broker.interval

    def timeout_of(self, broker: Broker) -> float:
        """The broker's own, else the general one where it fits into the broker's interval, else half a second less."""
        interval = self.interval_of(broker)
        if broker.timeout is not None:
            return broker.timeout
        return self.timeout if self.timeout is not None and self.timeout < interval else interval - MARGIN

    def budgets_of(self, broker: Broker) -> Budgets:
        """The general ones with what the broker's own say."""
        own = broker.budgets
        return self.budgets.model_copy(update={key: getattr(own, key) for key in own.model_fields_set})

    def compiled_rules(self) -> flow.Rules:
        return flow.Rules(tuple(rule.compiled() for rule in self.rules))

    def masked_yaml(self) -> str:
        """The configuration as YAML, defaults included, every secret as `<secret>`; fit to be served."""
        masked = _masked(self.model_dump(by_alias=True, exclude_none=True))
        return yaml.safe_dump(masked, sort_keys=False, allow_unicode=True)


class RulesFile(Config):
    """A configuration of which only what is said about brokers, queues and clients is wanted."""

    brokers: tuple[Broker, ...] = ()

    @check("brokers")
    @classmethod
    def _some(cls, value: tuple[Broker, ...], info: ValidationInfo) -> tuple[Broker, ...]:  # noqa: ARG003
        return value


class BrokerFile(Section):
    """A file of `discovery.files`."""

    brokers: tuple[Broker, ...]
    """The brokers it names; may be empty."""


def check_timeout(timeout: float | None, interval: float | None) -> float | None:
    if timeout is not None and interval is not None and timeout >= interval:
        raise ValueError(f"must be less than the interval, {format_duration(interval)}")
    return timeout


def _masked(value: Any) -> Any:
    match value:
        case SecretStr():
            return "<secret>"
        case StrEnum():
            return value.value
        case Mapping():
            return {key: _masked(item) for key, item in value.items()}
        case tuple() | list():
            return [_masked(item) for item in value]
        case _:
            return value


def json_schema() -> dict[str, Any]:
    """JSON Schema of the configuration file, for editors and for Helm's values."""
    return Config.model_json_schema()
