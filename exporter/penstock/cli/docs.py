"""`python -m penstock.cli.docs FILE`: write the reference of all commands (`docs/cli.md`)."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from penstock.cli.main import main

_INTRODUCTION = """\
# Commands

Made from the commands themselves by `python -m penstock.cli.docs docs/cli.md`; do not edit.

Exit status: 0 when all is well; 1 when a broker or an agent could not be asked, or what was asked is not healthy; 2
when the command line or a configuration is wrong. Errors go to standard error and say what to do. Colours are for
terminals only, and not when `NO_COLOR` is set.

Completion in bash: `eval "$(penstock completion bash)"` in `~/.bashrc`; in zsh and fish:
[completion](#penstock-completion).
"""


def commands(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[click.Context]:
    """The command and all below it, each with its context."""
    context = click.Context(
        command, parent, name, terminal_width=100, max_content_width=100, **command.context_settings
    )
    yield context
    if isinstance(command, click.Group):
        for one in command.list_commands(context):
            found = command.get_command(context, one)
            assert found is not None  # noqa: S101 - it was listed
            yield from commands(found, one, context)


def markdown() -> str:
    """The reference: of each command its help as the terminal shows it, examples apart."""
    return "\n".join([_INTRODUCTION, *(_section(context) for context in commands(main, "penstock"))])


def _section(context: click.Context) -> str:
    head, _, tail = context.get_help().partition("\n  Examples:\n")
    parts = [f"## {context.command_path}", "", "```text", head.rstrip(), "```", ""]
    if tail:
        parts += ["```", *(line.strip() for line in tail.splitlines() if line.strip()), "```", ""]
    return "\n".join(parts)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m penstock.cli.docs FILE")
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
