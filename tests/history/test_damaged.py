"""What of the spool cannot be read is told and kept; all else is published, once."""

import errno
import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from history.polls import Clock, Judged, judged, recorded, rows, writer
from penstock.history import spool
from penstock.history.schema import ROW_TYPES
from penstock.history.store import Store
from penstock.history.writer import HistoryWriter, PollRecord

POLLS = 10


@cache
def stuck() -> list[Judged]:
    return list(judged(recorded("stuck-listener")))


def written(directory: Path, *, segments: int = 1) -> tuple[HistoryWriter, list[Path]]:
    """A writer whose spool has closed segments of ten polls each."""
    clock = Clock()
    clock.now = 1_800_000_000.0
    history = writer(directory, clock)
    polls = stuck()
    for number in range(segments):
        for poll in polls[number * POLLS : (number + 1) * POLLS]:
            history._keep(
                PollRecord("b", poll.snapshot, poll.conditions, poll.evicted, 5.0)
            )
        history._spool.rotate()
    return history, history._spool.closed()


def messages(stream: bytes) -> list[tuple[str, int, int]]:
    """Type, begin and end of each message of a stream."""
    source = pa.BufferReader(stream)
    reader = pa.ipc.MessageReader.open_stream(source)
    found: list[tuple[str, int, int]] = []
    while True:
        at = source.tell()
        try:
            message = reader.read_next_message()
        except StopIteration:
            return found
        found.append((message.type, at, source.tell()))


@pytest.mark.slow  # takes a second
def test_wherever_it_is_cut_off_the_polls_before_are_there_and_nothing_is_damaged(
    tmp_path: Path,
) -> None:
    _, (segment,) = written(tmp_path)
    for kind in ("queue", "broker"):
        file = segment / f"{kind}.arrows"
        whole = file.read_bytes()
        ends = [end for what, _, end in messages(whole) if what == "record batch"]
        for cut in {
            *range(0, len(whole), 401),
            *(at + by for at in ends for by in (-1, 0, 1)),
        }:
            file.write_bytes(whole[:cut])
            found = spool.read(segment, kind)
            assert len(found.rows) == sum(end <= cut for end in ends)
            assert not found.damaged, cut
        file.write_bytes(whole)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda part: bytes(len(part)),
    "ones": lambda part: b"\xff" * len(part),
    "turned around": lambda part: part[::-1],
    "gone": lambda _: b"",
}


@pytest.mark.slow  # writes and reads history
@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize(
    "kind",
    # The spool reads all kinds by one function; at night only, each damage of both.
    ["queue", pytest.param("broker", marks=pytest.mark.nightly)],
)
def test_a_record_that_is_damaged_in_the_middle_is_told_and_kept(
    kind: str, how: str, tmp_path: Path
) -> None:
    history, (segment,) = written(tmp_path)
    whole = {one: len(spool.read(segment, one).rows) for one in ROW_TYPES}
    file = segment / f"{kind}.arrows"
    octets = file.read_bytes()
    _, begin, end = [one for one in messages(octets) if one[0] == "record batch"][4]
    damaged = (
        octets[:begin]
        + DAMAGE[how](octets[begin : begin + 200])
        + octets[begin + 200 : end]
        + octets[end:]
    )
    file.write_bytes(damaged)
    history._publish()
    store = Store(str(tmp_path / "history"))
    assert len(rows(store, kind)) == 4, "what stands before it"
    if kind != "broker":
        assert len(rows(store, "broker")) == whole["broker"]
        assert len(rows(store, "consumer")) == whole["consumer"], (
            "of another kind nothing is lost"
        )
    (kept,) = (tmp_path / "spool" / "_damaged").iterdir()
    assert (kept / file.name).read_bytes() == damaged
    assert history.numbers()["history_damaged_segments"] == 1
    assert history._spool.closed() == []
    history._publish()
    assert len(rows(store, kind)) == 4


@pytest.mark.slow  # writes and reads history
def test_octets_that_change_within_a_text_cost_their_poll_and_are_told(
    tmp_path: Path,
) -> None:
    """The stream goes on behind them: Arrow would read texts from anywhere."""
    _, (segment,) = written(tmp_path)
    file = segment / "queue.arrows"
    octets = bytearray(file.read_bytes())
    batch = [one for one in messages(bytes(octets)) if one[0] == "record batch"][4]
    schema = ROW_TYPES["queue"].schema
    # The indices of the first column of texts: one beyond its dictionary.
    message = pa.ipc.read_message(pa.py_buffer(bytes(octets[batch[1] : batch[2]])))
    assert message.body is not None
    found = 0
    for at in range(batch[2] - len(message.body), batch[2], 32):
        turned = bytearray(octets)
        turned[at : at + 4] = (2**30).to_bytes(4, "little")
        file.write_bytes(turned)
        stream = spool.read(segment, "queue")
        assert stream.rows.schema.equals(schema)
        found += stream.damaged
        assert len(stream.rows) == POLLS - stream.damaged
    assert found > 0


class Failing(io.BufferedReader):
    """A file of which the disk does not give all."""

    def __init__(self, path: Path, upto: int) -> None:
        super().__init__(io.FileIO(path))
        self._upto = upto

    def _checked(self) -> None:
        if self.tell() >= self._upto:
            raise OSError(errno.EIO, "Input/output error")

    def read(self, size: int | None = -1) -> bytes:
        self._checked()
        return super().read(size)

    def readinto(self, into: Any) -> int:
        self._checked()
        return super().readinto(into)


@pytest.mark.slow  # writes and reads history
def test_a_disk_that_stumbles_is_not_an_end_and_keeps_no_other_segment_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, (first, second) = written(tmp_path, segments=2)
    upto = len((first / "queue.arrows").read_bytes()) // 2
    opened = Path.open

    def stumbling(path: Path, *arguments: Any, **options: Any) -> Any:
        if path == first / "queue.arrows" and arguments == ("rb",):
            return Failing(path, upto)
        return opened(path, *arguments, **options)

    with monkeypatch.context() as stumbles:
        stumbles.setattr(Path, "open", stumbling)
        history._publish()
        assert "Input/output error" in history.failing
        assert history._spool.closed() == [first]
        assert not second.exists()
    history._publish()
    assert history.failing == ""
    assert len(rows(Store(str(tmp_path / "history")), "queue")) == 2 * POLLS
    assert history.numbers()["history_damaged_segments"] == 0


@pytest.mark.slow  # writes and reads history
def test_what_an_older_version_left_in_the_spool_is_published(tmp_path: Path) -> None:
    """It lacks a column, and has one that is no more."""
    history, (segment,) = written(tmp_path)
    file = segment / "queue.arrows"
    with pa.ipc.open_stream(file.read_bytes()) as stream:
        table = stream.read_all()
    older = table.drop_columns(["evicted"]).append_column(
        "once", pa.array(["x"] * len(table))
    )
    with (
        pa.OSFile(str(file), "wb") as sink,
        pa.ipc.new_stream(sink, older.schema) as out,
    ):
        out.write_table(older)
    history._publish()
    assert history.failing == ""
    found = rows(Store(str(tmp_path / "history")), "queue")
    assert len(found) == POLLS
    assert {row["evicted"] for row in found} == {None}


@pytest.mark.slow  # writes and reads history
def test_what_is_damaged_is_kept_up_to_the_limit_of_the_spool(tmp_path: Path) -> None:
    history, segments = written(tmp_path, segments=3)
    history._spool.limit = sum(map(spool.size, segments[1:]))
    for segment in segments:
        history._spool.set_aside(segment)
    assert sorted(
        path.name for path in (tmp_path / "spool" / "_damaged").iterdir()
    ) == [s.name for s in segments[1:]]
