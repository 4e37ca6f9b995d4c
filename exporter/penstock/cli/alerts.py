"""`penstock alerts write`: the Prometheus rules as files."""

from pathlib import Path

import click

from penstock.assets.rule_files import Bases, rule_files
from penstock.cli import files as writing
from penstock.cli import options

_DEFAULT = Bases()


@click.group()
def alerts() -> None:
    """Rules for Prometheus: alerts with runbooks, and recording rules."""


@options.command(
    "penstock alerts write alerts",
    "penstock alerts write alerts --runbooks-url https://wiki.example/runbooks --grafana-url https://grafana.example",
    of=alerts,
)
@writing.directory
@click.option("--runbooks-url", default=_DEFAULT.runbooks)
@click.option("--grafana-url", default=_DEFAULT.grafana)
def write(directory: Path, runbooks_url: str, grafana_url: str) -> None:
    """Write alerts.yaml and recording.yaml into DIRECTORY, for `rule_files` of Prometheus 2.42 or later.

    Every alert links to its section of the runbooks and to a dashboard.
    """
    writing.write(directory, rule_files(Bases(runbooks_url.rstrip("/"), grafana_url.rstrip("/"))))
