"""`penstock` and its commands."""

import io
import sys
from importlib import import_module
from importlib.util import find_spec

import click

from penstock import __version__
from penstock.cli import logs

COMMANDS = (
    "init", "run", "once", "check", "top", "explain", "account", "events", "flow", "record", "replay", "demo",
    "alerts", "runbook", "dashboards", "policy", "history", "trends", "completion",
)  # fmt: skip
"""Each the name of its module and of the command in it, in the order of the help."""
DEMO = "penstock_demo"
"""The package of the command `demo`, installed by itself."""


def examples(*lines: str) -> str:
    """An epilog of these lines, as they stand; a test runs every one."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


class Commands(click.Group):
    """Loads a command when it is asked for: the agent needs nothing of what draws tables."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [name for name in COMMANDS if name != "demo" or find_spec(DEMO)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name == "demo" and not find_spec(DEMO):
            if ctx.resilient_parsing:  # a shell asks what comes next
                return None
            where = "in a checkout of Penstock, pip install ./exporter/demo"
            raise click.UsageError(f"the demo is a package of its own: {where}")
        module = f"{DEMO}.command" if cmd_name == "demo" else f"penstock.cli.{cmd_name}"
        command = getattr(import_module(module), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - one module a command
        return command


@click.group(
    cls=Commands,
    epilog=examples(
        "penstock check --config.file penstock.yaml", "penstock run --config.file penstock.yaml", "penstock top"
    ),
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="penstock")
def main() -> None:
    """Tells what flows through JMS brokers (Apache Artemis, AMQ Broker, Eclipse OpenMQ), what does not, and why."""
    logs.set_up("error", "logfmt")
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name may have letters that the terminal's encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
