"""The pages against the code, and as a site."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from penstock.actions.catalogue import ACTIONS
from penstock.conditions.catalogue import CONDITIONS
from penstock.config.http import BasicAuth, HttpConfig, TlsClient
from penstock.config.web import HttpServer, RateLimit, TlsServer, WebConfig
from penstock.exposition.catalogue import CATALOGUE
from penstock.findings.catalogue import RULES as FINDINGS
from penstock.tui.app import HELP
from rig.each import of_each

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FAMILIES = {family.name for family in CATALOGUE}


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def test_every_finding_is_documented_and_nothing_else() -> None:
    rows = re.findall(r"^\| (`.*?) \|", text("findings.md"), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == {
        rule.name for rule in FINDINGS
    }


@of_each(
    {
        page: page
        for page in sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    }
)
def test_every_metric_that_a_page_names_is_there(page: str) -> None:
    written = re.sub(
        r"Not there yet:\n.*?(?=^## |\Z)",
        "",
        text(page),
        flags=re.DOTALL | re.MULTILINE,
    )
    named = set(re.findall(r"\b(?:mq|penstock)_[a-z_]+[a-z]\b(?!…|:)", written))
    # OpenMetrics leaves out the endings; a part of a name stands for all that begin so.
    known = FAMILIES | {re.sub(r"_(total|info)$", "", name) for name in FAMILIES}
    assert {
        name
        for name in named - known - {"penstock_trends", "penstock_demo"}
        if not any(one.startswith(f"{name}_") for one in FAMILIES)
    } == set()


def test_every_condition_that_the_guide_names_is_there() -> None:
    table = (
        text("why-stalled.md").partition("| the condition is |")[2].partition("\n\n")[0]
    )
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert {"stalled", "open_transaction"} < named <= set(CONDITIONS)


def test_every_name_to_migrate_to_is_a_metric() -> None:
    rows = [line for line in text("migration.md").splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`(mq_\w+)`", row)}
    assert len(named) > 30
    assert named <= FAMILIES


def test_the_file_for_asking_an_agent_is_documented() -> None:
    page = text("top.md").partition("## An agent behind TLS and users")[2]
    for section in (HttpConfig, BasicAuth, TlsClient):
        for key in section.model_fields:
            assert re.search(rf"\b{key}\b", page), key


def test_every_key_of_the_web_configuration_is_documented_and_nothing_else() -> None:
    table = text("web.md").partition("## All keys")[2].partition("## ")[0]
    named = {
        key
        for row in re.findall(r"^\| (?:· )?(`.*?) \|", table, re.MULTILINE)
        for key in re.findall(r"`(\w+)`", row)
    }
    sections = (WebConfig, TlsServer, HttpServer, RateLimit)
    assert named == {key for section in sections for key in section.model_fields}


def test_the_keys_of_top_are_documented() -> None:
    table = text("top.md")
    for key in re.findall(
        r"^(\S+)(?:  ?\S+)* {2,}\w",
        HELP.partition("Keys\n")[2].partition("\n\n")[0],
        re.MULTILINE,
    ):
        assert key.strip(",") in table, key


def links(page: str) -> set[str]:
    """The pages that it links to."""
    found = re.findall(r"\]\(([\w./-]+\.md)", text(page))
    return {
        str(((DOCS / page).parent / one).resolve().relative_to(DOCS)) for one in found
    }


def test_the_guide_ends_with_every_action_for_a_stalled_consumer() -> None:
    act = text("why-stalled.md").partition("## 6. Act")[2].partition("\n## ")[0]
    assert set(re.findall(r"actions\.md#(\w+)", act)) == {
        one.name for one in ACTIONS if "stalled" in one.conditions
    }


def test_the_actions_that_the_role_on_call_may_not_do_are_named() -> None:
    role = (
        text("actions.md")
        .partition("## A role for those on call")[2]
        .partition("\n## ")[0]
    )
    may = (*re.findall(r'access method="(\w+)"', role), "list", "get", "is")
    refused = {
        one.name
        for one in ACTIONS
        if any(not call.operation.startswith(may) for call in one.calls)
    }
    sentence = role.partition("stays with the administrator")[2].partition(".")[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == refused


def test_every_page_is_two_clicks_from_the_index_and_what_helps_on_call_is_one() -> (
    None
):
    first = links("index.md")
    on_call = text("index.md").partition("## On call")[2].partition("\n## ")[0]
    runbooks = {
        f"runbooks/{name}.md"
        for name in ("README", "clients", "queues", "rings", "brokers", "penstock")
    }
    assert {
        f"({one})"
        for one in runbooks | {"conditions.md", "why-stalled.md", "account.md"}
    } <= set(re.findall(r"\([\w./-]+\.md\)", on_call))
    second = {two for one in first for two in links(one)}
    assert {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {
        "index.md"
    } <= first | second


@pytest.mark.slow  # builds the site
def test_every_page_is_in_the_site_and_no_link_is_broken(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "--site-dir",
            tmp_path / "site",
        ],
        cwd=ROOT,
        env={"NO_MKDOCS_2_WARNING": "1", "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads((tmp_path / "site/search/search_index.json").read_text())["docs"]
    assert {entry["location"].partition("#")[0] for entry in found} >= {
        str(page.relative_to(DOCS).with_suffix(".html")).replace("README", "index")
        for page in DOCS.rglob("*.md")
    }


def test_the_example_of_scaling_is_a_scaled_object() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", text("keda.md"), re.DOTALL)
    content = yaml.safe_load(example)
    assert (content["apiVersion"], content["kind"]) == (
        "keda.sh/v1alpha1",
        "ScaledObject",
    )
    assert (
        set(
            re.findall(r"\bmq_\w+", content["spec"]["triggers"][0]["metadata"]["query"])
        )
        <= FAMILIES
    )
