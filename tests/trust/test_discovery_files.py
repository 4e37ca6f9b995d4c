"""
The writer of a file of discovery, and DNS, say where brokers are, and can do nothing else to the agent.

Each attack has its control: the same in the main file does what it says.
"""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.agent import Agent, discovery
from penstock.agent.discovery import MAX_FILES, Discovery, SourcePlace
from penstock.cli import main
from penstock.config import Broker, Config, Profile, Target, load, load_targets
from penstock.core import watched_files
from penstock.core.errors import ConfigError
from penstock.exposition.syntax import Format
from rig.waiting import until
from trust.test_fuzz import fuzzed

CANARY = "c4nary-s3cret"
JAVA = "#!/bin/sh\necho ran >> {ran}\nexit 1\n"


class Place:
    """A folder with the main file and a file of discovery, and a server that notes what it is asked."""

    def __init__(self, folder: Path, port: int, asked: list[tuple[str, str]]) -> None:
        self.folder = folder
        self.port = port
        self.asked = asked
        """Path and login of each request."""
        self.main = folder / "penstock.yml"
        self.found = folder / "found.yml"
        self.ran = folder / "ran"
        self.java = folder / "java"
        self.secret = folder / "secret"
        self.java.write_text(JAVA.format(ran=self.ran))
        self.java.chmod(0o755)
        self.secret.write_text(CANARY)
        self.allow()

    def allow(self, *more: Mapping[str, Any], **profile: Any) -> None:
        """The main file, with a profile, and further ones that the file may not name."""
        said = {"kind": "artemis", "url": "http://{host}/console/jolokia/"} | profile
        others = {f"other{at}": {**said, **one} for at, one in enumerate(more)}
        files = {"files": ["found*.yml"], "profiles": ["mq"]}
        discovery = {"profiles": {"mq": said, **others}, "files": [files]}
        self.main.write_text(
            yaml.safe_dump({"interval": "1s", "brokers": [], "discovery": discovery})
        )

    def leave(self, *brokers: Mapping[str, Any], name: str = "found.yml") -> None:
        beside = self.folder / "beside"
        beside.write_text(yaml.safe_dump({"brokers": list(brokers)}))
        beside.replace(self.folder / name)

    def target(self, **more: Any) -> dict[str, Any]:
        return {"name": "b", "host": f"127.0.0.1:{self.port}", **more}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Agent]:
        agent = Agent(self.main, self.folder / "data")
        await agent.start()
        try:
            yield agent
        finally:
            await agent.stop()


@pytest.fixture
async def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    monkeypatch.setattr("penstock.agent.supervisor.FILE_SECONDS", 0.02)
    monkeypatch.setenv("CANARY", CANARY)
    asked: list[tuple[str, str]] = []

    async def note(request: web.Request) -> web.Response:
        login = request.headers.get("Authorization", "").removeprefix("Basic ")
        asked.append((request.path, base64.b64decode(login).decode()))
        return web.Response(status=404)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", note)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield Place(tmp_path, runner.addresses[0][1], asked)
    await runner.cleanup()


def body(agent: Agent) -> str:
    return b"".join(agent.exposition.chunks(Format.TEXT, gzip=False)).decode()


def details(agent: Agent) -> list[str]:
    events = agent.lookups.events(since=0, limit=100, broker="", queue="")
    return [event.detail for event in events if event.change == "config_refused"]


async def refused(
    place: Place, caplog: pytest.LogCaptureFixture, target: Mapping[str, Any]
) -> str:
    """What the log says of a file with this target, beside the one that was there before; that goes on."""
    place.leave(place.target())
    async with place.running() as agent:
        await until(lambda: bool(place.asked))
        caplog.clear()
        place.leave(place.target(), {"name": "evil", **target})
        await until(
            lambda: (
                "found.yml" in caplog.text
                and "\npenstock_discovery_faults 1\n" in body(agent)
            )
        )
        assert [state.name for state in agent.lookups.brokers()] == ["b"]
        await until(
            lambda: any(
                "found.yml:" in text and "what was known before stays" in text
                for text in details(agent)
            )
        )
        shown = "\n".join(
            [caplog.text, agent.lookups.masked_config(), body(agent), *details(agent)]
        )
    assert CANARY not in shown
    assert CANARY not in str(place.asked)
    assert not place.ran.exists()
    return caplog.text


BELONGS = "belongs into discovery.profiles.NAME of the main configuration file"
TAKEN = "may take nothing from the environment"
HOST = "must be HOST or HOST:PORT"
JMX = "service:jmx:rmi:///jndi/rmi://127.0.0.1:1/jmxrmi"

ATTACKS: dict[str, tuple[Mapping[str, Any], list[str]]] = {
    "a program": (
        {"host": "127.0.0.1", "transport": "jmx", "java": "JAVA"},
        [f"found.yml:7: brokers[1].transport: {BELONGS}", f"found.yml:5: brokers[1].java: {BELONGS}"],
    ),
    "code that is loaded": ({"host": "127.0.0.1", "imqjmx_jar": "JAVA"}, [f"imqjmx_jar: {BELONGS}"]),
    "a URL": ({"url": "http://127.0.0.1/x"}, ["brokers[1].url: is not read here; write host: HOST or HOST:PORT"]),
    "a URL with a password": ({"url": f"http://u:{CANARY}@127.0.0.1/x"}, ["brokers[1].url: is not read here"]),
    "a file as URL": ({"url": "file:///etc/passwd"}, ["brokers[1].url: is not read here"]),
    "a recording": ({"transport": "recording", "url": "recording:SECRET"}, [f"brokers[1].transport: {BELONGS}"]),
    "the environment in a URL": ({"url": "http://127.0.0.1/${CANARY}"}, ["brokers[1].url: is not read here"]),
    "the environment as host": ({"host": "${CANARY}"}, [f"brokers[1].host: {TAKEN}"]),
    "the environment as name": ({"name": "${CANARY}", "host": "h"}, [f"brokers[1].name: {TAKEN}"]),
    "the environment as label": ({"host": "h", "labels": {"a": "x${CANARY}"}}, [f"brokers[1].labels.a: {TAKEN}"]),
    "the environment as profile": ({"host": "h", "profile": "${CANARY}"}, [f"brokers[1].profile: {TAKEN}"]),
    "a file as password": ({"host": "h", "password_file": "SECRET"}, [f"brokers[1].password_file: {BELONGS}"]),
    "a file as certificate": ({"host": "h", "tls": {"ca_file": "SECRET"}}, [f"brokers[1].tls: {BELONGS}"]),
    "a password": ({"host": "h", "password": CANARY}, [f"brokers[1].password: {BELONGS}"]),
    "a password in the host": ({"host": f"u:{CANARY}@127.0.0.1"}, [f"brokers[1].host: {HOST}"]),
    "a path in the host": ({"host": "127.0.0.1/../x?y#"}, [f"brokers[1].host: {HOST}"]),
    "another scheme": ({"host": "file:///etc/passwd"}, [f"brokers[1].host: {HOST}"]),
    "a JMX URL": ({"host": JMX}, [f"brokers[1].host: {HOST}"]),
    "a name server's zone": ({"host": "fe80::1%x/../y"}, [f"brokers[1].host: {HOST}"]),
    "another profile": ({"host": "h", "profile": "other0"}, ["names a profile that this file may not use"]),
    "the profile's own host": ({"host": "{host}"}, [f"brokers[1].host: {HOST}"]),
    "a label that is another's": ({"host": "h", "labels": {"__name__": "up"}}, ["brokers[1].labels: must have names"]),
    "a label that breaks out": ({"host": "h", "labels": {'a"} 1': "x"}}, ["brokers[1].labels: must have names"]),
    "a label of two lines": ({"host": "h", "labels": {"a": "x\ny"}}, ["brokers[1].labels: must have values"]),
    "labels without end": ({"host": "h", "labels": {f"l{n}": "x" for n in range(17)}}, ["at most 16 labels"]),
    "a label without end": ({"host": "h", "labels": {"a": "x" * 101}}, ["must have values of at most 100"]),
    "a key that holds a secret": ({"host": "h", f"password:{CANARY}": 1}, ["brokers[1].password…: unknown key"]),
}  # fmt: skip


def evil_target(attack: str, place: Place) -> dict[str, Any]:
    """A target of this attack, on the files of this place."""
    words = {
        "JAVA": str(place.java),
        "SECRET": str(place.secret),
        "recording:SECRET": f"recording:{place.secret}",
    }
    target, _ = ATTACKS[attack]
    return {
        key: words.get(value, value) if isinstance(value, str) else value
        for key, value in target.items()
    }


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_target_is_refused_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str
) -> None:
    monkeypatch.setenv("CANARY", CANARY)
    place = Place(tmp_path, 1, [])
    place.allow({"username": "u", "password": CANARY})
    place.leave(place.target(), {"name": "evil", **evil_target(attack, place)})
    may_be_named = {"mq": load(place.main).discovery.profiles["mq"]}
    with pytest.raises(ConfigError) as refusal:
        load_targets(place.found, may_be_named)
    _, expected = ATTACKS[attack]
    assert [text for text in expected if text not in str(refusal.value)] == [], (
        refusal.value
    )
    assert CANARY not in str(refusal.value)


@pytest.mark.parametrize(
    "attack", ["a program", "a URL with a password", "another profile"]
)
async def test_an_agent_goes_on_without_it(
    place: Place, caplog: pytest.LogCaptureFixture, attack: str
) -> None:
    place.allow({"username": "u", "password": CANARY})
    log = await refused(place, caplog, evil_target(attack, place))
    _, expected = ATTACKS[attack]
    assert [text for text in expected if text not in log] == [], log


async def test_control_the_main_file_may_run_a_program(place: Place) -> None:
    place.allow(
        transport="jmx",
        url="service:jmx:rmi:///jndi/rmi://{host}:1/jmxrmi",
        java=str(place.java),
    )
    place.leave({"name": "b", "host": "127.0.0.1"})
    async with place.running():
        await until(place.ran.exists)


async def test_control_the_main_file_may_read_files(place: Place) -> None:
    place.allow(username="u", password_file=str(place.secret))
    place.leave(place.target())
    async with place.running() as agent:
        await until(lambda: ("/console/jolokia/", f"u:{CANARY}") in place.asked)
        assert CANARY not in agent.lookups.masked_config() + body(agent)


async def test_the_main_file_may_read_the_environment_and_shows_none_of_it(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Also as a part of a URL that is filled in for each broker, in the errors of polls, and in those of the check."""
    place.allow(url="http://{host}/x-${CANARY}/", username="u${CANARY}")
    place.leave(place.target(labels={"team": "payments"}))
    async with place.running() as agent:
        await until(lambda: bool(place.asked))
        await until(lambda: any(state.error for state in agent.lookups.brokers()))
        assert place.asked[0] == (f"/x-{CANARY}/", f"u{CANARY}:")
        config = agent.lookups.masked_config()
        shown = [
            config,
            caplog.text,
            body(agent),
            *(state.error for state in agent.lookups.brokers()),
        ]
        shown += [
            event.detail
            for event in agent.lookups.events(since=0, limit=100, broker="", queue="")
        ]
    assert [text for text in shown if CANARY in text] == []
    brokers = yaml.safe_load(config)["brokers"]
    assert brokers[0]["url"] == f"http://127.0.0.1:{place.port}/x-${{CANARY}}/"
    assert brokers[0]["username"] == "u${CANARY}"
    assert "/x-${CANARY}/: HTTP 404" in caplog.text
    for form in ("text", "json"):
        arguments = ["check", "--config.file", str(place.main), "--format", form]
        checked = await asyncio.to_thread(CliRunner().invoke, main, arguments)
        assert checked.exit_code == 1
        assert "/x-${CANARY}/: HTTP 404" in checked.output
        assert CANARY not in checked.output


async def test_no_error_of_the_main_file_shows_the_environment(place: Place) -> None:
    place.allow(url="http://{host}/x")
    said = yaml.safe_load(place.main.read_text())
    said["brokers"] = [
        {
            "name": "r",
            "kind": "artemis",
            "transport": "recording",
            "url": "recording:${CANARY}",
        }
    ]
    place.main.write_text(yaml.safe_dump(said))
    with pytest.raises(
        ConfigError,
        match=r"brokers\[0\].url: cannot read .*/\$\{CANARY\}: No such file",
    ) as caught:
        load(place.main)
    assert CANARY not in str(caught.value)


async def test_a_name_of_dns_that_the_environment_gives_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    profiles = {"mq": {"kind": "artemis", "url": "http://{host}/"}}
    discovery = {
        "profiles": profiles,
        "dns": [{"dns": "a.${CANARY}..test", "records": "A", "profile": "mq"}],
    }
    (tmp_path / "p.yml").write_text(
        yaml.safe_dump({"brokers": [], "discovery": discovery})
    )
    config = load(tmp_path / "p.yml", {"CANARY": CANARY})
    await Discovery(tmp_path).brokers(config, 0)
    assert "A a.${CANARY}..test: is no name that DNS can have" in caplog.text
    assert CANARY not in caplog.text


# --- where credentials go


async def test_credentials_go_to_allowed_hosts_only(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.allow(username="u", password=CANARY, hosts=["127.0.0.*", "#.mq.test"])
    place.leave({"name": "evil", "host": f"localhost:{place.port}"})
    async with place.running() as agent:
        await until(
            lambda: (
                "brokers[0]: has a host that is not among the hosts of its profile"
                in caplog.text
            )
        )
        await until(lambda: "\npenstock_discovery_faults 1\n" in body(agent))
        assert list(agent.lookups.brokers()) == []
        assert agent.pollers() == []
        assert place.asked == []
        place.leave(place.target())
        await until(lambda: ("/console/jolokia/", f"u:{CANARY}") in place.asked)


def profile(**more: Any) -> Profile:
    return Profile.model_validate({"kind": "artemis", "url": "http://{host}/", **more})


@pytest.mark.parametrize(
    ("patterns", "host", "allowed"),
    [
        ((), "anything.example", True),
        (("*.mq.svc",), "b1.mq.svc", True),
        (("*.mq.svc",), "B1.MQ.svc.", True),
        (("*.MQ.svc",), "b1.mq.svc", True),
        (("*.mq.svc",), "b1.mq.svc.evil.example", False),
        (("*.mq.svc",), "evil.example.b1.mq.svc", False),
        (("#.mq.svc",), "a.b.mq.svc", True),
        (("#.mq.svc",), "evilmq.svc", False),
        (("mq-*",), "mq-1", True),
        (("mq-*",), "mq-1.evil.example", False),
        (("10.0.0.*",), "10.0.0.7", True),
        (("10.0.0.*",), "10.0.0.7.evil.example", False),
        (("10.0.0.*",), "167772167", False),
        (("fd00::*",), "fd00::7", True),
        (("fd00::*",), "fe00::7", False),
        (("fe80::*",), "fe80::7%eth0", True),
        (("fe80::*",), "fd00::7%eth0", False),
        (("*.b\u00fccher.example",), "mq.xn--bcher-kva.example", True),
        (("*.xn--bcher-kva.example",), "mq.xn--bcher-kva.example", True),
        (("*.b\u00fccher.example",), "mq.bucher.example", False),
    ],
)
def test_patterns_of_hosts(
    patterns: tuple[str, ...], host: str, *, allowed: bool
) -> None:
    asks = profile(hosts=patterns)
    if allowed:
        assert host in asks.broker("b", host).url
    else:
        with pytest.raises(ValueError, match="not among the hosts of its profile"):
            asks.broker("b", host)


@pytest.mark.parametrize(
    "pattern", ["*.b\u00fccher.example", "*.xn--bcher-kva.example"]
)
def test_an_international_host_is_allowed_and_asked_by_its_name_of_ascii(
    pattern: str,
) -> None:
    asks = profile(hosts=(pattern,), url="http://{host}:8161/")
    assert (
        asks.broker("b", "mq.b\u00fccher.example").url
        == "http://mq.xn--bcher-kva.example:8161/"
    )
    with pytest.raises(ValueError, match="not among the hosts of its profile"):
        asks.broker("b", "mq.b\u00fccher.example.evil.test")


def test_the_zone_of_an_address_is_in_the_url_and_in_no_name_of_a_certificate() -> None:
    asks = profile(url="https://{host}:8161/", tls={"server_name": "{host}"})
    found = asks.broker("b", "fe80::7%eth0")
    assert (found.url, found.tls.server_name) == (
        "https://[fe80::7%eth0]:8161/",
        "fe80::7",
    )


async def test_dns_names_no_host_that_is_not_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    profiles = {
        "mq": {"kind": "artemis", "url": "http://{host}:8161/", "hosts": ["*.mq.test"]}
    }
    discovery = {
        "profiles": profiles,
        "dns": [{"dns": "_x._tcp.mq.test", "profile": "mq"}],
    }
    (tmp_path / "p.yml").write_text(
        yaml.safe_dump({"brokers": [], "discovery": discovery})
    )

    async def resolve(_: object) -> list[SourcePlace]:
        return [
            SourcePlace("a.mq.test", 1),
            SourcePlace("evil.test", 1),
            SourcePlace("evil/x#.mq.test", 1),
        ]

    discovers = Discovery(tmp_path, resolve)
    found = await discovers.brokers(load(tmp_path / "p.yml", {}), 0)
    assert [broker.url for broker in found] == ["http://a.mq.test:8161/"]
    assert (
        "SRV _x._tcp.mq.test: evil: has a host that is not among the hosts of its profile"
        in caplog.text
    )
    assert (
        "SRV _x._tcp.mq.test: evil/x#: has a host that is neither a name nor an address"
        in caplog.text
    )
    assert discovers.failures == 2


@pytest.mark.parametrize(
    "host",
    [
        "h/x",
        "u:p@h",
        "h:1",
        "h?x",
        "h#x",
        "h\\x",
        "h x",
        "{port}",
        "[::1]",
        "fe80::1%x/y",
        "",
    ],
)
def test_what_dns_says_is_put_into_a_url_only_where_it_is_a_host(host: str) -> None:
    with pytest.raises(ValueError, match="neither a name nor an address"):
        profile().broker("b", host)


def test_labels_of_the_operator_win(tmp_path: Path) -> None:
    labels = {"team": "mine", "site": "x"}
    (tmp_path / "f.yml").write_text(
        yaml.safe_dump({"brokers": [{"name": "b", "host": "h", "labels": labels}]})
    )
    profiles = {"mq": profile(labels={"team": "payments"})}
    (target,) = load_targets(tmp_path / "f.yml", profiles)
    assert target.broker(profiles).labels == {"team": "payments", "site": "x"}


async def test_what_a_changed_profile_forbids_is_asked_no_more(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither out of a file that has broken since, nor as one that is remembered for a while."""
    looks: list[float] = []
    look = Discovery.look

    async def counted(place: Discovery, config: Config, now: float) -> Any:
        looks.append(now)
        return await look(place, config, now)

    monkeypatch.setattr(Discovery, "look", counted)
    place.allow(username="u", password=CANARY)
    place.leave(place.target())
    async with place.running() as agent:
        await until(lambda: bool(place.asked))
        place.found.write_text("nonsense")
        await until(lambda: "\npenstock_discovery_faults 1\n" in body(agent))
        assert [state.name for state in agent.lookups.brokers()] == ["b"]
        place.allow(username="u", password=CANARY, hosts=["elsewhere"])
        await agent.reload()
        asked = len(place.asked)
        looked = len(looks)
        await until(lambda: len(looks) >= looked + 3)
        assert list(agent.lookups.brokers()) == []
        assert agent.pollers() == []
        assert len(place.asked) == asked


async def test_a_changed_password_is_used_for_what_a_broken_file_gave(
    place: Place,
) -> None:
    place.allow(username="u", password="before")
    place.leave(place.target())
    async with place.running() as agent:
        await until(lambda: ("/console/jolokia/", "u:before") in place.asked)
        place.found.write_text("nonsense")
        place.allow(username="u", password="after")
        await agent.reload()
        await until(lambda: ("/console/jolokia/", "u:after") in place.asked)


# --- what a file may cost


def targets(folder: Path, text: str, **profiles: Profile) -> list[str]:
    (folder / "found.yml").write_text(text)
    return [
        target.name
        for target in load_targets(folder / "found.yml", profiles or {"mq": profile()})
    ]


@pytest.mark.parametrize(
    "host",
    ["b1", "b-1.example.com", "b_1", "10.0.0.7", "b1:8161", "10.0.0.7:8161", "[fd00::7]:8161", "fd00::7", "b1.svc.",
     "fe80::1%eth0", "[fe80::1%eth0.100]:8161", "\u00e4.example", "b\u00fccher.example:8161"],
)  # fmt: skip
def test_hosts_that_are_right(tmp_path: Path, host: str) -> None:
    assert targets(
        tmp_path, yaml.safe_dump({"brokers": [{"name": "b", "host": host}]})
    ) == ["b"]


@pytest.mark.parametrize(
    "host",
    ["", " ", "a b", "a\nb", "-a", "a@b", "a/b", "a\\b", "a?b", "a#b", "a:b", "a:0", "a:99999", "a:1:2", "[a]", "[::1",
     "::1]:5", "a%41", "fe80::1%", "\u00e4..example", "a,b", "a\x00", "http://a", "//a", "a:8161/", "a" * 254],
)  # fmt: skip
def test_hosts_that_are_wrong(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match=r"brokers\[0\].host: must"):
        targets(tmp_path, yaml.safe_dump({"brokers": [{"name": "b", "host": host}]}))


def test_a_port_is_where_the_profile_leaves_it_open(tmp_path: Path) -> None:
    fixed = profile(url="http://{host}:8161/")
    asked = profile(url="http://{host}:{port}/")
    with_port = "brokers: [{name: b, host: 'h:1'}]\n"
    without = "brokers: [{name: b, host: h}]\n"
    with pytest.raises(
        ConfigError, match=r"brokers\[0\]: names a port, as the url of its profile does"
    ):
        targets(tmp_path, with_port, mq=fixed)
    with pytest.raises(
        ConfigError,
        match=r"brokers\[0\]: names no port, and the url of its profile holds {port}",
    ):
        targets(tmp_path, without, mq=asked)
    assert (
        targets(tmp_path, without, mq=fixed)
        == targets(tmp_path, with_port, mq=asked)
        == ["b"]
    )


@pytest.mark.slow  # polls for each value
def test_a_file_names_so_many_brokers_and_no_more(tmp_path: Path) -> None:
    lines = [f"- {{name: b{n}, host: h{n}}}\n" for n in range(1001)]
    assert len(targets(tmp_path, "brokers:\n" + "".join(lines[1:]))) == 1000
    with pytest.raises(
        ConfigError, match=r"found.yml:1: brokers: must have at most 1000 entries"
    ):
        targets(tmp_path, "brokers:\n" + "".join(lines))


async def test_the_files_of_a_pattern_name_so_many_brokers_and_no_more(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(discovery, "MAX_TARGETS", 3)
    for n in range(2):
        place.leave(
            *({"name": f"b{n}{m}", "host": f"h{n}{m}"} for m in range(2)),
            name=f"found{n}.yml",
        )
    found = await Discovery(place.folder).brokers(load(place.main), 0)
    assert [broker.name for broker in found] == ["b00", "b01", "b10"]
    assert "names 4 brokers, of which the first 3 are watched" in caplog.text


async def test_so_many_files_are_read_and_no_more(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert MAX_FILES == 1000
    monkeypatch.setattr("penstock.agent.discovery.MAX_FILES", 2)
    for n in range(3):
        place.leave({"name": f"b{n}", "host": "h"}, name=f"found{n}.yml")
    found = await Discovery(place.folder).brokers(load(place.main), 0)
    assert [broker.name for broker in found] == ["b0", "b1"]
    assert "matches 3 files, of which the first 2 are read" in caplog.text


async def test_so_many_bytes_are_read_and_no_more(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What a file beyond them gave before stays, as far as its profile allows it."""
    discovers = Discovery(place.folder)
    main_file = load(place.main)
    for n in range(3):
        place.leave({"name": f"b{n}", "host": "h"}, name=f"found{n}.yml")
    assert [broker.name for broker in await discovers.brokers(main_file, 0)] == [
        "b0",
        "b1",
        "b2",
    ]
    size = (place.folder / "found0.yml").stat().st_size
    monkeypatch.setattr("penstock.agent.discovery.MAX_BYTES", 2 * size)
    assert [broker.name for broker in await discovers.brokers(main_file, 5)] == [
        "b0",
        "b1",
        "b2",
    ]
    assert (
        "found2.yml: is not read: the files of its pattern hold more than"
        in caplog.text
    )
    assert [
        broker.name for broker in await Discovery(place.folder).brokers(main_file, 5)
    ] == ["b0", "b1"]


async def test_a_file_that_stays_as_it_is_costs_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is broken neither, but once a minute: the fault may have been the disk's."""
    reads: list[str] = []

    def counted(file: Path, profiles: Mapping[str, Profile]) -> object:
        reads.append(file.name)
        return load_targets(file, profiles)

    monkeypatch.setattr(discovery, "load_targets", counted)
    monkeypatch.setattr(watched_files, "SETTLED_SECONDS", 0.0)
    place.leave({"name": "b", "host": "h"})
    (place.folder / "found2.yml").write_text("nonsense")
    discovers = Discovery(place.folder)
    main_file = load(place.main)
    for now in range(0, 60, 5):
        assert [broker.name for broker in await discovers.brokers(main_file, now)] == [
            "b"
        ]
    assert sorted(reads) == ["found.yml", "found2.yml"]
    assert discovers.failures == 12
    await discovers.brokers(main_file, 60)
    assert sorted(reads) == ["found.yml", "found2.yml", "found2.yml"]
    place.leave({"name": "c", "host": "h"})
    assert [broker.name for broker in await discovers.brokers(main_file, 65)] == ["c"]
    place.allow(page_rows=7)
    assert [
        broker.page_rows for broker in await discovers.brokers(load(place.main), 70)
    ] == [7]


@pytest.mark.timeout(20)
async def test_a_fifo_in_the_place_of_a_file_holds_nothing_up(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(place.folder / "found2.yml")
    place.leave(place.target())
    async with place.running() as agent:
        await until(lambda: bool(place.asked))
        assert [state.name for state in agent.lookups.brokers()] == ["b"]
    assert "found2.yml: it is no regular file" in caplog.text


async def test_a_file_that_breaks_and_heals_fills_no_log_of_events(
    place: Place,
) -> None:
    place.allow()
    async with place.running() as agent:
        for _ in range(5):
            place.found.write_text("nonsense")
            await until(lambda: "\npenstock_discovery_faults 1\n" in body(agent))
            place.leave()
            await until(lambda: "\npenstock_discovery_faults 0\n" in body(agent))
        await asyncio.sleep(0.2)
        assert len(details(agent)) == 1


PIECES = st.sampled_from(
    [
        CANARY,
        "${CANARY}",
        "h",
        "h:1",
        "b",
        "mq",
        "other",
        f"u:{CANARY}@h",
        "http://h/",
        "{host}",
        "fd00::1",
    ]
)
WORDS = st.sampled_from(
    ["a", "name", "__a", "password", f"password:{CANARY}", "a b", ""]
)
VALUES = st.recursive(
    PIECES | st.text(max_size=5) | st.integers() | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3)
    ),
    max_leaves=4,
)
OPTIONAL = {
    key: VALUES
    for key in [*Target.model_fields, *Broker.model_fields]
    if key not in ("name", "host")
}
NAMES = st.sampled_from(["a", "b", "c", "d"])
TARGETS = st.lists(
    st.fixed_dictionaries({"name": NAMES, "host": PIECES})
    | st.fixed_dictionaries(
        {"name": PIECES, "host": PIECES}, optional={"profile": PIECES, "labels": VALUES}
    )
    | st.fixed_dictionaries({"name": VALUES, "host": VALUES}, optional=OPTIONAL),
    max_size=3,
)


@pytest.mark.slow  # polls for each value
@settings(fuzzed, max_examples=8 * fuzzed.max_examples)
@given(found=TARGETS | VALUES)
def test_whatever_a_file_holds_it_names_allowed_hosts_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, found: object
) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "f.yml"
    file.write_text(yaml.safe_dump({"brokers": found}))
    asks = profile(username="u", password="operators", hosts=["h", "fd00::*"])
    brokers = []
    refusal = ""
    try:
        brokers = [
            target.broker({"mq": asks}) for target in load_targets(file, {"mq": asks})
        ]
    except ConfigError as error:
        refusal = str(error)
    assert all(line.startswith(f"{file}:") for line in refusal.splitlines())
    assert CANARY not in refusal
    assert {one.url for one in brokers} <= {
        "http://h/",
        "http://h:1/",
        "http://[fd00::1]/",
    }
    assert all((one.kind, one.username) == ("artemis", "u") for one in brokers)


URL = (
    "is not read here; write host: HOST or HOST:PORT, and the URL with {host} in it into"
    + BELONGS[12:]
)


def test_a_file_that_names_more_than_it_may_says_what_goes_where(
    tmp_path: Path,
) -> None:
    old = """brokers:
- name: b1
  kind: artemis
  url: http://10.0.0.7:8161/console/jolokia/
  username: u
  password: ${PASSWORD}
"""
    with pytest.raises(ConfigError) as caught:
        targets(tmp_path, old)
    assert str(caught.value).replace(f"{tmp_path}/", "").splitlines() == [
        "found.yml:2: brokers[0].host: is missing; it is required",
        f"found.yml:3: brokers[0].kind: {BELONGS}",
        f"found.yml:4: brokers[0].url: {URL}",
        f"found.yml:5: brokers[0].username: {BELONGS}",
        f"found.yml:6: brokers[0].password: {BELONGS}",
    ]
    new = "brokers:\n- {name: b1, host: '10.0.0.7:8161'}\n"
    assert targets(tmp_path, new) == ["b1"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"dns": [{"dns": "d", "profile": "no"}]}, r"p.yml:\d+: discovery.dns\[0\].profile: 'no' is none of"),
        ({"files": [{"files": ["f"], "profiles": ["mq", "no"]}]}, r"files\[0\].profiles\[1\]: 'no' is none of"),
        ({"files": [{"files": ["f"], "profiles": []}]}, r"discovery.files\[0\].profiles: must not be empty"),
        ({"files": ["found.yml"]}, r"discovery.files\[0\]: must be a mapping \(key: value\)"),
        ({"files": [{"files": [], "profiles": ["mq"]}]}, r"discovery.files\[0\].files: must not be empty"),
        ({"profiles": {"mq": {"kind": "artemis", "url": "http://{host}/", "usrname": "x"}}},
         r"discovery.profiles.mq.usrname: unknown key; did you mean username\?"),
        ({"profiles": {"mq": {"kind": "artemis", "transport": "recording", "url": "recording:{host}"}}},
         r"discovery.profiles.mq.url: must be that of a broker: a recording cannot be found"),
        ({"profiles": []}, r"discovery.profiles: must be a mapping \(key: value\)"),
    ],
)  # fmt: skip
def test_what_the_main_file_may_not_say(
    tmp_path: Path, change: Mapping[str, Any], why: str
) -> None:
    said = {
        "profiles": {"mq": {"kind": "artemis", "url": "http://{host}/"}},
        "dns": [{"dns": "d", "profile": "mq"}],
    }
    (tmp_path / "p.yml").write_text(
        yaml.safe_dump({"brokers": [], "discovery": {**said, **change}})
    )
    with pytest.raises(ConfigError, match=why):
        load(tmp_path / "p.yml", {})


def test_the_check_says_what_is_wrong_with_a_file_also_offline(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text("""brokers: []
discovery:
  files: [{files: [found.yml], profiles: [mq]}]
  profiles: {mq: {kind: artemis, url: 'http://{host}/'}}
""")
    (tmp_path / "found.yml").write_text("brokers: [{name: b, url: 'http://h/'}]\n")
    checked = CliRunner().invoke(
        main, ["check", "--offline", "--config.file", str(tmp_path / "p.yml")]
    )
    assert checked.exit_code == 1
    assert f"FAILED    discovery: {tmp_path}/found.yml: " in checked.output
    assert "brokers[0].url: is not read here" in checked.output
    (tmp_path / "found.yml").write_text("brokers: [{name: b, host: h}]\n")
    checked = CliRunner().invoke(
        main, ["check", "--offline", "--config.file", str(tmp_path / "p.yml")]
    )
    assert (
        checked.exit_code,
        "FAILED" in checked.output,
        "hosts" in checked.output,
    ) == (0, False, False)


def test_the_check_names_profiles_whose_user_goes_anywhere(place: Place) -> None:
    for hosts, named in ([], 1), (["*"], 0):
        place.allow(username="u", password="x", hosts=hosts)
        checked = CliRunner().invoke(
            main, ["check", "--offline", "--config.file", str(place.main)]
        )
        assert (
            checked.output.count(
                "discovery.profiles.mq: has no hosts; its user goes to any host"
            )
            == named
        )
