"""What a broker's clients call things never acts on a terminal: each command on a broker with hostile names."""

import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families as parse_text
from textual.widgets import Static

from agent.world import World
from e2e.agent import Agent
from penstock.cli import main
from penstock.cli.logs import LogLine
from penstock.core.errors import PenstockError
from penstock.core.visible import visible
from penstock.insight.answers import Explanation
from penstock.insight.events import Change, Event
from penstock.tui.lines import columns, folded
from trust.hostile import ACTS, FORGED, MARKUP, NAMES, RAW, harm, hostile_recording
from tui.views import Made, grid, page, press, settled, top

QUEUE = NAMES["stock.updates"]
CLIENT = NAMES["stock-service"]
RING = NAMES["audit.ring"]
PENSTOCK = Path(sys.executable).with_name("penstock")


def run(*arguments: str) -> Result:
    found = CliRunner().invoke(main, arguments)
    assert found.exception is None or isinstance(found.exception, SystemExit), (
        found.exception
    )
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the recording, and a configuration of it."""
    folder = tmp_path_factory.mktemp("hostile")
    hostile_recording(folder / "it.jsonl.gz")
    (folder / "penstock.yaml").write_text(
        json.dumps({"interval": "1s", **said(folder)})
    )
    return folder


def said(folder: Path) -> dict[str, Any]:
    url = f"recording:{folder / 'it.jsonl.gz'}"
    return {
        "judgement": {"cold": "3s"},
        "brokers": [
            {"name": "demo", "kind": "artemis", "transport": "recording", "url": url}
        ],
    }


@pytest.mark.slow  # polls for each value
def test_the_names_are_as_hostile_as_they_should_be(folder: Path) -> None:
    body = run("once", "--config.file", str(folder / "penstock.yaml")).stdout
    labels = [sample.labels for family in parse_text(body) for sample in family.samples]
    assert {one.get("queue") for one in labels} >= {QUEUE, RING, "orders"}
    assert CLIENT in {one.get("client") for one in labels}
    assert harm(f"a\n{QUEUE}") == f"a\n{QUEUE}".split("\n")[1:]


COMMANDS = {
    "check": ("check", "--config.file", "FILE"),
    "once": ("once", "--format", "table", "--config.file", "FILE"),
    "replay": ("replay", "RECORDING", "--config.file", "FILE"),
    "explain": ("explain", "demo", QUEUE, "--polls", "1", "--config.file", "FILE"),
    "explain a client": (
        "explain",
        "demo",
        QUEUE,
        CLIENT,
        "--polls",
        "1",
        "--config.file",
        "FILE",
    ),
    "explain no such queue": (
        "explain",
        "demo",
        QUEUE[:-1],
        "--polls",
        "1",
        "--config.file",
        "FILE",
    ),
    "explain no such client": (
        "explain",
        "demo",
        QUEUE,
        CLIENT[:-1],
        "--polls",
        "1",
        "--config.file",
        "FILE",
    ),
    "explain json": (
        "explain",
        "demo",
        QUEUE,
        "--polls",
        "1",
        "--config.file",
        "FILE",
        "--format",
        "json",
    ),
    "replay json": ("replay", "RECORDING", "--config.file", "FILE", "--format", "json"),
    "check json": ("check", "--config.file", "FILE", "--format", "json"),
}


def of(folder: Path, *arguments: str) -> list[str]:
    files = {
        "FILE": str(folder / "penstock.yaml"),
        "RECORDING": str(folder / "it.jsonl.gz"),
    }
    return [files.get(one, one) for one in arguments]


@pytest.mark.parametrize(
    "name",
    # A recording takes a second to be replayed.
    [
        pytest.param(name, marks=[pytest.mark.slow] if "replay" in name else [])
        for name in COMMANDS
    ],
)
def test_a_command_shows_names_and_nothing_in_them_acts(
    folder: Path, name: str
) -> None:
    found = run(*of(folder, *COMMANDS[name]))
    assert harm(found.output) == []
    if "check" not in name:
        assert r"\u001b[2J\u001b]8;;http" in found.output
        assert "[red]x[/red][link=http" in found.output or "once" in name, (
            "markup is text"
        )


@pytest.mark.slow  # starts the command in a terminal of its own
@pytest.mark.parametrize("name", ["once", "replay", "explain"])
def test_nor_on_a_terminal_where_lines_are_folded_and_coloured(
    folder: Path, name: str
) -> None:
    output = in_a_terminal([str(PENSTOCK), *of(folder, *COMMANDS[name])], 80)
    lines = [re.sub(r"\x1b\[\d*(;\d+)*m", "", line) for line in output.split("\r\n")]
    assert harm("\n".join(lines)) == []
    assert r"\u001b[2J" in output
    assert all(columns(line) <= 80 for line in lines if not line.startswith("poll "))


def in_a_terminal(command: list[str], width: int) -> str:
    """What it writes to a terminal so wide."""
    ours, its = pty.openpty()
    environment = {
        **os.environ,
        "COLUMNS": str(width),
        "LINES": "50",
        "TERM": "xterm-256color",
    }
    child = subprocess.Popen(
        command, stdin=its, stdout=its, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(its)
    output = b""
    try:
        while part := os.read(ours, 65536):
            output += part
    except OSError:  # so Linux says that the other side is closed
        pass
    finally:
        os.close(ours)
        child.wait(60)
    return output.decode()


@pytest.mark.slow  # replays a recording
def test_json_says_the_names_as_they_are(folder: Path) -> None:
    found = json.loads(run(*of(folder, *COMMANDS["explain json"])).stdout)
    assert found["queue"] == QUEUE
    assert [one["client"] for one in found["clients"]] == [CLIENT]
    changes = [
        json.loads(line)
        for line in run(*of(folder, *COMMANDS["replay json"])).stdout.splitlines()
    ]
    assert {QUEUE, RING} <= {one["queue"] for one in changes}


@pytest.mark.nightly  # every command on an agent with hostile names
def test_what_an_agent_says(folder: Path, tmp_path: Path) -> None:
    with Agent(tmp_path / "agent", log_level="debug", **said(folder)) as agent:
        url = f"http://127.0.0.1:{agent.port}"
        agent.until(
            lambda scrape: bool(scrape.find("mq_queue_unhealthy", queue=QUEUE)),
            expected=True,
            timeout=40,
        )
        for command in (
            ["explain", "demo", QUEUE],
            ["explain", "demo", QUEUE[:-1]],
            ["events"],
            ["events", "--format", "json"],
        ):
            found = subprocess.run(
                [PENSTOCK, *command, "--url", url], capture_output=True, check=False
            )
            said_ = (found.stdout + found.stderr).decode()
            assert harm(said_) == [], command
            assert r"\u202e" in said_
        _, body = agent.request("/api/v1/queues")
        assert QUEUE in [row["queue"] for row in json.loads(body)["queues"]]
    assert harm(agent.log.read_text()) == []


# --- the log


@pytest.fixture
def log() -> tuple[logging.Logger, io.StringIO]:
    logger, stream = logging.Logger("penstock.test"), io.StringIO()  # noqa: LOG001 - known to nobody else
    logger.addHandler(logging.StreamHandler(stream))
    return logger, stream


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_a_record_of_the_log_is_one_line_and_says_the_name(
    log: tuple[logging.Logger, io.StringIO], form: str
) -> None:
    logger, stream = log
    logger.handlers[0].setFormatter(LogLine(form))
    try:
        [].index(QUEUE)  # type: ignore[arg-type]
    except ValueError:
        logger.exception("queue %s of %s\ud800", QUEUE, CLIENT)
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert harm(written) == []
    fields = (
        json.loads(written)
        if form == "json"
        else {"msg": json.loads(re.findall(r'msg=("(?:\\.|[^"])*")', written)[0])}
    )
    assert fields["msg"] == f"queue {QUEUE} of {CLIENT}\ud800"


# --- folded lines


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize(
    "name",
    [
        f"{'x' * 30} {FORGED}",
        f"x{' ' * 90}{FORGED}",
        f"{'日本' * 30} {FORGED}",
        f"{'日' * 37}CRITICAL  stalled",
        "x" * 300,
        "\u0301" * 90,
    ],
)
def test_a_name_that_is_folded_never_begins_a_line(name: str, width: int) -> None:
    first, *others = folded(f"demo / {name}   user, anycast", width)
    assert all(columns(part) <= width for part in (first, *others))
    assert all(part.startswith("  ") for part in others), "what was folded is moved in"
    joined = first + "".join(part.lstrip(" ") for part in others)
    assert joined.replace(" ", "") == f"demo / {name}   user, anycast".replace(
        " ", ""
    ), "nothing is lost"


# --- top


def hostile_world() -> World:
    world = World()
    world.queue(1, QUEUE, messages=50, delivering=50, added=50)
    world.consumer(11, 1, CLIENT, buffered=50, delivered=50)
    for _ in range(40):
        world.now += 15
        world.poll()
    return world


def drawn(lines: str) -> None:
    assert not RAW.search(lines)
    assert FORGED not in [line.strip() for line in lines.split("\n")]


@pytest.mark.slow  # draws a terminal after each key
async def test_top_shows_them_as_text() -> None:
    source = Made([hostile_world()])
    source.changes = [
        Event(0.0, Change.BROKER_DOWN, "b1", queue=QUEUE, client=CLIENT, detail=ACTS)
    ]
    async with top(source).run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        drawn("\n".join(grid(pilot)))
        assert r"q\u001b[2J\u001b]8;;" in "\n".join(grid(pilot))
        for key, level in (("3", "clients"), ("4", "consumers")):
            await press(pilot, key)
            drawn("\n".join(grid(pilot)))
            assert r"c\u202e\u202d" in "\n".join(grid(pilot)), level
        await press(pilot, "e")
        drawn(page(pilot))
        assert MARKUP in page(pilot), "markup is text"
        await press(pilot, "escape", "v")
        drawn(page(pilot))
        assert "".join(visible(ACTS).split()) in "".join(page(pilot).split())


@pytest.mark.slow  # draws a terminal after each key
async def test_an_error_that_top_shows_is_no_markup() -> None:
    class Gone(Made):
        async def explain(self, *_: str, **__: str) -> Explanation:
            raise PenstockError(f"queue {QUEUE} is gone")

    async with top(Gone([hostile_world()])).run_test(
        size=(200, 60), notifications=True
    ) as pilot:
        await settled(pilot)
        await press(pilot, "e")
        await pilot.pause(0.2)
        shown = [
            str(toast.render())
            for toast in pilot.app.screen.query("Toast").results(Static)
        ]
        assert shown == [f"queue {visible(QUEUE)} is gone"]
