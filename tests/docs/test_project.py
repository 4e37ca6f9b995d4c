"""What a contributor reads, against the tree: the Makefile's help, the tables of rooms and of tests, links, forms."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md"]
FOR_OTHER_TARGETS = {"tools-helm"}
HELP_LINE = r"make ([a-z-]+)(?: \[.*\])?  (\S.*)"
"""Its target, what it says about it."""


def folders(where: Path) -> set[str]:
    return {
        one.name
        for one in where.iterdir()
        if one.is_dir() and not one.name.startswith(("__", "."))
    }


def first_cells(page: str) -> set[str]:
    """All names in code in the first column of its tables."""
    rows = re.findall(
        r"^\|(.*?)\|", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE
    )
    return {name for row in rows for name in re.findall(r"`([\w.]+)", row)}


def test_the_help_names_every_target_and_how_long_it_takes() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {
        name
        for names in re.findall(r"^([a-z][a-z -]*):(?!=)", makefile, re.MULTILINE)
        for name in names.split()
    }
    said = subprocess.run(
        ["make", "--silent", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    groups = dict(block.strip().split("\n", 1) for block in said.split("\n\n"))
    lines = [
        re.fullmatch(HELP_LINE, line)
        for block in groups.values()
        for line in block.splitlines()
    ]
    named = {line[1]: line[2] for line in lines if line}
    assert [*groups] == ["Every day", "Before a merge", "At night, or before a release"]
    assert all(lines)
    assert named.keys() == targets - {"help"} - FOR_OTHER_TARGETS
    assert [
        name for name, about in named.items() if not re.search(r"\d (s|min|h)\b", about)
    ] == ["clean"]


def test_a_dry_run_runs_nothing() -> None:
    """A line with $(MAKE) runs even then, and tests/cli makes a dry run of every target that a page names."""
    assert "$(MAKE)" not in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_rooms_are_those_of_the_package() -> None:
    rooms = folders(ROOT / "exporter" / "penstock")
    assert rooms <= first_cells("CONTRIBUTING.md")


def test_the_folders_of_tests_are_those_there_are() -> None:
    assert folders(ROOT / "tests") <= first_cells("tests/README.md")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.parametrize(
    "form",
    sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")),
    ids=lambda form: form.stem,
)
def test_forms_of_issues_are_whole(form: Path) -> None:
    read = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= read.keys()
    assert all(part["attributes"]["label"] for part in read["body"])
    identifiers = [part["id"] for part in read["body"]]
    assert len(set(identifiers)) == len(identifiers)


def test_the_workflow_runs_targets_that_there_are() -> None:
    read = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    )
    commands = [
        step["run"]
        for job in read["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    assert "make unit WORKERS=4" in commands
    assert ".ci/run" in commands
    assert read["jobs"]["unit"]["strategy"]["matrix"]["python"] == [
        "3.11",
        "3.12",
        "3.13",
        "3.14",
    ]


def test_the_workflow_takes_the_keys_of_its_caches_from_files_that_there_are() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    files = [
        file
        for found in re.findall(r"hashFiles\((.*?)\)", text)
        for file in re.findall(r"'(.*?)'", found)
    ]
    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []
