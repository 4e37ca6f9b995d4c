"""`penstock policy`: the file that makes a Jolokia agent in an OpenMQ broker read-only."""

import click

from penstock.cli import options
from penstock.setup import openmq


@options.command()
def policy() -> None:
    """Print the policy file that makes Jolokia in an OpenMQ broker read-only.

    Write it to a file, and name that file in the option policyLocation of Jolokia's agent; docs/openmq.md shows how.
    """
    click.echo(openmq.policy(), nl=False)  # noqa: TID251 - a file of our own
