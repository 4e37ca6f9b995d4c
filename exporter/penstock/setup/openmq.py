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
    """Return whether an OpenMQ is installed in the directory."""
    return any(
        (directory / place / "imqbrokerd").exists() for place in ("bin", "mq/bin")
    )


def policy(kind: str = "openmq") -> str:
    """Return the policy of Jolokia for a broker of this kind: what its accounts may read, and nothing else."""
    return (
        files(f"penstock.brokers.{kind}")
        .joinpath("jolokia-policy.xml")
        .read_text(encoding="utf-8")
    )


def plan(folder: Path, account: Account, url: str) -> Iterator[FileChange]:
    """Yield the two files of Jolokia's agent: its policy and its options. folder: where they go.

    PenstockError where there are options with another password.
    """
    parts = urlsplit(url)
    path = folder / OPTIONS
    password = re.search(r"(?m)^password=(.*)$", read_lines(path) or "")
    if password is not None and password[1] != account.password:
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
    """Yield the lines that say what the operator has to do: start the broker with Jolokia's agent."""
    options = (folder / OPTIONS).absolute()
    yield f"Make {options} readable for the user that the broker runs as, and start the broker with Jolokia's agent"
    yield f"({JAR}; Maven: org.jolokia:jolokia-agent-jvm:2.6.0:jar:javaagent):"
    yield f'  {home}/bin/imqbrokerd -vmargs "-javaagent:/opt/{JAR}=config={options}"'
