"""The rig itself: the brokers start and end as told, and the clients do what their counts say."""

import http.client
import logging
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock_demo import artemis as fetching
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.broker import Broker, Endpoint
from penstock_demo.errors import DemoError
from penstock_demo.load import Counts
from penstock_demo.management import Account, Management
from rig import drivers
from rig.processes import alive, command_lines_with
from rig.prometheus import Prometheus, check_metrics, text_only
from rig.proxy import Fault, Proxy
from rig.waiting import eventually

Unique = Callable[[str], str]
Make = Callable[..., ArtemisBroker]


def consumer_rows(broker: Broker, client: str) -> list[dict[str, Any]]:
    """The broker's own rows about the consumers of a client."""
    return [
        row for row in broker.manage.rows("listConsumers") if row["clientID"] == client
    ]


def on_broker(broker: Broker, client: str) -> dict[str, int]:
    """What the broker says of a client, under the names of Counts; all 0 before it consumes."""
    names = {
        "in_hand": "InTransit",
        "acknowledged": "Acknowledged",
        "uncommitted": "AcknowledgedAwaitingCommit",
    }
    rows = consumer_rows(broker, client)
    return {
        ours: sum(int(row[f"messages{theirs}"]) for row in rows)
        for ours, theirs in names.items()
    }


def own(counts: Counts) -> dict[str, int]:
    """The same as the client counted it; Artemis counts as acknowledged what still awaits commit."""
    return {
        "in_hand": counts.in_hand,
        "acknowledged": counts.acknowledged + counts.uncommitted,
        "uncommitted": counts.uncommitted,
    }


@pytest.mark.broker
class TestAmqp:
    def test_holder_holds_exactly_its_credit(
        self, artemis: Broker, unique: Unique
    ) -> None:
        name = unique("q")
        artemis.manage.create_queue(name)
        with (
            drivers.AmqpProducer(artemis.endpoint("billing"), name) as producer,
            drivers.AmqpHolder(
                artemis.endpoint("billing"), name, credit=7, client_id=name
            ) as holder,
        ):
            producer.send(20)
            eventually(lambda: holder.counts.in_hand, 7)
            assert on_broker(artemis, name) == {
                "in_hand": 7,
                "acknowledged": 0,
                "uncommitted": 0,
            }
            holder.acknowledge(3)
            holder.give_back(1)
            assert holder.counts.in_hand == 3
            eventually(lambda: artemis.manage.queue(name, "MessageCount"), 17)
            eventually(lambda: artemis.manage.queue(name, "DeliveringCount"), 3)
            assert [row["user"] for row in consumer_rows(artemis, name)] == ["billing"]
            assert holder.counts.numbers == [0, 1, 2, 3, 4, 5, 6]
            assert 0 <= time.time() - holder.counts.last_ack < 30

    def test_dropped_client_leaves_no_consumer(
        self, artemis: Broker, unique: Unique
    ) -> None:
        name = unique("q")
        artemis.manage.create_queue(name)
        holder = drivers.AmqpHolder(artemis.endpoint(), name, credit=1)
        holder.drop()
        eventually(lambda: artemis.manage.queue(name, "ConsumerCount"), 0)

    @pytest.mark.parametrize(("end", "left"), [("commit", 5), ("abort", 10)])
    def test_transaction(
        self, artemis: Broker, unique: Unique, end: str, left: int
    ) -> None:
        name = unique("q")
        artemis.manage.create_queue(name)
        with (
            drivers.AmqpProducer(artemis.endpoint(), name) as producer,
            drivers.AmqpTransaction(
                artemis.endpoint(), name, credit=5, client_id=name
            ) as client,
        ):
            producer.send(10)
            eventually(lambda: client.counts.uncommitted, 5)
            eventually(lambda: on_broker(artemis, name), own(client.counts))
            assert artemis.manage.queue(name, "MessageCount") == 10
            getattr(client, end)()
            assert client.counts.uncommitted == 0
            eventually(lambda: artemis.manage.queue(name, "MessageCount"), left)

    def test_consumer_with_selector_and_work(
        self, artemis: Broker, unique: Unique
    ) -> None:
        name = unique("q")
        artemis.manage.create_queue(name)
        with (
            drivers.AmqpProducer(artemis.endpoint(), name) as producer,
            drivers.AmqpConsumer(
                artemis.endpoint(), name, selector="color = 'red'", credit=2, work=0.01
            ) as consumer,
        ):
            producer.send(5, properties={"color": "blue"})
            producer.send(5, properties={"color": "red"})
            eventually(lambda: consumer.counts.acknowledged, 5)
            assert consumer.counts.numbers == [5, 6, 7, 8, 9]
            eventually(lambda: artemis.manage.queue(name, "MessageCount"), 5)

    def test_scheduled(self, artemis: Broker, unique: Unique) -> None:
        name = unique("q")
        artemis.manage.create_queue(name)
        with drivers.AmqpProducer(artemis.endpoint(), name) as producer:
            producer.send(3, delay_ms=600_000)
            eventually(lambda: artemis.manage.queue(name, "ScheduledCount"), 3)

    def test_durable_subscription_outlives_its_client(
        self, artemis: Broker, unique: Unique
    ) -> None:
        topic = unique("news")
        client = unique("reader").replace(".", "_")
        with drivers.AmqpConsumer(
            artemis.endpoint(), topic, topic=True, durable="sub", client_id=client
        ):
            pass
        with drivers.AmqpProducer(artemis.endpoint(), topic, topic=True) as producer:
            producer.send(4)
        where = {"address": topic, "routing_type": "multicast"}
        eventually(
            lambda: artemis.manage.queue(f"{client}.sub", "MessageCount", **where), 4
        )
        with drivers.AmqpConsumer(
            artemis.endpoint(), topic, topic=True, durable="sub", client_id=client
        ) as consumer:
            eventually(lambda: consumer.counts.acknowledged, 4)
            consumer.unsubscribe()
            eventually(
                lambda: [
                    row["name"]
                    for row in artemis.manage.rows("listQueues")
                    if topic in row["address"]
                ],
                [],
            )

    def test_temporary_queue(self, artemis: Broker) -> None:
        with drivers.AmqpHolder(artemis.endpoint(), temporary=True, credit=1) as holder:
            (row,) = (
                row
                for row in artemis.manage.rows("listQueues")
                if row["name"] == holder.address
            )
            assert row["temporary"] == "true"

    def test_full_address_refuses(self, artemis: Broker, unique: Unique) -> None:
        name = unique("full")
        full = {
            "maxSizeBytes": 20_000,
            "pageSizeBytes": 10_000,
            "addressFullMessagePolicy": "FAIL",
        }
        artemis.manage.add_settings(name, **full)
        artemis.manage.create_queue(name)
        with drivers.AmqpProducer(artemis.endpoint(), name) as producer:
            producer.send(200)
            assert producer.counts.refused > 0
            assert artemis.manage.queue(name, "MessageCount") == producer.counts.sent

    def test_wrong_password(self, artemis: Broker) -> None:
        with pytest.raises(drivers.ClientError, match="Authentication failed"):
            drivers.AmqpProducer(
                Endpoint(artemis.host, artemis.port, Account("admin", "wrong")), "q"
            )


@pytest.mark.broker
class TestStomp:
    def test_holder_and_consumer(self, artemis: Broker, unique: Unique) -> None:
        name = unique("q")
        artemis.manage.create_queue(name)
        with drivers.StompProducer(
            artemis.endpoint("orders"), name, client_id="shop"
        ) as producer:
            producer.send(10)
            with drivers.StompConsumer(
                artemis.endpoint(), name, acknowledge=False, client_id=name
            ) as holder:
                eventually(lambda: holder.counts.in_hand, 10)
                holder.acknowledge(2)
                eventually(lambda: on_broker(artemis, name), own(holder.counts))
            with drivers.StompConsumer(artemis.endpoint(), name) as consumer:
                eventually(lambda: consumer.counts.acknowledged, 8)
            eventually(lambda: artemis.manage.queue(name, "MessageCount"), 0)

    def test_rate(self, artemis: Broker, unique: Unique) -> None:
        name = unique("q")
        artemis.manage.create_queue(name)
        with drivers.StompProducer(artemis.endpoint(), name) as producer:
            producer.run(200)
            eventually(lambda: producer.counts.sent > 50, expected=True)
        eventually(
            lambda: artemis.manage.queue(name, "MessageCount"), producer.counts.sent
        )

    def test_scheduled_selector_and_durable(
        self, artemis: Broker, unique: Unique
    ) -> None:
        topic = unique("news")
        client = unique("reader").replace(".", "_")
        where = {"address": topic, "routing_type": "multicast"}
        options: dict[str, Any] = {
            "routing_type": "MULTICAST",
            "durable": "sub",
            "client_id": client,
            "selector": "color = 'red'",
        }
        drivers.StompConsumer(artemis.endpoint(), topic, **options).close()
        with drivers.StompProducer(
            artemis.endpoint(), topic, routing_type="MULTICAST"
        ) as producer:
            producer.send(2, headers={"color": "red"})
            producer.send(2, headers={"color": "blue"})
            producer.send(1, headers={"color": "red"}, delay_ms=600_000)
        eventually(
            lambda: artemis.manage.queue(f"{client}.sub", "MessageCount", **where), 3
        )
        assert artemis.manage.queue(f"{client}.sub", "ScheduledCount", **where) == 1
        with drivers.StompConsumer(artemis.endpoint(), topic, **options) as consumer:
            eventually(lambda: consumer.counts.numbers, [0, 1])

    def test_wrong_password(self, artemis: Broker) -> None:
        with pytest.raises(DemoError, match="invalid"):
            drivers.StompProducer(
                Endpoint(artemis.host, artemis.port, Account("admin", "wrong")), "q"
            )


@pytest.mark.broker
def test_jms_open_transaction(artemis: Broker, unique: Unique, tmp_path: Path) -> None:
    name = unique("q")
    artemis.manage.create_queue(name)
    with drivers.StompProducer(artemis.endpoint(), name) as producer:
        producer.send(6)
    with drivers.OpenTransaction(
        artemis.endpoint("billing"), name, tmp_path, client_id=name
    ):
        eventually(
            lambda: on_broker(artemis, name),
            {"in_hand": 0, "acknowledged": 6, "uncommitted": 6},
        )
        assert [row["protocol"] for row in consumer_rows(artemis, name)] == ["CORE"]
        assert not command_lines_with([artemis.accounts["billing"].password])
    assert not list(tmp_path.glob("*.arguments"))
    eventually(lambda: artemis.manage.queue(name, "DeliveringCount"), 0)


@pytest.mark.broker
def test_clients_leave_nothing_behind(artemis: Broker, unique: Unique) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    name = unique("q")
    artemis.manage.create_queue(name)
    threads = threading.active_count()
    files = open_files()
    with (
        drivers.AmqpProducer(artemis.endpoint(), name).run(50),
        drivers.AmqpConsumer(artemis.endpoint(), name),
    ):
        pass
    with (
        drivers.StompProducer(artemis.endpoint(), name).run(50),
        drivers.StompConsumer(artemis.endpoint(), name),
    ):
        pass
    eventually(threading.active_count, threads)
    eventually(open_files, files)


@pytest.mark.broker
@pytest.mark.parametrize(
    "fixture", ["artemis", "artemis_2_28", "artemis_2_21", "artemis_newest"]
)
def test_every_version_serves(
    request: pytest.FixtureRequest, unique: Unique, fixture: str
) -> None:
    broker: Broker = request.getfixturevalue(fixture)
    name = unique("ring")
    assert broker.manage.read(broker.manage.broker, "Version") == broker.version
    broker.manage.create_queue(name, ring_size=3)
    with drivers.AmqpProducer(broker.endpoint(), name) as producer:
        producer.send(5)
    eventually(lambda: broker.manage.queue(name, "MessageCount"), 3)
    with drivers.StompConsumer(broker.endpoint(), name) as consumer:
        eventually(lambda: consumer.counts.numbers, [2, 3, 4])


@pytest.mark.broker
@pytest.mark.parametrize("fixture", ["artemis", "artemis_2_28", "artemis_2_21"])
def test_exporter_account_reads_but_sees_no_messages(
    request: pytest.FixtureRequest, unique: Unique, fixture: str
) -> None:
    broker: Broker = request.getfixturevalue(fixture)
    name = unique("q")
    broker.manage.create_queue(name)
    reader = Management(
        broker.jolokia_url,
        broker.name,
        broker.accounts["exporter"],
        origin=broker.origin,
    )
    assert reader.queue(name, "MessageCount") == 0
    assert reader.rows("listConsumers") == reader.rows("listProducers") == []
    for denied in (
        lambda: reader.purge(name),
        lambda: reader.queue(name, "FirstMessageAge"),
    ):
        with pytest.raises(DemoError, match="not authorized"):
            denied()


@pytest.mark.broker
def test_passwords_are_in_no_text(
    artemis: Broker, unique: Unique, caplog: pytest.LogCaptureFixture
) -> None:
    name = unique("q")
    artemis.manage.create_queue(name)
    with (
        caplog.at_level(logging.DEBUG),
        drivers.StompProducer(artemis.endpoint(), name),
        drivers.AmqpProducer(artemis.endpoint(), name),
    ):
        pass
    texts = [
        repr(artemis.accounts),
        repr(artemis.endpoint()),
        artemis.log.read_text(),
        caplog.text,
    ]
    secrets = [account.password for account in artemis.accounts.values()]
    assert not [secret for secret in secrets if secret in "".join(texts)]


@pytest.mark.broker
def test_kill_restart_and_freeze(own_artemis: Make) -> None:
    broker = own_artemis(name='odd "name"')
    broker.manage.create_queue("q")
    with drivers.AmqpProducer(broker.endpoint(), "q") as producer:
        producer.send(3)
    broker.kill()
    assert not broker.running
    with pytest.raises(DemoError, match="no answer"):
        broker.manage.queue("q", "MessageCount")
    broker.start()
    assert broker.manage.queue("q", "MessageCount") == 3
    broker.pause()
    frozen = Management(
        broker.jolokia_url, broker.name, broker.admin, origin=broker.origin, timeout=0.5
    )
    with pytest.raises(DemoError, match="timed out"):
        frozen.queue("q", "MessageCount")
    broker.resume()
    eventually(lambda: broker.manage.queue("q", "MessageCount"), 3)
    broker.pause()
    broker.stop()
    assert not broker.running


@pytest.mark.broker
@pytest.mark.nightly  # a pair of its own; e2e has another by day
def test_pair_fails_over_and_back(
    artemis_pair: tuple[ArtemisBroker, ArtemisBroker],
) -> None:
    live, backup = artemis_pair
    live.manage.create_queue("q")
    with drivers.AmqpProducer(live.endpoint(), "q") as producer:
        producer.send(2)
    assert backup.manage.read(backup.manage.broker, "Active") is False
    node = live.manage.read(live.manage.broker, "NodeID")
    live.kill()
    backup.wait_until_active()
    assert backup.manage.read(backup.manage.broker, "NodeID") == node
    assert backup.manage.queue("q", "MessageCount") == 2
    live.start()
    live.wait_until_active()
    assert live.manage.queue("q", "MessageCount") == 2


@pytest.mark.broker
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_no_broker_outlives_its_parent(tmp_path: Path, end: signal.Signals) -> None:
    program = """
        import sys, time
        from pathlib import Path
        from penstock_demo.artemis import ArtemisBroker
        broker = ArtemisBroker.create(Path(sys.argv[1]))
        broker.start()
        print(broker.pid, flush=True)
        time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "b")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(end)
    eventually(lambda: alive(pid), expected=False)


@pytest.mark.broker
def test_failed_start_says_why(own_artemis: Make) -> None:
    with pytest.raises(
        DemoError, match=r"(?s)ended with exit code.*console\.log.*SAXParseException"
    ):
        own_artemis(edit=lambda text: text.replace("</configuration>", "<nonsense>"))


def test_damaged_download_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def maven(_goal: str, *options: str, repository: Path | None = None) -> None:
        asked.append(repository)
        folder = Path(options[-1].removeprefix("-DoutputDirectory="))
        folder.mkdir(exist_ok=True)
        archive = folder / "apache-artemis-9.9.9-bin.zip"
        archive.write_bytes(b"PK damaged")
        if repository is not None:
            with zipfile.ZipFile(archive, "w") as whole:
                whole.writestr("apache-artemis-9.9.9/bin/artemis", "#!/bin/sh")

    asked: list[Path | None] = []
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.setattr(fetching, "maven", maven)
    assert (fetching.fetch("9.9.9") / "bin" / "artemis").read_text() == "#!/bin/sh"
    assert asked[0] is None
    assert asked[1] is not None
    assert fetching.fetch("9.9.9").is_dir()
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("missing", "says"), [("mvn", "apt-get install maven"), ("java", "Java 17")]
)
def test_missing_tool_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, says: str
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in {"java", "mvn"} - {missing}:
        (programs / tool).write_text(
            "#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n"
        )
        (programs / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(DemoError, match=says):
        fetching.fetch("9.9.9")


def test_version_that_is_none() -> None:
    with pytest.raises(DemoError, match=r"'\.\./x' is not an Artemis version"):
        fetching.fetch("../x")


class TestProxy:
    @pytest.fixture
    def proxy(self, target: tuple[str, int]) -> Any:
        with Proxy(target) as proxy:
            yield proxy

    def test_passes(self, proxy: Proxy) -> None:
        assert _get(proxy.port) == PAGE

    def test_hangs_and_goes_on(self, proxy: Proxy) -> None:
        proxy.fault = Fault.HANG
        with pytest.raises(TimeoutError):
            _get(proxy.port, timeout=0.3)
        proxy.fault = Fault.NONE
        assert _get(proxy.port) == PAGE

    def test_resets(self, proxy: Proxy) -> None:
        proxy.fault = Fault.RESET
        with pytest.raises(ConnectionResetError):
            _get(proxy.port)

    def test_truncates(self, proxy: Proxy) -> None:
        proxy.fault = Fault.TRUNCATE
        proxy.truncate_at = 1000
        with pytest.raises(http.client.IncompleteRead):
            _get(proxy.port)

    def test_garbles(self, proxy: Proxy) -> None:
        proxy.fault = Fault.GARBLE
        with pytest.raises(http.client.HTTPException):
            _get(proxy.port)

    def test_alters_a_request(self, target: tuple[str, int]) -> None:
        with Proxy(
            target, alter=lambda chunk: chunk.replace(b"GET / ", b"GET /accept ")
        ) as proxy:
            assert _get(proxy.port, accept="text/plain") == b"text/plain"


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("alter", "kind"), [(bytes, "openmetrics-text"), (text_only, "text/plain")]
)
def test_prometheus_scrapes_both_formats(
    target: tuple[str, int], tmp_path: Path, alter: Callable[[bytes], bytes], kind: str
) -> None:
    with (
        Proxy(target, alter=alter) as proxy,
        Prometheus(tmp_path, f"{proxy.host}:{proxy.port}") as prometheus,
    ):
        ((labels, value),) = prometheus.wait_for("asked_for")
    assert value == 1
    assert labels["kind"].startswith(
        ("application/" if kind == "openmetrics-text" else "") + kind
    )


@pytest.mark.prometheus
def test_promtool_finds() -> None:
    good = "# HELP mq_up Whether it is up.\n# TYPE mq_up gauge\nmq_up 1\n"
    assert check_metrics(good) == []
    assert "no help text" in "".join(check_metrics("# TYPE mq_up gauge\nmq_up 1\n"))
    assert check_metrics("mq_up{ 1\n")[-1] == "promtool: exit 1"


PAGE = b"x" * 5000


def _get(port: int, *, timeout: float = 5, accept: str = "*/*") -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", "/", headers={"Accept": accept})
        return connection.getresponse().read()
    finally:
        connection.close()


class _Target(BaseHTTPRequestHandler):
    """A page at `/`, the Accept header at `/accept`, the same as a metric at `/metrics`."""

    def do_GET(self) -> None:
        accept = self.headers.get("Accept", "")
        answers = {"/": PAGE, "/accept": accept.encode(), "/metrics": _metrics(accept)}
        body = answers[self.path]
        self.send_response(200)
        self.send_header("Content-Type", accept.partition(",")[0])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


def _metrics(accept: str) -> bytes:
    end = "# EOF\n" if "openmetrics" in accept else ""
    return f'# TYPE asked_for gauge\nasked_for{{kind="{accept}"}} 1\n{end}'.encode()


@pytest.fixture
def target() -> Iterator[tuple[str, int]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Target) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield "127.0.0.1", server.server_port
        server.shutdown()
        thread.join()
