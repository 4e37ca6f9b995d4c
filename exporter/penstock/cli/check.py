"""`penstock check`: whether the configuration is right, and each broker gives what is asked of it."""

import json
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
from penstock.cli.telling import say
from penstock.config import Config, load
from penstock.flow.explain import Plain, finding_list
from penstock.model import BrokerKind, Role


@click.command(
    epilog=examples("penstock check", "penstock check --offline --config.file penstock.yaml --web.config.file web.yml")
)
@options.config_file
@options.web_config_file
@click.option("--offline", is_flag=True, help="Check the configuration only; ask no broker.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@options.command
async def check(config_file: Path, web_config_file: Path | None, offline: bool, form: str) -> int:
    """
    Check the configuration, then ask each broker: reachable, authenticated, which rights are missing, how many series,
    what in its settings will hurt.

    Exit status 2 when the configuration is wrong, 1 when a broker cannot be read in full.
    """
    logs.set_up("error", "logfmt")
    config = load(config_file)
    valid = [f"{config_file}: valid, {len(config.brokers)} brokers, {len(config.rules)} rules"]
    if gate := gate_of(web_config_file):
        gate.close()
        valid.append(f"{web_config_file}: valid")
    for broker in config.brokers:
        open_reader(config, broker)  # certificates and recordings are opened: a ConfigError here is one of the file
    if form == "text":
        say(valid)
    watches = [] if offline else await asked(config, config_file)
    if form == "json":
        found = [found_of(url, watch) for url, watch in watches]
        click.echo(json.dumps({"valid": valid, "brokers": found}, ensure_ascii=False, indent=2))
    else:
        for url, watch in watches:
            say([f"{watch.name}: {url}", *(f"  {line}" for line in report(found_of(url, watch)))])
    return int(any(watch.outcome is None or watch.outcome.result is not Result.OK for _, watch in watches))


async def asked(config: Config, config_file: Path) -> list[tuple[str, Watch]]:
    """The URL of each broker, those of discovery too, and what one poll of it found."""
    config = await with_found(config, config_file)
    watches = await poll_once(config, config.brokers)
    return [(broker.url, watch) for broker, watch in zip(config.brokers, watches, strict=True)]


def found_of(url: str, watch: Watch) -> Plain:
    """What the poll found, in plain values."""
    snapshot, outcome = watch.snapshot, watch.outcome
    told: Plain = {"broker": watch.name, "url": url, "error": outcome.error if outcome else "not polled"}
    if snapshot is None or snapshot.broker is None:
        return told | {"reached": False}
    about = snapshot.broker
    tables = {name: table for name in TABLES if (table := getattr(snapshot, name)) is not None}
    return told | {
        "reached": True,
        "product": PRODUCTS[about.kind],
        "version": about.version,
        "product_version": about.product_version,
        "role": about.role,
        "node_id": about.node_id,
        "collectors": {
            name: {"error": one.error, "seconds": round(one.seconds, 4)} for name, one in snapshot.collectors.items()
        },
        "notes": list(snapshot.notes),
        "found": {name: len(table) for name, table in tables.items()} if about.role is Role.ACTIVE else {},
        "findings": finding_list(watch.sight) if watch.sight is not None else [],
        "series": own.series(watch.tables),
        "series_held_back": own.series_of_hidden(watch.hidden()),
    }


def report(found: Plain) -> Iterator[str]:
    """The same, a line each."""
    if not found["reached"]:
        yield f"FAILED    {found['error']}"
        return
    product = f" ({found['product_version']})" if found["product_version"] else ""
    yield f"ok        {found['product']} {found['version']}{product}, {found['role']}, node {found['node_id']}"
    for name, collector in found["collectors"].items():
        if collector["error"]:
            yield f"FAILED    {name}: {collector['error']}"
        else:
            yield f"ok        {name}: {collector['seconds'] * 1000:.0f} ms"
    for note in found["notes"]:
        yield f"note      {note}"
    if found["found"]:
        yield "found     " + ", ".join(f"{count} {name}" for name, count in found["found"].items())
    for one in found["findings"]:
        yield f"finding   {one['rule']}, {one['scope']} {one['object']}: {one['says']}"
        yield f"          {one['advice']}"
    yield f"export    {found['series']} series, {found['series_held_back']} held back by the series limits"


PRODUCTS = {BrokerKind.ARTEMIS: "Apache Artemis", BrokerKind.OPENMQ: "Eclipse OpenMQ"}
TABLES = ("addresses", "queues", "consumers", "connections", "producers", "transactions", "links")
