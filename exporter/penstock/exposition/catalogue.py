"""The catalogue: every metric, once.

A metric of a number that brokers send is declared with its column, in `penstock.columns`;
`catalogue.toml` has its place in the order. Any other metric is an entry there, and a column
at its `place`.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final, Literal

import msgspec

from penstock.columns.addresses import AddressColumns
from penstock.columns.broker import BrokerColumns
from penstock.columns.connections import ConnectionColumns
from penstock.columns.consumers import ConsumerColumns
from penstock.columns.links import LinkColumns
from penstock.columns.producers import ProducerColumns
from penstock.columns.queues import QueueColumns
from penstock.columns.spec import Frame, place_of

FamilyType = Literal["counter", "gauge", "info"]

_FILE: Final = tomllib.loads(
    files("penstock.exposition").joinpath("catalogue.toml").read_text(encoding="utf-8")
)
TABLES: Final = msgspec.convert(_FILE["tables"], dict[str, tuple[str, ...]])
"""Table → the labels of each of its families: attributes of its row objects, by the same name, in this order."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    name: as in the text format, its type in it: `_total` is a counter, `_info` an info, any other a gauge.
    help: what it is and in which unit. source: where the broker shows it. at: its `place` where the name does not say.
    labels: attributes of the row objects that become labels beside the table's own. unbounded: +Inf is a value of it.
    """

    name: str
    help: str
    source: str = "Penstock"
    at: str = field(default="", kw_only=True)
    labels: tuple[str, ...] = field(default=(), kw_only=True)
    unbounded: bool = field(default=False, kw_only=True)

    @property
    def type(self) -> FamilyType:
        if self.name.endswith("_total"):
            return "counter"
        if self.name.endswith("_info"):
            return "info"
        return "gauge"

    @property
    def place(self) -> str:
        """`table.column` of its values; NaN = no sample. An info family has 1 where it applies."""
        return self.at or place_of(self.name)

    @property
    def table(self) -> str:
        return self.place.partition(".")[0]

    @property
    def column(self) -> str:
        return self.place.partition(".")[2]

    @property
    def label_names(self) -> tuple[str, ...]:
        """All labels of a sample, in their order."""
        return TABLES[self.table] + self.labels

    @property
    def documentation(self) -> str:
        """The text of HELP."""
        return f"{self.help} Source: {self.source}."


def declared_families(frame: type[Frame[Any]]) -> Iterator[Family]:
    """The metrics that are declared with the columns of a frame."""
    for spec, metric in frame.metrics():
        place = metric.at
        if not place and frame.is_own(metric):
            place = f"{frame.THING}.{spec.name}"
        yield Family(
            name=metric.name,
            help=metric.help or spec.meaning,
            source=spec.sources.documentation(metric.omits),
            at=place,
        )


def in_order(
    entries: Iterable[Mapping[str, Any]], declared: Mapping[str, Family]
) -> tuple[Family, ...]:
    """All metrics, in the order in which a body shows them.

    Args:
        entries: The metrics of `catalogue.toml`; of a declared one only the name.
        declared: The declared metrics by name. One that has no entry comes after the other
            metrics of its table.
    """
    families: list[Family] = []
    for entry in entries:
        family = declared.get(entry["name"])
        if family is None:
            family = msgspec.convert(entry, Family)
        families.append(family)

    placed = set(families)
    for family in declared.values():
        if family not in placed:
            position = behind_its_table(families, family.table)
            families.insert(position, family)
    return tuple(families)


def behind_its_table(families: Sequence[Family], table: str) -> int:
    """The position behind the last of the families of a table."""
    position = len(families)
    while families[position - 1].table != table:
        position -= 1
    return position


FRAMES: Final[tuple[type[Frame[Any]], ...]] = (
    BrokerColumns,
    AddressColumns,
    QueueColumns,
    ConsumerColumns,
    ProducerColumns,
    ConnectionColumns,
    LinkColumns,
)
"""The frames whose numbers have metrics."""
DECLARED: Final = {
    family.name: family for frame in FRAMES for family in declared_families(frame)
}
CATALOGUE: Final = in_order(_FILE["metric"], DECLARED)
"""All families, in the order in which a body shows them."""
AGENT: Final = tuple(family for family in CATALOGUE if family.table == "agent")
