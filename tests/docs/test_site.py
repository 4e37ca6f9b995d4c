"""The pages as the site renders them: lists, headings and links come out as they are written."""

import re

import markdown
import pytest
import yaml

from docs.generator import DOCS, generator
from penstock.assets.rule_files import all_alerts, rule_files
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import Condition, always, never
from rig.each import of_each

PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
RENDERED_BY = ["tables", "toc", "pymdownx.superfences", "pymdownx.highlight"]
"""As in mkdocs.yml."""


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def outside_of_code(page: str) -> str:
    return re.sub(r"(?ms)^( *)```.*?^\1```$", "", text(page))


@pytest.mark.slow  # renders all pages
@of_each({page: page for page in PAGES})
def test_a_numbered_list_is_one_list_and_a_heading_is_a_heading(page: str) -> None:
    html = markdown.markdown(text(page), extensions=RENDERED_BY)
    source = outside_of_code(page)
    assert len(re.findall(r"<ol", html)) == len(re.findall(r"(?m)^1\. ", source))
    assert len(re.findall(r"<h[1-6]", html)) == len(re.findall(r"(?m)^#{1,6} ", source))
    assert len(re.findall(r"<table", html)) == len(
        re.findall(r"(?m)^ *\|(?: *-+ *\|)+$", source)
    )
    assert not re.search(
        r"```|^(<p>)?\d+\. ", re.sub(r"(?s)<pre>.*?</pre>", "", html), re.MULTILINE
    )


@pytest.mark.parametrize(
    "page", ["conditions.md", "actions.md", "incidents.md", *generator.RUNBOOK_PAGES]
)
def test_no_generated_sentence_is_empty(page: str) -> None:
    assert re.findall(r"\*\*[A-Z][\w ]*\*\*(?::\s*|\s+)[.,;]", text(page)) == []
    assert (
        re.findall(
            r"\{\w+\}", outside_of_code(page).partition("<!-- Below this line")[2]
        )
        == []
    )


@of_each(CONDITIONS)
def test_the_section_of_a_condition_says_how_bad_it_can_be(
    condition: Condition,
) -> None:
    head = (
        text("conditions.md")
        .partition(f"\n## {condition.name}\n\n")[2]
        .partition("\n")[0]
    )
    assert ("notice" in head) == (condition.notice is not never)
    assert ("critical" in head) == (
        condition.may_be_critical and condition.notice is not always
    )
    if condition.alert is not None:
        assert "warning" in head or "critical" in head, "a notice fires no alert"


@pytest.mark.slow  # all alerts
def test_a_link_of_an_alert_leads_to_a_page_of_the_site() -> None:
    for group in yaml.safe_load(rule_files()["alerts.yaml"])["groups"]:
        for rule in group["rules"]:
            page, _, anchor = (
                rule["annotations"]["runbook_url"].rpartition("/")[2].partition("#")
            )
            assert f"\n## {rule['alert']}\n" in text(
                f"runbooks/{page.removesuffix('.html')}.md"
            )
            assert (page[-5:], anchor) == (".html", rule["alert"].lower())


def test_an_alert_that_is_always_a_warning_is_said_to_be() -> None:
    said = {
        name: bool(only)
        for name, only in re.findall(
            r"\[(Penstock\w+)\][^\n]*?( \(always a warning\))?\.\n",
            text("conditions.md"),
        )
    }
    critical = {alert.name for alert in all_alerts() if alert.severity == "critical"}
    worse = {
        one.alert.name
        for one in CONDITIONS.values()
        if one.alert is not None and one.may_be_critical
    }
    assert {name for name, only in said.items() if only} == worse - critical


def test_every_alert_is_in_the_table_of_all() -> None:
    table = text("runbooks/README.md").partition("## Alerts, A to Z")[2]
    assert re.findall(r"(?m)^\| \[(\w+)\]", table) == sorted(
        {alert.name for alert in all_alerts()}
    )


def test_steps_that_lose_messages_are_marked() -> None:
    """What the actions say is lost for good is marked in each section that names the deed."""
    for name in generator.RUNBOOK_PAGES:
        for section in re.split(r"(?m)^## ", text(name))[1:]:
            do = section.partition("**Do** ")[2].partition("\n\n")[0]
            if re.search(r"(?i)\bpurg(e|ing)\b|\bDROP\b|journal", do):
                assert "**loses messages**" in re.sub(r"\s+", " ", do), (
                    section.partition("\n")[0]
                )
