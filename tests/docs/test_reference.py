"""docs/api.md against the code, in both directions."""

import re
from pathlib import Path

from penstock.insight.events import Change
from penstock.server.api import openapi

DOCS = Path(__file__).parents[2] / "docs"
API = (DOCS / "api.md").read_text(encoding="utf-8")


def test_every_path_and_parameter_is_documented() -> None:
    rows = dict(
        re.findall(r"^\| `(/api/v1/[^`?]*)(?:\?([^`]*))?` \|", API, re.MULTILINE)
    )
    assert set(rows) == set(openapi()["paths"])
    for path, about in openapi()["paths"].items():
        asked = {p["name"] for p in about["get"]["parameters"] if p["in"] == "query"}
        assert {
            name for name in rows[path].replace("=", "").split("&") if name
        } == asked


def test_every_change_is_documented() -> None:
    table = API[API.index("## Changes") :]
    assert {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
            for name in re.findall(r"`(\w+)`", row)} == set(Change)  # fmt: skip
