"""The main file as typed, frozen values. The descriptions in the JSON schema are in `texts.toml`."""

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

import yaml
from pydantic import Field, StrictBool, StrictInt, ValidationInfo
from pydantic import field_validator as check

from penstock.config.broker import (
    MARGIN,
    Broker,
    Budgets,
    Interval,
    Pattern,
    QueueMatch,
    Timeout,
    Zone,
    check_timeout,
)
from penstock.config.discovery import Discovery
from penstock.config.section import Section
from penstock.config.values import (
    Duration,
    EnvText,
    Link,
    Reading,
    Size,
    Text,
    between,
    format_size,
    one_text,
)
from penstock.model import QueueKind
from penstock.settings import rules as flow
from penstock.settings.business_hours import Hours, parse_hours
from penstock.settings.calendar import Calendar, Maintenance, parse_maintenance
from penstock.settings.constants import Constants

Target = Annotated[Duration, between(1, 365 * 86400)]


BusinessHours = Annotated[
    Hours,
    *one_text(
        parse_hours,
        attrgetter("text"),
        "Business hours such as Mon-Fri 08:00-18:00 Europe/Berlin",
    ),
]
DEFAULTS = Constants()
Span = Annotated[Duration, between(1, 3600)]
"""Polls of every queue are held for so long, faster ones summed up."""
Seconds = Annotated[Duration, between(1, 7 * 86400)]


class TemporaryQueues(StrEnum):
    """Whether temporary queues are shown as one sum or each by its name."""

    SUMMED = "summed"
    EACH = "each"


class RuleMatch(QueueMatch):
    """What a rule speaks about; every pattern must match."""

    broker: Pattern = "*"
    client: Pattern = "*"


class Rule(Section):
    """What is said about the queues and clients that it matches; of each key the first rule that says it counts."""

    match: RuleMatch = RuleMatch()
    owner: Text | None = None
    team: Text | None = None
    kind: QueueKind | None = None
    ignore: StrictBool | None = None
    expected_consumers: Annotated[StrictInt, Field(ge=0, le=1_000_000)] | None = None
    patience: Annotated[Duration, between(1, 7 * 86400)] | None = None
    ring_loss: flow.RingLoss | None = None
    ring_retention: Target | None = None
    drain_target: Target | None = None
    client_memory: Annotated[Size, between(1, 2**50, format_size)] | None = None
    connection_flow_limit: (
        Annotated[StrictInt, Field(ge=0, le=1_000_000_000)] | None
    ) = None
    silence: StrictBool | None = None
    hours: BusinessHours | None = None

    def compiled(self) -> flow.Rule:
        return flow.Rule(
            self.match.compiled(),
            flow.RuleSettings(**{key: getattr(self, key) for key in flow.KEYS}),
        )


class Series(Section):
    """How many series of what comes and goes are shown, per broker."""

    consumers_per_broker: Annotated[StrictInt, Field(ge=0, le=100_000)] = 20
    consumers_per_queue: Annotated[StrictInt, Field(ge=0, le=100_000)] = 3
    clients: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 10_000
    connections: Annotated[StrictInt, Field(ge=0, le=100_000)] = 20


class Judgement(Section):
    """The constants of the rules that operators may set; docs/conditions.md explains them."""

    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        field.name: f"is no setting any more: remove it (it is always {field.default:g})"
        for field in fields(Constants)
        if field.name not in {"cold", "trend", "proof"}
    }

    cold: Seconds = DEFAULTS.cold
    trend: Span = DEFAULTS.trend
    proof: Seconds = DEFAULTS.proof

    def compiled(self) -> Constants:
        return Constants(cold=self.cold, trend=self.trend, proof=self.proof)


class ClientName(Section):
    """One replacement in the names of clients."""

    match: Text
    replace: Annotated[str, Field(max_length=1000)]

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


def parse_day(value: object) -> date:
    """ValueError says what is allowed."""
    try:
        return (
            value if isinstance(value, date) else date.fromisoformat(str(value).strip())
        )
    except ValueError:
        raise ValueError("is no day; write 2026-12-25") from None


Day = Annotated[date, *one_text(parse_day, date.isoformat, "A day such as 2026-12-25")]
PlannedTime = Annotated[
    Maintenance,
    *one_text(
        parse_maintenance,
        attrgetter("text"),
        "Begin and end, such as 2026-12-24 22:00 / 2026-12-25 02:00",
    ),
]


class NormalTimes(Section):
    """What is normal at an hour of the week: what the agent cannot learn of it."""

    timezone: Zone = "UTC"
    holidays: tuple[Day, ...] = ()
    maintenance: tuple[PlannedTime, ...] = ()
    profiles: EnvText | None = None

    def calendar(self, zone: str | None) -> Calendar:
        """Of a broker; zone: its own."""
        return Calendar(
            zone or self.timezone, frozenset(self.holidays), self.maintenance
        )


class History(Section):
    """The history of every poll, as Parquet, for the trend reports. Needs the extra `history`."""

    enabled: StrictBool = False
    url: EnvText | None = None
    agent: EnvText = "agent"
    publish: Annotated[Duration, between(10, 3600)] = 300.0
    keep: Annotated[Duration, between(2 * 86400, 3650 * 86400)] = 35 * 86400.0
    max_size: Annotated[Size, between(2**20, 2**50, format_size)] = 20 * 2**30
    max_spool: Annotated[Size, between(2**20, 2**50, format_size)] = 2 * 2**30
    trends: EnvText | None = None

    @check("agent")
    @classmethod
    def _file_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", value) or value.startswith(
            (".", "_")
        ):
            raise ValueError(
                "must be 1 to 100 letters, digits, dots, dashes, underscores, and begin with none of . and _"
            )
        return value

    @check("url", "trends")
    @classmethod
    def _no_credentials(cls, value: str | None) -> str | None:
        if value is not None and "@" in urlsplit(value).netloc:
            raise ValueError(
                "must hold no credentials; give them by the environment (AWS_ACCESS_KEY_ID …)"
            )
        return value


class Config(Section):
    """The whole configuration. Durations are seconds, sizes bytes."""

    NEEDS_BROKERS: ClassVar[bool] = True

    interval: Annotated[Interval, Field(validate_default=True)] = 15.0
    timeout: Timeout | None = None
    discovery: Discovery = Discovery()
    brokers: tuple[Broker, ...]
    rules: tuple[Rule, ...] = ()
    judgement: Judgement = Judgement()
    series: Series = Series()
    budgets: Budgets = Budgets()
    clients: Clients = Clients()
    normal: NormalTimes = NormalTimes()
    history: History = History()
    temporary_queues: TemporaryQueues = TemporaryQueues.SUMMED
    links: Mapping[Text, Link] = {}

    @check("interval")
    @classmethod
    def _noted(cls, value: float, info: ValidationInfo) -> float:
        Reading.of(info).interval = value
        return value

    @check("timeout")
    @classmethod
    def _within_interval(
        cls, value: float | None, info: ValidationInfo
    ) -> float | None:
        return check_timeout(value, info.data.get("interval"))

    @check("brokers")
    @classmethod
    def _some(
        cls, value: tuple[Broker, ...], info: ValidationInfo
    ) -> tuple[Broker, ...]:
        discovery = info.data.get("discovery", Discovery())
        if (
            cls.NEEDS_BROKERS
            and not value
            and not discovery.dns
            and not discovery.files
        ):  # pydantic's own min_length counts the valid ones only
            raise ValueError("must have at least one entry")
        return value

    def interval_of(self, broker: Broker) -> float:
        return self.interval if broker.interval is None else broker.interval

    def timeout_of(self, broker: Broker) -> float:
        """The broker's own, else the general one where it fits into the broker's interval, else half a second less."""
        interval = self.interval_of(broker)
        if broker.timeout is not None:
            return broker.timeout
        return (
            self.timeout
            if self.timeout is not None and self.timeout < interval
            else interval - MARGIN
        )

    def budgets_of(self, broker: Broker) -> Budgets:
        """The general ones with what the broker's own say."""
        own = broker.budgets
        return self.budgets.model_copy(
            update={key: getattr(own, key) for key in own.model_fields_set}
        )

    def compiled_rules(self) -> flow.Rules:
        return flow.Rules(tuple(rule.compiled() for rule in self.rules))

    def masked_yaml(self) -> str:
        """The configuration as YAML, defaults included, masked as `Section.masked` says; fit to be served."""
        return yaml.safe_dump(self.masked(), sort_keys=False, allow_unicode=True)


class RulesFile(Config):
    """A configuration of which only what is said about brokers, queues and clients is wanted."""

    NEEDS_BROKERS = False
    brokers: tuple[Broker, ...] = ()


def json_schema() -> dict[str, Any]:
    """JSON Schema of the configuration file, for editors and for Helm's values."""
    return Config.model_json_schema()
