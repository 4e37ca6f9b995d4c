"""`penstock policy`: the file that makes a Jolokia agent in an OpenMQ broker read-only."""

import click

from penstock.cli import options
from penstock.setup import openmq


@options.command("penstock policy > openmq-policy.xml")
def policy() -> None:
    """Print the policy of a Jolokia agent in an OpenMQ broker that lets Penstock read, and nobody do anything else.

    Write it to a file and name that in the agent's option policyLocation; docs/openmq.md shows how.
    """
    click.echo(openmq.policy(), nl=False)  # noqa: TID251 - a file of our own
