"""The newest broker that can be embedded: its jars by Maven, a small main of ours, Jolokia as a JVM agent."""

import hashlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

from penstock_demo.broker import Broker, Setup
from penstock_demo.cache import cache_dir, locked, maven, require_java
from penstock_demo.errors import DemoError
from penstock_demo.management import Account
from penstock_demo.ports import LOOPBACK, free_port

_JAVA = Path(__file__).parents[1] / "java"
_POM = _JAVA / "pom.xml"
_MAIN = _JAVA / "EmbeddedBroker.java"
_CLASSIC_POM = _JAVA / "classic-pom.xml"
_CLASSIC_MAIN = _JAVA / "EmbeddedClassic.java"
_QUIET = "-Dorg.slf4j.simpleLogger.log.org.apache.activemq.audit=off"  # one line per management call


def _version(pom: Path) -> str:
    found: list[str] = re.findall(r"<\w+\.version>(.*?)<", pom.read_text())
    return found[0]


VERSION = _version(_POM)


def embedded_broker(
    directory: Path, *, name: str = "newest", heap_mb: int = 256
) -> Broker:
    """Create it in `directory`; not yet started. Its Jolokia is at `/jolokia`, without Artemis' own access guard."""
    return _create(_POM, _MAIN, directory, name, heap_mb, "?protocols=CORE,AMQP,STOMP")


def embedded_classic(directory: Path) -> Broker:
    """The same of ActiveMQ Classic; accounts are those of the Jolokia agent alone."""
    return _create(_CLASSIC_POM, _CLASSIC_MAIN, directory, "c6", 256, "")


def _create(
    pom: Path, main: Path, directory: Path, name: str, heap_mb: int, protocols: str
) -> Broker:
    home = _built(pom, main)
    directory.mkdir(parents=True)
    admin = Account("admin", secrets.token_urlsafe(18))
    port = free_port()
    jolokia_port = free_port()
    settings = directory / "broker.properties"
    agent = directory / "jolokia.properties"
    _write(
        settings,
        name=name,
        user=admin.user,
        password=admin.password,
        data=directory / "data",
        acceptor=f"tcp://{LOOPBACK}:{port}{protocols}",
    )
    _write(
        agent,
        host=LOOPBACK,
        port=jolokia_port,
        user=admin.user,
        password=admin.password,
    )
    (javaagent,) = home.glob("jars/jolokia-agent-jvm-*.jar")
    small = [
        f"-Xmx{heap_mb}m",
        "-Xms64m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        _QUIET,
    ]
    command = [
        require_java(),
        *small,
        f"-javaagent:{javaagent}=config={agent}",
        "-cp",
        f"{home}/classes:{home}/jars/*",
    ]
    return Broker(
        Setup(
            name=name,
            version=_version(pom),
            directory=directory,
            port=port,
            jolokia_url=f"http://{LOOPBACK}:{jolokia_port}/jolokia/",
            accounts=[admin],
            command=[*command, main.stem, str(settings)],
            ready=f"{main.stem} is ready",
            log=directory / "console.log",
        )
    )


def _built(pom: Path, main: Path) -> Path:
    """The folder with `jars` and `classes`, made anew when the pom or the main has changed."""
    digest = hashlib.sha256(pom.read_bytes() + main.read_bytes()).hexdigest()[:12]
    home = cache_dir() / f"embedded-{_version(pom)}-{digest}"
    if not home.is_dir():
        with locked(home):
            if not home.is_dir():
                _build(home, pom, main)
    return home


def _build(home: Path, pom: Path, main: Path) -> None:
    beside_java = Path(require_java()).resolve().parent
    javac = shutil.which("javac", path=f"{beside_java}:{os.environ['PATH']}")
    if javac is None:
        raise DemoError(
            "javac is not installed; Debian, Ubuntu: apt-get install openjdk-17-jdk-headless"
        )
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        built = Path(scratch) / home.name
        maven("copy-dependencies", "-f", str(pom), f"-DoutputDirectory={built}/jars")
        subprocess.run(
            [javac, "-cp", f"{built}/jars/*", "-d", f"{built}/classes", str(main)],
            check=True,
        )
        built.rename(home)


def _write(path: Path, **settings: object) -> None:
    path.touch(mode=0o600)
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
