"""
Whatever a broker answers, a file holds or a request says: an error that was meant, or right numbers; never a surprise.

`make fuzz` runs the same for longer and at random (PENSTOCK_FUZZ: examples of each test); without it the examples are
the same at every run.
"""

import asyncio
import contextlib
import gzip
import json
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parse

from penstock.agent import Assessor, Poller
from penstock.brokers.artemis.reader import ROLES_AGE, ArtemisReader
from penstock.brokers.engine import ReaderOptions
from penstock.brokers.openmq.reader import OpenMQReader
from penstock.core.errors import PenstockError
from penstock.exposition.body import Exposition
from penstock.exposition.syntax import Format, shortened
from penstock.insight.account import account_list
from penstock.insight.explain import NotFound, explain
from penstock.server import make_app, serve
from penstock.settings.policy import LABEL_BYTES, Policy
from penstock.transports.recording import RecordingTransport
from penstock.transports.transport import Answer, Request
from rig.day_and_night import by_day_and_night
from server.test_http import Agent
from trust.impossible import (
    KEEP,
    SUBJECTS,
    VALUES,
    Watched,
    analysed,
    fields_of,
    largest,
    unflushed,
)
from trust.mutation import ODD, mutated

# As the agent has it (`agent.interpreter`): numbers that overflow are not finite, and are not shown.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
fuzzed = settings(suppress_health_check=list(HealthCheck))
RECORDINGS = Path(__file__).parents[1] / "recordings"
RECORDED = RECORDINGS / "artemis-2.44.0.jsonl.gz"
LINES = gzip.decompress(RECORDED.read_bytes()).splitlines()
CALLS = [call for call in map(json.loads, LINES) if "requests" in call]
FIRST_POLL = CALLS[
    : next(
        i
        for i, call in enumerate(CALLS)
        if i and call["requests"] == CALLS[0]["requests"]
    )
]


def kind_of(request: Request) -> str:
    """What is the same in a request of any poll."""
    if "operation" in request:
        return str(request["operation"])
    return str(
        [
            request["mbean"].count("="),
            [name for name in request["attribute"] if name != "TotalSessionCount"],
        ]
    )


ANSWERS = {
    kind_of(request): {
        name: value
        for name, value in answer.items()
        if name not in ("request", "timestamp")
    }
    for call in FIRST_POLL
    for request, answer in zip(call["requests"], call["answer"], strict=True)
}
# Not asked yet when that was recorded.
ANSWERS["listPreparedTransactions()"] = {
    "value": [
        "11/22/26, 6:31:12 PM base64: dHhmaWxsLnEx XidImpl (21 bq:116.120 formatID:1 base64:dHhmaWxsLnEx"
    ],
    "status": 200,
}


class Mutating:
    """A broker as it was recorded, whose answers are changed as `change` says."""

    def __init__(self) -> None:
        self.change: Any = lambda answers: json.dumps(answers).encode()
        self.stamp = 1_800_000_000.0

    async def begin_poll(self) -> None:
        self.stamp += 5

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:  # noqa: ARG002
        answers = [
            ANSWERS.get(kind_of(request), {"status": 404, "error": "none"})
            for request in requests
        ]
        return Answer(self.change(answers), self.stamp, 0.01)

    async def close(self) -> None:
        """Nothing is held."""


def plain(answers: list[Any]) -> bytes:
    return json.dumps(answers).encode()


def messages(poller: Poller) -> dict[str, float]:
    """By queue, as a body shows them; the body is text that a parser of Prometheus reads."""
    exposition = Exposition(lambda _: b"")
    exposition.set_broker(poller.name, poller.assessor.blocks)
    body = b"".join(exposition.chunks(Format.TEXT, gzip=False)).decode()
    return {
        sample.labels["queue"]: sample.value
        for family in parse(body)
        for sample in family.samples
        if sample.name == "mq_queue_messages"
    }


async def polled(poller: Poller, transport: Mutating, change: Any) -> str:
    """What one poll was told to be, looked at from all sides."""
    transport.change = change
    result = await poller.poll()
    assert "the log has the details" not in result.error, result.error
    if (view := poller.assessor.view) is not None and (
        table := view.tables.get("queue")
    ) is not None:
        for row in table.index:
            json.dumps(
                msgspec.to_builtins(explain(view, row.queue, address=row.address)),
                allow_nan=False,
            )
            with contextlib.suppress(
                NotFound
            ):  # nothing that an account could be made of
                json.dumps(
                    msgspec.to_builtins(account_list(view, row.queue)), allow_nan=False
                )
    return result.error


def watched() -> tuple[Poller, Mutating]:
    transport = Mutating()
    return Poller(ArtemisReader(transport), Assessor(Policy("b"), 5.0), 4.5), transport


@cache
def known_good() -> dict[str, float]:
    """Messages by queue, after one poll of the broker as it was recorded."""

    async def one_poll() -> dict[str, float]:
        poller, transport = watched()
        assert await polled(poller, transport, plain) == ""
        return messages(poller)

    with ThreadPoolExecutor(1) as other:  # where no event loop runs
        return other.submit(asyncio.run, one_poll()).result()


async def recovers(poller: Poller, transport: Mutating) -> None:
    """
    At the second good poll the numbers are right, and what things are called at the latest when that is read anew: a
    broker that seemed to start while it told a wrong name is believed until then.
    """
    for _ in range(2):
        assert await polled(poller, transport, plain) == ""
    good = known_good()
    shown = messages(poller)
    assert shown.keys() & good.keys()
    assert {
        name: number for name, number in shown.items() if name in good
    }.items() <= good.items()
    transport.stamp += ROLES_AGE
    assert await polled(poller, transport, plain) == ""
    assert messages(poller) == good


@pytest.mark.slow  # takes a second
@given(st.data())
@fuzzed
def test_answers_with_odd_values(data: st.DataObject) -> None:
    """A good poll, two odd ones, and good ones again."""

    async def play() -> None:
        poller, transport = watched()
        assert await polled(poller, transport, plain) == ""
        for _ in range(2):
            await polled(
                poller, transport, lambda answers: plain(data.draw(mutated(answers)))
            )
            messages(poller)
        await recovers(poller, transport)

    asyncio.run(play())


@pytest.mark.slow  # takes a second
@given(st.binary(max_size=30), st.integers(0, 3000), st.integers(0, 40))
@fuzzed
def test_answers_with_odd_bytes(inserted: bytes, at: int, cut: int) -> None:
    async def play() -> None:
        poller, transport = watched()

        def change(answers: list[Any]) -> bytes:
            body = plain(answers)
            place = at % (len(body) + 1)
            return body[:place] + inserted + body[place + cut :]

        await polled(poller, transport, change)
        messages(poller)
        await recovers(poller, transport)

    asyncio.run(play())


class Inventing:
    """An OpenMQ that answers each request in its form, with odd values in it."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    async def begin_poll(self) -> None:
        """Nothing to prepare."""

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:  # noqa: ARG002
        return Answer(
            plain([self._answer(request) for request in requests]),
            1_800_000_000.0,
            0.01,
        )

    async def close(self) -> None:
        """Nothing is held."""

    def _answer(self, request: Request) -> Any:
        names = request.get(
            "attribute",
            ["ConsumerID", "ConnectionID", "Name", "NumMsgs", "User", "Session"],
        )
        values = st.fixed_dictionaries({}, optional=dict.fromkeys(names, USUAL | ODD))
        beans = st.dictionaries(st.text(max_size=5), values, max_size=3)
        value = self._data.draw(
            st.one_of(values, beans, st.lists(values, max_size=3), ODD)
        )
        return self._data.draw(
            st.just({"status": 200, "value": value}) | st.just({"status": 500}) | ODD
        )


USUAL = st.sampled_from(
    [0, 1, 7, "7", "6.5.1", "q", "127.0.0.1", True, 7676, 1_800_000_000_000]
)


@pytest.mark.slow  # takes a second
@given(st.data())
@fuzzed
def test_openmq_with_odd_values(data: st.DataObject) -> None:
    async def play() -> None:
        reader = OpenMQReader(Inventing(data), ReaderOptions(name="b"))
        poller = Poller(reader, Assessor(Policy("b"), 5.0), 4.5)
        for _ in range(2):
            result = await poller.poll()
            assert "the log has the details" not in result.error, result.error
            messages(poller)

    asyncio.run(play())


IMPOSSIBLE = st.sampled_from(VALUES) | st.integers(-(2**63), 2**63 - 1)


@pytest.mark.slow  # takes a second
@pytest.mark.parametrize("kind", by_day_and_night(SUBJECTS))
@given(data=st.data())
@fuzzed
def test_numbers_that_cannot_be(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Some fields of all rows, or of the first, in some polls: what is shown, kept and analysed stands all the same."""
    changes = st.dictionaries(
        st.sampled_from(fields_of(kind)), IMPOSSIBLE, min_size=1, max_size=4
    )

    async def play() -> None:
        watched = Watched(kind, tmp_path_factory.mktemp("impossible"))
        try:
            await judged(watched)
        finally:
            watched.close()  # an example that is given up leaves no file open

    async def judged(watched: Watched) -> None:
        await watched.poll()
        for _ in range(data.draw(st.integers(1, 4))):
            values = data.draw(changes)
            rows = data.draw(st.sampled_from([1, 10**6]))

            def choose(
                field: str, number: int, values: Any = values, rows: int = rows
            ) -> Any:
                return values.get(field, KEEP) if number < rows else KEEP

            await watched.poll(choose)
            assert watched.shown()
        await watched.poll()
        assert largest(watched.seen) < 2**54
        assert analysed(watched.store())

    with unflushed():
        asyncio.run(play())


NAMES = st.text(min_size=1, max_size=40) | st.sampled_from(
    [
        "</td><script>",
        "a\nb",
        '"',
        "\\",
        "{}",
        "\u2028",
        "x" * 70_000,
        "${HOME}",
        " ",
        "\ufeff",
        "\x7f\x1b[31m",
    ]
)


@pytest.mark.slow  # takes a second
@given(NAMES)
@fuzzed
def test_whatever_a_queue_is_called_it_is_shown_by_this_name(name: str) -> None:
    async def play() -> None:
        poller, transport = watched()
        quoted = json.dumps(name)[1:-1]
        inner = json.dumps(quoted)[1:-1]
        outer = quoted
        # In listings the name stands in a text in JSON, in the names of MBeans quoted once more.
        mbean = json.dumps(json.dumps(name, ensure_ascii=False)[1:-1])[1:-1]

        def change(answers: list[Any]) -> bytes:
            body = plain(answers).decode()
            body = body.replace('\\"orders\\"', f'\\"{inner}\\"').replace(
                '"orders"', f'"{outer}"'
            )
            return body.replace('=\\"orders', f'=\\"{mbean}').encode()

        await polled(poller, transport, change)
        assert shortened(name.replace("\0", "\ufffd"), LABEL_BYTES) in messages(poller)

    asyncio.run(play())


@pytest.mark.slow  # a property of whole recordings
@given(
    st.binary(max_size=20), st.integers(0, 200_000), st.integers(0, 50), st.booleans()
)
@fuzzed
def test_recordings_with_odd_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    inserted: bytes,
    at: int,
    cut: int,
    packed: bool,
) -> None:
    content = (
        RECORDED.read_bytes() if packed else gzip.decompress(RECORDED.read_bytes())
    )
    at %= len(content)
    content = content[:at] + inserted + content[at + cut :]
    file = tmp_path_factory.getbasetemp() / "odd.jsonl.gz"
    file.write_bytes(content if packed else gzip.compress(content, 1))

    async def play() -> None:
        transport = RecordingTransport(file)
        poller = Poller(ArtemisReader(transport), Assessor(Policy("b"), 5.0), 4.5)
        try:
            for _ in range(5):
                result = await poller.poll()
                assert "the log has the details" not in result.error, result.error
        finally:
            await poller.close()

    with contextlib.suppress(PenstockError):
        asyncio.run(play())


LINES_SENT = (
    "GET /metrics HTTP/1.1\r\nHost: x",
    "GET /api/v1/queues?limit=%ff HTTP/1.1",
    "GET /api/v1/explain?broker=%00&queue=%f0 HTTP/1.1",
    "GET /api/v1/queues/%2e%2e/%2f/%00 HTTP/1.1",
    "GET //../../etc/passwd HTTP/1.1",
    "GET http://169.254.169.254/ HTTP/1.1",
    "CONNECT 127.0.0.1:22 HTTP/1.1",
    "POST /-/reload HTTP/1.1",
    "Accept: ;;q=\xff,*/*;q=9e999",
    "Accept-Encoding: gzip;q=nan, \x00",
    "Content-Length: -1",
    "Content-Length: 99999999999",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "ffffffffffffffff",
    "Expect: 100-continue",
    "Upgrade: websocket\r\nConnection: Upgrade",
    "Range: bytes=0-",
    "",
)
LINE = st.binary(max_size=60) | st.sampled_from(
    [f"{line}\r\n".encode("latin-1") for line in LINES_SENT]
)


@pytest.mark.slow  # a server is asked hundreds of times
@given(st.lists(st.lists(LINE, max_size=8).map(b"".join), min_size=1, max_size=8))
@fuzzed
def test_whatever_is_asked(requests: list[bytes]) -> None:
    """No answer says that something broke inside, and the next request is answered."""
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]

    async def ask(port: int, sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(sent)
            async with asyncio.timeout(30):
                return await reader.read()
        except OSError:
            return b""
        finally:
            writer.close()

    async def play() -> None:
        async with serve(
            make_app(Agent()), ["127.0.0.1:0"], idle_seconds=0.2, grace_seconds=0.2
        ) as (address,):
            for sent in requests:
                answer = await ask(address.port, sent)
                assert b" 500 " not in answer.partition(b"\r\n")[0], answer[:300]
            assert (
                b" 200 "
                in (
                    await ask(address.port, b"GET /-/healthy HTTP/1.0\r\n\r\n")
                ).partition(b"\r\n")[0]
            )

    logging.getLogger("aiohttp.server").addHandler(handler)
    try:
        asyncio.run(play())
    finally:
        logging.getLogger("aiohttp.server").removeHandler(handler)
    assert not [line for line in told if "nhandled" in line], told
