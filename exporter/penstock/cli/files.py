"""What commands that write files into a directory share."""

from collections.abc import Mapping
from pathlib import Path

import click

from penstock.core.errors import PenstockError
from penstock.tui.lines import say

directory = click.argument("directory", type=click.Path(path_type=Path, file_okay=False))


def write(directory: Path, files: Mapping[str, str]) -> None:
    """Write the files (name → text) into a directory, made when not there; tells each. PenstockError when it cannot."""
    for name, text in files.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise PenstockError(f"cannot write {path}: {error.strerror or error}") from error
        say(str(path))
