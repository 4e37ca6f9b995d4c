"""`penstock policy`: the file that makes the Jolokia of an OpenMQ or ActiveMQ Classic broker read-only."""

import click

from penstock.cli import options
from penstock.setup import openmq


@options.command()
@click.option("--kind", type=click.Choice(["openmq", "classic"]), default="openmq")
def policy(kind: str) -> None:
    """Print the policy file that makes Jolokia read-only in OpenMQ or ActiveMQ Classic.

    For OpenMQ, write it to a file, and name that file in the option policyLocation of Jolokia's agent; docs/openmq.md
    shows how. For ActiveMQ Classic it replaces conf/jolokia-access.xml, see docs/classic.md.
    """
    click.echo(openmq.policy(kind), nl=False)  # noqa: TID251 - a file of our own
