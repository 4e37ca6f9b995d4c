"""GlassFish and Payara: fetched from Maven Central, each with a domain of its own and an application with traffic."""

import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from penstock_demo.artemis import unpack, whole
from penstock_demo.cache import cache_dir, locked, maven, require_java
from penstock_demo.errors import DemoError
from penstock_demo.management import Account
from penstock_demo.openmq import _agent_options, fetch_jolokia
from penstock_demo.ports import LOOPBACK, free_port
from penstock_demo.process import Process
from rig.waiting import eventually

_SOURCES = Path(__file__).parents[1] / "java" / "traffic"


@dataclass(frozen=True)
class Product:
    artifact: str
    inner: str
    jre_home: bool = False
    """It must be given where Java is for its LOCAL broker: what it gives itself has quotes that imqbrokerd takes for a
    part of the path.
    """

    def fetch(self) -> Path:
        """The unpacked server, downloaded at the first call."""
        _, name, version, _ = self.artifact.split(":")
        home = cache_dir() / f"{name}-{version}"
        archive = cache_dir() / "dl" / f"{name}-{version}.zip"
        with locked(home):
            if not home.is_dir():
                if not whole(archive):
                    archive.unlink(missing_ok=True)
                    maven(
                        "copy",
                        f"-Dartifact={self.artifact}",
                        f"-DoutputDirectory={archive.parent}",
                    )
                unpack(archive, home, inner=self.inner)
        return home


PRODUCTS = {
    "glassfish": Product(
        "org.glassfish.main.distributions:glassfish:7.0.21:zip", "glassfish7"
    ),
    "payara": Product(
        "fish.payara.distributions:payara:6.2025.9:zip", "payara6", jre_home=True
    ),
}
OFFSETS = (37, 38, 39, 48, 66, 76, 80, 81, 86, 9)
"""Of the ports of a domain from its base."""


class AppServer:
    """One domain in `folder`, made with this type of its JMS; a context manager that starts and ends it."""

    def __init__(
        self, product: str, folder: Path, jms_type: str, *, jms_port: int = 0
    ) -> None:
        self._product = PRODUCTS[product]
        self.home = self._product.fetch()
        self.folder = folder
        self.domains = folder / "domains"
        self.domains.mkdir(parents=True)
        self._passwords = folder / "passwords"
        self._passwords.write_text("AS_ADMIN_PASSWORD=\n")
        base = _free_base()
        self.admin_port = base + 48
        self.http_port = base + 80
        self.jms_port = jms_port or free_port()
        where = ["--domaindir", str(self.domains), "--portbase", str(base)]
        self._asadmin(
            "create-domain", *where, "--nopassword", "--checkports=false", "d1"
        )
        config = self.domains / "d1" / "config" / "domain.xml"
        xml = config.read_text().replace('address="0.0.0.0"', f'address="{LOOPBACK}"')
        xml = re.sub(
            r"(<network-listener )(?![^>]*address=)", rf'\1address="{LOOPBACK}" ', xml
        )
        xml = re.sub(
            r'(name="JMS_PROVIDER_PORT" value=)"\d+"', rf'\1"{self.jms_port}"', xml
        )
        xml = re.sub(
            r'(value=)"\d+"( name="JMS_PROVIDER_PORT")', rf'\1"{self.jms_port}"\2', xml
        )
        config.write_text(xml)
        self._type = jms_type
        self.reader = Account("penstock", secrets.token_urlsafe(18))
        self.jolokia_port = free_port()
        start = ["start-domain", "--verbose", "--domaindir", str(self.domains), "d1"]
        command = [
            "env",
            f"AS_JAVA={_java_home()}",
            str(self.home / "bin" / "asadmin"),
            *start,
        ]
        self._server = Process(product, command, folder / "console.log")

    @property
    def jolokia_url(self) -> str:
        return f"http://{LOOPBACK}:{self.jolokia_port}/jolokia/"

    @property
    def pid(self) -> int:
        return int((self.domains / "d1" / "config" / "pid").read_text())

    def __enter__(self) -> Self:
        self._start()
        if (
            self._type != "EMBEDDED"
        ):  # before the first use of JMS; its own configuration comes with its resources
            admin = ["--port", str(self.admin_port)]
            with suppress(DemoError):
                self._asadmin(
                    *admin,
                    "create-module-config",
                    "--target",
                    "server-config",
                    "jms-service",
                )
            # On a busy machine LOCAL takes longer than its 60 s.
            said = {"type": self._type, "init-timeout-in-seconds": "600"}
            if self._product.jre_home:
                said["start-args"] = f"-jrehome {_java_home()}"
            service = "configs.config.server-config.jms-service"
            self._asadmin(
                *admin,
                "set",
                *(f"{service}.{name}={value}" for name, value in said.items()),
            )
            self._server.stop()  # until then it keeps the port of an embedded broker, for its first use
            self._start()
        return self

    def _start(self) -> None:
        self._server.start("startup time", timeout=300)
        eventually(
            (self.domains / "d1" / "config" / "pid").exists, expected=True, timeout=60
        )

    def __exit__(self, *_: object) -> None:
        self._server.kill()

    def attach_jolokia(self) -> None:
        """To the running server, as docs/getting-started.md has it."""
        options = _agent_options(
            self.folder, self.jolokia_port, self.reader, read_only=True
        )
        agent = [
            "-jar",
            str(fetch_jolokia()),
            f"--config={options}",
            "start",
            str(self.pid),
        ]
        with suppress(
            DemoError
        ):  # on a busy machine it gives up while the agent starts, and says that it could not
            _run([require_java(), *agent], 120)
        eventually(self._attached, expected=True, timeout=60)

    def _attached(self) -> bool:
        with (
            suppress(OSError),
            socket.create_connection((LOOPBACK, self.jolokia_port), 1),
        ):
            return True
        return False

    def jms_ping(self) -> None:
        self._asadmin("--port", str(self.admin_port), "jms-ping", timeout=120)

    def deploy(self) -> None:
        self._asadmin(
            "--port",
            str(self.admin_port),
            "deploy",
            "--contextroot",
            "t",
            str(self._war()),
            timeout=300,
        )

    def traffic(self, to: str, count: int, body: str = "x") -> tuple[int, int]:
        """Sends; how many messages the two beans have done since they were deployed."""
        url = f"http://{LOOPBACK}:{self.http_port}/t/traffic?to={to}&count={count}&body={body}"
        try:
            with urllib.request.urlopen(url, timeout=120) as answer:
                _, orders, healthy = map(int, answer.read().split())
        except urllib.error.HTTPError as error:
            raise DemoError(
                f"{error}: {error.read().decode(errors='replace')[:5000]}"
            ) from error
        return orders, healthy

    def _war(self) -> Path:
        """The application, compiled against the server's own API."""
        made = self.folder / "war"
        jars = ":".join(
            map(str, (self.home / "glassfish" / "modules").glob("jakarta.*.jar"))
        )
        javac = shutil.which(
            "javac",
            path=f"{Path(require_java()).resolve().parent}:{os.environ['PATH']}",
        )
        sources = map(str, _SOURCES.glob("*.java"))
        _run(
            [
                javac or "javac",
                "-cp",
                jars,
                "-d",
                str(made / "WEB-INF" / "classes"),
                *sources,
            ],
            120,
        )
        return Path(
            shutil.make_archive(str(self.folder / "traffic"), "zip", made)
        ).rename(self.folder / "traffic.war")

    def _asadmin(self, *arguments: str, timeout: float = 600) -> None:
        given = ["--user", "admin", "--passwordfile", str(self._passwords), *arguments]
        _run([str(self.home / "bin" / "asadmin"), *given], timeout)


def _run(command: list[str], timeout: float) -> None:
    environment = os.environ | {"AS_JAVA": _java_home()}
    with tempfile.TemporaryFile() as said:  # the server keeps the descriptor
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            timeout=timeout,
            env=environment,
        )
        said.seek(0)
        if done.returncode:
            raise DemoError(
                f"{Path(command[0]).name} {command[-2:]}: {said.read().decode(errors='replace')[-3000:]}"
            )


def _java_home() -> str:
    return str(Path(require_java()).resolve().parents[1])


def _free_base() -> int:
    """A base of which all ports of a domain are free, as far as this process can tell."""
    while True:
        base = 20_000 + secrets.randbelow(126) * 100  # below the ports that clients get
        with suppress(OSError):
            for offset in OFFSETS:
                with socket.socket() as tried:
                    tried.bind((LOOPBACK, base + offset))
            return base
