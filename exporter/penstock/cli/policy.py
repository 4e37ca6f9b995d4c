"""`penstock policy`: the file that makes a Jolokia agent in an OpenMQ broker read-only."""

from importlib.resources import files

import click

from penstock.cli import options


@options.command("penstock policy > openmq-policy.xml")
def policy() -> None:
    """Print the policy of a Jolokia agent in an OpenMQ broker that lets Penstock read, and nobody do anything else.

    Write it to a file and name that in the agent's option policyLocation; docs/openmq.md shows how.
    """
    click.echo(files("penstock.brokers.openmq").joinpath("jolokia-policy.xml").read_text(encoding="utf-8"), nl=False)  # noqa: TID251 - a file of our own
