"""What pages have from the code is that of the code."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generator import DOCS, SCRIPT, generator
from penstock.exposition.catalogue import CATALOGUE


@pytest.mark.parametrize("name", generator.PAGES)
def test_a_page_is_that_of_the_code(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert text == generator.PAGES[name](text), "run: python docs/generate.py"


def test_every_family_has_its_line() -> None:
    lines = generator.metrics("").splitlines()
    for family in CATALOGUE:
        assert (
            len(
                [
                    line
                    for line in lines
                    if line.startswith(f"| `{family.name}` | {family.type} |")
                ]
            )
            == 1
        )


@pytest.mark.slow  # a process of its own
def test_the_script_writes_the_pages(tmp_path: Path) -> None:
    for name in generator.PAGES:
        text = (DOCS / name).read_text(encoding="utf-8")
        (tmp_path / name).parent.mkdir(exist_ok=True)
        of_code = name in (
            "metrics.md",
            "findings.md",
        )  # tables of other pages are written by hand
        text = re.sub(r"^\| `.*\n", "", text, flags=re.MULTILINE) if of_code else text
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "metrics.md").unlink()
    subprocess.run([sys.executable, SCRIPT, tmp_path], check=True)
    assert {name: (tmp_path / name).read_text() for name in generator.PAGES} == {
        name: (DOCS / name).read_text() for name in generator.PAGES
    }


def test_it_says_what_is_wrong_with_its_call_or_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "a", "b"])
    with pytest.raises(SystemExit, match=r"^usage:"):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    shutil.copy(DOCS / "metrics.md", tmp_path / "conditions.md")
    with pytest.raises(SystemExit, match=r"conditions\.md has no line"):
        generator.conditions((tmp_path / "conditions.md").read_text(encoding="utf-8"))
