"""`penstock dashboards write`: the Grafana dashboards as files."""

from importlib.resources import files
from pathlib import Path

import click

from penstock.cli import files as writing
from penstock.cli import options
from penstock.cli.examples import examples


@click.group()
def dashboards() -> None:
    """Dashboards for Grafana 10 and later."""


@dashboards.command(epilog=examples("penstock dashboards write dashboards"))
@writing.directory
@options.command
async def write(directory: Path) -> int:
    """Write one JSON file a dashboard into DIRECTORY, to import or to provision."""
    shipped = [one for one in files("penstock.assets").joinpath("dashboards").iterdir() if one.name.endswith(".json")]
    writing.write(directory, {one.name: one.read_text(encoding="utf-8") for one in sorted(shipped, key=str)})
    return 0
