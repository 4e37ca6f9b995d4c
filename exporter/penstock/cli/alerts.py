"""`penstock alerts write`: the Prometheus rules as files."""

from pathlib import Path
from typing import get_args

import click

from penstock.assets.rule_files import OPERATOR, rule_files
from penstock.assets.values import DEFAULT, Preset, read_values, with_options
from penstock.cli import files as writing
from penstock.cli import options
from penstock.core.errors import PenstockError
from penstock.tui.lines import say


@options.group()
def alerts() -> None:
    """Write rules for Prometheus: alerts with runbooks, and recording rules."""


@options.command(group=alerts)
@writing.directory
@click.option("--values", type=options.FILE)
@click.option("--preset", type=click.Choice(get_args(Preset)))
@click.option("--release")
@click.option("--runbooks-url")
@click.option("--grafana-url")
@click.option("--agent-url")
def write(directory: Path, values: Path | None, **given: str | None) -> None:
    """Write alerts.yaml, recording.yaml and alertmanager.yaml into DIRECTORY, for Prometheus 2.42 or later.

    Every alert has the action, the command that explains it, and links to its section of the runbooks, to a dashboard
    and to the agent's page. The file of values has the keys preset, release, identity, thresholds, disabled,
    severities, labels, runbooks_url, grafana_url and agent_url; an option overrides it.
    """
    used = with_options(DEFAULT if values is None else read_values(values), given)
    if used.release and used.preset not in OPERATOR:
        raise PenstockError(
            f"--release labels one object for an operator; the preset {used.preset} writes none"
        )
    writing.write(directory, rule_files(used))
    if used.preset == "kube-prometheus-stack" and not used.release:
        say(
            "Prometheus selects rules by the label of its Helm release: add --release NAME, or that label.",
            err=True,
        )
