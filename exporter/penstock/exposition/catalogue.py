"""The catalogue: every metric, once, from `catalogue.toml`. A new one is an entry, and a column at its `place`."""

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final, Literal

import msgspec

FamilyType = Literal["counter", "gauge", "info"]

_FILE: Final = tomllib.loads(
    files("penstock.exposition").joinpath("catalogue.toml").read_text(encoding="utf-8")
)
TABLES: Final = msgspec.convert(_FILE["tables"], dict[str, tuple[str, ...]])
"""Table → the labels of each of its families: attributes of its row objects, by the same name, in this order."""

_UNIT: Final = re.compile("_((timestamp_)?seconds|messages)$")


@cache
def place_of(name: str) -> str:
    """As most names say it: `mq_TABLE_COLUMN`, of the agent `penstock_COLUMN`; a unit may follow."""
    stem = name.removesuffix("_total")
    if stem.startswith("penstock_"):
        return f"agent.{stem.removeprefix('penstock_')}"
    table, _, column = stem.removeprefix("mq_").partition("_")
    return f"{table}.{_UNIT.sub('', column)}"


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
        return (
            "counter"
            if self.name.endswith("_total")
            else "info"
            if self.name.endswith("_info")
            else "gauge"
        )

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


CATALOGUE: Final = msgspec.convert(_FILE["metric"], tuple[Family, ...])
"""All families, in the order in which a body shows them."""
AGENT: Final = tuple(family for family in CATALOGUE if family.table == "agent")
