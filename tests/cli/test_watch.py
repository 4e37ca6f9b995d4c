"""`penstock run --config.watch`: a change of the file is taken, also as Kubernetes makes it."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from penstock.cli import run
from penstock.core.tasks import end
from penstock.core.watched_files import Contents, FileContents
from rig.waiting import until


class Looked(FileContents):
    """Counts how often it is asked."""

    looks = 0

    def of(self, files: Iterable[Path]) -> Contents:
        found = super().of(files)
        self.looks += 1
        return found

    async def looked_again(self) -> None:
        """After the next two looks: the first may have begun before."""
        looks = self.looks
        await until(lambda: self.looks >= looks + 3)


async def test_a_file_that_is_replaced_by_a_link_is_taken_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "WATCH_SECONDS", 0.02)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "p.yml").write_text(name)
    data, file = tmp_path / "..data", tmp_path / "p.yml"
    data.symlink_to("one")
    file.symlink_to("..data/p.yml")
    reloads: list[bytes] = []
    contents = Looked()
    read = contents.of([file])
    task = asyncio.create_task(run._changes(file, contents, read, lambda: reloads.append(file.read_bytes())))
    await contents.looked_again()
    assert reloads == []
    data.unlink()  # as it is for a moment
    await contents.looked_again()
    assert reloads == []
    data.symlink_to("two")
    await contents.looked_again()
    await contents.looked_again()
    assert reloads == [b"two"]
    await end(task)
