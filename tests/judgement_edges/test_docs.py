"""docs/conditions.md and docs/api.md against the code, in both directions."""

import re
from pathlib import Path

import pytest

from penstock.flow.events import Change
from penstock.flow.judge.conditions import KINDS
from penstock.flow.judge.words import ON_OPENMQ, RULES
from penstock.server.openapi import OPENAPI

DOCS = Path(__file__).parents[2] / "docs"
CONDITIONS = (DOCS / "conditions.md").read_text(encoding="utf-8")
API = (DOCS / "api.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", CONDITIONS, re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def test_every_condition_has_its_section_and_nothing_else() -> None:
    assert re.findall(r"^## (.*)$", CONDITIONS, re.MULTILINE) == list(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_section_says_what_the_code_does(name: str) -> None:
    kind, text = KINDS[name], section(name)
    assert f"On a {kind.scope.value}; " in text
    assert ("notice" in text.splitlines()[1]) == kind.info
    assert RULES[name] in text
    assert [cause for cause in kind.causes if cause not in text] == []
    assert re.search(r"^- \*\*Quiet on\*\* \w", text, re.MULTILINE)
    assert [part for part in words_of(kind.advice) if part not in text] == []
    if kind.on_openmq:
        (own,) = re.findall(r"^- \*\*On OpenMQ\*\*.*$", text, re.MULTILINE)
        assert ON_OPENMQ.get(name, "") in own
        assert [part for part in (*kind.on_openmq.causes, *words_of(kind.on_openmq.advice)) if part not in own] == []


def words_of(advice: str) -> list[str]:
    return [part for part in re.split(r"\{[^}]*\}", advice) if part.strip()]


def test_every_path_and_parameter_is_documented() -> None:
    rows = dict(re.findall(r"^\| `(/api/v1/[^`?]*)(?:\?([^`]*))?` \|", API, re.MULTILINE))
    assert set(rows) == set(OPENAPI["paths"])
    for path, about in OPENAPI["paths"].items():
        asked = {p["name"] for p in about["get"]["parameters"] if p["in"] == "query"}
        assert {name for name in rows[path].replace("=", "").split("&") if name} == asked


def test_every_change_is_documented() -> None:
    table = API[API.index("## Changes") :]
    assert {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
            for name in re.findall(r"`(\w+)`", row)} == set(Change)  # fmt: skip
