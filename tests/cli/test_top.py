"""`penstock top` in a real terminal, over the agent and on the broker itself."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.conftest import Desk

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(
        shutil.which("tmux") is None, reason="needs tmux: apt-get install tmux"
    ),
]
PENSTOCK = f"env -u COLUMNS -u LINES {Path(sys.executable).with_name('penstock')}"
"""readline, which pytest may load, leaves these in the environment; the terminal's own size counts."""
SECONDS = 60.0


class Terminal:
    """A command in a tmux of its own, `width` by `height`."""

    def __init__(self, folder: Path, command: str, width: int, height: int) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux")]
        size = ["-x", str(width), "-y", str(height)]
        self._do(
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            *size,
            f"cd {folder}; {command}; echo ended; sleep 60",
        )

    def _do(self, *arguments: str) -> str:
        return subprocess.run(
            [*self._tmux, *arguments], check=True, capture_output=True, text=True
        ).stdout

    def press(self, *keys: str) -> None:
        self._do("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._do("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, *, colours: bool = False) -> str:
        return self._do("capture-pane", "-p", *(["-e"] if colours else []))

    def until(self, pattern: str) -> str:
        """The first screen that shows it."""
        deadline = time.monotonic() + SECONDS
        while not re.search(pattern, screen := self.screen(), re.MULTILINE):
            assert time.monotonic() < deadline, screen
            time.sleep(0.1)
        return screen

    def end(self) -> None:
        self._do("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def open_one(command: str, size: tuple[int, int]) -> Terminal:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Terminal(folder, command, *size))
        return made[-1]

    yield open_one
    for one in made:
        one.end()


@pytest.mark.parametrize(
    "size", [(80, 24), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}"
)
def test_from_the_worst_queue_to_the_reason(
    desk: Desk, terminal: Callable[..., Terminal], size: tuple[int, int]
) -> None:
    view = terminal(f"{PENSTOCK} top --agent {desk.url}", size)
    screen = view.until(r"^!! stalled +stock\.updates ")
    assert "demo up: artemis " in screen
    assert re.search(r"^!! open_transaction +invoices ", screen, re.MULTILINE)
    assert max(map(len, screen.splitlines())) <= size[0]
    assert ("Out/s" in screen) == (size[0] > 80)
    view.press("/")
    view.press("-l", "stock.up")
    view.until(r"queues   1 ")
    view.press("Enter")
    view.press("Enter")
    view.until(r"^!! stalled +stock-service ")
    view.press("Enter")
    view.until(r"> consumers   1 ")
    view.press("e")
    view.until(r"CRITICAL +stock-service acknowledges nothing on queue stock\.updates")
    view.press("q")
    view.until(r"> consumers   1 ")
    view.press("q")
    view.until("ended")


def test_a_terminal_that_grows_shows_more(
    desk: Desk, terminal: Callable[..., Terminal]
) -> None:
    view = terminal(f"{PENSTOCK} top --agent {desk.url}", (80, 24))
    assert "Out/s" not in view.until("^!! stalled ")
    view.resize(200, 50)
    view.until("Out/s")
    view.resize(60, 10)
    view.until(r"^(?!.*Out/s).*Queue")


def test_the_broker_itself_without_colours(
    desk: Desk, terminal: Callable[..., Terminal]
) -> None:
    view = terminal(
        f"NO_COLOR=1 {PENSTOCK} top --config.file {desk.folder}/penstock.yaml", (80, 24)
    )
    view.until(r"^!! stalled +stock\.updates ")
    assert (
        re.findall(
            r"\x1b\[[0-9;]*?\b(?:3[0-7]|4[0-7]|38|48)[0-9;]*m",
            view.screen(colours=True),
        )
        == []
    )
    view.press("q")
    view.until("ended")
