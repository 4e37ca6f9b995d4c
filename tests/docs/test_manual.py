"""The man pages of `docs/manual.py`, which the .deb installs."""

import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cli.documented import leaves
from docs.generator import DOCS
from penstock.cli import main

pytestmark = pytest.mark.slow  # processes of their own


def test_every_command_has_a_page_that_man_can_read(tmp_path: Path) -> None:
    subprocess.run([sys.executable, DOCS / "manual.py", tmp_path], check=True)
    pages = {one.name: one.read_text() for one in tmp_path.iterdir()}
    for command in leaves(main, click.Context(main)):
        options = [
            one.opts[0].replace("-", "\\-")
            for one in command.params
            if isinstance(one, click.Option)
        ]
        of_it = [
            text for name, text in pages.items() if name.endswith(f"-{command.name}.1")
        ]
        assert any(
            ".SH EXAMPLES" in text and all(one in text for one in options)
            for text in of_it
        ), command.name
    assert '"On call"' not in pages["penstock.1"]
    assert "\n.B explain\n" in pages["penstock.1"]
    if groff := shutil.which("groff"):
        done = subprocess.run(
            [groff, "-man", "-Tutf8", "-ww", *tmp_path.iterdir()],
            capture_output=True,
            check=True,
        )
        assert done.stderr == b""
