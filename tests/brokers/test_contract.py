"""What holds for every kind of broker: the toy here, and the others with the answers that they once gave."""

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

from brokers import toy
from brokers.server import Toy
from penstock.brokers import cadence, engine
from penstock.brokers.registry import KINDS, RegisteredKind
from penstock.core.errors import Refused
from penstock.model import Snapshot
from penstock.transports.recording import RecordedCall, RecordingTransport
from penstock.transports.transport import Answer, Reader, Request

RECORDINGS = Path(__file__).parent.parent / "recordings"
Response = dict[str, Any]
ABSENT = {
    "status": 404,
    "error": "none",
    "error_type": "javax.management.InstanceNotFoundException",
}
UNRECORDED: dict[str, Response] = {
    "listPreparedTransactions()": {"status": 200, "value": []}
}
"""Answers to what was not asked yet when the recordings were made."""
NEWER = {"NextMessageID", "TotalSessionCount"}
"""Attributes that were not read yet."""


@dataclass(frozen=True)
class Subject:
    """
    One kind and how it answers.

    what: a word for a request; the words below are in those of the requests that they name.
    about: the broker itself. settings: of one thing. part: one that may be refused by itself, and so are its words.
    restart: from then on the answers are those of a process that began later.
    """

    kind: RegisteredKind
    respond: Callable[[Request], Response]
    what: Callable[[Request], str]
    about: str
    settings: str
    part: str
    part_words: str
    restart: Callable[[], None]


class Answering:
    """
    A transport that answers every poll alike, `seconds` after the one before.

    refused: answered by 403. asked: how often each thing was. slow: when it is asked, all time is used up. lag: seconds
    from one answer of a poll to the next.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.asked: Counter[str] = Counter()
        self.refused = self.slow = "nothing"
        self.seconds = 5.0
        self.lag = 0.0
        self.given: list[float] = []
        self.now = 1_800_000_000.0
        self.clock = time.monotonic()

    async def begin_poll(self) -> None:
        self.now += self.seconds

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        assert timeout > 0
        self.now += self.lag
        self.given.append(timeout)
        return Answer(
            json.dumps(
                [self._respond(request, timeout) for request in requests]
            ).encode(),
            self.now,
            0.001,
        )

    def _respond(self, request: Request, timeout: float) -> Response:
        what = self.subject.what(request)
        self.asked[what] += 1
        if self.slow in what:
            self.clock += timeout
        return (
            {"status": 403, "error": "not for you"}
            if self.refused in what
            else self.subject.respond(request)
        )

    async def close(self) -> None:
        """Nothing is held."""

    def settings_asked(self) -> int:
        return sum(
            count for what, count in self.asked.items() if self.subject.settings in what
        )


def of_toy() -> Subject:
    broker = Toy()

    def restart() -> None:
        broker.started += 60

    return Subject(
        kind=toy.KIND, respond=broker.respond, what=lambda request: str(request["what"]), about="about",
        settings="settings", part="connections", part_words="connections", restart=restart,
    )  # fmt: skip


def of_artemis() -> Subject:
    return of_recording(
        "artemis-2.44.0", ("UptimeMillis", -4_000), kind=KINDS["artemis"], about="'Version'",
        settings="getAddressSettings", part="consumers", part_words="listConsumers",
    )  # fmt: skip


def of_openmq() -> Subject:
    return of_recording(
        "demo-openmq", ("StartTime", 60_000), kind=KINDS["openmq"], about="type=Broker",
        settings="subtype=Config,desttype", part="transactions", part_words="getTransactionInfo",
    )  # fmt: skip


def of_classic() -> Subject:
    return of_recording(
        "classic/flowbench", ("UptimeMillis", -60_000), polls=100, kind=KINDS["classic"], about="BrokerVersion",
        settings="MemoryUsageByteCount", part="producers", part_words="endpoint=*roducer",
    )  # fmt: skip


def of_recording(
    name: str, start: tuple[str, int], *, polls: int = 1, **subject: Any
) -> Subject:
    """The last of the first `polls` polls. start: the attribute that moves by so much when the process is another."""
    responses: dict[str, Response] = {}
    call: RecordedCall
    recorded = RecordingTransport(RECORDINGS / f"{name}.jsonl.gz")._read_polls()
    for call in chain.from_iterable(islice(recorded, polls)):
        asked = map(json.dumps, json.loads(bytes(call.requests)))
        responses |= zip(asked, json.loads(bytes(call.answer)), strict=True)
    attribute, step = start

    def restart() -> None:
        for response in responses.values():
            found = response.get("value")
            for row in (found, *found.values()) if isinstance(found, dict) else ():
                if isinstance(row, dict) and attribute in row:
                    row[attribute] += step

    def what(request: Request) -> str:
        return str(
            request.get("operation")
            or [request.get("mbean"), *request.get("attribute", ())]
        )

    def respond(request: Request) -> Response:
        """Also to what asks for an attribute that the version of the recording did not read."""
        known = [name for name in request.get("attribute", ()) if name not in NEWER]
        before = {**request, "attribute": known} if known else request
        unrecorded = UNRECORDED.get(what(request), ABSENT)
        return responses.get(
            json.dumps(request), responses.get(json.dumps(before), unrecorded)
        )

    return Subject(respond=respond, what=what, restart=restart, **subject)


@pytest.fixture(
    params=[of_toy, of_artemis, of_openmq, of_classic],
    ids=["toy", "artemis", "openmq", "classic"],
)
def broker(request: pytest.FixtureRequest) -> Answering:
    return Answering(request.param())


@pytest.fixture
def reader(broker: Answering) -> Reader:
    return reading(broker)


def reading(broker: Answering) -> Reader:
    return broker.subject.kind.reader(broker, engine.ReaderOptions(name="b1"), None)


def errors(snapshot: Snapshot) -> dict[str, str]:
    return {name: one.error for name, one in snapshot.collectors.items() if one.error}


async def test_a_poll_has_all_parts(broker: Answering, reader: Reader) -> None:
    found = await reader.poll(10)
    assert errors(found) == {}
    assert found.broker is not None
    assert found.broker.kind is broker.subject.kind.about
    assert {"broker", "consumers", "queues", "connections", "settings"} <= set(
        found.collectors
    )
    for table in (found.addresses, found.queues, found.consumers, found.connections):
        assert table is not None
        assert len(table)
    assert found.queues is not None
    assert (found.queues.index.positions(found.consumer_queue) >= 0).all()
    assert {one.stamp for one in found.collectors.values()} == {found.stamp}


async def test_each_part_says_when_it_was_read(
    broker: Answering, reader: Reader
) -> None:
    """What is compared over two parts is out by what happened in between."""
    broker.lag = 0.25
    found = await reader.poll(10)
    stamps = {name: one.stamp for name, one in found.collectors.items()}
    assert stamps["broker"] == found.stamp
    assert (
        len({stamps[name] for name in ("broker", "consumers", "queues", "connections")})
        == 4
    )
    assert max(stamps.values()) == broker.now


async def test_a_part_without_rights_fails_alone(
    broker: Answering, reader: Reader
) -> None:
    part, whole = broker.subject.part, await reading(Answering(broker.subject)).poll(10)
    broker.refused = broker.subject.part_words
    partial = await reader.poll(10)
    assert list(errors(partial)) == [part]
    assert "status 403: not for you; " in errors(partial)[part]
    assert getattr(partial, part) is None
    for name in {"addresses", "queues", "consumers", "connections"} - {part}:
        assert list(getattr(partial, name).index) == list(getattr(whole, name).index)
    broker.refused = "nothing"
    assert errors(await reader.poll(10)) == {}


async def test_without_the_broker_itself_there_is_no_poll(
    broker: Answering, reader: Reader
) -> None:
    broker.refused = broker.subject.about
    with pytest.raises(Refused, match="status 403"):
        await reader.poll(10)


async def test_settings_are_asked_once_until_they_are_old(
    broker: Answering, reader: Reader
) -> None:
    await reader.poll(10)
    once = broker.settings_asked()
    assert once
    for _ in range(5):
        assert errors(await reader.poll(10)) == {}
    assert broker.settings_asked() == once
    broker.seconds = cadence.SETTINGS_AGE
    await reader.poll(10)
    assert broker.settings_asked() == 2 * once


async def test_nothing_of_an_earlier_process_is_used(
    broker: Answering, reader: Reader
) -> None:
    await reader.poll(10)
    once = broker.settings_asked()
    broker.subject.restart()
    assert errors(await reader.poll(10)) == {}
    assert broker.settings_asked() == 2 * once


async def test_a_slow_part_leaves_time_for_later_ones(
    broker: Answering, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.brokers.engine.time.monotonic", lambda: broker.clock)
    broker.slow = broker.subject.part_words
    late = await reader.poll(10)
    assert not errors(late).keys() & {"broker", "queues"}
    assert late.queues is not None
    assert min(broker.given) > 0.5
