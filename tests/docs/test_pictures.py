"""The pictures of README and docs: small, there, and known to be old once what they show has changed."""

import json
import re
import shutil
from pathlib import Path

import pytest

from pages.pictures import PICTURES, ROOT, SHOWS, animated, digest, old

MOST_BYTES = 300_000


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_pictures_of_a_page_are_there_and_small(page: str) -> None:
    named = re.findall(
        r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / page).read_text(encoding="utf-8")
    )
    assert named
    files = [(ROOT / page).parent / one for one in named]
    assert {file.name for file in files} <= SHOWS.keys()
    assert [
        file.name for file in files if not 1_000 < file.stat().st_size <= MOST_BYTES
    ] == []


def test_a_picture_is_old_once_a_file_that_it_shows_has_changed(tmp_path: Path) -> None:
    for place in {place for places in SHOWS.values() for place in places}:
        source = ROOT / place
        target = tmp_path / place
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    (tmp_path / "docs/pictures").mkdir(parents=True)
    made = {name: digest(places) for name, places in SHOWS.items()}
    (tmp_path / "docs/pictures/sources.json").write_text(json.dumps(made))
    assert old(tmp_path) == []
    (tmp_path / "exporter/penstock/tui/new.py").write_text("")
    assert old(tmp_path) == ["top.svg"]


def test_frames_are_shown_in_turn_and_nothing_is_fetched() -> None:
    frame = '<svg viewBox="0 0 9 9"><style>@font-face { src: url("https://fonts.example/x") }\n.a {}</style></svg>'
    found = animated([frame, frame, frame])
    assert found.count('class="frame"') == 2
    assert found.count('class="frame last"') == 1
    assert "https://" not in found
    assert "https://" not in (PICTURES / "top.svg").read_text(encoding="utf-8").replace(
        "https://www.w3.org", ""
    )
