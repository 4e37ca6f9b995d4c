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
_QUIET = "-Dorg.slf4j.simpleLogger.log.org.apache.activemq.audit=off"  # one line per management call
VERSION = re.findall(r"<artemis\.version>(.*?)<", _POM.read_text())[0]


def embedded_broker(directory: Path, *, name: str = "newest", heap_mb: int = 256) -> Broker:
    """Create it in `directory`; not yet started. Its Jolokia is at `/jolokia`, without Artemis' own access guard."""
    home = _built()
    directory.mkdir(parents=True)
    admin = Account("admin", secrets.token_urlsafe(18))
    port, jolokia_port = free_port(), free_port()
    settings, agent = directory / "broker.properties", directory / "jolokia.properties"
    _write(
        settings,
        name=name,
        user=admin.user,
        password=admin.password,
        data=directory / "data",
        acceptor=f"tcp://{LOOPBACK}:{port}?protocols=CORE,AMQP,STOMP",
    )
    _write(agent, host=LOOPBACK, port=jolokia_port, user=admin.user, password=admin.password)
    (javaagent,) = home.glob("jars/jolokia-agent-jvm-*.jar")
    small = [f"-Xmx{heap_mb}m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", _QUIET]
    command = [require_java(), *small, f"-javaagent:{javaagent}=config={agent}", "-cp", f"{home}/classes:{home}/jars/*"]
    return Broker(
        Setup(
            name=name,
            version=VERSION,
            directory=directory,
            port=port,
            jolokia_url=f"http://{LOOPBACK}:{jolokia_port}/jolokia/",
            accounts=[admin],
            command=[*command, _MAIN.stem, str(settings)],
            ready="EmbeddedBroker is ready",
            log=directory / "console.log",
        )
    )


def _built() -> Path:
    """The folder with `jars` and `classes`, made anew when the pom or the main has changed."""
    digest = hashlib.sha256(_POM.read_bytes() + _MAIN.read_bytes()).hexdigest()[:12]
    home = cache_dir() / f"embedded-{VERSION}-{digest}"
    if not home.is_dir():
        with locked(home):
            if not home.is_dir():
                _build(home)
    return home


def _build(home: Path) -> None:
    beside_java = Path(require_java()).resolve().parent
    javac = shutil.which("javac", path=f"{beside_java}:{os.environ['PATH']}")
    if javac is None:
        raise DemoError("javac is not installed; Debian, Ubuntu: apt-get install openjdk-17-jdk-headless")
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        built = Path(scratch) / home.name
        maven("copy-dependencies", "-f", str(_POM), f"-DoutputDirectory={built}/jars")
        subprocess.run([javac, "-cp", f"{built}/jars/*", "-d", f"{built}/classes", str(_MAIN)], check=True)
        built.rename(home)


def _write(path: Path, **settings: object) -> None:
    path.touch(mode=0o600)
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
