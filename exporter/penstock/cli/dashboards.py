"""`penstock dashboards write`: the Grafana dashboards as files."""

from pathlib import Path

import click

from penstock.assets.dashboards import dashboard_files
from penstock.cli import options, writing
from penstock.cli.examples import examples


@click.group()
def dashboards() -> None:
    """Dashboards for Grafana 10 and later."""


@dashboards.command(epilog=examples("penstock dashboards write dashboards"))
@writing.directory
@options.command
async def write(directory: Path) -> int:
    """Write one JSON file a dashboard into DIRECTORY, to import or to provision."""
    writing.write(directory, dashboard_files())
    return 0
