"""The output of commands. Every command writes by `say` and `say_json`; the linter refuses `click.echo`.

On a terminal, lines are coloured and folded: the rest of a long line is indented under its text. Elsewhere they stay as
they are. All characters are made visible in any case (`core.visible`).
"""

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator

import click
import msgspec

from penstock.core.catalogues import read_toml
from penstock.core.visible import visible

COLOURS = read_toml("penstock.tui", "colours.toml")
"""By a word that names the state, in any case: the same is said without colour."""
_HEAD = re.compile(r"\s*(?:\S+(?: \S+)?\s{2,}|- )?")
"""The beginning of a line under which its rest is not put: blanks, and a word or two before a gap, or a dash."""
_WORD = re.compile(r" *[^ ]+")
LEAST = 40
"""Columns; a narrower terminal folds the lines itself."""
HANG = 2
"""The least indent of a folded part, in columns: a name in it must not look like a line of Penstock's own."""


def say(*lines: str, err: bool = False) -> None:
    """Write lines to standard output, or to standard error. Colours only on a terminal, unless NO_COLOR is set."""
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


def say_json(value: object, *, indent: int | None = 2) -> None:
    """Write a value as JSON; characters that are not visible are written as escapes of JSON.

    indent: of nested values, in columns; None: all in one line.
    """
    for line in json.dumps(
        msgspec.to_builtins(value), ensure_ascii=False, indent=indent
    ).split("\n"):
        _write(visible(line))


def _write(line: str, *, err: bool = False) -> None:
    click.echo(line, err=err, color=True)  # noqa: TID251 - the one place


def folded(line: str, width: int) -> Iterator[str]:
    """Cut a line into parts of at most `width` columns; later parts are indented to the text behind its head.

    It is cut before a word; a word that is longer than a whole part, between two of its characters.
    """
    line = visible(line)
    head = _HEAD.match(line)
    indent = max(columns(head[0]) if head else 0, HANG)
    if indent > width // 2:
        indent = HANG
    part = ""
    used = 0
    for word in _WORD.findall(line):
        has_no_room = used + columns(word) > width
        without_blanks = word.lstrip(" ")
        fits_next_part = indent + columns(without_blanks) <= width
        if part and has_no_room and fits_next_part:
            yield part
            part = " " * indent
            used = indent
            word = without_blanks  # noqa: PLW2901
        for character in word:
            if used + columns(character) > width:
                yield part
                part = " " * indent
                used = indent
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
    """Return the word that names a state, one of the first three (a time may come before it); empty where none does."""
    return next((word for word in line.split()[:3] if word.lower() in COLOURS), "")


def coloured(line: str) -> str:
    """Return the line with the word for a state in its colour; a heading, words without punctuation, in bold."""
    word = state_word(line)
    if not word:
        is_heading = re.match(r"[A-Z]\w+( [\w ]+)?$", line)
        return click.style(line, bold=True) if is_heading else line
    style = COLOURS[word.lower()]
    whole_word = rf"(?<!\S){word}(?!\S)"
    return re.sub(
        whole_word,
        lambda match: click.style(match[0], **style),
        line,
        count=1,
    )
