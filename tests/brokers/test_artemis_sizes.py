"""Which queues are asked for their sizes, by name or by pattern, and that no number is older than the listing."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from brokers.test_artemis_reader import NULL_POINTER, Broker, errors, polled
from penstock.brokers.artemis import answers, reader, requests, sizes
from penstock.brokers.artemis.reader import ArtemisReader
from penstock.brokers.requests import attributes, key_of
from penstock.core.errors import BadAnswer, SourceError, Unreachable
from penstock.model import Snapshot
from penstock.transports.recording import RecordingTransport
from penstock.transports.transport import Answer, Request

NAMES = tuple(f"q{number}" for number in range(10))
GONE = {
    "status": 404,
    "error_type": "javax.management.InstanceNotFoundException",
    "error": "gone",
}
ODD = ('a"b', "a,b=c", "st*r?", "back\\slash", "line\nend", "{'}", "日本", " ")
SECONDS = 15.0


class Idle(Broker):
    """Each queue has its own counters and sizes; nothing happens unless a test makes it happen."""

    def __init__(self, queues: Sequence[str] = NAMES, version: str = "2.44.0") -> None:
        super().__init__(version, queues, consumers=0)
        zero = {"messageCount": 0, "deliveringCount": 0, "scheduledCount": 0}
        counted = {
            "messagesAdded": 9,
            "messagesAcked": 9,
            "messagesExpired": 0,
            "messagesKilled": 0,
        }
        self.rows: dict[str, dict[str, int]] = {
            name: {**zero, **counted} for name in queues
        }
        self.sizes: dict[str, list[Any]] = {name: [9, 0, 0] for name in queues}

    def queue_row(self, number: int, name: str) -> dict[str, str]:
        about = {
            "id": str(number),
            "name": name,
            "address": name,
            "routingType": "ANYCAST",
            "consumerCount": "0",
        }
        return about | {field: str(value) for field, value in self.rows[name].items()}

    def attributes(self, number: int, name: str) -> dict[str, Any]:
        return super().attributes(number, name) | dict(
            zip(attributes(answers.QueueSizes), self.sizes[name], strict=True)
        )

    def mbean(self, name: str) -> str:
        return str(requests.of_queue("b", name, name, "anycast")["mbean"])

    def respond(self, request: Request) -> dict[str, Any]:
        of_queue = "subcomponent=queues" in request.get("mbean", "")
        by_name = (
            of_queue
            and "queue=*" not in request["mbean"]
            and "FirstMessageAge" not in request["attribute"]
        )
        if not by_name or self.wrong.get(self.what(request)):
            return super().respond(request)
        found = self.read(request).get(request["mbean"])
        return GONE if found is None else {"status": 200, "value": found}

    def send(self, name: str, messages: int = 1) -> None:
        """They come and stay."""
        self.rows[name]["messagesAdded"] += messages
        self.rows[name]["messageCount"] += messages
        self.sizes[name][1] += 100 * messages

    def settle(self, name: str) -> None:
        row = self.rows[name]
        said = self.sizes[name]
        row["messagesAcked"] += row["messageCount"]
        said[0] += row["messageCount"]
        row["messageCount"] = said[1] = said[2] = 0

    def asked_sizes(self) -> list[str]:
        """Of the last poll: the queues that were asked by name, or "all"."""
        asked = [
            r["mbean"]
            for r in self.asked
            if list(r.get("attribute", ())) == list(attributes(answers.QueueSizes))
        ]
        return [
            "all" if "queue=*" in mbean else key_of(mbean, "queue") for mbean in asked
        ]


async def once(
    artemis: ArtemisReader, broker: Idle, seconds: float = SECONDS
) -> Snapshot:
    broker.asked.clear()
    return await polled(artemis, broker, every=seconds)


async def settled(broker: Idle) -> ArtemisReader:
    artemis = ArtemisReader(broker)
    await polled(artemis, broker, times=2)
    return artemis


def shown(snapshot: Snapshot) -> dict[str, list[float]]:
    table = snapshot.queues
    assert table is not None
    lines = np.vstack([table[name] for name in sizes.COLUMNS]).T.tolist()
    return dict(zip([row.name for row in table.index], lines, strict=True))


# --- who is asked


async def test_what_has_nothing_and_had_nothing_is_not_asked() -> None:
    broker = Idle()
    artemis = ArtemisReader(broker)
    for _ in range(2):
        await once(artemis, broker)
        assert broker.asked_sizes() == ["all"], (
            "a reading right after a change may be too early"
        )
    found = await once(artemis, broker)
    assert broker.asked_sizes() == []
    assert shown(found) == broker.sizes
    assert not errors(found)


async def test_a_queue_that_changed_is_asked_at_once_and_until_its_counters_have_settled() -> (
    None
):
    broker = Idle()
    artemis = await settled(broker)
    broker.send("q3")
    assert shown(await once(artemis, broker, 1))["q3"] == [9, 100, 0]
    assert broker.asked_sizes() == ["q3"]
    broker.settle("q3")
    broker.sizes["q3"][1] = 50  # the broker is a moment behind with it
    assert shown(await once(artemis, broker, 1))["q3"] == [10, 50, 0]
    broker.sizes["q3"][1] = 0
    for _ in range(int(sizes.SETTLES)):
        assert shown(await once(artemis, broker, 1))["q3"] == [10, 0, 0]
        assert broker.asked_sizes() == ["q3"]
    await once(artemis, broker, 1)
    assert broker.asked_sizes() == []


@pytest.mark.parametrize("field", ["messageCount", "deliveringCount", "scheduledCount"])
async def test_what_holds_messages_is_always_asked(field: str) -> None:
    """A consumer that comes, takes, gives back and goes between two polls leaves the listing as it was."""
    broker = Idle()
    artemis = await settled(broker)
    broker.rows["q5"][field] = 1
    for attempts in range(20, 24):
        broker.sizes["q5"][0] = attempts
        assert shown(await once(artemis, broker))["q5"] == [attempts, 0, 0]
        assert broker.asked_sizes() in (["q5"], ["all"])


@pytest.mark.parametrize(
    "field", ["messagesAdded", "messagesAcked", "messagesExpired", "messagesKilled"]
)
async def test_messages_that_came_and_went_between_two_polls_are_seen(
    field: str,
) -> None:
    broker = Idle()
    artemis = await settled(broker)
    broker.rows["q5"][field] += 1
    broker.sizes["q5"][0] += 1
    assert shown(await once(artemis, broker))["q5"] == [10, 0, 0]


async def test_many_changes_are_read_by_pattern() -> None:
    broker = Idle()
    artemis = await settled(broker)
    for name in NAMES[:5]:
        broker.send(name)
    await once(artemis, broker, 1)
    assert broker.asked_sizes() == list(NAMES[:5])
    broker.send(NAMES[5])
    assert shown(await once(artemis, broker, 1)) == broker.sizes
    assert broker.asked_sizes() == ["all"]


async def test_all_are_read_now_and_then_whatever_the_listing_says() -> None:
    broker = Idle()
    artemis = await settled(broker)
    broker.sizes["q7"] = [11, 12, 13]  # by what no rule foresees
    late = [
        shown(await once(artemis, broker))["q7"] == [9, 0, 0]
        for _ in range(int(sizes.ALL_AGE / SECONDS))
    ]
    assert late == [True, True, True, False]


async def test_a_new_queue_and_one_made_again_are_asked_at_once() -> None:
    broker = Idle()
    artemis = await settled(broker)
    broker.queues[99], broker.rows["new"], broker.sizes["new"] = (
        "new",
        dict(broker.rows["q0"]),
        [1, 2, 3],
    )
    del broker.queues[10]
    broker.queues[98], broker.sizes["q0"] = "q0", [4, 5, 6]
    found = await once(artemis, broker)
    assert sorted(broker.asked_sizes()) == ["new", "q0"]
    assert shown(found) == broker.sizes


@pytest.mark.parametrize("change", [{"UptimeMillis": 100}, {"NodeID": "n2"}])
async def test_another_process_is_asked_for_all(change: dict[str, Any]) -> None:
    broker = Idle()
    artemis = await settled(broker)
    broker.about |= change
    broker.sizes = {name: [0, 0, 0] for name in NAMES}
    assert shown(await once(artemis, broker)) == broker.sizes
    assert broker.asked_sizes() == ["all"]


async def test_a_clock_set_back_makes_nothing_older() -> None:
    broker = Idle()
    artemis = await settled(broker)
    await once(artemis, broker, -3600)
    broker.send("q3")
    assert shown(await once(artemis, broker, 1))["q3"] == [9, 100, 0]
    broker.settle("q3")
    assert shown(await once(artemis, broker, 1))["q3"] == [10, 0, 0]


async def test_a_listing_by_pattern_says_as_well_what_changed() -> None:
    broker = Idle()
    artemis = await settled(broker)
    broker.wrong = {"listQueues": [NULL_POINTER, NULL_POINTER]}
    # The fake's pattern read has fewer counters than its listing: what is missing is no proof.
    broker.sizes["q1"] = [10, 0, 0]
    assert shown(await once(artemis, broker)) == broker.sizes


async def test_a_row_that_moved_out_of_sight_between_two_pages_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its counters are those of an earlier poll."""
    monkeypatch.setattr(reader, "QUEUE_PAGE_ROWS", 4)
    broker = Idle()
    artemis = await settled(broker)
    broker.send("q4")
    broker.settle("q4")

    def first_page() -> dict[str, Any]:
        page = {"status": 200, "value": broker.text("listQueues", ["{}", 1, 4])}
        del broker.queues[10]
        return page

    broker.wrong = {"listQueues": [first_page]}
    found = await once(artemis, broker)
    assert found.observation.inconsistent == {"queues"}
    assert broker.asked_sizes() == ["q4"]
    assert shown(found)["q4"] == [10, 0, 0]


# --- what fails


async def test_what_could_not_be_read_when_its_row_changed_is_asked_again() -> None:
    broker = Idle()
    artemis = await settled(broker)
    broker.send("q3")
    broker.settle("q3")
    broker.wrong = {"AcknowledgeAttempts": [Unreachable("no answer")]}
    found = await once(artemis, broker)
    assert list(errors(found)) == ["sizes"]
    assert found.queues is not None
    assert "bytes" not in found.queues, (
        "what stands in for it is not the reader's to say"
    )
    assert shown(await once(artemis, broker))["q3"] == [10, 0, 0]
    assert broker.asked_sizes() == ["q3"]


async def test_a_value_that_cannot_be_read_is_missing_and_asked_again() -> None:
    broker = Idle()
    artemis = await settled(broker)
    broker.sizes["q3"][1] = "ERROR: later"
    broker.rows["q3"]["messagesAdded"] += 1
    for _ in range(3):
        found = await once(artemis, broker)
        assert broker.asked_sizes() in (["q3"], ["all"])
        assert np.isnan(shown(found)["q3"][1])
        assert errors(found) == {
            "sizes": "1 values could not be read and are left out: PersistentSize"
        }
        assert found.collectors["sizes"].all_rows
    broker.sizes["q3"][1] = 0
    assert shown(await once(artemis, broker))["q3"] == [9, 0, 0]


async def test_one_that_is_refused_does_not_hide_the_others() -> None:
    broker = Idle()
    artemis = await settled(broker)
    broker.send("q3")
    broker.send("q4")
    refused = {"status": 403, "error": "User not authorized"}
    broker.wrong = {"AcknowledgeAttempts": [refused]}
    found = await once(artemis, broker)
    assert np.isnan(shown(found)["q3"]).all()
    assert shown(found)["q4"] == [9, 100, 0]
    assert "1 of 2 failed" in errors(found)["sizes"]
    broker.wrong = {"AcknowledgeAttempts": [refused, refused]}
    found = await once(artemis, broker)
    assert found.queues is not None
    assert "bytes" not in found.queues
    assert "not authorized" in errors(found)["sizes"]


async def test_a_queue_that_goes_between_two_calls_is_no_error() -> None:
    broker = Idle()
    artemis = await settled(broker)
    broker.send("q3")
    broker.send("q4")
    broker.wrong = {"AcknowledgeAttempts": [GONE]}
    found = await once(artemis, broker)
    assert not errors(found)
    assert np.isnan(shown(found)["q3"]).all()
    assert shown(found)["q4"] == [9, 100, 0]
    del broker.queues[13]
    await once(artemis, broker, 1)
    assert broker.asked_sizes() == ["q4"]


async def test_one_that_is_listed_and_not_found_by_its_name_is_found_by_pattern() -> (
    None
):
    broker = Idle()
    artemis = await settled(broker)
    broker.send("q3")
    broker.wrong = {"AcknowledgeAttempts": [GONE]}
    await once(artemis, broker, 1)
    assert shown(await once(artemis, broker, 1)) == broker.sizes
    assert broker.asked_sizes() == ["all"]


async def test_without_queues_there_are_no_sizes() -> None:
    broker = Idle()
    artemis = await settled(broker)
    broker.wrong = {"listQueues": [BadAnswer("x")], "ID": [BadAnswer("x")]}
    broker.send("q3")
    assert "sizes" in errors(await once(artemis, broker))
    assert shown(await once(artemis, broker))["q3"] == [9, 100, 0]


# --- names


async def test_odd_names() -> None:
    broker = Idle((*NAMES, *ODD))
    artemis = await settled(broker)
    for name in ODD:
        broker.send(name)
    found = await once(artemis, broker)
    assert broker.asked_sizes() == list(ODD)
    assert shown(found) == broker.sizes


async def test_long_names_go_in_several_bulks(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Idle()
    artemis = await settled(broker)
    monkeypatch.setattr(requests, "BULK", 2)
    for name in NAMES[:5]:
        broker.send(name)
    assert shown(await once(artemis, broker)) == broker.sizes
    assert len([what for what, _ in broker.calls if what == "AcknowledgeAttempts"]) == 3


def test_bulks_are_bounded_by_number_and_by_length() -> None:
    short = [
        requests.of_queue("b", "a", str(number), "anycast")
        for number in range(2 * requests.BULK + 1)
    ]
    assert [len(bulk) for bulk in requests.in_bulks(short)] == [
        requests.BULK,
        requests.BULK,
        1,
    ]
    long = [
        requests.of_queue("b", "a", "x" * requests.BULK_CHARACTERS, "anycast")
        for _ in range(3)
    ]
    assert [len(bulk) for bulk in requests.in_bulks(long)] == [1, 1, 1]
    assert list(requests.in_bulks([])) == []


# --- recordings of versions that asked for all at each poll

RECORDINGS = Path(__file__).parents[1] / "recordings"


async def replayed(
    path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> tuple[list[dict[str, list[float]]], int]:
    """Sizes of all queues at each poll, and how many reads by name there were; share: see `BY_NAME`."""
    monkeypatch.setattr(sizes, "BY_NAME", share)
    transport = RecordingTransport(path)
    polls = []
    by_name = 0
    ask = transport.ask

    async def counted(asked: Sequence[Request], timeout: float) -> Answer:
        nonlocal by_name
        by_name += sum(
            r.get("attribute") == list(attributes(answers.QueueSizes))
            and "=*" not in r["mbean"]
            for r in asked
        )
        return await ask(asked, timeout)

    monkeypatch.setattr(transport, "ask", counted)
    artemis = ArtemisReader(transport)
    while not transport.ended:
        with suppress(SourceError):
            found = await artemis.poll(3600)
            assert "sizes" not in errors(found)
            polls.append(shown(found))
    await artemis.close()
    return polls, by_name


@pytest.mark.slow  # a large broker
@pytest.mark.parametrize(
    "name", ["artemis-2.21.0", "artemis-2.28.0", "artemis-2.44.0", "demo-artemis"]
)
async def test_a_recording_of_reads_by_pattern_says_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = RECORDINGS / f"{name}.jsonl.gz"
    all_read, none = await replayed(path, monkeypatch, -1.0)
    found, some = await replayed(path, monkeypatch, 1.0)
    assert (none, some > 0) == (0, True)
    np.testing.assert_equal(found, all_read)
