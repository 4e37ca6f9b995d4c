"""The runbooks: a section for each alert, with what is promised, and queries that hold against the catalogue."""

import re
from collections.abc import Mapping
from pathlib import Path

from assets.promql import catalogue_labels, problems
from penstock.assets.rule_files import all_alerts

FOLDER = Path(__file__).parents[2] / "docs" / "runbooks"
KNOWN = catalogue_labels()
FILES = {alert.name: alert.runbook for alert in all_alerts()}


def sections() -> Mapping[tuple[str, str], str]:
    """(file, title) → text."""
    found = {}
    for file in FOLDER.glob("*.md"):
        if file.stem != "README":
            for part in re.split(r"(?m)^## ", file.read_text())[1:]:
                title, _, text = part.partition("\n")
                found[file.stem, title] = text
    return found


def queries() -> list[str]:
    """All PromQL of the runbooks."""
    return [
        query
        for text in sections().values()
        for query in re.findall(r"```promql\n(.*?)\n```", text, re.DOTALL)
    ]


def test_each_alert_has_its_section_and_each_section_its_alert() -> None:
    assert set(sections()) == {(file, alert) for alert, file in FILES.items()}


PARTS = (
    "**Means**",
    "**Impact**",
    "**Confirm**",
    "**Causes**",
    "**Do**",
    "**Clears**",
    "**Silence**",
    "```promql",
)


def test_parts() -> None:
    for place, text in sections().items():
        assert [part for part in PARTS if part not in text] == [], place


def test_queries() -> None:
    found = queries()
    assert len(found) > 50
    for query in found:
        assert problems(query, KNOWN) == [], query


def test_links_lead_somewhere() -> None:
    titles = {(file, title.lower()) for file, title in sections()}
    for file in FOLDER.glob("*.md"):
        for target, anchor in re.findall(
            r"\]\(([\w.]*\.md)?(?:#(\w+))?\)", file.read_text()
        ):
            name = (target or file.name).removesuffix(".md")
            assert (FOLDER / f"{name}.md").is_file()
            assert not anchor or (name, anchor) in titles
