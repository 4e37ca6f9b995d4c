"""The log of a real client (OpenMQ 6.5.1): three consumers, one of which hangs; and damaged ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.findings.limits import ConsumerWindow, resume_level
from penstock.insight.client_log import read_client_log

LOG = Path(__file__).parents[1] / "recordings" / "openmq-client.log"
"""f1: limit 100, 50 %, 5 ms a message; f2: the same, hangs at its 30th; f3: limit 40, 10 %, 2 ms."""


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["flow", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return result


def consumers(*arguments: str) -> dict[str, dict[str, Any]]:
    found = json.loads(run("openmq", "--format", "json", "--client-log", str(LOG), *arguments).stdout)
    return {consumer["destination"]: consumer for consumer in found["consumers"]}


def test_windows_asked_for_are_those_of_the_calculator() -> None:
    found = consumers()
    for name, limit, threshold in (("f1", 100, 50), ("f3", 40, 10)):
        window = ConsumerWindow(limit, resume_level(limit, threshold))
        assert (found[name]["limit"], found[name]["resume"]) == (window.limit, window.resume)
        least, most = window.batch
        assert least <= found[name]["window_least"] <= found[name]["window_most"] <= most
    assert found["f1"]["asked_for"] == found["f1"]["windows"] * 50 == 2100


def test_who_hangs_is_told() -> None:
    found = consumers()
    hangs, works = found["f2"], found["f1"]
    assert (hangs["buffered"], hangs["windows"], hangs["pauses"]) == (70, 0, 1)
    assert hangs["paused"] is True
    assert hangs["paused_seconds_least"] > 11
    assert works["pauses"] == 43
    assert works["paused_seconds_least"] < works["paused_seconds_most"] < 11.6
    text = run("openmq", "--client-log", str(LOG)).stdout
    assert "70 are above the resume level: the application does not take them" in text
    assert text.count("the application does not take them") == 1


def test_connections_have_the_sum() -> None:
    found = json.loads(run("openmq", "--format", "json", "--client-log", str(LOG)).stdout)
    both, one = found["connections"]
    assert (both["buffered"], both["limit"], both["pauses"]) == (120, 1000, 23)
    assert (one["buffered"], one["consumer"]) == (4, None)


def test_without_the_loggers_lines_pauses_end_where_delivery_is_asked_for() -> None:
    lines = [line for line in LOG.read_text().splitlines() if not line.startswith("2026-")]
    log = read_client_log(lines)
    entry = next(entry for entry in log.consumers.values() if entry.destination == "f1")
    assert (entry.pauses, entry.resume, entry.limit, entry.windows.total()) == (43, 50, None, 0)
    assert log.seconds == pytest.approx(10, abs=2)  # by the dumps, whole seconds


def test_pause_is_known_between_the_times_around_it() -> None:
    who = "[ConnectionID=1, SessionID=2, ConsumerID=3, DestName=q]"
    log = read_client_log(
        [
            f"2026-11-21T04:00:00.000+0000 ConsumerFlowControl{who}maxMsgCount=10",
            f"PAUSED MESSAGE DELIVERY FOR : ConsumerFlowControlEntry{who}",
            "2026-11-21T04:00:02.000+0000 something else",
            f"2026-11-21T04:00:05.000+0000 ConsumerFlowControl{who}sendResumeFlow(7)total=7",
            f"SENDING RESUME_FLOW FOR : ConsumerFlowControlEntry{who}",
        ]
    )
    entry = log.consumers["3"]
    assert (entry.paused_least, entry.paused_most, entry.is_paused) == (3.0, 5.0, False)


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe" * 100, b"an application's log\n" * 10])
def test_a_log_without_flow_control_says_how_to_get_one(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "client.log"
    path.write_bytes(content)
    result = run("openmq", "--client-log", str(path))
    assert result.exit_code == 1
    assert "imq.flowcontrol.debug=true" in result.stderr


def test_a_log_cut_anywhere_is_read() -> None:
    content = LOG.read_text()
    for length in range(0, len(content), 997):
        read_client_log(content[:length].splitlines())
