"""Where text leaves for a terminal. Every command writes by `say` and `say_json`; the linter refuses `click.echo`.

On a terminal lines are folded under their beginning and coloured, elsewhere they are as they are, visible in any case.
"""

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from penstock.core.catalogues import read_toml
from penstock.core.visible import visible

COLOURS = read_toml("penstock.tui", "colours.toml")
"""By a word that names the state, in any case: the same is said without colour."""
_HEAD = re.compile(r"\s*(?:\S+(?: \S+)?\s{2,}|- )?")
_WORD = re.compile(r" *[^ ]+")
LEAST = 40
"""Columns; a narrower terminal folds our lines itself."""
HANG = 2
"""Columns by which what was folded is moved in at least: a name must not look like a line of ours."""


def say(*lines: str, err: bool = False) -> None:
    """A line each, to standard output or error. Colours only on a terminal, and not when NO_COLOR is set."""
    if err or not sys.stdout.isatty():
        for line in lines:
            _write(visible(line), err=err)
        return
    plain = bool(os.environ.get("NO_COLOR"))
    width = max(shutil.get_terminal_size().columns, LEAST)
    for line in lines:
        first, *others = folded(line, width)
        _write(first if plain else coloured(first))
        for part in others:
            _write(part)


def say_json(value: Any, *, indent: int | None = 2) -> None:
    """The value as JSON, what would act on a terminal in the escapes that JSON has for it. indent: None in one line."""
    for line in json.dumps(
        msgspec.to_builtins(value), ensure_ascii=False, indent=indent
    ).split("\n"):
        _write(visible(line))


def _write(line: str, *, err: bool = False) -> None:
    click.echo(line, err=err, color=True)  # noqa: TID251 - the one place


def folded(line: str, width: int) -> Iterator[str]:
    """Cut a line into parts of at most `width` columns; later parts are indented to the text behind its first word."""
    line = visible(line)
    head = _HEAD.match(line)
    hang = max(columns(head[0]) if head else 0, HANG)
    if hang > width // 2:
        hang = HANG
    part = ""
    used = 0
    for word in _WORD.findall(line):
        if (
            part
            and used + columns(word) > width
            and hang + columns(word.lstrip(" ")) <= width
        ):
            yield part
            part = " " * hang
            used = hang
            word = word.lstrip(" ")  # noqa: PLW2901
        for character in word:
            if used + columns(character) > width:  # no line is long enough for the word
                yield part
                part = " " * hang
                used = hang
            part += character
            used += columns(character)
    yield part


def columns(text: str) -> int:
    """Return the columns that visible text takes on a terminal, or more."""
    if text.isascii():
        return len(text)
    return sum(map(columns_of_character, text))


def columns_of_character(character: str) -> int:
    """Return 0 for a mark above another character, 2 for a wide character, else 1."""
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def state_word(line: str) -> str:
    """The first word of the line, or the one behind a time, that names a state; empty when there is none."""
    return next((word for word in line.split()[:3] if word.lower() in COLOURS), "")


def coloured(line: str) -> str:
    word = state_word(line)
    if not word:
        return (
            click.style(line, bold=True)
            if re.match(r"[A-Z]\w+( [\w ]+)?$", line)
            else line
        )
    style = COLOURS[word.lower()]
    return re.sub(
        rf"(?<!\S){word}(?!\S)",
        lambda found: click.style(found[0], **style),
        line,
        count=1,
    )
