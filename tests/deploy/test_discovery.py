"""Discovery: a real DNS server on loopback, files that come, change, break and go."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dns.asyncresolver
import dns.flags
import dns.message
import dns.rcode
import dns.resolver
import dns.rrset
import pytest

from penstock.agent import Agent
from penstock.agent import discovery as module
from penstock.agent.discovery import Discovery, NotResolved, resolve
from penstock.config import Broker, Config, DnsTarget, Records, load
from penstock.core.errors import ConfigError
from penstock.exposition.syntax import Format
from penstock.transports.recording import RecordingTransport
from rig.waiting import until

SERVICE = "_console._tcp.hdls.mq.svc.test."
TARGET = f"""
brokers: []
discovery:
  forget: 100s
  profiles:
    mq: {{name: "mq-{{name}}", kind: artemis, url: "http://{{host}}:8161/console/jolokia/"}}
  dns:
    - dns: {SERVICE}
      profile: mq
"""


def config(home: Path, text: str = TARGET) -> Config:
    (home / "p.yml").write_text(text)
    return load(home / "p.yml", {})


@dataclass(eq=False, repr=False)
class Zone(asyncio.DatagramProtocol):
    """A DNS server: the SRV records of one service."""

    hosts: Sequence[str] | None = None
    """Each with its port before it, else 8161; None: there is no such name."""
    broken: bool = False
    transport: asyncio.DatagramTransport = field(init=False)

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.AA
        if self.broken:
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif self.hosts is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif self.hosts:
            records = [
                f"0 0 {host if ' ' in host else f'8161 {host}'}" for host in self.hosts
            ]
            answer.answer.append(
                dns.rrset.from_text_list(
                    query.question[0].name, 5, "IN", "SRV", records
                )
            )
        self.transport.sendto(answer.to_wire(), addr)


@pytest.fixture
async def zone(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Zone]:
    zone = Zone()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: zone, local_addr=("127.0.0.1", 0)
    )
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = ["127.0.0.1"]
    resolver.port = transport.get_extra_info("sockname")[1]
    resolver.lifetime = 5
    monkeypatch.setattr(dns.asyncresolver, "default_resolver", resolver)
    yield zone
    transport.close()


async def test_brokers_by_their_service_records(zone: Zone, tmp_path: Path) -> None:
    zone.hosts = ["pod-1.hdls.mq.svc.test.", "pod-0.hdls.mq.svc.test."]
    found = await Discovery(tmp_path).brokers(config(tmp_path), 0)
    assert [(broker.name, broker.url) for broker in found] == [
        ("mq-pod-0", "http://pod-0.hdls.mq.svc.test:8161/console/jolokia/"),
        ("mq-pod-1", "http://pod-1.hdls.mq.svc.test:8161/console/jolokia/"),
    ]
    assert found[0].page_rows == 5000


URL = "http://{host}:8161/console/jolokia/"


def urls(found: Sequence[Broker]) -> dict[str, str]:
    return {broker.name: broker.url for broker in found}


async def test_targets_with_the_same_first_label_are_brokers_of_their_own(
    zone: Zone, tmp_path: Path
) -> None:
    zone.hosts = ["broker.north.test.", "broker.south.test.", "other.south.test."]
    found = await Discovery(tmp_path).brokers(config(tmp_path), 0)
    assert urls(found) == {
        "mq-broker.north.test": "http://broker.north.test:8161/console/jolokia/",
        "mq-broker.south.test": "http://broker.south.test:8161/console/jolokia/",
        "mq-other": "http://other.south.test:8161/console/jolokia/",
    }


async def test_a_broker_that_gets_another_name_is_not_asked_twice(
    zone: Zone, tmp_path: Path
) -> None:
    discovery = Discovery(tmp_path)
    wanted = config(tmp_path)
    zone.hosts = ["broker.north.test."]
    assert list(urls(await discovery.brokers(wanted, 0))) == ["mq-broker"]
    zone.hosts = ["broker.south.test.", "broker.north.test."]
    assert sorted(urls(await discovery.brokers(wanted, 60))) == [
        "mq-broker.north.test",
        "mq-broker.south.test",
    ]


@pytest.mark.parametrize(
    "url", ["http://{host}/console/jolokia/", "http://{host}:{port}/console/jolokia/"]
)
async def test_the_port_that_dns_names_is_used_unless_the_url_names_one(
    zone: Zone, tmp_path: Path, url: str
) -> None:
    zone.hosts = [
        "8161 a.x.test.",
        "9161 b.x.test.",
        "8161 c.x.test.",
        "8162 c.x.test.",
    ]
    found = await Discovery(tmp_path).brokers(
        config(tmp_path, TARGET.replace(URL, url)), 0
    )
    assert urls(found) == {
        "mq-a": "http://a.x.test:8161/console/jolokia/",
        "mq-b": "http://b.x.test:9161/console/jolokia/",
        "mq-c.x.test:8161": "http://c.x.test:8161/console/jolokia/",
        "mq-c.x.test:8162": "http://c.x.test:8162/console/jolokia/",
    }
    fixed = await Discovery(tmp_path).brokers(
        config(tmp_path, TARGET.replace(":8161", ":80")), 0
    )
    assert urls(fixed) == {
        f"mq-{name}": f"http://{name}.x.test:80/console/jolokia/" for name in "abc"
    }


async def test_the_port_of_jmx_comes_from_dns_too(zone: Zone, tmp_path: Path) -> None:
    zone.hosts = ["1099 a.x.test."]
    jmx = '"service:jmx:rmi:///jndi/rmi://{host}:{port}/jmxrmi", transport: jmx'
    found = await Discovery(tmp_path).brokers(
        config(tmp_path, TARGET.replace(f'"{URL}"', jmx)), 0
    )
    assert urls(found) == {"mq-a": "service:jmx:rmi:///jndi/rmi://a.x.test:1099/jmxrmi"}


async def test_a_service_that_is_said_not_to_be_there_is_no_broker(
    zone: Zone, tmp_path: Path
) -> None:
    zone.hosts = ["0 ."]
    assert await Discovery(tmp_path).brokers(config(tmp_path), 0) == ()


async def test_a_broker_that_is_gone_is_asked_for_a_while_longer(
    zone: Zone, tmp_path: Path
) -> None:
    discovery = Discovery(tmp_path)
    wanted = config(tmp_path)
    zone.hosts = ["pod-0.x.", "pod-1.x."]
    await discovery.brokers(wanted, 0)
    zone.hosts = ["pod-1.x."]
    assert [broker.name for broker in await discovery.brokers(wanted, 59)] == [
        "mq-pod-0",
        "mq-pod-1",
    ]
    assert [broker.name for broker in await discovery.brokers(wanted, 60)] == [
        "mq-pod-0",
        "mq-pod-1",
    ]
    assert [broker.name for broker in await discovery.brokers(wanted, 160)] == [
        "mq-pod-1"
    ]
    zone.hosts = None
    assert [broker.name for broker in await discovery.brokers(wanted, 230)] == [
        "mq-pod-1"
    ]
    assert await discovery.brokers(wanted, 400) == ()
    assert discovery.failures == 0


async def test_dns_that_fails_leaves_what_was_known(
    zone: Zone, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    discovery = Discovery(tmp_path)
    wanted = config(tmp_path)
    zone.hosts = ["pod-0.x."]
    await discovery.brokers(wanted, 0)
    zone.broken = True
    for now in (60, 120, 1000):
        assert [broker.name for broker in await discovery.brokers(wanted, now)] == [
            "mq-pod-0"
        ]
    assert discovery.failures == 3
    assert caplog.text.count("what was known before stays") == 1


async def test_dns_that_fails_is_told_once_whatever_it_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A resolver tells how long it tried, which is never the same."""
    fails = iter([5.1, 5.2, None, 5.3])

    async def resolve(_: DnsTarget) -> list[Any]:
        if (seconds := next(fails)) is not None:
            raise NotResolved(f"no answer after {seconds} s")
        return []

    discovery = Discovery(tmp_path, resolve)
    wanted = config(tmp_path)
    for now in (0, 60, 90):
        await discovery.brokers(wanted, now)
    assert caplog.text.count("what was known before stays") == 1
    for now in (120, 180):
        await discovery.brokers(wanted, now)
    assert caplog.text.count("what was known before stays") == 2
    assert discovery.failures == 3


async def test_each_file_that_is_broken_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also beside others of the same pattern, whole ones and broken ones."""
    (tmp_path / "found").mkdir()
    for name, content in {
        "1": "nonsense",
        "2": "brokers: 7\n",
        "3": "brokers: []\n",
    }.items():
        (tmp_path / "found" / f"{name}.yml").write_text(content)
    discovery = Discovery(tmp_path)
    wanted = config(tmp_path, FILES)
    for now in range(0, 50, 5):
        await discovery.brokers(wanted, now)
    assert caplog.text.count("what was known before stays") == 2
    assert discovery.failures == 20


async def test_a_name_that_two_files_give_to_different_brokers_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / "1.yml").write_text("brokers:\n" + broker("a") + broker("b"))
    (tmp_path / "found" / "2.yml").write_text(
        "brokers:\n" + broker("a").replace("host: a", "host: c") + broker("b")
    )
    discovery = Discovery(tmp_path)
    wanted = config(tmp_path, FILES)
    for now in (0, 5):
        assert sorted(urls(await discovery.brokers(wanted, now))) == ["a", "b", "own"]
    assert (
        caplog.text.count(
            "broker a of found/*.yml: is there twice and differs; the last one counts"
        )
        == 1
    )
    assert "broker b" not in caplog.text


async def test_what_cannot_be_watched_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> None:
        raise ConfigError("no such certificate")

    monkeypatch.setattr("penstock.agent.supervisor.FILE_SECONDS", 0.01)
    (tmp_path / "p.yml").write_text(
        "brokers: []\ndiscovery: " + SOURCES.replace("found/*", "found*")
    )
    agent = Agent(tmp_path / "p.yml")
    await agent.start()
    monkeypatch.setattr("penstock.agent.supervisor.open_reader", refused)
    (tmp_path / "found.yml").write_text("brokers:\n" + broker("a"))
    try:
        await until(lambda: failures(agent) >= 3)
    finally:
        await agent.stop()
    assert caplog.text.count("no such certificate") == 1


def failures(agent: Agent) -> float:
    """Of discovery, as the agent shows them."""
    body = b"".join(agent.exposition.chunks(Format.TEXT, gzip=False)).decode()
    counted = next(
        line
        for line in body.splitlines()
        if line.startswith("penstock_discovery_failures_total")
    )
    return float(counted.split()[1])


async def test_a_name_that_cannot_be_asked_says_why(zone: Zone) -> None:
    zone.broken = True
    target = DnsTarget.model_construct(dns=SERVICE, records=Records.SRV)
    with pytest.raises(NotResolved, match="SERVFAIL"):
        await resolve(target)


@pytest.mark.parametrize("records", Records)
async def test_what_can_be_no_name_is_told_and_ends_nothing(
    records: Records, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = TARGET.replace(SERVICE, "a" * 70 + ".test").replace(
        "profile:", f"records: {records}\n      profile:"
    )
    discovery = Discovery(tmp_path)
    assert await discovery.brokers(config(tmp_path, text), 0) == ()
    assert discovery.failures == 1
    assert "what was known before stays" in caplog.text


async def test_addresses(tmp_path: Path) -> None:
    text = TARGET.replace(f"dns: {SERVICE}", "dns: localhost\n      records: A")
    found = await Discovery(tmp_path).brokers(config(tmp_path, text), 0)
    assert "http://127.0.0.1:8161/console/jolokia/" in [broker.url for broker in found]
    assert all("[::1]" in broker.url or "127." in broker.url for broker in found)
    assert (
        await resolve(
            DnsTarget.model_construct(dns="no-such-name.invalid", records=Records.A)
        )
        == []
    )


def broker(name: str) -> str:
    return f"- {{name: {name}, host: {name}}}\n"


OWN = "- {name: own, kind: artemis, url: 'http://own:8161/console/jolokia/'}\n"
MQ = f"{{mq: {{kind: artemis, url: '{URL}'}}}}"
SOURCES = f"{{forget: 10s, profiles: {MQ}, files: [{{files: ['found/*.yml'], profiles: [mq]}}]}}\n"
FILES = f"brokers:\n{OWN}discovery: {SOURCES}"


async def test_brokers_in_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "found").mkdir()
    one = tmp_path / "found" / "1.yml"
    two = tmp_path / "found" / "2.yml"
    discovery = Discovery(tmp_path)
    wanted = config(tmp_path, FILES)

    async def names(now: float) -> list[str]:
        return [broker.name for broker in await discovery.brokers(wanted, now)]

    assert await names(0) == ["own"]
    one.write_text("brokers:\n" + broker("a") + broker("b"))
    two.write_text("brokers:\n" + broker("own") + broker("a") + broker("c"))
    assert await names(5) == ["own", "a", "b", "c"]
    assert await names(10) == ["own", "a", "b", "c"]
    assert caplog.text.count("its name is taken by the configuration") == 1
    one.write_text("brokers: nonsense\n")
    assert await names(20) == ["own", "a", "b", "c"]
    assert discovery.failures == 1
    assert f"{one}:1: brokers: must be a list" in caplog.text
    one.unlink()
    two.write_text("brokers: []\n")
    assert await names(25) == ["own", "a", "b", "c"]
    assert await names(31) == ["own"]


async def test_a_file_without_wildcard_must_be_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = config(
        tmp_path, FILES.replace("found/*.yml", "nowhere.yml").replace(OWN, " []\n")
    )
    assert await Discovery(tmp_path).brokers(wanted, 0) == ()
    assert "cannot read" in caplog.text


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace("mq-{name}", "mq"), "must hold {name}"),
        (lambda text: text.replace("//{host}", "//h"), "must contain {host}"),
        (
            lambda text: text.split("discovery", maxsplit=1)[0],
            "must have at least one entry",
        ),
        (
            lambda text: text.replace(":8161", ":{port").replace(
                "profile:", "records: A\n      profile:"
            ),
            "is not a URL",
        ),
        (
            lambda text: text.replace(":8161", ":{port}").replace(
                "profile:", "records: A\n      profile:"
            ),
            "holds {port}, which only SRV records have",
        ),
    ],
)
def test_what_is_refused(
    tmp_path: Path, change: Callable[[str], str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        config(tmp_path, change(TARGET))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.agent.supervisor.FILE_SECONDS", 0.05)
    monkeypatch.setattr(module, "DNS_DEADLINE", 5)


@pytest.mark.usefixtures("quick")
async def test_an_agent_watches_what_is_found_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Path(__file__).parents[1] / "recordings" / "artemis-2.44.0.jsonl.gz"
    monkeypatch.setattr(
        "penstock.agent.factory.open_transport", lambda _: RecordingTransport(recording)
    )
    sources = SOURCES.replace("found/*", "found").replace("10s", "0s")
    (tmp_path / "p.yml").write_text(f"interval: 1s\nbrokers: []\ndiscovery: {sources}")
    (tmp_path / "found.yml").write_text("brokers: []\n")
    agent = Agent(tmp_path / "p.yml")
    await agent.start()
    try:
        assert list(agent.lookups.brokers()) == []
        (tmp_path / "found.yml").write_text(
            "brokers:\n- {name: f1, host: h, labels: {team: payments}}\n"
        )
        async with asyncio.timeout(30):
            while [one.up for one in agent.lookups.brokers()] != [True]:  # noqa: ASYNC110 - files tell no event
                await asyncio.sleep(0.05)
        body = b"".join(agent.exposition.chunks(Format.TEXT, gzip=False))
        assert b"penstock_brokers 1\n" in body
        assert b'\nmq_broker_labels{broker="f1",label_team="payments"} 1\n' in body
        assert b"\npenstock_discovery_faults 0\n" in body
        (tmp_path / "found.yml").write_text("brokers: []\n")
        async with asyncio.timeout(30):
            while agent.lookups.brokers():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        await agent.stop()
