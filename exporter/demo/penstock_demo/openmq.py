"""Real OpenMQ brokers: fetched from Maven Central, run in a folder of their own on free ports of the loopback."""

import re
import secrets
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Self

from penstock_demo.artemis import unpack, whole
from penstock_demo.broker import Broker, Setup
from penstock_demo.cache import cache_dir, locked, maven, require_java
from penstock_demo.errors import DemoError
from penstock_demo.management import Account
from penstock_demo.ports import LOOPBACK, free_port

VERSION = "6.5.1"
JOLOKIA = "2.6.0"
GUEST = Account("guest", "guest")
ADMIN = Account("admin", "admin")
"""The accounts that a new broker comes with."""
_READY = "[B1320]"  # its bridges serve; the broker itself a moment earlier


def fetch(version: str = VERSION) -> Path:
    """The unpacked broker (the folder with bin and lib) of a version such as `6.5.1`, downloaded at the first call."""
    if not re.fullmatch(r"\d+(\.\d+)+(-\d+)?", version):
        raise DemoError(f"{version!r} is not an OpenMQ version; write it as {VERSION}")
    home = cache_dir() / f"openmq-{version}"
    if not home.is_dir():
        with locked(home):
            if not home.is_dir():  # no one else did it while we waited
                archive = cache_dir() / "dl" / f"mq-distribution-{version}.zip"
                if not whole(archive):
                    archive.unlink(missing_ok=True)
                    maven(
                        "copy",
                        f"-Dartifact=org.glassfish.mq:mq-distribution:{version}:zip",
                        f"-DoutputDirectory={archive.parent}",
                    )
                unpack(archive, home, inner="mq")
    return home


def fetch_jolokia() -> Path:
    """The Jolokia JVM agent."""
    jar = cache_dir() / "dl" / f"jolokia-agent-jvm-{JOLOKIA}-javaagent.jar"
    if not zipfile.is_zipfile(jar):
        with locked(jar):
            if not zipfile.is_zipfile(jar):
                maven(
                    "copy",
                    f"-Dartifact=org.jolokia:jolokia-agent-jvm:{JOLOKIA}:jar:javaagent",
                    f"-DoutputDirectory={jar.parent}",
                )
    return jar


class OpenMQBroker(Broker):
    """A complete OpenMQ with a read-only Jolokia agent, JMX and the STOMP bridge; its data in a folder of its own."""

    stomp_port: int
    reader: Account
    home: Path
    agent_options: Path
    """Of the Jolokia agent: a file for its user only."""

    @classmethod
    def create(  # noqa: PLR0913 - all optional, by name
        cls,
        directory: Path,
        *,
        version: str = VERSION,
        name: str = "o1",
        heap_mb: int = 256,
        port: int = 0,
        hostname: bool = True,
        read_only: bool = True,
        attached: bool = True,
    ) -> Self:
        """
        `port`: of the port mapper, 0 = a free one. `hostname`: every service listens on the loopback alone, which JMX
        clients need imqjmx.jar for. `read_only`: Jolokia gets Penstock's policy; else it lets everybody do everything.
        `attached`: from its start; else the agent can be attached later, with the options in `agent_options`.
        """
        home = fetch(version)
        agent = fetch_jolokia()
        directory.mkdir(parents=True)
        port = port or free_port()
        jolokia = free_port()
        stomp = free_port()
        rmi = free_port()
        registry = free_port()
        reader = Account("penstock", secrets.token_urlsafe(18))
        options = _agent_options(directory, jolokia, reader, read_only=read_only)
        bridge = {
            "enabled": "true",
            "activelist": "stomp",
            "admin.user": ADMIN.user,
            "admin.password": ADMIN.password,
            "stomp.hostname": LOOPBACK,
            "stomp.tcp.port": str(stomp),
            "stomp.consumerFlowLimit": "10",
        }
        lib = home / "lib"
        # As bin/imqbrokerd does, without the shell in between that would not pass a signal on.
        command = [
            *(
                require_java(),
                "-cp",
                f"{lib / 'imqbroker.jar'}:{lib / 'imqutil.jar'}:{lib / 'ext'}",
            ),
            *(
                f"-Xmx{heap_mb}m",
                "-Xss256k",
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
            ),
            f"-Djava.rmi.server.hostname={LOOPBACK}",
            *([f"-javaagent:{agent}=config={options}"] if attached else []),
            *(
                f"-Dimq.home={home}",
                f"-Dimq.varhome={directory}",
                f"-Dimq.etchome={home / 'etc'}",
            ),
            *(f"-Dimq.libhome={lib}", "com.sun.messaging.jmq.jmsserver.Broker", "-tty"),
            *("-varhome", str(directory), "-name", name, "-port", str(port)),
            *(
                "-startRmiRegistry",
                "-rmiRegistryPort",
                str(registry),
                f"-Dimq.jmx.connector.jmxrmi.port={rmi}",
            ),
            *([f"-Dimq.hostname={LOOPBACK}"] if hostname else []),
            *(f"-Dimq.bridge.{key}={value}" for key, value in bridge.items()),
        ]
        made = cls(
            Setup(
                name=name,
                version=version,
                directory=directory,
                port=port,
                jolokia_url=f"http://{LOOPBACK}:{jolokia}/jolokia/",
                accounts=[GUEST, ADMIN, reader],
                command=command,
                ready=_READY,
                log=directory / "console.log",
            )
        )
        made.stomp_port = stomp
        made.reader = reader
        made.home = home
        made.agent_options = options
        return made

    @property
    def client_jars(self) -> list[Path]:
        """Return the jars that a JMS client needs."""
        return [self.home / "lib" / "imq.jar", self.home / "lib" / "jms.jar"]

    @property
    def jmx_jar(self) -> Path:
        """Return the jar that a JMX client needs where the broker has `imq.hostname`."""
        return self.home / "lib" / "imqjmx.jar"


def _agent_options(
    directory: Path, port: int, reader: Account, *, read_only: bool
) -> Path:
    """The options of the Jolokia agent, in a file: the command line of a process can be read by everybody."""
    said = {"host": LOOPBACK, "port": str(port), "discoveryEnabled": "false"}
    if read_only:
        policy = directory / "jolokia-policy.xml"
        policy.write_text(
            files("penstock.brokers.openmq")
            .joinpath("jolokia-policy.xml")
            .read_text(encoding="utf-8")
        )
        said |= {
            "policyLocation": policy.as_uri(),
            "user": reader.user,
            "password": reader.password,
        }
        said |= {"disabledServices": "org.jolokia.service.jsr160.Jsr160RequestHandler"}
    options = directory / "jolokia.properties"
    options.touch(mode=0o600)
    options.write_text("".join(f"{key}={value}\n" for key, value in said.items()))
    return options
