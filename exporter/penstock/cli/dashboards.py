"""`penstock dashboards write`: the Grafana dashboards as files."""

from importlib.resources import files
from pathlib import Path

from penstock.cli import files as writing
from penstock.cli import options


@options.group()
def dashboards() -> None:
    """Write dashboards for Grafana 10 and later."""


@options.command(group=dashboards)
@writing.directory
def write(directory: Path) -> None:
    """Write one JSON file a dashboard into DIRECTORY, to import or to provision."""
    shipped = [
        one
        for one in files("penstock.assets").joinpath("dashboards").iterdir()
        if one.name.endswith(".json")
    ]
    writing.write(
        directory,
        {one.name: one.read_text(encoding="utf-8") for one in sorted(shipped, key=str)},
    )
