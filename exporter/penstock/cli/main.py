"""`penstock` and its commands."""

import atexit
import gc
import platform
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from penstock import __version__
from penstock.cli import logs
from penstock.cli.signals import take_early_signals
from penstock.core.build import revision
from penstock.core.catalogues import read_toml
from penstock.core.standard_streams import standard_streams

atexit.register(
    gc.freeze
)  # else Python looks through all that was imported as it ends: a third of a second

TEXTS = read_toml("penstock.cli", "texts.toml")
GROUPS: Mapping[str, Sequence[str]] = TEXTS["groups"]
"""Commands by what they are for."""
DEMO = "penstock_demo"
"""The package of the command `demo`, installed by itself."""
OTHERS = {"demo": DEMO, "trends": "penstock_trends"}
"""Commands whose module `command` is in a package of its own."""
WHOLE = 1000
"""Characters that a summary in a help may have: more than any."""


def examples(*lines: str) -> str:
    """An epilog of these lines, unchanged; a test runs every one."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


class CommandGroup(click.Group):
    """Shows whole summaries, and suggests a command where there is none of that name. groups: commands by heading."""

    groups: Mapping[str, Sequence[str]] = {}

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        commands = {
            name: self.get_command(ctx, name) for name in self.list_commands(ctx)
        }
        texts = {
            name: command_of_name.get_short_help_str(WHOLE)
            for name, command_of_name in commands.items()
            if command_of_name
        }
        for title, names in (self.groups or {"Commands": [*texts]}).items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name, texts[name]) for name in names if name in texts]
                )

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] == "run":
            take_early_signals()  # before the agent is imported
        if self.get_command(ctx, args[0]) is None and (
            near := get_close_matches(args[0], self.list_commands(ctx), 1)
        ):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]}?")
        return super().resolve_command(ctx, args)


class Commands(CommandGroup):
    """Loads a command when it is asked for: the agent needs nothing of what draws tables."""

    groups = GROUPS

    def main(self, *arguments: Any, **options: Any) -> Any:
        """As click's, for every command, help and version alike."""
        with standard_streams():
            return super().main(*arguments, **options)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [
            name
            for names in GROUPS.values()
            for name in names
            if name != "demo" or find_spec(DEMO)
        ]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if not any(cmd_name in names for names in GROUPS.values()):
            return None
        if cmd_name == "demo" and not find_spec(DEMO):
            if ctx.resilient_parsing:  # a shell asks what comes next
                return None
            where = "in a checkout of Penstock, pip install ./exporter/demo"
            raise click.UsageError(f"the demo is a package of its own: {where}")
        module = (
            f"{OTHERS[cmd_name]}.command"
            if cmd_name in OTHERS
            else f"penstock.cli.{cmd_name}"
        )
        command = getattr(import_module(module), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - one module a command
        return command


@click.group(
    cls=Commands,
    epilog=examples(*TEXTS["penstock"]["examples"]),
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(
    message=f"penstock {__version__} (build {revision() or 'unknown'}, Python {platform.python_version()})"
)
def main() -> None:
    """Show which clients and queues of JMS brokers are stalled, why, and what to do.

    For Apache Artemis, Red Hat AMQ Broker, Eclipse OpenMQ and ActiveMQ Classic.
    """
    logs.set_up("error", "logfmt")
