"""Lines for people: on a terminal folded under their beginning and coloured, elsewhere as they are."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator

import click

COLOURS = {
    "critical": {"fg": "red", "bold": True},
    "failed": {"fg": "red", "bold": True},
    "down": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow"},
    "finding": {"fg": "yellow"},
    "note": {"fg": "cyan"},
    "info": {"fg": "cyan"},
    "healthy:": {"fg": "green"},
    "ok": {"fg": "green"},
}
"""By a word that tells the state, in any case: the same is said without colour."""
_HEAD = re.compile(r"\s*(?:\S+(?: \S+)?\s{2,}|- )?")
LEAST = 40
"""Columns; a narrower terminal folds our lines itself."""


def say(lines: Iterable[str]) -> None:
    """To standard output. Colours only on a terminal, and not when NO_COLOR is set."""
    if not sys.stdout.isatty():
        for line in lines:
            click.echo(line)
        return
    plain = bool(os.environ.get("NO_COLOR"))
    width = max(shutil.get_terminal_size().columns, LEAST)
    for line in lines:
        for part in folded(line, width):
            click.echo(part if plain else coloured(part), color=True)


def folded(line: str, width: int) -> Iterator[str]:
    """The line in parts of at most `width` characters, the later ones under the text that follows its first word."""
    found = _HEAD.match(line)
    hang = len(found[0]) if found else 0
    if hang > width // 2:
        hang = 2
    parts = textwrap.wrap(line, width, subsequent_indent=" " * hang, drop_whitespace=True, break_on_hyphens=False)
    yield from parts or [""]


def state_word(line: str) -> str:
    """The first word of the line, or the one behind a time, that tells a state; empty when there is none."""
    return next((word for word in line.split()[:3] if word.lower() in COLOURS), "")


def coloured(line: str) -> str:
    word = state_word(line)
    if not word:
        return click.style(line, bold=True) if re.match(r"[A-Z]\w+( [\w ]+)?$", line) else line
    style = COLOURS[word.lower()]
    return re.sub(rf"(?<!\S){word}(?!\S)", lambda found: click.style(found[0], **style), line, count=1)  # type: ignore[arg-type]
