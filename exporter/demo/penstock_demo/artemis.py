"""Real Artemis brokers: fetched from Maven Central, created in a folder, run on free ports of the loopback."""

import re
import secrets
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Self

from penstock_demo.broker import Broker, Setup
from penstock_demo.cache import cache_dir, locked, maven, require_java
from penstock_demo.errors import DemoError
from penstock_demo.management import Account
from penstock_demo.ports import LOOPBACK, free_port

VERSION = "2.44.0"
"""The newest version published as a complete broker."""

_READY = "AMQ241002"  # "Artemis Jolokia REST API available"
_CREATE = [
    *(
        "--silent",
        "--user",
        "admin",
        "--role",
        "amq",
        "--require-login",
        "--no-autotune",
        "--nio",
        "--no-fsync",
    ),
    *(
        "--no-amqp-acceptor",
        "--no-stomp-acceptor",
        "--no-mqtt-acceptor",
        "--no-hornetq-acceptor",
    ),
]
# The first matching prefix wins: reading is allowed, whatever shows messages or users is not.
_READ_ONLY = """<match domain="org.apache.activemq.artemis">
            <access method="listMessages*" roles="amq"/>
            <access method="listDelivering*" roles="amq"/>
            <access method="listScheduled*" roles="amq"/>
            <access method="listUser" roles="amq"/>
            <access method="listPreparedTransactionDetails*" roles="amq"/>
            <access method="getFirstMessage*" roles="amq"/>
            <access method="list*" roles="amq,exporter"/>
            <access method="get*" roles="amq,exporter"/>
            <access method="is*" roles="amq,exporter"/>
            <access method="set*" roles="amq"/>
            <access method="*" roles="amq"/>
         </match>"""


def fetch(version: str = VERSION) -> Path:
    """The unpacked broker of a version such as `2.44.0`, downloaded at the first call."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise DemoError(f"{version!r} is not an Artemis version; write it as {VERSION}")
    home = cache_dir() / f"apache-artemis-{version}"
    if not home.is_dir():
        with locked(home):
            if not home.is_dir():  # no one else did it while we waited
                unpack(_download(version), home)
    return home


class ArtemisBroker(Broker):
    """A complete Artemis with console, in a folder of its own."""

    jmx_url = ""

    @classmethod
    def create(  # noqa: PLR0913 - all optional, by name
        cls,
        directory: Path,
        *,
        version: str = VERSION,
        name: str = "b1",
        users: Sequence[str] = (),
        read_only_user: str = "",
        heap_mb: int = 256,
        create_args: Sequence[str] = (),
        edit: Callable[[str], str] = str,
        port: int = 0,
        jmx: bool = False,
    ) -> Self:
        """
        Create the broker in `directory`, which must not exist, with generated passwords (`accounts[user].password`).

        `users` may do everything, as `admin` may; `read_only_user` may only read through Jolokia, no messages.
        `create_args` go to `artemis create`; `edit` turns the text of broker.xml into another; `port` 0 is a free one.
        `jmx`: it is reached by JMX too, at `jmx_url`.
        """
        home = fetch(version)
        port = port or free_port()
        http_port = free_port()
        where = ["--name", name, "--host", LOOPBACK, "--http-host", LOOPBACK]
        ports = ["--default-port", str(port), "--http-port", str(http_port)]
        # The password is a throw-away, for it shows in the process list: _write_accounts sets the real ones.
        throw_away = ["--password", secrets.token_urlsafe(9)]
        command = [
            str(home / "bin" / "artemis"),
            "create",
            *_CREATE,
            *where,
            *ports,
            *throw_away,
            *create_args,
        ]
        _run([*command, str(directory)], name)

        etc = directory / "etc"
        everything = [_account(user) for user in ("admin", *users)]
        reading = [_account(read_only_user)] if read_only_user else []
        _write_accounts(etc, everything, reading)
        _rewrite(
            etc / "artemis.profile",
            lambda text: _small_jvm(
                text, heap_mb, "amq,exporter" if reading else "amq"
            ),
        )
        _rewrite(etc / "broker.xml", lambda text: edit(_roomy(text)))
        if reading:
            _rewrite(etc / "management.xml", _guarded)
        registry, server = (free_port(), free_port()) if jmx else (0, 0)
        if jmx:
            _rewrite(
                etc / "management.xml", lambda text: _with_jmx(text, registry, server)
            )
        made = cls(
            Setup(
                name=name,
                version=version,
                directory=directory,
                port=port,
                jolokia_url=f"http://{LOOPBACK}:{http_port}/console/jolokia/",
                accounts=[*everything, *reading],
                command=[str(directory / "bin" / "artemis"), "run"],
                ready=_READY,
                log=directory / "log" / "console.log",
            )
        )
        made.jmx_url = (
            f"service:jmx:rmi:///jndi/rmi://{LOOPBACK}:{registry}/jmxrmi" if jmx else ""
        )
        return made


def ha_pair(
    directory: Path, *, version: str = VERSION, replicated: bool = False
) -> tuple[ArtemisBroker, ArtemisBroker]:
    """
    A live broker and its backup on one shared store, or with a copy each, in folders `live` and `backup`; not yet
    started.

    Start the live one first. `--backup` and `--static-cluster` are flags of the newer versions: 2.44 is tested.
    """
    live = free_port()
    backup = free_port()
    password = secrets.token_urlsafe(18)
    shared = (
        ["--replicated"]
        if replicated
        else ["--shared-store", "--data", str(directory / "shared")]
    )
    shared += [
        "--failover-on-shutdown",
        "--cluster-user",
        "cluster",
        "--cluster-password",
        "replaced",
    ]

    def create(name: str, port: int, peer: int, *extra: str) -> ArtemisBroker:
        return ArtemisBroker.create(
            directory / name,
            version=version,
            name=name,
            port=port,
            create_args=[
                *shared,
                "--static-cluster",
                f"tcp://{LOOPBACK}:{peer}",
                *extra,
            ],
            edit=lambda text: _failing_back(
                text.replace(">replaced<", f">{password}<")
            ),
        )

    return create("live", live, backup), create("backup", backup, live, "--backup")


def _failing_back(broker_xml: str) -> str:
    """Let the live broker of a replicated pair ask for an active backup before it is active, each time."""
    asks = "<check-for-active-server>true</check-for-active-server>"
    again = "<allow-failback>true</allow-failback>"
    again += (
        "<max-saved-replicated-journals-size>-1</max-saved-replicated-journals-size>"
    )
    broker_xml = broker_xml.replace(
        "</vote-on-replication-failure>", f"</vote-on-replication-failure>{asks}"
    )
    return re.sub(
        r"(<replication>\s*)<backup/>", rf"\1<backup>{again}</backup>", broker_xml
    )


def _download(version: str) -> Path:
    """The zip of a version, known to be whole. Caller holds the lock."""
    folder = cache_dir() / "dl"
    target = folder / f"apache-artemis-{version}-bin.zip"
    artifact = f"-Dartifact=org.apache.activemq:apache-artemis:{version}:zip:bin"
    if whole(target):
        return target
    target.unlink(missing_ok=True)
    maven("copy", artifact, f"-DoutputDirectory={folder}")
    if whole(target):
        return target
    # The copy in the user's Maven repository is broken: fetch again into an empty one, leave theirs alone.
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as repository:
        maven(
            "copy", artifact, f"-DoutputDirectory={folder}", repository=Path(repository)
        )
    if not whole(target):
        raise DemoError(
            f"the download of Artemis {version} is damaged twice in a row: delete {target} and try again"
        )
    return target


def whole(archive: Path) -> bool:
    try:
        with zipfile.ZipFile(archive) as opened:
            return opened.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False


def unpack(archive: Path, home: Path, inner: str = "") -> None:
    """Unpack beside `home` and rename, so that a half unpacked broker is never seen; `inner`: its folder in there."""
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        with zipfile.ZipFile(archive) as opened:
            for entry in opened.infolist():
                path = Path(opened.extract(entry, scratch))
                if (
                    mode := entry.external_attr >> 16
                ):  # extract() forgets which files are programs
                    path.chmod(mode)
        rmtree(home, ignore_errors=True)
        (Path(scratch) / (inner or home.name)).rename(home)


def _run(command: Sequence[str], name: str) -> None:
    require_java()
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise DemoError(
            f"broker {name} could not be created in {command[-1]}:\n{done.stdout}{done.stderr}"
        )


def _account(user: str) -> Account:
    return Account(user, secrets.token_urlsafe(18))


def _write_accounts(
    etc: Path, everything: Sequence[Account], reading: Sequence[Account]
) -> None:
    users = etc / "artemis-users.properties"
    users.chmod(0o600)
    users.write_text(
        "".join(
            f"{account.user} = {account.password}\n"
            for account in [*everything, *reading]
        )
    )
    roles = {"amq": everything, "exporter": reading}
    lines = [
        f"{role} = {','.join(one.user for one in members)}\n"
        for role, members in roles.items()
        if members
    ]
    (etc / "artemis-roles.properties").write_text("".join(lines))


def _rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def _small_jvm(profile: str, heap_mb: int, roles: str) -> str:
    """Artemis' profile for a small heap and a quick start; `roles` may log in to the console."""
    profile = re.sub(r"-Xms\S+ -Xmx\S+", f"-Xms64m -Xmx{heap_mb}m", profile)
    profile = re.sub(
        r"-XX:\+UseG1GC -XX:\+UseStringDeduplication",
        "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        profile,
    )
    return re.sub(r"(?m)^(HAWTIO_ROLES?)=.*$", rf"\1='{roles}'", profile)


def _roomy(broker_xml: str) -> str:
    """A disk that is rather full must not block every producer of a test or demo."""
    return re.sub(r"<max-disk-usage>\d+<", "<max-disk-usage>99<", broker_xml)


def _with_jmx(management_xml: str, registry: int, server: int) -> str:
    where = f'connector-host="{LOOPBACK}" connector-port="{registry}" rmi-registry-port="{server}"'
    return management_xml.replace(
        "<authorisation>", f"<connector {where}/><authorisation>", 1
    )


def _guarded(management_xml: str) -> str:
    pattern = r'<match domain="org\.apache\.activemq\.artemis">.*?</match>'
    return re.sub(pattern, _READ_ONLY, management_xml, count=1, flags=re.DOTALL)


if (
    __name__ == "__main__"
):  # `make demo` begins the download while it installs: nothing but the standard library is there
    fetch()
