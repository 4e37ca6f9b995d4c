"""The dashboards as a reader of the JSON sees them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dashboards.generate import DASHBOARDS
from dashboards.generate.frame import document

from assets.grafana import ALL, BUILT_IN, REFERENCE, Choice, expanded

Json = Mapping[str, Any]
DOCUMENTS: Mapping[str, Json] = {one.uid: document(one) for one in DASHBOARDS}


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of a dashboard: where it stands, its PromQL, and whether it is asked for the end of the range only."""

    board: str
    panel: str
    expr: str
    instant: bool

    @property
    def name(self) -> str:
        return f"{self.board}/{self.panel}"


def panels(document: Json) -> Iterator[Json]:
    """All but the titles of rows."""
    yield from (panel for panel in document["panels"] if panel["type"] != "row")


def asked() -> Iterator[Asked]:
    """Every query of every panel."""
    for uid, board in DOCUMENTS.items():
        for panel in panels(board):
            for target in panel["targets"]:
                yield Asked(uid, panel["title"], target["expr"], target["instant"])


def substituted(query: str, values: Mapping[str, str] | None = None) -> str:
    """A query with what Grafana puts in place of variables; those without a value choose everything."""
    chosen = {name: Choice((value,)) for name, value in (values or {}).items()}
    return expanded(
        query, {name: chosen.get(name, ALL) for name in variables_of(query)}
    )


def variables_of(query: str) -> set[str]:
    """The variables of a dashboard that a query refers to."""
    names = {
        found["plain"] or found["old"] or found["braced"]
        for found in REFERENCE.finditer(query)
    }
    return names - BUILT_IN.keys()
