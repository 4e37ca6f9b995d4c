"""The dashboards as a reader of the JSON sees them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dashboards.generate import DASHBOARDS
from dashboards.generate.frame import document

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
    for name, seconds in {"$__rate_interval": "1m", "$__interval": "15s", "$__range": "1h"}.items():
        query = query.replace(name, seconds)
    return re.sub(r"\$(\w+)", lambda found: (values or {}).get(found[1], ".*"), query)
