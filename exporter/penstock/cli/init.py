"""`penstock init`: an account that may read and nothing else, for a broker on this machine, and the configuration."""

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import click

from penstock.cli import options
from penstock.cli.authorities import tls_of
from penstock.config.values import plain_zone
from penstock.core.errors import ConfigError, PenstockError
from penstock.setup import artemis, classic, configuration, openmq
from penstock.setup.changes import RECORD, FileChange, apply, undo
from penstock.tui.lines import say

_CONSOLES = {"/console": "artemis", "/api": "classic", "": "openmq"}
"""What is before `/jolokia` in Jolokia's URL → the kind of broker that has it there."""


@options.command()
@click.argument(
    "directory",
    required=False,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
)
@options.config_file
@click.option("--user")
@click.option("--password.file", "password_file", type=options.PATH)
@click.option("--name")
@click.option("--url")
@click.option("--ca.file", "ca_file", type=options.PATH)
@click.option("--keep-proxy", is_flag=True)
@click.option("--dry-run", is_flag=True)
@click.option("--yes", is_flag=True)
@click.option("--undo", "back", is_flag=True)
def init(  # noqa: PLR0913 - options
    *,
    directory: Path | None,
    config_file: Path,
    user: str | None,
    password_file: Path | None,
    name: str | None,
    url: str | None,
    ca_file: Path | None,
    keep_proxy: bool,
    dry_run: bool,
    yes: bool,
    back: bool,
) -> None:
    """Make a read-only account on a broker, and the configuration that uses it.

    DIRECTORY is an Artemis instance (it contains etc/), an ActiveMQ Classic (conf/) or an OpenMQ installation. Every
    change is shown before it is made, and each changed file keeps a backup beside it. A second run changes nothing.
    Without DIRECTORY it makes Penstock's own files only, for the broker at --url, and lists what to do on its machine.
    Of a URL with https the certificate is tried; where it is of an authority of your own, give --ca.file, or be asked.
    """
    url = plain_zone(url) if url else None
    kind, instance = _found(directory, name, url)
    folder = config_file.absolute().parent
    record = (instance.etc if instance else folder) / RECORD
    if back:
        say(*undo(record))
        return
    name = (
        instance.name
        if instance
        else name or (kind if directory else urlsplit(url or "").hostname or kind)
    )
    user = user or ("exporter" if kind == "artemis" else "penstock")
    secret = password_file or folder / f"{name}.password"
    account = artemis.Account(user, configuration.password_of(secret))
    url = instance.url if instance else url or openmq.URL
    changes: list[FileChange] = []
    if instance:
        changes += _changes_of_instance(kind, instance, account, keep_proxy=keep_proxy)
    elif directory:
        changes += openmq.plan(folder, account, url)
    entry: dict[str, object] = {
        "name": name,
        "kind": kind,
        "url": url,
        "username": user,
        "password_file": str(secret),
    }
    if not configuration.knows(config_file.absolute(), url) and (
        tls := tls_of(url, ca_file, ask=not yes)
    ):
        entry["tls"] = tls
    if not secret.exists():
        changes.append(
            FileChange(secret, f"{account.password}\n", secret=account.password)
        )
    changes.append(configuration.entry(config_file.absolute(), entry))
    needed = [change for change in changes if change.needed()]
    say(*(line for change in needed for line in change.shown()))
    if dry_run or not needed:
        say(f"{len(needed)} files would be changed" if needed else "nothing to change")
        return
    if not yes:
        click.confirm("Change these files?", abort=True)
    apply(needed, record)
    say(*(f"changed {change.path}" for change in needed))
    if directory is None:
        say(
            f"The account is made on the broker's machine, with a copy of {secret}; by hand: docs/{kind}.md."
        )
        say(
            f"There: penstock init DIRECTORY --user {user} --password.file {secret.name}"
        )
    elif instance is None:
        say(*openmq.next_steps(directory, folder))
    else:
        say("Restart the broker: its console takes rights and roles when it starts.")
    target = directory or f"--url {url}"
    say(
        f"Then: penstock check --config.file {config_file}",
        f"Take it back: penstock init {target} --undo",
    )


def _changes_of_instance(
    kind: str, instance: artemis.Instance, account: artemis.Account, *, keep_proxy: bool
) -> Iterable[FileChange]:
    """What changes in the files of an Artemis or of an ActiveMQ Classic."""
    if kind == "artemis":
        return artemis.plan(instance, account, keep_proxy=keep_proxy)
    return classic.plan(instance, account)


def _found(
    directory: Path | None, name: str | None, url: str | None
) -> tuple[str, artemis.Instance | None]:
    """Its kind, and what its files say; None of an OpenMQ, whose files stay, and where only the URL is known."""
    if directory is None:
        if url is None:
            raise ConfigError(
                "name the broker's directory, or give --url of a broker that runs"
            )
        match = re.search("(/console|/api|^)/jolokia/?$", urlsplit(url).path)
        if match is None:
            ends = "/console/jolokia/ (Artemis), /api/jolokia/ (ActiveMQ Classic) or HOST:PORT/jolokia/ (OpenMQ)"
            raise ConfigError(
                f"--url {url}: no known broker has Jolokia there; it ends in {ends}"
            )
        return _CONSOLES[match[1]], None
    if etc := artemis.etc_of(directory):
        return "artemis", artemis.instance(etc, name, url)
    if instance := classic.instance(directory, name, url):
        return "classic", instance
    if openmq.is_home(directory):
        return "openmq", None
    raise PenstockError(
        f"{directory}: has no etc/broker.xml of Artemis, conf/activemq.xml or bin/imqbrokerd of OpenMQ"
    )
