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
    """Return the broker in `directory`, with its name and URL from its files where the operator gives none.

    Where the files do not say them either, they are the defaults of ActiveMQ. None where there is no such broker.
    """
    conf = directory / "conf"
    text = read_lines(conf / "activemq.xml")
    if text is None:
        return None
    own_name = re.search(r'brokerName="([^"$]+)"', text)
    port = re.search(
        r'name="port"\s+value="(\d+)"', read_lines(conf / "jetty.xml") or ""
    )
    url = url or f"http://127.0.0.1:{port[1] if port else 8161}/api/jolokia/"
    return Instance(conf, name or (own_name[1] if own_name else "activemq"), url)


def plan(found: Instance, account: Account) -> Iterator[FileChange]:
    """Yield the changes of the files: the policy, and the account among the users of the console.

    PenstockError where the console has no file of users.
    """
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
