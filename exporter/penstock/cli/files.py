"""What commands that write files into a directory share."""

from collections.abc import Mapping
from pathlib import Path

import click

from penstock.core.errors import PenstockError
from penstock.core.safe_files import FOR_OTHERS, Unfit, check_target, replace_file
from penstock.tui.lines import say

directory = click.argument(
    "directory", type=click.Path(path_type=Path, file_okay=False)
)


def write(directory: Path, files: Mapping[str, str]) -> None:
    """Write the files (name → text) into a directory, made when not there; names each. PenstockError when it cannot."""
    for name, text in files.items():
        write_one(directory / name, text, parents=True)


def write_one(path: Path, text: str, *, parents: bool = False) -> None:
    """For others to read, as the umask allows; says the name. PenstockError when it cannot."""
    try:
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        check_target(path)
        replace_file(path, text.encode(), FOR_OTHERS)
    except Unfit as error:
        raise PenstockError(
            f"cannot write {path}: {error.strerror}; remove it or name another place"
        ) from error
    except OSError as error:
        raise PenstockError(
            f"cannot write {path}: {error.strerror or error}"
        ) from error
    say(str(path))
