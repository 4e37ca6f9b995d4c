"""The files of a Jolokia agent in an OpenMQ broker: its policy and its options; the broker's own files stay."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

from penstock.core.errors import PenstockError
from penstock.setup.artemis import PROXY, Account
from penstock.setup.changes import FileChange, read_lines

URL = "http://127.0.0.1:8778/jolokia/"
OPTIONS = "jolokia.properties"
POLICY = "openmq-policy.xml"
JAR = "jolokia-agent-jvm-2.6.0-javaagent.jar"


def is_home(directory: Path) -> bool:
    return any(
        (directory / place / "imqbrokerd").exists() for place in ("bin", "mq/bin")
    )


def policy(kind: str = "openmq") -> str:
    """Of Jolokia in a broker of this kind."""
    return (
        files(f"penstock.brokers.{kind}")
        .joinpath("jolokia-policy.xml")
        .read_text(encoding="utf-8")
    )


def plan(folder: Path, account: Account, url: str) -> Iterator[FileChange]:
    """folder: where the files go. PenstockError where the options there are for something else."""
    parts = urlsplit(url)
    path = folder / OPTIONS
    given = re.search(r"(?m)^password=(.*)$", read_lines(path) or "")
    if given is not None and given[1] != account.password:
        raise PenstockError(
            f"{path}: has another password; give that in the password file, or remove {path}"
        )
    options = {
        "host": parts.hostname,
        "port": parts.port,
        "discoveryEnabled": "false",
        "disabledServices": PROXY,
        "user": account.user,
        "password": account.password,
        "policyLocation": (folder / POLICY).absolute().as_uri(),
    }
    yield FileChange(folder / POLICY, policy())
    yield FileChange(
        path,
        "".join(f"{key}={value}\n" for key, value in options.items()),
        secret=account.password,
    )


def next_steps(home: Path, folder: Path) -> Iterator[str]:
    """What remains: the broker is started with the agent, by the user that may read its options."""
    options = (folder / OPTIONS).absolute()
    yield f"Make {options} readable for the user that the broker runs as, and start the broker with Jolokia's agent"
    yield f"({JAR}; Maven: org.jolokia:jolokia-agent-jvm:2.6.0:jar:javaagent):"
    yield f'  {home}/bin/imqbrokerd -vmargs "-javaagent:/opt/{JAR}=config={options}"'
