"""The commands that README, docs and helps show."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from penstock.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "helm/penstock/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`(penstock [a-z][^`]*)`(?!`)")
SHELL = {"", "sh", "shell", "bash", "console"}


def lines() -> dict[str, str]:
    """Each command line in a fenced block of shell → the first page that shows it."""
    found: dict[str, str] = {}
    for page in PAGES:
        for line in _lines(page.read_text(encoding="utf-8")):
            found.setdefault(line, str(page.relative_to(ROOT)))
    return found


def _lines(text: str) -> Iterator[str]:
    for block in FENCE.finditer(text):
        if block[2] in SHELL:
            for line in block[3].replace("\\\n", " ").splitlines():
                command = line.strip().removeprefix("$ ").removeprefix(".venv/bin/")
                if re.match(r"(penstock|make|curl) |eval .*penstock ", command):
                    yield command


def inline() -> set[str]:
    """Commands within a sentence."""
    return {
        " ".join(found.split())
        for page in PAGES
        for found in _INLINE.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    }


def parse(line: str) -> None:
    """Fails with click's own words when there is no such command or option."""
    words = shlex.split(line, comments=True)[1:]
    context = click.Context(main, info_name="penstock", **main.context_settings)
    command: click.Command = main
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        assert found is not None, f"no command {words[0]!r}: {line}"
        command = found
        words = words[1:]
    command.make_context(command.name, words, parent=context, resilient_parsing=True)


def leaves(command: click.Command, context: click.Context) -> Iterator[click.Command]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaves(found, context)
    else:
        yield command
