"""An ActiveMQ Classic's files in `conf/`: an account of its console, and the policy that lets everyone only read."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.setup.artemis import Account, Instance
from penstock.setup.changes import FileChange, read_lines
from penstock.setup.openmq import policy

REALM = "jetty-realm.properties"
POLICY = "jolokia-access.xml"


def instance(directory: Path, name: str | None, url: str | None) -> Instance | None:
    """The broker in `directory`, with the name and URL given or those that its files say; None: there is none."""
    conf = directory / "conf"
    text = read_lines(conf / "activemq.xml")
    if text is None:
        return None
    called = re.search(r'brokerName="([^"$]+)"', text)
    port = re.search(
        r'name="port"\s+value="(\d+)"', read_lines(conf / "jetty.xml") or ""
    )
    url = url or f"http://127.0.0.1:{port[1] if port else 8161}/api/jolokia/"
    return Instance(conf, name or (called[1] if called else "activemq"), url)


def plan(found: Instance, account: Account) -> Iterator[FileChange]:
    """PenstockError where the console has other accounts than those in its file."""
    path = found.etc / REALM
    realm = read_lines(path)
    if realm is None:
        raise PenstockError(
            f"{path}: is not there; see docs/classic.md for what to add by hand"
        )
    # Jetty takes a hash in place of the password.
    hashed = hashlib.md5(account.password.encode(), usedforsecurity=False).hexdigest()
    others = [
        line
        for line in realm.splitlines()
        if line.partition(":")[0].strip() != account.user
    ]
    line = f"{account.user}: MD5:{hashed}, user"
    yield FileChange(found.etc / POLICY, policy("classic"))
    yield FileChange(path, "\n".join([*others, line, ""]), secret=hashed)
