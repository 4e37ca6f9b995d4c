"""The main file as typed, frozen values. Docstrings of fields are the descriptions in the JSON schema."""

import re
from datetime import date
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlsplit

import yaml
from pydantic import BeforeValidator, Field, PlainSerializer, StrictBool, StrictInt, ValidationInfo, WithJsonSchema
from pydantic import field_validator as check

from penstock.config.broker import MARGIN, Broker, Budgets, Interval, Pattern, QueueMatch, Timeout, Zone, check_timeout
from penstock.config.discovery import Discovery
from penstock.config.section import Section
from penstock.config.values import Duration, EnvText, Reading, Size, Text, between, format_duration, format_size
from penstock.model import QueueKind
from penstock.settings import rules as flow
from penstock.settings.business_hours import Hours, parse_hours
from penstock.settings.calendar import Calendar, Maintenance, parse_maintenance
from penstock.settings.constants import Constants

Target = Annotated[Duration, between(1, 365 * 86400, format_duration)]
BusinessHours = Annotated[
    Hours,
    BeforeValidator(parse_hours),
    PlainSerializer(lambda hours: hours.text, return_type=str),
    WithJsonSchema({"type": "string", "description": "Business hours such as Mon-Fri 08:00-18:00 Europe/Berlin"}),
]
DEFAULTS = Constants()
Span = Annotated[Duration, between(1, 3600, format_duration)]
"""Polls of every queue are held for so long, faster ones summed up."""
Seconds = Annotated[Duration, between(1, 7 * 86400, format_duration)]
Count = Annotated[StrictInt, Field(ge=1, le=1000)]


class TemporaryQueues(StrEnum):
    """Whether temporary queues are shown as one sum or each by its name."""

    SUMMED = "summed"
    EACH = "each"


class RuleMatch(QueueMatch):
    """What a rule speaks about; every pattern must match."""

    broker: Pattern = "*"
    """Pattern on the broker's name."""
    client: Pattern = "*"
    """Pattern on the client; anything but `*` speaks about clients, not about their queues."""


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


def parse_day(value: object) -> date:
    """ValueError says what is allowed."""
    try:
        return value if isinstance(value, date) else date.fromisoformat(str(value))
    except ValueError:
        raise ValueError("is no day; write 2026-12-25") from None


Day = Annotated[
    date,
    BeforeValidator(parse_day),
    PlainSerializer(date.isoformat, return_type=str),
    WithJsonSchema({"type": "string", "description": "A day such as 2026-12-25"}),
]
PlannedTime = Annotated[
    Maintenance,
    BeforeValidator(parse_maintenance),
    PlainSerializer(lambda one: one.text, return_type=str),
    WithJsonSchema({"type": "string", "description": "Begin and end, such as 2026-12-24 22:00 / 2026-12-25 02:00"}),
]


class NormalTimes(Section):
    """What is normal at an hour of the week: what the agent cannot learn of it."""

    timezone: Zone = "UTC"
    """Zone of the hours by which load repeats."""
    holidays: tuple[Day, ...] = ()
    """Days like no other of their weekday: they teach nothing, and what is usual on a Sunday is usual on them too."""
    maintenance: tuple[PlannedTime, ...] = ()
    """Times of planned work, by the broker's zone: nothing is missed in them, and nothing learned."""
    profiles: EnvText | None = None
    """File of profiles from history, which `penstock trends` writes; read again when it changes."""

    def calendar(self, zone: str | None) -> Calendar:
        """Of a broker; zone: its own."""
        return Calendar(zone or self.timezone, frozenset(self.holidays), self.maintenance)


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
    normal: NormalTimes = NormalTimes()
    """What is normal at an hour of the week."""
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
        """The configuration as YAML, defaults included, masked as `Section.masked` says; fit to be served."""
        return yaml.safe_dump(self.masked(), sort_keys=False, allow_unicode=True)


class RulesFile(Config):
    """A configuration of which only what is said about brokers, queues and clients is wanted."""

    brokers: tuple[Broker, ...] = ()

    @check("brokers")
    @classmethod
    def _some(cls, value: tuple[Broker, ...], info: ValidationInfo) -> tuple[Broker, ...]:  # noqa: ARG003
        return value


def json_schema() -> dict[str, Any]:
    """JSON Schema of the configuration file, for editors and for Helm's values."""
    return Config.model_json_schema()
