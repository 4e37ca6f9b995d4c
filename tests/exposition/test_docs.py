import subprocess
import sys
from pathlib import Path

from penstock.exposition.catalogue import CATALOGUE
from penstock.exposition.docs import markdown

REFERENCE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_reference_is_that_of_the_catalogue() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == markdown(), (
        "run: python -m penstock.exposition.docs docs/metrics.md"
    )


def test_every_family_has_its_line() -> None:
    lines = markdown().splitlines()
    for family in CATALOGUE:
        assert len([line for line in lines if line.startswith(f"| `{family.name}` | {family.type} |")]) == 1


def test_the_command_writes_it(tmp_path: Path) -> None:
    target = tmp_path / "metrics.md"
    subprocess.run([sys.executable, "-m", "penstock.exposition.docs", target], check=True)
    assert target.read_text(encoding="utf-8") == markdown()


def test_the_command_says_how_to_call_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.exposition.docs"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("usage:")
