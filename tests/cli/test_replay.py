"""`penstock replay` and `penstock explain --config.file` on recordings of a real broker."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main

RECORDING = Path(__file__).parents[1] / "recordings" / "artemis-2.44.0.jsonl.gz"


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def recorded() -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in gzip.decompress(RECORDING.read_bytes()).splitlines()
    ]


@pytest.fixture
def with_an_outage(tmp_path: Path) -> Path:
    """The recorded polls, in the second of which nobody answered."""
    lines = recorded()
    poll = 0
    for line in lines:
        poll = line.get("poll", poll)
        if poll == 2 and "answer" in line:
            del line["answer"]
            line["error"] = "http://b/: cannot connect"
    path = tmp_path / "outage.jsonl.gz"
    path.write_bytes(
        gzip.compress(
            "".join(
                json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n"
                for line in lines
            ).encode()
        )
    )
    return path


def test_a_quiet_recording_tells_nothing() -> None:
    result = run("replay", str(RECORDING))
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "",
        "3 polls, 0 changes\n",
    )


def test_an_outage_is_told_with_the_times_of_the_recording(
    with_an_outage: Path,
) -> None:
    result = run("replay", str(with_an_outage), "--format", "json")
    down, up = (json.loads(line) for line in result.stdout.splitlines())
    assert (down["change"], down["detail"]) == (
        "broker_down",
        "http://b/: cannot connect",
    )
    assert up["change"] == "broker_up"
    assert down["time"] in [line.get("stamp") for line in recorded()]
    plain = run("replay", str(with_an_outage))
    assert [line.split("  ")[1:] for line in plain.stdout.splitlines()] == [
        ["broker down", down["broker"], down["detail"]],
        ["broker up", down["broker"]],
    ]


@pytest.mark.parametrize("kept", [0.4, 0.7, 0.999])
def test_a_recording_that_is_cut_off_is_no_outage(tmp_path: Path, kept: float) -> None:
    content = RECORDING.read_bytes()
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(content[: round(len(content) * kept)])
    result = run("replay", str(path))
    assert (result.exit_code, result.stdout) == (1, "")
    polls, error = result.stderr.splitlines()
    assert polls in {f"{number} polls, 0 changes" for number in range(3)}
    assert f"penstock: {path}: the recording ends after" in error
    assert "the file is cut off" in error


def test_a_recording_with_a_broken_line_is_no_outage(tmp_path: Path) -> None:
    lines = gzip.decompress(RECORDING.read_bytes()).splitlines(keepends=True)
    lines[-1] = b"[3]\n"
    path = tmp_path / "broken.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(lines)))
    result = run("replay", str(path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        "the recording ends after 2 whole polls: a line is no recorded call"
        in result.stderr
    )


@pytest.mark.slow  # many polls
def test_the_rules_of_a_configuration(tmp_path: Path) -> None:
    """Consumers that are missing only in the eyes of the operator."""
    config = tmp_path / "p.yml"

    def told(rules: str) -> set[str]:
        config.write_text(
            f"brokers: [{{name: any, kind: artemis, url: 'http://h/'}}]\nrules: [{rules}]\n"
        )
        result = run(
            "replay", str(RECORDING), "--config.file", str(config), "--format", "json"
        )
        return {
            json.loads(line)["condition"] for line in result.stdout.splitlines()
        } - {""}  # of an incident

    assert told("") == set()
    assert told("{expected_consumers: 50}") == {"too_few_consumers"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no gzip",
        gzip.compress(b"{}\n", mtime=0),
        gzip.compress(b'{"penstock": 9}\n', mtime=0),
    ],
)
def test_what_is_no_recording(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(content)
    result = run("replay", str(path))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"penstock: {path}: ")


@pytest.mark.slow  # takes a second
def test_explain_by_polls_of_its_own(tmp_path: Path) -> None:
    config = tmp_path / "p.yml"
    config.write_text(
        f"interval: 1s\nbrokers: [{{name: b, kind: artemis, transport: recording, url: 'recording:{RECORDING}'}}]\n"
    )
    result = run("explain", "b", "orders", "--config.file", str(config), "--polls", "2")
    assert "poll 2 of 2: ok" in result.stderr
    assert "\nClient billing\n" in result.stdout
    missing = run("explain", "b", "oders", "--config.file", str(config), "--polls", "1")
    assert missing.exit_code == 1
    assert "did you mean orders" in missing.stderr
    nobody = run("explain", "c", "orders", "--config.file", str(config))
    assert nobody.exit_code == 2
