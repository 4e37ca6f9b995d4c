"""`penstock check`: whether the configuration is right, and each broker gives what is asked of it."""

from collections.abc import Iterator
from pathlib import Path

import click

from penstock.agent import Watch
from penstock.agent import tables as own
from penstock.agent.opening import open_reader
from penstock.agent.tables import Result
from penstock.cli import logs, options
from penstock.cli.examples import examples
from penstock.cli.polling import poll_once, with_found
from penstock.cli.run import gate_of
from penstock.config import load
from penstock.flow.explain import finding_list
from penstock.model import BrokerKind, Role


@click.command(
    epilog=examples("penstock check", "penstock check --offline --config.file penstock.yaml --web.config.file web.yml")
)
@options.config_file
@options.web_config_file
@click.option("--offline", is_flag=True, help="Check the configuration only; ask no broker.")
@options.command
async def check(config_file: Path, web_config_file: Path | None, offline: bool) -> int:
    """
    Check the configuration, then ask each broker: reachable, authenticated, which rights are missing, how many series,
    what in its settings will hurt.

    Exit status 2 when the configuration is wrong, 1 when a broker cannot be read in full.
    """
    logs.set_up("error", "logfmt")
    config = load(config_file)
    click.echo(f"{config_file}: valid, {len(config.brokers)} brokers, {len(config.rules)} rules")
    if gate := gate_of(web_config_file):
        gate.close()
        click.echo(f"{web_config_file}: valid")
    for broker in config.brokers:
        open_reader(config, broker)  # certificates and recordings are opened: a ConfigError here is one of the file
    if offline:
        return 0
    config = await with_found(config, config_file)
    watches = await poll_once(config, config.brokers)
    for broker, watch in zip(config.brokers, watches, strict=True):
        click.echo("\n".join([f"{broker.name}: {broker.url}", *(f"  {line}" for line in report(watch))]))
    return int(any(watch.outcome is None or watch.outcome.result is not Result.OK for watch in watches))


def report(watch: Watch) -> Iterator[str]:
    """What the poll found, a line each."""
    snapshot, outcome = watch.snapshot, watch.outcome
    if snapshot is None or snapshot.broker is None:
        yield f"FAILED    {outcome.error if outcome else 'not polled'}"
        return
    about = snapshot.broker
    product = f" ({about.product_version})" if about.product_version else ""
    yield f"ok        {PRODUCTS[about.kind]} {about.version}{product}, {about.role}, node {about.node_id}"
    for name, collector in snapshot.collectors.items():
        if collector.error:
            yield f"FAILED    {name}: {collector.error}"
        else:
            yield f"ok        {name}: {collector.seconds * 1000:.0f} ms"
    for note in snapshot.notes:
        yield f"note      {note}"
    if about.role is Role.ACTIVE:
        counts = {name: len(table) for name in TABLES if (table := getattr(snapshot, name)) is not None}
        yield "found     " + ", ".join(f"{count} {name}" for name, count in counts.items())
    if watch.sight is not None:
        for one in finding_list(watch.sight):
            yield f"finding   {one['rule']}, {one['scope']} {one['object']}: {one['says']}; {one['advice']}"
    held = own.series_of_hidden(watch.hidden())
    yield f"would export {own.series(watch.tables)} series, {held} held back by the series limits"


PRODUCTS = {BrokerKind.ARTEMIS: "Apache Artemis", BrokerKind.OPENMQ: "Eclipse OpenMQ"}
TABLES = ("addresses", "queues", "consumers", "connections", "producers", "transactions", "links")
