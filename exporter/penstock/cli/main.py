"""`penstock` and its commands."""

from importlib import import_module

import click

from penstock import __version__
from penstock.cli.examples import examples

COMMANDS = (
    "run", "once", "check", "top", "explain", "events", "flow", "record", "replay", "demo", "alerts", "dashboards",
    "policy", "history", "trends", "completion",
)  # fmt: skip
"""Each the name of its module and of the command in it, in the order of the help."""

FIRST = ("penstock check --config.file penstock.yaml", "penstock run --config.file penstock.yaml", "penstock top")


class Commands(click.Group):
    """Loads a command when it is asked for: the agent needs nothing of what draws tables."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"penstock.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - one module a command
        return command


@click.group(cls=Commands, epilog=examples(*FIRST), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="penstock")
def main() -> None:
    """Tells what flows through JMS brokers (Apache Artemis, AMQ Broker, Eclipse OpenMQ), what does not, and why."""
