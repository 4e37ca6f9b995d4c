"""What is rare, each on a broker of its own, one step after the other: part of `make test-account` (2 min)."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from account.live.compare import bounds, summed
from account.live.stage import MAIN, Sheet
from e2e.agent import Agent, entry
from flowbench.core import CoreProcess
from penstock_demo.artemis import ArtemisBroker, ha_pair
from penstock_demo.broker import Broker
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer
from rig.waiting import eventually

pytestmark = pytest.mark.broker
SMALL = {"maxSizeBytes": 60_000, "pageSizeBytes": 20_000}


@dataclass(frozen=True)
class Seen:
    """A broker, an agent that polls it each second, and Java clients."""

    broker: Broker
    agent: Agent
    clients: CoreProcess

    def polls(self, number: int = 4) -> None:
        for _ in range(number):
            self.agent.fresh(self.broker.name, timeout=60)

    def sheet(self, queue: str, *, address: bool = False) -> Sheet:
        path = f"/api/v1/account?broker={self.broker.name}&name={queue}"
        (found,) = (
            sheet
            for sheet in json.loads(self.agent.request(path)[1])["accounts"]
            if sheet["queue"] == ("" if address else queue)
        )
        assert isinstance(found, dict)
        return found

    def start(self, client: str, **options: Any) -> None:
        self.clients.ask(
            "start", client, *(f"{key}={value}" for key, value in options.items())
        )

    def truth(self, place: str) -> Mapping[str, int]:
        said = (one.rpartition("=") for one in self.clients.ask("truth"))
        return {
            key.removeprefix(f"{place} "): int(n)
            for key, _, n in said
            if key.startswith(f"{place} ")
        }

    def number(self, queue: str, attribute: str) -> int:
        return int(self.broker.manage.queue(queue, attribute))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("rare")
    with ExitStack() as stack:
        broker = ArtemisBroker.create(folder / "broker")
        stack.callback(broker.kill)
        broker.start()
        yield observed(folder, stack, broker, broker)


def observed(folder: Path, stack: ExitStack, broker: Broker, *polled: Broker) -> Seen:
    agent = stack.enter_context(
        Agent(folder / "agent", brokers=[entry(one) for one in polled])
    )
    agent.until(
        lambda scrape: bool(scrape.find("mq_queue_messages", broker=broker.name)),
        expected=True,
        timeout=60,
    )
    clients = stack.enter_context(CoreProcess(folder / "clients", main=MAIN))
    account = broker.endpoint().account
    clients.ask("broker", broker.host, str(broker.port), account.user, account.password)
    return Seen(broker, agent, clients)


def made(seen: Seen, queue: str, **options: Any) -> None:
    seen.broker.manage.create_queue(queue, **options)
    seen.polls(2)


def left(sheet: Sheet) -> dict[str, Any]:
    """Fates with messages."""
    return {
        name: value
        for name, value in sheet["left"].items()
        if value and name != "duplicate"
    }


def test_amqp_at_a_full_address_with_fail(seen: Seen) -> None:
    """One message is refused, then the broker gives the sender no credit: it waits, and goes on when there is room."""
    seen.broker.manage.add_settings("fail", **SMALL, addressFullMessagePolicy="FAIL")
    made(seen, "fail")
    seen.start(
        "qpid",
        role="send",
        protocol="amqp",
        place="fail",
        rate=50,
        size=1000,
        limit=150,
        refused=1,
    )
    eventually(lambda: seen.truth("fail").get("refused", 0), 1, timeout=20)
    time.sleep(3)
    truth = seen.truth("fail")
    assert truth["tried"] == truth["sent"] + truth["refused"] + 1, (
        "one waits for credit"
    )
    seen.polls()
    low, high = bounds(seen.sheet("fail", address=True)["left"]["rejected"])
    assert low <= truth["refused"] <= high
    assert summed(seen.sheet("fail")["there"]) == [truth["sent"]] * 2
    seen.start("taker", role="take", place="fail")
    eventually(
        lambda: sum(seen.truth("fail").get(what, 0) for what in ("sent", "refused")),
        150,
        timeout=30,
    )
    eventually(
        lambda: seen.truth("fail")["settled"], seen.truth("fail")["sent"], timeout=20
    )
    seen.polls()
    assert left(seen.sheet("fail")) == {"acknowledged": seen.truth("fail")["sent"]}
    assert seen.sheet("fail")["unexplained"] == 0


def test_a_producer_that_blocks_loses_nothing(seen: Seen) -> None:
    seen.broker.manage.add_settings("block", **SMALL, addressFullMessagePolicy="BLOCK")
    made(seen, "block")
    seen.start("blocked", role="send", place="block", rate=50, size=1000, limit=150)
    eventually(
        lambda: (truth := seen.truth("block")).get("tried", 0) - truth.get("sent", 0),
        1,
        timeout=20,
    )
    time.sleep(2)
    waiting = seen.truth("block")["sent"]
    assert 0 < waiting < 150
    seen.polls()
    assert summed(seen.sheet("block")["there"]) == [waiting] * 2
    assert not left(seen.sheet("block", address=True))
    seen.start("unblocking", role="take", place="block")
    eventually(lambda: seen.truth("block").get("settled", 0), 150, timeout=30)
    seen.polls()
    assert left(seen.sheet("block")) == {"acknowledged": 150}
    assert not left(seen.sheet("block", address=True))


def test_a_ring_with_a_time_to_live(seen: Seen) -> None:
    made(seen, "ring", ring_size=5)
    with AmqpProducer(seen.broker.endpoint(), "ring") as producer:
        producer.send(8, ttl=2.0)
    time.sleep(2.5)
    with AmqpConsumer(seen.broker.endpoint(), "ring") as consumer:
        eventually(lambda: seen.number("ring", "MessagesExpired"), 5, timeout=40)
        assert not consumer.counts.received
    seen.polls()
    assert left(seen.sheet("ring")) == {"expired": 5, "evicted": 3}
    assert seen.sheet("ring")["unexplained"] == 0


def test_a_queue_made_again_has_a_new_account(seen: Seen) -> None:
    made(seen, "again")
    with AmqpProducer(seen.broker.endpoint(), "again") as producer:
        producer.send(7)
    seen.polls(2)
    seen.broker.manage.destroy_queue("again")
    seen.polls(2)
    made(seen, "again")
    with AmqpProducer(seen.broker.endpoint(), "again") as producer:
        producer.send(3)
    seen.polls()
    sheet = seen.sheet("again")
    assert (summed(sheet["came"]), summed(sheet["there"]), left(sheet)) == (
        [3, 3],
        [3, 3],
        {},
    )
    assert not left(seen.sheet("again", address=True))


def test_large_messages(seen: Seen) -> None:
    made(seen, "large")
    seen.start(
        "sends large",
        role="send",
        place="large",
        rate=10,
        size=300_000,
        large=1,
        limit=6,
    )
    seen.start(
        "takes large", role="take", place="large", limit=2, pause_ms=600_000, window=0
    )
    eventually(
        lambda: [seen.truth("large").get(what, 0) for what in ("sent", "settled")],
        [6, 2],
        timeout=20,
    )
    seen.polls()
    sheet = seen.sheet("large")
    assert (summed(sheet["there"]), left(sheet), sheet["unexplained"]) == (
        [4, 4],
        {"acknowledged": 2},
        0,
    )


def test_a_core_consumer_takes_from_a_queue_that_keeps_all(seen: Seen) -> None:
    """
    The broker: what it hands to a Core consumer that waits leaves a non-destructive queue, by no counter, and no other
    consumer sees it; it is there again after a restart. So it is unexplained, and said to be.
    """
    made(seen, "kept", non_destructive=True)
    seen.start("waits", role="take", place="kept")
    eventually(lambda: seen.number("kept", "ConsumerCount"), 1)
    seen.start("sends kept", role="send", place="kept", rate=50, limit=20)
    eventually(lambda: seen.truth("kept").get("settled", 0), 20, timeout=20)
    numbers = {
        name: seen.number("kept", name)
        for name in ("MessagesAdded", "MessageCount", "MessagesAcknowledged")
    }
    assert numbers == {
        "MessagesAdded": 20,
        "MessageCount": 0,
        "MessagesAcknowledged": 0,
    }
    seen.polls(5)
    assert seen.sheet("kept")["unexplained"] == 20


@pytest.mark.parametrize(
    "replicated", [False, True], ids=["shared store", "replicated"]
)
def test_the_backup_takes_over(tmp_path: Path, *, replicated: bool) -> None:
    """
    Its counters begin: A is what it loaded, K what is in doubt, R, U and attempts 0. The account begins with the
    content, under its own name; that of the broker that is gone stays as it was last.
    """
    with ExitStack() as stack:
        live, backup = ha_pair(tmp_path / "pair", replicated=replicated)
        for broker in (live, backup):
            stack.callback(broker.kill)
            broker.start()
        live.manage.create_queue("q")
        if replicated:
            eventually(
                lambda: backup.manage.read(backup.manage.broker, "ReplicaSync"),
                expected=True,
                timeout=60,
            )
        before = observed(tmp_path, stack, live, live, backup)
        with AmqpProducer(live.endpoint(), "q") as producer:
            producer.send(100)
        take(live, 60)
        before.start("xa", role="xa", place="q", in_doubt=5)
        eventually(
            lambda: before.number("q", "PreparedTransactionMessageCount"), 5, timeout=20
        )
        before.polls()
        assert left(before.sheet("q")) == {"acknowledged": 60}
        live.kill()
        backup.wait_until_active()
        after = Seen(backup, before.agent, before.clients)
        after.polls()
        names = (
            "MessagesAdded",
            "MessageCount",
            "DeliveringCount",
            "MessagesAcknowledged",
            "AcknowledgeAttempts",
        )
        assert [after.number("q", name) for name in names] == [40, 40, 5, 5, 0]
        assert after.number("q", "PreparedTransactionMessageCount") == 5
        with AmqpProducer(backup.endpoint(), "q") as producer:
            producer.send(10)
        take(backup, 4)
        after.polls()
        sheet = after.sheet("q")
        assert (sheet["came"]["at_start"], summed(sheet["came"]), left(sheet)) == (
            40,
            [50, 50],
            {"acknowledged": 4},
        )
        assert (summed(sheet["there"]), sheet["unexplained"]) == ([46, 46], 0)
        assert not left(after.sheet("q", address=True))
        assert left(before.sheet("q")) == {"acknowledged": 60}


def take(broker: Broker, number: int) -> None:
    with AmqpHolder(broker.endpoint(), "q", credit=number) as holder:
        eventually(lambda: holder.counts.received, number, timeout=20)
        before: Callable[[], int] = lambda: int(  # noqa: E731
            broker.manage.queue("q", "MessagesAcknowledged")
        )
        wanted = before() + number
        holder.acknowledge(number)
        eventually(before, wanted)
