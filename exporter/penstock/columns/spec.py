"""How a column is declared, and what a frame is.

A frame is a class whose attributes declare columns. On the class an attribute is the
declaration, on an instance it is the array:

    class ConsumerColumns(Frame[RowT]):
        buffered = measured(
            Kind.COUNT,
            Unit.MESSAGES,
            "Messages delivered and not acknowledged.",
            artemis="listConsumers messagesInTransit",
        )

    ConsumerColumns.buffered.unit    # Unit.MESSAGES
    consumers.buffered               # array of shape (consumers,)

A column is one of four: `measured` (a broker sends it), `kept` (Penstock carries it from
poll to poll, or looks it up), `derived` (a function of other columns of the same row,
computed when it is first read), `imported` (only an import from Prometheus has it).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from penstock.core.table import Column, Index, Mask, RowT_co

RowT = TypeVar("RowT")
ArrayT = TypeVar("ArrayT", bound=NDArray[np.generic])
ArrayT_co = TypeVar("ArrayT_co", bound=NDArray[np.generic], covariant=True)
FrameT = TypeVar("FrameT", bound="Frame[object]")


class Unit(StrEnum):
    """The unit of a number, as people see it beside the number."""

    BYTES = "bytes"
    CONNECTIONS = "connections"
    CONSUMERS = "consumers"
    FLAG = "yes_or_no"
    GROUPS = "groups"
    MESSAGES = "messages"
    MESSAGES_PER_SECOND = "messages/second"
    MILLISECONDS = "milliseconds"
    PAGES = "pages"
    PERCENT = "percent"
    PRODUCERS = "producers"
    RATIO = "ratio"
    SECONDS = "seconds"
    SESSIONS = "sessions"
    TIMES = "times"
    TIMESTAMP = "timestamp"
    """Seconds since 1970, by the broker's clock."""
    NONE = ""


class Kind(StrEnum):
    """The values that a broker may send; any other value is missing.

    The kind also decides the type in the stored history.
    """

    COUNT = "count"
    """A whole number, 0 or more."""
    SETTING = "setting"
    """A count that an operator sets; -1 means no limit."""
    PERCENT = "percent"
    """A count that is stored as a real number."""
    FLAG = "flag"
    """0 or 1."""
    STATE = "state"
    """The number of a state."""
    TIME = "time"
    """Sent as milliseconds, 0 for never; the column has seconds, NaN for never."""
    REAL = "real"
    """A real number, which Penstock computes from what the broker sends."""


class Origin(StrEnum):
    """Where the values of a column come from."""

    BROKER = "broker"
    PENSTOCK = "penstock"
    IMPORT = "import"
    """Only an import from Prometheus; no poll has it, the stored history does."""


_UNIT: Final = re.compile("_((timestamp_)?seconds|messages)$")


@cache
def place_of(metric: str) -> str:
    """`table.column` of a metric, as most names say it.

    A name is `mq_TABLE_COLUMN`, of the agent `penstock_COLUMN`; a unit may follow.
    """
    stem = metric.removesuffix("_total")
    if stem.startswith("penstock_"):
        return f"agent.{stem.removeprefix('penstock_')}"
    table, _, column = stem.removeprefix("mq_").partition("_")
    return f"{table}.{_UNIT.sub('', column)}"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that shows a column.

    Attributes:
        name: The metric's name. Its type follows from it.
        help: The HELP text; empty for the column's meaning.
        at: `table.column` of its values; empty where the name says it.
        omits: A kind of broker that its documentation does not name, though it has the
            number; empty for none.
    """

    name: str
    help: str = ""
    at: str = ""
    omits: str = ""

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")


PRODUCTS: Mapping[str, str] = {
    "artemis": "Artemis",
    "openmq": "OpenMQ",
    "classic": "Classic",
}
"""Kinds of broker, and their names in the documentation of a metric."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where each kind of broker shows a number.

    Attributes:
        artemis: A request and its attribute, `listQueues messageCount`; or an attribute of
            an MBean; or a formula over attributes. Empty where the broker has no such number.
        openmq: The same for OpenMQ.
        classic: The same for ActiveMQ Classic.
        request: A request of Artemis and its attribute, where `artemis` names another place.
    """

    artemis: str = ""
    openmq: str = ""
    classic: str = ""
    request: str = ""

    def __str__(self) -> str:
        return self.documentation()

    def documentation(self, omits: str = "") -> str:
        """The sources in the documentation of a metric, without those of one kind."""
        sources = []
        for kind, product in PRODUCTS.items():
            source = getattr(self, kind)
            if source and kind != omits:
                sources.append(f"{product}: {source}")
        return "; ".join(sources)

    def attribute(self, request: str) -> str:
        """The attribute that a request of Artemis has for it; empty where it has none."""
        operation, _, attribute = (self.request or self.artemis).partition(" ")
        return attribute if operation == request and attribute.isalnum() else ""


@dataclass(slots=True)
class Spec(Generic[ArrayT_co]):
    """The declaration of one column.

    Attributes:
        unit: The unit of its numbers.
        meaning: One sentence; also the HELP text of its metric.
        missing: The value where nothing is known.
        origin: Where its values come from.
        kind: The values that a broker may send; None for a column of Penstock.
        sources: Where the brokers show it.
        metrics: The metrics that show it.
        name: The attribute's name, which is the column's name everywhere.
        owner: The frame that declares it.
    """

    unit: Unit
    meaning: str
    missing: float | bool = np.nan
    origin: Origin = Origin.PENSTOCK
    kind: Kind | None = None
    sources: Sources = field(default_factory=Sources)
    metrics: tuple[Metric, ...] = ()
    compute: Callable[[Any], ArrayT_co] | None = None
    name: str = ""
    owner: type = object

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.owner = owner

    @overload
    def __get__(self, frame: None, owner: type) -> Self: ...
    @overload
    def __get__(self, frame: "Frame[object]", owner: type) -> ArrayT_co: ...
    def __get__(self, frame: "Frame[object] | None", owner: type) -> Self | ArrayT_co:
        if frame is None:
            return self
        columns = frame.columns
        if self.name not in columns:
            columns[self.name] = self._made(frame)
        return cast("ArrayT_co", columns[self.name])

    def _made(self, frame: "Frame[object]") -> NDArray[np.generic]:
        """The computed column of a frame; a column of missing values without a function."""
        if self.compute is not None:
            return self.compute(frame)
        return np.full(len(frame), self.missing)


class Frame(Generic[RowT_co]):
    """Things of one kind at one poll: who they are, and a column for each of their numbers.

    All columns have shape (things,) and the order of `index`. NaN is missing, never 0.
    """

    THING: ClassVar[str]
    """One of the things, as the names of its metrics have it: `mq_THING_…`."""

    def __init__(
        self, index: Index[RowT_co], columns: Mapping[str, NDArray[np.generic]]
    ) -> None:
        self.index = index
        self.columns: dict[str, NDArray[np.generic]] = dict(columns)

    def __len__(self) -> int:
        return len(self.index)

    @classmethod
    def specs(cls) -> dict[str, Spec[NDArray[np.generic]]]:
        """All declared columns by name, in the order of declaration; a base class first."""
        specs: dict[str, Spec[NDArray[np.generic]]] = {}
        for owner in reversed(cls.__mro__):
            specs |= {
                name: spec
                for name, spec in vars(owner).items()
                if isinstance(spec, Spec)
            }
        return specs

    @classmethod
    def measured(cls) -> frozenset[str]:
        """The names of the columns that brokers send."""
        return frozenset(
            name for name, spec in cls.specs().items() if spec.origin is Origin.BROKER
        )

    @classmethod
    def stored(cls) -> dict[str, Kind]:
        """The columns of the stored history with their kinds, in their order."""
        return {
            name: spec.kind
            for name, spec in cls.specs().items()
            if spec.kind is not None
        }

    @classmethod
    def from_request(cls, request: str) -> dict[str, str]:
        """The columns that a request of Artemis answers, each with its attribute there."""
        return {
            name: attribute
            for name, spec in cls.specs().items()
            if (attribute := spec.sources.attribute(request))
        }

    @classmethod
    def metrics(cls) -> Iterator[tuple[Spec[NDArray[np.generic]], Metric]]:
        """The metrics that show its columns, in the order of declaration."""
        for spec in cls.specs().values():
            for metric in spec.metrics:
                yield spec, metric

    @classmethod
    def is_own(cls, metric: Metric) -> bool:
        """Whether a metric shows the things themselves, and no sum of them."""
        return metric.name.startswith(f"mq_{cls.THING}_")

    @classmethod
    def shown(cls, *kinds: Kind, counters: bool = False) -> tuple[str, ...]:
        """The columns of these kinds that have a metric of the things themselves, no sum.

        Args:
            kinds: The kinds of the columns; none for all.
            counters: Those whose metric is a counter, else those whose metric is a gauge.
        """
        return tuple(
            spec.name
            for spec, metric in cls.metrics()
            if cls.is_own(metric)
            and metric.is_counter == counters
            and spec.kind in (kinds or Kind)
        )

    @classmethod
    def summed(cls, thing: str, *, counters: bool = False) -> dict[str, str]:
        """The columns of which another thing shows the sums, by the names of the sums.

        Args:
            thing: The other thing, as the names of its metrics have it.
            counters: Sums whose metric is a counter, else those whose metric is a gauge.
        """
        sums: dict[str, str] = {}
        for spec, metric in cls.metrics():
            place = metric.at or place_of(metric.name)
            table, _, name = place.partition(".")
            if table == thing and metric.is_counter == counters:
                sums[name] = spec.name
        return sums


def measured(  # noqa: PLR0913 - a keyword for each kind of broker
    kind: Kind,
    unit: Unit,
    meaning: str,
    *,
    artemis: str = "",
    openmq: str = "",
    classic: str = "",
    request: str = "",
    metric: str | Metric | tuple[Metric, ...] = (),
) -> Spec[Column]:
    """Declare a number that brokers send; the keywords are those of `Sources`."""
    metrics = (Metric(metric),) if isinstance(metric, str) else metric
    return Spec(
        unit,
        meaning,
        origin=Origin.BROKER,
        kind=kind,
        sources=Sources(artemis, openmq, classic, request),
        metrics=(metrics,) if isinstance(metrics, Metric) else metrics,
    )


def imported(kind: Kind, unit: Unit, meaning: str) -> Spec[Column]:
    """Declare a column of the stored history that only an import from Prometheus has."""
    return Spec(unit, meaning, origin=Origin.IMPORT, kind=kind)


def kept(unit: Unit, meaning: str) -> Spec[Column]:
    """Declare a number that Penstock carries from poll to poll, or looks up for the row."""
    return Spec(unit, meaning)


def kept_mask(meaning: str) -> Spec[Mask]:
    """Declare a yes or no that Penstock knows of each row; a missing one is no."""
    return Spec(Unit.FLAG, meaning, missing=False)


def derived(
    unit: Unit,
) -> Callable[[Callable[[FrameT], ArrayT]], Spec[ArrayT]]:
    """Declare a column as a function of other columns; its docstring is the meaning."""

    def declare(compute: Callable[[FrameT], ArrayT]) -> Spec[ArrayT]:
        meaning = (compute.__doc__ or "").partition("\n")[0]
        return Spec(unit, meaning, compute=compute)

    return declare
