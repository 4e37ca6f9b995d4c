"""Real ActiveMQ Classic brokers: fetched from Maven Central, run in a folder of their own on free ports."""

import re
import secrets
import socket
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from shutil import copytree
from typing import Self
from urllib.parse import urlsplit

from penstock_demo.artemis import unpack, whole
from penstock_demo.broker import Broker, Endpoint, Setup
from penstock_demo.cache import cache_dir, locked, maven, require_java
from penstock_demo.errors import DemoError
from penstock_demo.management import Account
from penstock_demo.ports import LOOPBACK, free_port

VERSION = "5.18.3"
"""The newest version published as a complete broker."""
_READY = "ActiveMQ Jolokia REST API available"
_CONNECTORS = re.compile(r"<transportConnectors>.*?</transportConnectors>", re.DOTALL)


def fetch(version: str = VERSION) -> Path:
    """The unpacked broker of a version such as `5.18.3`, downloaded at the first call."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise DemoError(
            f"{version!r} is not an ActiveMQ Classic version; write it as {VERSION}"
        )
    home = cache_dir() / f"apache-activemq-{version}"
    if not home.is_dir():
        with locked(home):
            if not home.is_dir():  # no other process did it while we waited
                archive = cache_dir() / "dl" / f"apache-activemq-{version}-bin.zip"
                if not whole(archive):
                    archive.unlink(missing_ok=True)
                    maven(
                        "copy",
                        f"-Dartifact=org.apache.activemq:apache-activemq:{version}:zip:bin",
                        f"-DoutputDirectory={archive.parent}",
                    )
                unpack(archive, home)
    return home


class ClassicBroker(Broker):
    """A complete ActiveMQ Classic with its console, OpenWire at `port` and STOMP; its files in a folder of its own."""

    stomp_port: int
    reader: Account
    home: Path
    conf: Path

    @classmethod
    def create(
        cls,
        directory: Path,
        *,
        version: str = VERSION,
        name: str = "c1",
        heap_mb: int = 256,
        read_only: bool = True,
        edit: Callable[[str], str] = str,
        quick: bool = True,
    ) -> Self:
        """`read_only`: Jolokia gets Penstock's policy; else all users may do everything, as shipped. `edit` turns the
        text of activemq.xml into another. `quick`: it starts faster, and its code stays slower.
        """
        home = fetch(version)
        conf = directory / "conf"
        directory.mkdir(parents=True)
        copytree(home / "conf", conf)
        openwire = free_port()
        stomp = free_port()
        http = free_port()
        admin, reader = (
            Account(user, secrets.token_urlsafe(18)) for user in ("admin", "penstock")
        )
        realm = conf / "jetty-realm.properties"
        realm.chmod(0o600)
        realm.write_text(
            f"{admin.user}: {admin.password}, admin\n{reader.user}: {reader.password}, user\n"
        )
        _rewrite(
            conf / "jetty.xml",
            lambda text: text.replace('value="8161"', f'value="{http}"'),
        )
        _rewrite(
            conf / "activemq.xml",
            lambda text: edit(_small(text, name, openwire, stomp)),
        )
        if read_only:
            policy = (
                files("penstock.brokers.classic")
                .joinpath("jolokia-policy.xml")
                .read_text(encoding="utf-8")
            )
            (conf / "jolokia-access.xml").write_text(policy)
        where = {
            "home": home,
            "base": directory,
            "conf": conf,
            "data": directory / "data",
        }
        command = [
            *(
                require_java(),
                f"-Xmx{heap_mb}m",
                "-XX:+UseSerialGC",
                *(["-XX:TieredStopAtLevel=1"] if quick else []),
            ),
            *(
                "--add-opens=java.base/java.util=ALL-UNNAMED",
                "--add-opens=java.base/java.lang=ALL-UNNAMED",
            ),
            f"-Djava.security.auth.login.config={conf / 'login.config'}",
            f"-Djolokia.conf={(conf / 'jolokia-access.xml').as_uri()}",
            *(f"-Dactivemq.{key}={path}" for key, path in where.items()),
            *("-cp", str(conf), "-jar", str(home / "bin" / "activemq.jar"), "start"),
        ]
        made = cls(
            Setup(
                name=name,
                version=version,
                directory=directory,
                port=openwire,
                jolokia_url=f"http://{LOOPBACK}:{http}/api/jolokia/",
                accounts=[admin, reader],
                command=command,
                ready=_READY,
                log=directory / "console.log",
            )
        )
        made.stomp_port = stomp
        made.reader = reader
        made.home = home
        made.conf = conf
        return made

    def start(self, *, timeout: float = 90) -> None:
        """As `Broker.start`; its console says that it is there a moment before it is."""
        super().start(timeout=timeout)
        at = urlsplit(self.jolokia_url)
        deadline = time.monotonic() + timeout
        while True:
            try:
                socket.create_connection((at.hostname or "", at.port or 0), 1).close()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise DemoError(
                        f"the console of {self.name} does not answer: {error}"
                    ) from None
                time.sleep(0.05)
            else:
                return

    def stomp(self, user: str = "penstock") -> Endpoint:
        return Endpoint(self.host, self.stomp_port, self.accounts[user])


def client_jars(home: Path) -> list[Path]:
    """Return the jars that a JMS client needs."""
    return [
        *(home / "lib").glob("*.jar"),
        *(home / "lib" / "optional").glob("*log4j*.jar"),
    ]


def _rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def _small(activemq_xml: str, name: str, openwire: int, stomp: int) -> str:
    """The shipped broker with this name, two acceptors on the loopback, and room on a small disk."""
    ports = {
        "openwire": f"tcp://{LOOPBACK}:{openwire}",
        "stomp": f"stomp://{LOOPBACK}:{stomp}",
    }
    acceptors = "".join(
        f'<transportConnector name="{key}" uri="{uri}"/>' for key, uri in ports.items()
    )
    text = _CONNECTORS.sub(
        f"<transportConnectors>{acceptors}</transportConnectors>", activemq_xml
    )
    text = text.replace('brokerName="localhost"', f'brokerName="{name}"')
    return text.replace('limit="100 gb"', 'limit="1 gb"').replace(
        'limit="50 gb"', 'limit="1 gb"'
    )
