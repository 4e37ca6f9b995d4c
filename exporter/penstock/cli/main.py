"""`penstock` and its commands."""

import click

from penstock import __version__
from penstock.cli.check import check
from penstock.cli.demo import demo
from penstock.cli.once import once
from penstock.cli.record import record
from penstock.cli.run import run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="penstock")
def main() -> None:
    """Flow-control health of JMS brokers (Apache Artemis, AMQ Broker) for Prometheus."""


for command in (run, once, check, record, demo):
    main.add_command(command)
