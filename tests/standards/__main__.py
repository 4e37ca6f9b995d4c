"""`python -m standards`: is any room harder to read than it was? Part of `make lint`."""

import sys
from pathlib import Path

import click

from standards import ceilings
from standards.stumbles import stumbles_in

HINT = "`python -m standards FILE` names the places. A ceiling only falls."


@click.command()
@click.option(
    "--lower",
    is_flag=True,
    help="Write the ceilings that the rooms have reached; none rises.",
)
@click.argument(
    "files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
def main(files: tuple[Path, ...], *, lower: bool) -> None:
    """Compare each room with its ceilings. With FILES: what a reader stumbles over in them."""
    if files:
        for file in files:
            print_stumbles(file)
        return
    measured = ceilings.rooms()
    highest = ceilings.load()
    if lower:
        lowest = ceilings.lowered(measured, highest)
        text = ceilings.written(lowest)
        ceilings.FILE.write_text(text, encoding="utf-8")
        return
    sentences = ceilings.above(measured, highest)
    if sentences:
        print(*sentences, HINT, sep="\n")
        sys.exit(1)


def print_stumbles(file: Path) -> None:
    for line, text in stumbles_in(file.read_text(encoding="utf-8")):
        print(f"{file}:{line}: {text}")


if __name__ == "__main__":
    main()
