"""Recordings: what was recorded comes back, and a file that is none is refused."""

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.things import by
from penstock.assessment.assess import State, Tables, assess
from penstock.brokers.artemis.reader import ArtemisReader
from penstock.core.errors import BadAnswer, ConfigError, PenstockError, Unreachable
from penstock.model import Snapshot
from penstock.settings.policy import Policy
from penstock.transports import recording as recording_module
from penstock.transports.recording import Recorder, RecordingFile, RecordingTransport
from penstock.transports.transport import Answer, Request

RECORDINGS = Path(__file__).parent.parent / "recordings"
VERSIONS = ("2.21.0", "2.28.0", "2.44.0")
ASK: list[Request] = [{"type": "version"}]


def recording(version: str) -> Path:
    return RECORDINGS / f"artemis-{version}.jsonl.gz"


async def read(transport: Any, polls: int = 3) -> list[Snapshot]:
    reader = ArtemisReader(transport)
    try:
        return [await reader.poll(30) for _ in range(polls)]
    finally:
        await reader.close()


def tables(snapshots: list[Snapshot]) -> Tables:
    state = State()
    shown: Tables = {}
    for snapshot in snapshots:
        state, shown = assess(state, snapshot, Policy("b1"))
    return shown


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_recording_of_a_recording_gives_the_same_snapshots(
    version: str, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.jsonl.gz"
    first = await read(
        Recorder(
            RecordingTransport(recording(version)), RecordingFile(copy), "artemis", "b1"
        )
    )
    again = await read(RecordingTransport(copy))
    for one, other in zip(first, again, strict=True):
        assert (one.stamp, repr(one.broker)) == (other.stamp, repr(other.broker))
        for name in (
            "addresses",
            "queues",
            "consumers",
            "connections",
            "producers",
            "links",
        ):
            a = getattr(one, name)
            b = getattr(other, name)
            assert list(a.index) == list(b.index)
            assert a.columns.keys() == b.columns.keys()
            for column in a.columns:
                np.testing.assert_array_equal(a[column], b[column])
        np.testing.assert_array_equal(one.consumer_queue, other.consumer_queue)
        np.testing.assert_array_equal(
            one.consumer_connection, other.consumer_connection
        )


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_a_real_broker_said_is_what_is_shown(version: str) -> None:
    """Two clients hold messages of `orders`, a ring of 5 was given 8, three messages were acknowledged."""
    shown = tables(await read(RecordingTransport(recording(version))))
    assert (
        by(shown["queue"], "added", "queue").items()
        >= {"orders": 36.0, "prices": 8.0, "audit": 0.0}.items()
    )
    assert by(shown["queue"], "delivering", "queue")["orders"] == 6
    assert by(shown["queue"], "acknowledged", "queue")["orders"] == 3
    assert by(shown["queue"], "ring_used_ratio", "queue") == {"prices": 1.0}
    assert {row.queue: row.kind for row in shown["queue"].index}.items() >= {
        "orders": "user", "audit": "subscription", "DLQ": "dead_letter", "ExpiryQueue": "expiry",
    }.items()  # fmt: skip
    assert by(shown["client"], "consumers", "queue", "client") == {
        ("orders", "billing"): 1,
        ("orders", "shipping"): 1,
    }
    if version == "2.21.0":
        assert "buffered" not in shown["client"]
        assert np.isnan(shown["broker"]["clock_skew"]).all()
    else:
        assert by(shown["client"], "buffered", "client") == {
            "billing": 5,
            "shipping": 1,
        }
        assert by(shown["client"], "acknowledged", "client") == {
            "billing": 0,
            "shipping": 3,
        }
    assert by(shown["producer"], "produced", "address", "client").keys() == {
        ("orders", "shop"),
        ("prices", "ticker"),
    }
    assert sorted(by(shown["connection"], "sessions", "client")) == [
        "billing",
        "shipping",
        "shop",
        "ticker",
    ]


def lines(*objects: Any) -> bytes:
    return b"".join(
        json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in objects
    )


HEADER = {"penstock": 1, "kind": "artemis", "broker": "b1"}
CALL = {"stamp": 5.0, "seconds": 0.5, "requests": [{"type": "version"}], "answer": [1]}


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content, 1))
    return path


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file"),
        (b"plain text", "cannot be read as a recording"),
        (b"", "not a recording"),
        (gzip.compress(b"", mtime=0)[:7], "not a recording"),
        (gzip.compress(lines([1]), mtime=0), "not a recording"),
        (gzip.compress(b"\xff\xfe", mtime=0), "not a recording"),
        (
            gzip.compress(
                lines({"penstock": 2, "kind": "artemis", "broker": "b"}), mtime=0
            ),
            "format 2; this version reads 1",
        ),
    ],
)
def test_what_is_no_recording(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "file.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=told):
        RecordingTransport(path)


async def test_each_request_gets_what_was_answered_to_it(tmp_path: Path) -> None:
    other = {"stamp": 6.0, "requests": [{"type": "list"}], "answer": [2]}
    transport = RecordingTransport(
        written(tmp_path / "r.gz", lines(HEADER, {"poll": 1}, CALL, other))
    )
    await transport.begin_poll()
    assert (await transport.ask([{"type": "list"}], 1)).body == b"[2]"
    assert await transport.ask(ASK, 1) == Answer(b"[1]", 5.0, 0.5)
    with pytest.raises(BadAnswer, match="this poll has no answer to"):
        await transport.ask(ASK, 1)
    with pytest.raises(Unreachable, match="the recording has ended"):
        await transport.begin_poll()
    await transport.close()


async def test_a_recording_that_was_cut_off_ends_where_it_is_whole(
    tmp_path: Path,
) -> None:
    whole = gzip.compress(lines(HEADER, {"poll": 1}, CALL))
    cut = gzip.compress(
        lines({"poll": 2}, *[{**CALL, "stamp": n} for n in range(5000)])
    )
    path = tmp_path / "r.gz"
    path.write_bytes(whole + cut[: len(cut) // 2])
    transport = RecordingTransport(path)
    await transport.begin_poll()
    assert (await transport.ask(ASK, 1)).body == b"[1]"
    for _ in range(2):
        with pytest.raises(
            BadAnswer, match="ends after 1 whole poll: the file is cut off"
        ):
            await transport.begin_poll()
        assert transport.ended
    await transport.close()


async def test_a_line_that_is_cut_off(tmp_path: Path) -> None:
    transport = RecordingTransport(
        written(
            tmp_path / "r.gz", lines(HEADER, {"poll": 1}, CALL, {"poll": 2}, CALL)[:-9]
        )
    )
    await transport.begin_poll()
    with pytest.raises(BadAnswer, match="ends after 1 whole poll: the file is cut off"):
        await transport.begin_poll()
    await transport.close()


async def test_a_line_that_is_no_call(tmp_path: Path) -> None:
    transport = RecordingTransport(
        written(tmp_path / "r.gz", lines(HEADER, {"poll": 1}, [3]))
    )
    with pytest.raises(
        BadAnswer, match="ends after 0 whole polls: a line is no recorded call"
    ):
        await transport.begin_poll()
    await transport.close()


class Scripted:
    """Answers with what it is given; an exception is raised."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self._answers = list(answers)

    async def begin_poll(self) -> None: ...
    async def close(self) -> None: ...

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:  # noqa: ARG002 - the protocol's
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Answer(answer, 7.0, 0.25)


async def test_failed_calls_and_answers_that_are_no_json_come_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.gz"
    recorder = Recorder(
        Scripted(b"[1,\r\n2]", Unreachable("nobody home"), b"<html>\n\xff"),
        RecordingFile(path),
        "artemis",
        "b1",
    )
    await recorder.begin_poll()
    assert (await recorder.ask(ASK, 1)).body == b"[1,\r\n2]"
    with pytest.raises(Unreachable, match="nobody home"):
        await recorder.ask(ASK, 1)
    await recorder.ask(ASK, 1)
    await recorder.close()
    transport = RecordingTransport(path)
    await transport.begin_poll()
    assert json.loads((await transport.ask(ASK, 1)).body) == [1, 2]
    with pytest.raises(Unreachable, match="nobody home"):
        await transport.ask(ASK, 1)
    assert json.loads((await transport.ask(ASK, 1)).body) == "<html>\n\ufffd"
    await transport.close()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        Recorder(
            Scripted(), RecordingFile(tmp_path / "nowhere" / "r.gz"), "artemis", "b1"
        )


async def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        recording_module,
        "create_named",
        lambda _: Path("/dev/full").open("wb"),  # noqa: SIM115
    )
    path = tmp_path / "r.gz"
    recorder = Recorder(
        Scripted(random_answer(500_000)), RecordingFile(path), "artemis", "b1"
    )
    with pytest.raises(
        PenstockError, match=rf"^{path}: cannot be written: No space left"
    ):
        await recorder.ask(ASK, 1)
    with pytest.raises(
        PenstockError, match=rf"^{path}: cannot be written: No space left"
    ):
        await recorder.close()


def random_answer(size: int) -> bytes:
    """Which takes a little more than `size` in a recording."""
    return json.dumps(os.urandom(size).hex()).encode()


async def recorded_polls(path: Path) -> list[int]:
    """How many answers each poll has."""
    transport = RecordingTransport(path)
    found = []
    try:
        while True:
            await transport.begin_poll()
            found.append(len(transport._calls))
    except Unreachable:
        await transport.close()
    return found


@pytest.mark.parametrize("limit", [1_000, 30_000, 75_000, 120_000, 10_000_000])
async def test_a_recording_holds_whole_polls_and_no_more_than_its_limit(
    tmp_path: Path, limit: int
) -> None:
    """Ten polls of two answers."""
    file = RecordingFile(tmp_path / "r.gz", limit)
    recorder = Recorder(
        Scripted(*(random_answer(10_000) for _ in range(20))), file, "artemis", "b1"
    )
    full_at = None
    for number in range(1, 11):
        await recorder.begin_poll()
        for _ in range(2):
            await recorder.ask(ASK, 1)
        file.end_poll()
        full_at = full_at or (number if file.full else None)
    await recorder.close()
    fit = min(10, limit // 24_000)
    assert file.path.stat().st_size <= limit
    assert await recorded_polls(file.path) == [2] * fit
    assert (file.polls, file.full, full_at) == (
        fit,
        fit < 10,
        fit + 1 if fit < 10 else None,
    )


@pytest.mark.slow  # a large answer
async def test_a_huge_answer_takes_little_more_than_the_limit_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    cut = RecordingFile._cut

    def measured(file: RecordingFile) -> None:
        sizes.append(file._file.tell())
        cut(file)

    monkeypatch.setattr(RecordingFile, "_cut", measured)
    file = RecordingFile(tmp_path / "r.gz", 3_000_000)
    recorder = Recorder(Scripted(random_answer(20_000_000)), file, "artemis", "b1")
    await recorder.begin_poll()
    await recorder.ask(ASK, 1)
    await recorder.close()
    assert [size < 4_500_000 for size in sizes] == [True]
    assert file.path.stat().st_size < 200
    assert await recorded_polls(file.path) == []


async def test_a_kill_costs_the_poll_under_way_only(tmp_path: Path) -> None:
    file = RecordingFile(tmp_path / "r.gz")
    recorder = Recorder(
        Scripted(*(random_answer(500) for _ in range(3))), file, "artemis", "b1"
    )
    for _ in range(3):
        await recorder.begin_poll()
        await recorder.ask(ASK, 1)
    assert await recorded_polls(file.path) == [1, 1]
    await recorder.close()


# --- reads by name, out of a recording of a version that read everything by pattern

ATTRIBUTES = {"attribute": ["A", "B"], "config": {"ignoreErrors": "true"}}
PATTERN = {"type": "read", "mbean": "d:queue=*", **ATTRIBUTES}
KNOWN = {'d:queue="a"': {"A": 1, "B": 2}, 'd:queue="b*"': {"A": 3}}


def by_name(*mbeans: str, **other: Any) -> list[dict[str, Any]]:
    return [{**PATTERN, "mbean": mbean, **other} for mbean in mbeans]


async def replayed(
    tmp_path: Path, answer: Any, asked: list[dict[str, Any]], **pattern: Any
) -> Any:
    call = {
        "stamp": 7.0,
        "seconds": 0.5,
        "requests": [{**PATTERN, **pattern}],
        **answer,
    }
    transport = RecordingTransport(
        written(tmp_path / "r.gz", lines(HEADER, {"poll": 1}, CALL, call))
    )
    await transport.begin_poll()
    found = await transport.ask(asked, 1)
    assert found == await transport.ask(asked, 1), (
        "the next bulk of names is in the same pattern"
    )
    assert (found.stamp, found.seconds) == (7.0, 0.5)
    return json.loads(found.body)


async def test_a_read_by_name_is_found_in_that_by_pattern(tmp_path: Path) -> None:
    answer = {"answer": [{"request": {}, "status": 200, "value": KNOWN}]}
    found = await replayed(
        tmp_path, answer, by_name('d:queue="b*"', 'd:queue="c"', 'd:queue="a"')
    )
    assert found[0] == {"status": 200, "value": {"A": 3}}
    assert (found[1]["status"], found[1]["error_type"]) == (
        404,
        "javax.management.InstanceNotFoundException",
    )
    assert found[2] == {"status": 200, "value": {"A": 1, "B": 2}}


async def test_of_a_pattern_without_a_match_every_name_is_missing(
    tmp_path: Path,
) -> None:
    answer = {"answer": [{"status": 404, "error": "No MBean with pattern"}]}
    assert [
        one["status"]
        for one in await replayed(tmp_path, answer, by_name("d:queue=a", "d:queue=b"))
    ] == [404, 404]


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ([{"status": 200, "value": KNOWN}], by_name('d:queue="a"', attribute=["A"])),
        ([{"status": 200, "value": KNOWN}], by_name('d:queue="a"', config={})),
        (
            [{"status": 200, "value": KNOWN}],
            [*by_name('d:queue="a"'), {"type": "list"}],
        ),
        ([{"status": 200, "value": KNOWN}], []),
        ([{"status": 403, "error": "no"}], by_name('d:queue="a"')),
        ([{"status": 200, "value": 3}], by_name('d:queue="a"')),
        ([], by_name('d:queue="a"')),
    ],
)
async def test_what_is_not_in_the_pattern_is_not_made_up(
    tmp_path: Path, answer: Any, asked: list[Any]
) -> None:
    with pytest.raises(BadAnswer, match="this poll has no answer to"):
        await replayed(tmp_path, {"answer": answer}, asked)


async def test_a_read_by_one_name_answers_no_other(tmp_path: Path) -> None:
    answer = {"answer": [{"status": 200, "value": KNOWN}]}
    with pytest.raises(BadAnswer, match="this poll has no answer to"):
        await replayed(tmp_path, answer, by_name('d:queue="a"'), mbean='d:queue="b"')
