"""What is read of a broker that has more than its budgets allow, and that nothing is counted twice by it."""

import json
from typing import Any

import numpy as np
import pytest

from agent.test_series_budget import samples
from brokers.test_artemis_reader import Broker, calls, errors, messages, polled
from penstock.agent.assessor import Assessor, PollResult, Result
from penstock.brokers.artemis import answers
from penstock.brokers.artemis.reader import ArtemisReader
from penstock.brokers.budget import Budget, RowBudgets
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.requests import attributes
from penstock.core.errors import BadAnswer, SourceError, Unreachable
from penstock.core.table import Index
from penstock.model import LeftOut, Snapshot
from penstock.observation.activity import DELIVERED
from penstock.settings.policy import Policy

TEN = [f"q{number}" for number in range(10)]


class Fleet(Broker):
    """Each consumer a client of its own, which counts what it settles; queues with sizes of their own."""

    def __init__(
        self, queues: list[str], consumers: int = 0, version: str = "2.44.0"
    ) -> None:
        super().__init__(version, queues, 0)
        self.depth = {name: 10 * number for number, name in enumerate(queues)}
        self.added: dict[str, int] = {}
        self.temporary = False
        self.address = ""
        """Of all queues, in place of one for each."""
        self.settled: dict[int, int] = {}
        self.rows_asked: dict[str, Any] = {}
        for _ in range(consumers):
            self.join()

    def join(self) -> None:
        number = 100 + len(self.settled)
        self.consumers[number] = self.queues[10]
        self.settled[number] = 0

    def work(self, messages: int = 10) -> None:
        for number in self.consumers:
            self.settled[number] += messages

    def text(self, operation: str, arguments: list[Any]) -> str | list[str]:
        self.rows_asked[operation] = arguments[-1] if arguments else None
        if self.address and operation == "listAddresses":
            return json.dumps({"data": [{"name": self.address}], "count": 1})
        return super().text(operation, arguments)

    def queue_row(self, number: int, name: str) -> dict[str, str]:
        told = {
            "messageCount": str(self.depth[name]),
            "messagesAdded": str(self.added.get(name, 0)),
        }
        told |= {"address": self.address} if self.address else {}
        return (
            super().queue_row(number, name)
            | told
            | ({"temporary": "true"} if self.temporary else {})
        )

    def consumer_row(self, number: int, queue: str) -> dict[str, Any]:
        settled = str(self.settled[number])
        told = {
            "clientID": f"client-{number}",
            "messagesAcknowledged": settled,
            "messagesDelivered": settled,
        }
        return super().consumer_row(number, queue) | told


def reader(broker: Broker, page_rows: int = 5000, **most: int) -> ArtemisReader:
    return ArtemisReader(broker, ReaderOptions(page_rows, budgets=RowBudgets(**most)))


def names(snapshot: Snapshot) -> set[str]:
    assert snapshot.queues is not None
    return {row.name for row in snapshot.queues.index}


async def test_of_more_queues_than_may_be_read_the_largest_are() -> None:
    broker = Fleet(TEN)
    artemis = reader(broker, queues=3, addresses=4)
    for _ in range(3):
        found = await polled(artemis, broker)
        assert messages(found) == {"q7": 70, "q8": 80, "q9": 90}
        assert found.observation.left_out == (
            LeftOut("queues", 7, 10),
            LeftOut("addresses", 6, 10),
        )
        assert "not read: 7 of 10 queues (budgets.queues)" in found.notes
        assert not errors(found)
    assert calls(broker).count("listQueues") == 1, (
        "it is known by now that there are more"
    )
    assert broker.rows_asked["listQueues"] == 3
    assert not {"AcknowledgeAttempts", "DeadLetterAddress"} & set(calls(broker)), (
        "a pattern answers for all of them"
    )


async def test_a_queue_that_grows_comes_into_view_and_none_is_shown_with_old_numbers() -> (
    None
):
    broker = Fleet(TEN)
    artemis = reader(broker, queues=3)
    await polled(artemis, broker)
    broker.depth["q0"] = 1000
    assert messages(await polled(artemis, broker)) == {"q0": 1000, "q8": 80, "q9": 90}
    broker.depth["q0"] = 0
    assert messages(await polled(artemis, broker)) == {"q7": 70, "q8": 80, "q9": 90}


async def test_pages_sorted_by_size_prove_nothing_and_no_row_stays_with_old_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.brokers.artemis.reader.QUEUE_PAGE_ROWS", 2)
    broker = Fleet(TEN)
    artemis = reader(broker, queues=6, addresses=6)
    await polled(artemis, broker)
    for turn in range(4):
        broker.depth |= {"q0": 1000 if turn % 2 == 0 else 0, "q4": 40 + turn}
        found = await polled(artemis, broker)
        largest = sorted(broker.depth, key=lambda name: -broker.depth[name])[:6]
        assert messages(found) == {name: broker.depth[name] for name in largest}
        assert calls(broker).count("listQueues") == 3
        assert "queues" not in found.observation.inconsistent


async def test_of_a_broker_that_shrinks_again_all_is_read() -> None:
    broker = Fleet(TEN)
    artemis = reader(broker, queues=6)
    assert len(names(await polled(artemis, broker))) == 6
    for number in range(10, 16):
        del broker.queues[number]
    for _ in range(2):
        found = await polled(artemis, broker)
        assert names(found) == {"q6", "q7", "q8", "q9"}
        assert found.observation.left_out == ()
    last = [
        one
        for one in broker.asked
        if one.get("operation", "").startswith("list") and one["arguments"]
    ][-1]
    assert (
        "sortOrder" not in last["arguments"][0]
        or calls(broker).count("listQueues") == 1
    )
    assert "AcknowledgeAttempts" in calls(broker)


async def test_a_reading_that_shrank_keeps_none_that_are_gone() -> None:
    """The last listing was sorted by size and is whole: what it does not show is gone, not out of sight."""
    broker = Fleet(TEN)
    artemis = reader(broker, queues=9)
    await polled(artemis, broker)
    del broker.queues[19], broker.queues[18]
    assert names(await polled(artemis, broker)) == {f"q{number}" for number in range(8)}


@pytest.mark.parametrize("version", ["2.21.0", "2.28.0", "2.40.0"])
async def test_addresses_that_only_a_pattern_shows_are_left_out_after_reading(
    version: str,
) -> None:
    broker = Fleet(TEN, version=version)
    artemis = reader(broker, addresses=4)
    found = await polled(artemis, broker, 2)
    assert found.addresses is not None
    assert len(found.addresses) == 4
    assert found.observation.left_out == (LeftOut("addresses", 6, 10),)


async def test_of_more_consumers_the_oldest_are_read_always_the_same() -> None:
    broker = Fleet(["q"], 8)
    artemis = reader(broker, page_rows=2, consumers=5)
    for _ in range(4):
        broker.join()
        found = await polled(artemis, broker)
        assert found.consumers is not None
        assert [row.id for row in found.consumers.index] == [
            "100",
            "101",
            "102",
            "103",
            "104",
            "105",
        ]
        assert "leaving" not in found.consumers.columns
    assert calls(broker).count("listConsumers") == 3, (
        "as many pages as the budget allows"
    )


async def test_of_very_many_queues_on_one_address_none_is_ever_read_by_a_pattern() -> (
    None
):
    broker = Fleet(TEN)
    broker.address = "a"
    artemis = reader(broker, queues=3)
    for _ in range(2):  # the second time another process answers
        for _ in range(2):
            found = await polled(artemis, broker)
            assert not errors(found)
            assert not {
                *attributes(answers.QueueSizes),
                *attributes(answers.QueueDeadLetters),
            } & set(calls(broker))
        assert found.queues is not None
        assert {row.dead_letter_address for row in found.queues.index} == {"DLQ"}, (
            "by the address's settings"
        )
        broker.about["NodeID"] = "n2"


async def test_where_queues_must_not_be_listed_their_roles_are_read_all_the_same() -> (
    None
):
    broker = Fleet(TEN)
    broker.wrong["listQueues"] = [{"status": 403, "error": "not for you"}] * 2
    artemis = reader(broker)
    for asked in (1, 0):  # once a minute
        found = await polled(artemis, broker)
        assert {"queues"} <= set(errors(found)) <= {"queues", "sizes", "links"}
        assert calls(broker).count("DeadLetterAddress") == asked


async def test_connections_that_could_not_be_read_and_left_are_left_out_no_more() -> (
    None
):
    broker = Fleet(["q"], 8)
    artemis = reader(broker, connections=5)
    found = await polled(artemis, broker, 2)
    assert found.observation.left_out == (LeftOut("connections", 3, 8),)
    for gone in (105, 106, 107):
        del broker.consumers[gone]
    for _ in range(2):
        found = await polled(artemis, broker)
        assert found.observation.left_out == ()
        assert found.connections is not None
        assert len(found.connections) == 5
    assert "listConnections" not in calls(broker), "all are known, and none is left out"


async def test_a_broker_that_turns_passive_leaves_nothing_out() -> None:
    broker = Fleet(TEN)
    artemis = reader(broker, queues=3)
    await polled(artemis, broker)
    broker.about["Active"] = False
    found = await polled(artemis, broker)
    assert found.observation.left_out == ()
    assert found.notes == ("a passive broker has no queues",)
    broker.about["Active"] = True
    found = await polled(artemis, broker)
    assert found.observation.left_out == (LeftOut("queues", 7, 10),)
    assert not found.observation.late, "all of it is new to this reader"


@pytest.mark.parametrize(
    "failure", [Unreachable("no answer in time"), BadAnswer("no listing")]
)
async def test_no_pattern_takes_the_place_of_a_listing_that_has_just_shown_too_many(
    failure: SourceError,
) -> None:
    broker = Fleet(TEN)
    broker.wrong["listQueues"] = [
        lambda: {"status": 200, "value": broker.text("listQueues", ["{}", 1, 5000])},
        failure,
    ]
    artemis = reader(broker, queues=3)
    found = await polled(artemis, broker)
    assert calls(broker).count("listQueues") == 2
    assert attributes(answers.QueueAttributes)[0] not in calls(broker)
    assert str(failure) in errors(found)["queues"]
    assert messages(await polled(artemis, broker)) == {"q7": 70, "q8": 80, "q9": 90}


# --- counters


class Agent:
    """Polls a broker and shows it."""

    def __init__(self, broker: Fleet, artemis: ArtemisReader) -> None:
        self.broker = broker
        self.artemis = artemis
        self.assessor = Assessor(Policy("b"), 15.0)

    async def poll(self) -> Snapshot:
        found = await polled(self.artemis, self.broker)
        self.assessor.take(found)
        self.assessor.publish(PollResult(Result.OK), dict.fromkeys(Result, 0))
        return found

    def clients(self) -> dict[str, float]:
        table = self.assessor.tables["client"]
        return {
            row.client: n
            for row, n in zip(table.index, table["acknowledged"].tolist(), strict=True)
        }

    def added(self) -> float:
        (number,) = self.assessor.tables["queue"]["added"].tolist()
        return float(number)


@pytest.mark.slow  # a large broker
async def test_counters_of_clients_are_exact_while_a_listing_grows_over_its_budget_and_shrinks_again() -> (
    None
):
    broker = Fleet(["q"], 4)
    agent = Agent(broker, reader(broker, page_rows=2, consumers=6))
    for _ in range(3):
        broker.work()
        await agent.poll()
    for _ in range(5):
        broker.join()
    for _ in range(3):
        broker.work()
        found = await agent.poll()
    assert found.observation.left_out == (LeftOut("consumers", 3, 9),)
    assert agent.clients() == {
        f"client-{n}": broker.settled[n] for n in range(100, 106)
    }
    for gone in (100, 101, 102):
        del broker.consumers[gone]
    broker.work()
    found = await agent.poll()
    assert found.observation.left_out == ()
    assert found.observation.late["consumers"].tolist() == [106, 107, 108]
    for _ in range(2):
        broker.work()
        await agent.poll()
    seen_from_birth = {f"client-{n}": broker.settled[n] for n in (103, 104, 105)}
    # These had settled 40 when they came into view: who counted that nobody knows.
    assert agent.clients() == seen_from_birth | {
        f"client-{n}": 20 for n in (106, 107, 108)
    }
    del broker.consumers[103]
    broker.join()
    broker.work()
    await agent.poll()
    assert agent.clients()["client-109"] == 10, (
        "of one that came while all were in view, all counts"
    )


@pytest.mark.slow  # many polls
async def test_what_a_late_consumer_did_before_is_no_progress_of_this_poll() -> None:
    broker = Fleet(["q"], 2)
    agent = Agent(broker, reader(broker, consumers=1))
    await agent.poll()
    broker.settled[101] = 1_000_000
    await agent.poll()
    del broker.consumers[100]
    await agent.poll()
    activity = agent.assessor.state.judgement.activity
    assert agent.assessor.state.judgement.seen.consumers.index.keys.tolist() == [101]
    assert activity.window.sum(DELIVERED).tolist() == [0], (
        "and not a million, none of which came in this poll"
    )
    broker.work(7)
    await agent.poll()
    assert agent.assessor.state.judgement.activity.window.sum(DELIVERED).tolist() == [7]


@pytest.mark.slow  # a large broker
async def test_a_summed_queue_that_leaves_and_returns_is_not_counted_twice() -> None:
    broker = Fleet(["t0", "t1", "t2"])
    broker.temporary = True
    broker.added = {"t0": 100, "t1": 200, "t2": 300}
    agent = Agent(broker, reader(broker, queues=2))
    await agent.poll()
    assert agent.added() == 500
    for turn in range(6):  # t0 and t1 by turns
        broker.depth["t0"] = 50 if turn % 2 == 0 else 0
        broker.added["t2"] += 1
        await agent.poll()
    assert agent.added() == 500 + 6


@pytest.mark.slow  # many polls
async def test_a_summed_queue_whose_dead_letter_address_is_learned_later_is_not_counted_twice() -> (
    None
):
    broker = Fleet(["t0", "t1"])
    broker.temporary = True
    agent = Agent(broker, reader(broker))
    await agent.poll()
    broker.queues[50], broker.depth["t9"], broker.added["t9"] = "t9", 5, 1000
    for _ in range(3):
        found = await agent.poll()
        assert agent.added() == 1000
    assert found.queues is not None
    assert {row.dead_letter_address for row in found.queues.index} == {"DLQ"}


# --- names that are long


async def test_a_listing_of_names_without_end_fails_alone_and_says_why() -> None:
    broker = Fleet([f"{number}-" + 65_000 * "x" for number in range(40)], 1)
    found = await polled(reader(broker, listing_bytes=2**20), broker)
    assert list(errors(found)) == ["addresses", "queues", "sizes", "links"]
    assert "larger than 1048576 bytes" in errors(found)["queues"]
    assert "budgets.listing_bytes" in errors(found)["queues"]
    assert found.consumers is not None
    assert len(found.consumers) == 1


@pytest.mark.slow  # a large broker
async def test_labels_of_64_kb_are_cut_and_stay_apart() -> None:
    long = 65_000 * "x"
    broker = Fleet([f"{long}-{number}" for number in range(3)], 1)
    agent = Agent(broker, reader(broker))
    await agent.poll()
    await agent.poll()
    shown = samples(agent.assessor.blocks, "mq_queue_messages")
    assert len(shown) == 3
    assert len({labels["queue"] for labels, _ in shown}) == 3
    assert {len(labels["queue"].encode()) for labels, _ in shown} == {1023}
    assert names(await agent.poll()) == {f"{long}-{number}" for number in range(3)}, (
        "the API knows them whole"
    )


# --- the arithmetic


@pytest.mark.parametrize(
    ("most", "rows", "pages"),
    [(5, 2, (2, 3)), (6, 2, (2, 3)), (1, 5000, (1, 1)), (10, 4, (4, 3))],
)
def test_pages_of_a_budget(most: int, rows: int, pages: tuple[int, int]) -> None:
    assert Budget("queues", most).pages(rows) == pages


def test_late_is_what_a_cut_reading_may_have_hidden() -> None:
    budget = Budget("queues", 2)
    index = Index[str].empty()

    def reading(keys: list[int], of: int) -> list[int]:
        nonlocal index
        budget.begin_poll()
        budget.read(len(keys), of)
        index, _ = index.advance(np.array(keys, np.int64), lambda new: ["x"] * len(new))
        budget.shown(index)
        late: list[int] = budget.late.tolist()
        return late

    assert reading([1, 2], 2) == []
    assert reading([1, 3], 3) == [], "before, all were in view"
    assert reading([2, 3], 3) == [2]
    assert reading([2, 3], 3) == []
    assert reading([2, 4], 2) == [4], "the reading before hid one"
    assert reading([2, 5], 2) == []
