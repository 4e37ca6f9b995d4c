"""`penstock run --config.watch`: a change of the file is taken, also as Kubernetes makes it."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from penstock.cli import run
from penstock.core.tasks import end
from penstock.core.watched_files import Contents, FileContents


class Looks(FileContents):
    """What the watch looks at, and how often it has looked."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def of(self, files: Iterable[Path]) -> Contents:
        found = super().of(files)
        self.count += 1
        return found


class Watched:
    """The file that is watched, and what it held at each reload."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "p.yml"
        self.reloads: list[bytes] = []
        self._looks = Looks()

    def begin(self) -> asyncio.Task[None]:
        read = self._looks.of([self.file])
        return asyncio.create_task(
            run._changes(self.file, self._looks, read, self._reload)
        )

    def _reload(self) -> None:
        self.reloads.append(self.file.read_bytes())

    async def looked_at(self, times: int = 3) -> None:
        """Until it was looked at so many times more; the first of them may have been under way."""
        wanted = self._looks.count + times
        async with asyncio.timeout(10):
            while self._looks.count < wanted:  # noqa: ASYNC110 - a look sets no event
                await asyncio.sleep(0)
        await asyncio.sleep(0.01)  # the look has ended, its reload may not have


@pytest.fixture
async def watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Watched]:
    monkeypatch.setattr(run, "WATCH_SECONDS", 0.001)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "p.yml").write_text(name)
    (tmp_path / "..data").symlink_to("one")
    found = Watched(tmp_path)
    found.file.symlink_to("..data/p.yml")
    task = found.begin()
    yield found
    await end(task)


async def test_a_file_that_is_replaced_by_a_link_is_taken_once(
    watched: Watched,
) -> None:
    data = watched.folder / "..data"
    await watched.looked_at()
    assert watched.reloads == []
    data.unlink()  # as it is for a moment
    await watched.looked_at()
    assert watched.reloads == []
    data.symlink_to("two")
    await watched.looked_at(6)
    assert watched.reloads == [b"two"]


async def test_a_file_that_is_read_while_it_is_written_is_not_taken(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look finds more of it."""
    parts = iter((b"tw", b"two", b"two: 2", b"two: 2", b"two: 2"))
    looked = FileContents.of

    def of(self: FileContents, files: Iterable[Path]) -> Contents:
        if part := next(parts, b""):
            watched.file.write_bytes(part)
        return looked(self, files)

    monkeypatch.setattr(FileContents, "of", of)
    await watched.looked_at(9)
    assert watched.reloads == [b"two: 2"]
