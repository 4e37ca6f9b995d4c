"""`python docs/manual.py DIRECTORY`: the man pages, penstock.1 and one for each command, made from their help."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from generate import contexts
from penstock import __version__
from penstock.cli.main import main

SUMMARIES = 1000
"""Characters that a summary may have."""


def manual(context: click.Context) -> str:
    """One page in the macros of man(7)."""
    name = context.command_path.replace(" ", "-")
    command = context.command
    summary = command.get_short_help_str(SUMMARIES).rstrip(".")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{name.upper()}" "1" "" "penstock {__version__}" "Penstock"',
        ".SH NAME", f"{name} \\- {plain(summary)}",
        ".SH SYNOPSIS", f".B {context.command_path}", plain(usage),
        ".SH DESCRIPTION", *paragraphs(command.help or ""),
        *(line for title, rows in sections(context) for line in (f".SH {title}", *rows)),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def sections(context: click.Context) -> Iterator[tuple[str, list[str]]]:
    """Options, commands and examples; none that is empty."""
    options = (
        one
        for one in context.command.get_params(context)
        if isinstance(one, click.Option)
    )
    records = [one.get_help_record(context) for one in options]
    yield "OPTIONS", [line for one in records if one for line in entry(*one)]
    if isinstance(context.command, click.Group):
        found = {
            name: context.command.get_command(context, name)
            for name in context.command.list_commands(context)
        }
        yield (
            "COMMANDS",
            [
                line
                for name, one in found.items()
                if one
                for line in entry(name, one.get_short_help_str(SUMMARIES))
            ],
        )
    examples = [
        line.strip() for line in (context.command.epilog or "").splitlines()[2:]
    ]
    if examples:
        yield "EXAMPLES", [".nf", *map(plain, examples), ".fi"]
    yield (
        "EXIT STATUS",
        [
            "0: all is healthy. 1: something is unhealthy or unknown, or cannot be read. 2: wrong usage."
        ],
    )


def entry(term: str, text: str) -> list[str]:
    return [".TP", f".B {plain(term)}", plain(text)]


def paragraphs(text: str) -> Iterator[str]:
    for part in re.split(r"\n\s*\n", text.strip()):
        yield from (".PP", plain(part))


def plain(text: str) -> str:
    """In one line, with nothing that troff would read."""
    line = (
        re.sub(r"\s+", " ", text.replace("\b", ""))
        .strip()
        .replace("\\", "\\e")
        .replace("-", "\\-")
    )
    return f"\\&{line}" if line[:1] in {".", "'"} else line


def write(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for context in contexts(main, "penstock"):
        file = directory / f"{context.command_path.replace(' ', '-')}.1"
        file.write_text(manual(context), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/manual.py DIRECTORY")
    write(Path(sys.argv[1]))
