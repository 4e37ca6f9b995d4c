"""`penstock check`: whether the configuration is right, and each broker gives what is asked of it."""

import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

import click

from penstock.agent import Poller, Result
from penstock.agent import tables as own
from penstock.agent.factory import open_reader
from penstock.agent.history import HistorySink
from penstock.agent.named_files import file_faults
from penstock.agent.process import limit_mib, needed_mb, worker_processes
from penstock.agent.processes.pool import LARGE, rows, share_of
from penstock.agent.trends import StoredTrends
from penstock.assessment.object_state import ObjectState
from penstock.cli import options
from penstock.cli.jolokia_proxy import proxy_notes
from penstock.cli.polling import poll_with_second_try, with_found
from penstock.cli.run import authentication_of
from penstock.config import Broker, Config, load
from penstock.core.errors import ConfigError
from penstock.insight.answers import Finding
from penstock.insight.explain import findings
from penstock.insight.objects import known_broker
from penstock.insight.text import text_lines
from penstock.model import Role, Snapshot
from penstock.tui.lines import say


class CheckedBroker(TypedDict):
    """The results of the polls of one broker, for JSON; `reached` alone is added where it could not be read."""

    broker: str
    url: str
    error: str
    reached: NotRequired[bool]
    state: NotRequired[str]
    why: NotRequired[str]
    product: NotRequired[str]
    version: NotRequired[str]
    product_version: NotRequired[str]
    role: NotRequired[str]
    node_id: NotRequired[str]
    collectors: NotRequired[Mapping[str, Mapping[str, str | float]]]
    notes: NotRequired[list[str]]
    found: NotRequired[Mapping[str, int]]
    findings: NotRequired[Sequence[Finding]]
    series: NotRequired[int]
    series_held_back: NotRequired[int]
    series_beyond_budget: NotRequired[int]
    large: NotRequired[bool]


@options.command()
@options.config_file
@options.web_config_file
@click.option("--offline", is_flag=True)
@options.form
async def check(
    config_file: Path, web_config_file: Path | None, offline: bool, form: str
) -> int:
    """Check the configuration, and what each broker answers.

    Of each broker: is it reachable, does the login work, which rights are missing, how many series and how much memory
    does it need, which settings are risky. One that cannot be read in full is polled once more. Exit status 2 when the
    configuration is wrong, 1 when a broker cannot be read in full or discovery fails.
    """
    config = load(config_file)
    valid = valid_lines(config, config_file, web_config_file)
    if form == "text":
        say(*valid)
    config, faults = await with_found(config, config_file, ask_dns=not offline)
    polled, first_errors = await poll_with_second_try(
        config, () if offline else config.brokers
    )
    pollers = [
        (broker.shown("url"), poller)
        for broker, poller in zip(config.brokers, polled, strict=False)
    ]
    brokers = [found_of(url, poller) for url, poller in pollers]
    add_first_errors(brokers, first_errors)
    needs = memory_of(polled)
    await add_proxy_notes(config, brokers)
    lines = [f"FAILED    discovery: {source}: {why}" for source, why in faults.items()]
    for found_broker in brokers:
        lines += [
            f"{found_broker['broker']}: {found_broker['url']}",
            *(
                f"  {line}"
                for line in text_lines("penstock.cli", "check", found_broker)
            ),
        ]
    if needs:
        lines.append(
            f"memory: about {needs['needed_mb']} MB for {needs['series']} series; allow {needs['limit_mib']} MiB"
        )
    options.show(
        {"valid": valid, "discovery": faults, "brokers": brokers, "memory": needs},
        lines,
        form,
    )
    return int(
        bool(faults)
        or any(
            poller.last is None or poller.last.result is not Result.OK
            for _, poller in pollers
        )
    )


def valid_lines(
    config: Config, config_file: Path, web_config_file: Path | None
) -> list[str]:
    """What is valid, and what of it should not be so, a line for each. Raises ConfigError as `penstock run` would."""
    valid = [
        f"{config_file}: valid, {len(config.brokers)} brokers, {len(config.rules)} rules"
    ]
    if authentication := authentication_of(web_config_file):
        authentication.close()
        valid.append(f"{web_config_file}: valid")
        valid += [
            f"{web_config_file}: {sentence}" for sentence in authentication.slow_users()
        ]
    for broker in config.brokers:
        open_reader(
            config, broker
        )  # recordings are opened: a ConfigError here is one of the file
    if unusable := file_faults([*config.brokers, *config.discovery.profiles.values()]):
        raise ConfigError(*unusable)
    with tempfile.TemporaryDirectory() as storage:
        HistorySink().plan(
            config.history, Path(storage)
        )  # what writes it is not installed, or its URL is no place
    if config.history.trends and "://" in config.history.trends:
        StoredTrends(config.history.trends)
    valid += readable_by_others(config)
    valid += passwords_with_blanks(config)
    for name, profile in config.discovery.profiles.items():
        if profile.username is not None and not profile.hosts:
            valid.append(
                f"discovery.profiles.{name}: has no hosts; its user goes to any host that DNS or a file names"
            )
    return valid


def add_first_errors(
    brokers: Sequence[CheckedBroker], first_errors: Sequence[str]
) -> None:
    """Add to what was found of each broker why its first poll could not read all, where the second one could."""
    for broker, error in zip(brokers, first_errors, strict=True):
        if error:
            broker["notes"].append(
                f"only the second poll read all; the first one: {error}"
            )


async def add_proxy_notes(config: Config, checked: Sequence[CheckedBroker]) -> None:
    """Add what is to be said of Jolokia's proxy to what was found of each broker, in the order of the configuration."""
    for broker, found_broker in zip(config.brokers, checked, strict=False):
        if found_broker["reached"]:
            found_broker["notes"] += await proxy_notes(
                broker, config.timeout_of(broker)
            )


def sources_of(config: Config) -> dict[str, Broker]:
    """Brokers and profiles, which may have a password, by what they are called in a text."""
    brokers = {f"broker {broker.name}": broker for broker in config.brokers}
    profiles = {
        f"discovery.profiles.{name}": profile
        for name, profile in config.discovery.profiles.items()
    }
    return brokers | profiles


def readable_by_others(config: Config) -> Iterator[str]:
    """The files with passwords that every user of this machine can read."""
    for name, source in sources_of(config).items():
        file = source.password_file
        if file is not None and file.stat().st_mode & stat.S_IROTH:
            yield f"{name}: every user can read {file}; run: chmod o= {file}"


def passwords_with_blanks(config: Config) -> Iterator[str]:
    """The passwords that begin or end with a blank or a line end, which is often there by mistake; none is shown."""
    for name, source in sources_of(config).items():
        password = source.password() or ""
        if password != password.strip():
            place = (
                "its password"
                if source.password_file is None
                else f"the password of {source.password_file}"
            )
            yield f"{name}: {place} has a blank or line end at its begin or end, which is sent with it"


def memory_of(pollers: Sequence[Poller]) -> dict[str, int] | None:
    """What an agent needs for what these brokers have now; None where one could not be read."""
    if not pollers or any(poller.assessor.snapshot is None for poller in pollers):
        return None
    series = sum(own.series(poller.assessor.tables) for poller in pollers)
    others = (
        min(sum(map(is_large, pollers)), worker_processes("auto"))
        if len(pollers) > 1
        else 0
    )
    return {
        "series": series,
        "needed_mb": round(needed_mb(series, others)),
        "limit_mib": limit_mib(series, others),
    }


def found_of(url: str, poller: Poller) -> CheckedBroker:
    """What the poll found, for JSON."""
    assessor = poller.assessor
    snapshot = assessor.snapshot
    error = poller.last.error if poller.last else "not polled"
    answer: CheckedBroker = {"broker": poller.name, "url": url, "error": error}
    if snapshot is None or snapshot.broker is None:
        return answer | {"reached": False}
    about = snapshot.broker
    known_state = None if assessor.view is None else known_broker(assessor.view, None)
    return answer | {
        "reached": True,
        "state": known_state.state if known_state else ObjectState.UNKNOWN,
        "why": known_state.why if known_state else error,
        "product": about.kind.product,
        "version": about.version,
        "product_version": about.product_version,
        "role": about.role,
        "node_id": about.node_id,
        "collectors": {
            name: {"error": collector.error, "seconds": round(collector.seconds, 4)}
            for name, collector in snapshot.collectors.items()
        },
        "notes": list(snapshot.notes),
        "found": rows_of(snapshot),
        "findings": []
        if assessor.view is None
        else findings(assessor.view.state.findings.found),
        "series": own.series(assessor.tables),
        "series_held_back": own.series_of_hidden(assessor.hidden()),
        "series_beyond_budget": poller.assessor.budget.dropped,
        "large": is_large(poller),
    }


def is_large(poller: Poller) -> bool:
    return share_of(rows(poller.assessor.snapshot), poller.interval) > LARGE


def rows_of(snapshot: Snapshot) -> dict[str, int]:
    """By table; of a passive broker nothing is read."""
    active = snapshot.broker is not None and snapshot.broker.role is Role.ACTIVE
    tables = {name: getattr(snapshot, name) for name in TABLES if active}
    return {name: len(table) for name, table in tables.items() if table is not None}


TABLES = (
    "addresses",
    "queues",
    "consumers",
    "connections",
    "producers",
    "transactions",
    "links",
)
