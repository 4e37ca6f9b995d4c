"""Whether a file has changed: what renewals do to files, one by one."""

import os
from pathlib import Path

import pytest

from penstock.core import watched_files
from penstock.core.watched_files import FileContents


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "tls.pem"
    made.write_bytes(b"old")
    return made


def settled(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on its times prove whether it has changed."""
    monkeypatch.setattr(watched_files, "SETTLED_SECONDS", 0.0)


def test_another_content_of_the_same_size_and_time_is_a_change(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(file, monkeypatch)
    contents = FileContents()
    before = contents.of([file])
    times = file.stat()
    file.write_bytes(b"new")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert contents.of([file]) != before


def test_the_same_content_written_again_is_none(file: Path) -> None:
    contents = FileContents()
    before = contents.of([file])
    other = file.with_name("other")
    other.write_bytes(b"old")
    other.replace(file)
    assert contents.of([file]) == before


def test_a_link_that_is_moved_is_a_change(file: Path, tmp_path: Path) -> None:
    """As Kubernetes swaps a Secret: the name, the directory's link, the directory of a version."""
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "ca.crt").write_text(version)
    (tmp_path / "..data").symlink_to("one")
    named = tmp_path / "ca.crt"
    named.symlink_to("..data/ca.crt")
    contents = FileContents()
    before = contents.of([named])
    (tmp_path / "..data_tmp").symlink_to("two")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert contents.of([named]) != before


def test_one_that_is_gone_and_back_has_not_changed(file: Path) -> None:
    contents = FileContents()
    before = contents.of([file])
    file.rename(file.with_name("aside"))
    assert contents.of([file]) == {}
    file.with_name("aside").rename(file)
    assert contents.of([file]) == before


def test_what_has_not_changed_is_not_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(file, monkeypatch)
    contents = FileContents()
    before = contents.of([file])
    monkeypatch.setattr(
        watched_files, "_digest", lambda _: pytest.fail("it is read again")
    )
    assert contents.of([file]) == before


def test_a_young_file_is_read_each_time(file: Path) -> None:
    """Two writes within one tick of the file system's clock leave the same times."""
    assert watched_files.signature(file) != watched_files.signature(file)


@pytest.mark.parametrize("kind", ["directory", "fifo", "missing", "no name"])
def test_what_is_no_file_keeps_none_waiting(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "no name":
        path = Path("\0")
    assert FileContents().of([path]) == {}
