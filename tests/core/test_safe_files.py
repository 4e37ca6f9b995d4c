"""Every writer of files: for its owner only, and never through a link in its place."""

import ast
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.agent import PENSTOCK, Agent, Scrape
from history.test_epoch import life, poll
from penstock.agent.state_database import FILE, StateDatabase
from penstock.agent.storage_lock import lock_storage
from penstock.cli import files
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.safe_files import (
    FOR_OTHERS,
    Unfit,
    create,
    make_directory,
    read_file,
    replace_file,
)
from penstock.history import told
from penstock.history.epoch import CounterEpochs
from penstock.history.store import STAGING, Store
from penstock.transports.recording import Recorder, RecordingFile
from penstock_trends import job
from rig.waiting import eventually

PACKAGE = Path(create.__code__.co_filename).parents[1]


def database(folder: Path) -> None:
    state = StateDatabase(folder)
    state.open()
    state.flush()
    state.close()


def stood(folder: Path) -> None:
    make_directory(folder)
    told.save({}, folder / "told.bin")


def locked(folder: Path) -> None:
    with job.locked(Store(str(folder))):
        pass


def recording(folder: Path) -> None:
    inner: Any = None
    file = RecordingFile(folder / "r.jsonl.gz")
    Recorder(inner, file, "artemis", "b1")
    file.close()


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "state database": (FILE, database),
    "log of the state database, on its way": (f"{FILE}-wal", database),
    "index of its log, on its way": (f"{FILE}-shm", database),
    "lock of the storage": ("lock", lock_storage),
    "conditions that stood": ("told.bin", stood),
    "conditions that stood, on their way": ("told.bin.new", stood),
    "stored file": (
        "x.json",
        lambda folder: Store(str(folder)).write_bytes("x.json", b"{}"),
    ),
    "stored file, on its way": (
        f"{STAGING}/x.json",
        lambda folder: Store(str(folder)).write_bytes("x.json", b"{}"),
    ),
    "lock of the trend job": ("_lock", locked),
    "recording": ("r.jsonl.gz", recording),
    "rules": (
        "alerts.yaml",
        lambda folder: files.write(folder, {"alerts.yaml": "groups: []"}),
    ),
    "rules, on their way": (
        "alerts.yaml.new",
        lambda folder: files.write(folder, {"alerts.yaml": "groups: []"}),
    ),
    "report": (
        "report.html",
        lambda folder: files.write_one(folder / "report.html", "<html>"),
    ),
}
"""What is written: the place at which a link is planted, and how it comes to be written."""
OTHERS = {"rules", "report"}


@pytest.mark.parametrize("what", WRITERS)
def test_a_link_in_its_place_is_not_written_through(tmp_path: Path, what: str) -> None:
    name, write = WRITERS[what]
    victim = tmp_path / "victim"
    folder = tmp_path / "data"
    victim.write_text("precious")
    (folder / name).parent.mkdir(parents=True)
    (folder / name).symlink_to(victim)
    try:
        write(folder)
    except (OSError, PenstockError, AssertionError) as error:
        assert "link" in str(error) or "cannot be written" in str(error)  # noqa: PT017 - it may also be replaced
    assert victim.read_text() == "precious"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644


@pytest.mark.parametrize("what", [what for what in WRITERS if "way" not in what])
def test_whatever_the_umask_allows_only_the_owner_reads_it(
    tmp_path: Path, what: str
) -> None:
    name, write = WRITERS[what]
    before = os.umask(0)
    try:
        write(
            tmp_path / "new" / "data"
            if what not in ("recording", "report")
            else tmp_path
        )
    finally:
        os.umask(before)
    (path,) = tmp_path.rglob(name)
    assert stat.S_IMODE(path.stat().st_mode) == (0o666 if what in OTHERS else 0o600)
    if what not in OTHERS and what not in ("recording", "lock of the trend job"):
        assert {
            stat.S_IMODE(one.stat().st_mode)
            for one in (tmp_path / "new").rglob("*")
            if one.is_dir()
        } == {0o700}
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


@pytest.mark.slow  # many polls
def test_the_lives_of_counters(tmp_path: Path) -> None:
    """Which pyarrow writes."""
    lives = CounterEpochs()
    life(lives, poll(1000.0, 20.0, added=100))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "lives.arrow.new").symlink_to(victim)
    before = os.umask(0)
    try:
        lives.save(tmp_path / "lives.arrow")
    finally:
        os.umask(before)
    assert victim.read_text() == "precious"
    assert stat.S_IMODE((tmp_path / "lives.arrow").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.symlink_to("/dev/null"), "a link"),
        (os.mkfifo, "a FIFO"),
        (lambda path: path.mkdir(), "a directory"),
    ],
)
def test_what_an_operator_names_is_not_removed_where_it_is_no_file(
    tmp_path: Path, make: Callable[[Path], None], why: str
) -> None:
    make(tmp_path / "it")
    kind = stat.S_IFMT((tmp_path / "it").lstat().st_mode)
    with pytest.raises(
        PenstockError, match=f"it is {why}; remove it or name another place"
    ):
        files.write_one(tmp_path / "it", "x")
    with pytest.raises(ConfigError, match=f"it is {why}; name another file"):
        RecordingFile(tmp_path / "it").open()
    assert stat.S_IFMT((tmp_path / "it").lstat().st_mode) == kind


def test_a_device_is_no_file() -> None:
    with pytest.raises(Unfit, match="a device"):
        read_file(Path("/dev/zero"), 10)
    with pytest.raises(ConfigError, match="it is a device; name another file"):
        RecordingFile(Path("/dev/null")).open()


def test_a_file_is_there_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "it"
    replace_file(path, b"old")
    path.chmod(0o644)
    replace_file(path, b"new")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o600)
    replace_file(path, b"for others", FOR_OTHERS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [one.name for one in tmp_path.iterdir()] == ["it"]


def test_a_directory_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    make_directory(tmp_path / "a")
    make_directory(tmp_path / "a/b/c")
    assert [
        stat.S_IMODE((tmp_path / one).stat().st_mode) for one in ("a", "a/b", "a/b/c")
    ] == [0o755, 0o700, 0o700]
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="File exists"):
        make_directory(tmp_path / "file")


# --- nothing is written in another way

ELSEWHERE = {
    "core/safe_files.py": "it is this",
    "core/standard_streams.py": "/dev/null and the standard streams themselves",
    "history/store.py": "an object of an object store",
}
WRITE = {
    "write_text",
    "write_bytes",
    "open_output_stream",
    "touch",
    "mkstemp",
    "NamedTemporaryFile",
}
OPEN = {"open", "fdopen", "OSFile"}


def writes(call: ast.Call) -> bool:
    """Whether it makes a file: a method that writes, or an `open` that says so."""
    name = (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else getattr(call.func, "id", "")
    )
    if name == "write_bytes" and len(call.args) > 1:  # of a Store
        return False
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    said = [
        one.value
        for one in arguments
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    mode = any(set(one) & set("wax+") and len(one) <= 3 for one in said)
    makes = any(
        flag in ast.unparse(one)
        for one in arguments
        for flag in ("O_CREAT", "O_WRONLY", "O_RDWR")
    )
    return name in WRITE or (name in OPEN and (mode or makes))


@pytest.mark.slow  # many polls
def test_no_other_module_makes_files() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(
            isinstance(node, ast.Call) and writes(node)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    }
    assert found == ELSEWHERE.keys()


def polled(scrape: Scrape) -> bool:
    return any(
        polls >= 3 for _, polls in scrape.find("penstock_polls_total", result="ok")
    )


@pytest.mark.slow  # starts an agent
def test_all_that_an_agent_writes(tmp_path: Path) -> None:
    """Under a umask that allows everything."""
    url = f"recording:{Path(__file__).parents[1] / 'recordings' / 'demo-artemis.jsonl.gz'}"
    any_umask = ["sh", "-c", 'umask 000; exec "$@"', "sh", str(PENSTOCK)]
    agent = Agent(
        tmp_path / "agent",
        program=any_umask,
        history={"enabled": True},
        brokers=[
            {"name": "demo", "kind": "artemis", "transport": "recording", "url": url}
        ],
    )
    with agent:
        agent.until(polled, expected=True)
        eventually(lambda: any((agent.work / "data").rglob("*.arrows")), expected=True)
        spooled = [path for path in (agent.work / "data").rglob("*") if path.is_file()]
        assert {
            stat.S_IMODE(path.stat().st_mode) for path in spooled if path.exists()
        } == {0o600}
    kept = [*(agent.work / "data").rglob("*")]
    names = {path.name for path in kept}
    assert names >= {"state.db", "lock", "lives.arrow"}
    assert any(
        path.suffix in (".parquet", ".arrows") for path in kept
    )  # what a stop has no time for is published later
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept if path.is_file()} == {
        0o600
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept if path.is_dir()} == {
        0o700
    }
