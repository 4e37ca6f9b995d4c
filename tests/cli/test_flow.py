"""`penstock flow`: its numbers, and bad input."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["flow", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return result


def numbers(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_manuals_numbers() -> None:
    assert numbers("openmq", "--limit", "1000", "--threshold", "50") == {
        "limit": 1000,
        "stops_at": 1000,
        "resume_at": 500,
        "consumed_before_resume": 500,
        "batch": [500, 1000],
    }
    assert numbers("openmq", "--threshold", "10")["consumed_before_resume"] == 900
    text = run("openmq", "--limit", "1000", "--threshold", "50").stdout
    assert "500 … 1,000 messages" in text


def test_the_destination_lowers_the_limit() -> None:
    found = numbers("openmq", "--limit", "2000", "--destination-limit", "1000")
    assert (found["limit"], found["resume_at"]) == (1000, 500)


def test_memory_rate_and_connection() -> None:
    found = numbers(
        "openmq", "--threshold", "10", "--message-size", "4kB", "--memory", "64MB", "--consumers", "5", "--rate",
        "2000", "--round-trip", "100ms", "--connection-limit", "200", "--connection-count", "100", "--buffered", "90",
    )  # fmt: skip
    assert found["memory_bytes"] == 5 * 1000 * 4000
    assert found["limit_for_memory"] == 3200
    assert found["next_batch"] == 910
    assert found["dry_seconds"] == pytest.approx(0.05)
    assert found["least_threshold"] == 20
    assert (found["connection_most"], found["connection_resume_at"]) == (299, 199)
    assert found["limit_that_binds"] == "connection"
    assert (
        numbers("openmq", "--limit", "10", "--connection-limit", "200")[
            "limit_that_binds"
        ]
        == "consumer"
    )


def test_no_limit() -> None:
    assert numbers("openmq", "--limit", "0") == {"limit": None}
    assert numbers("artemis", "--window", "-1") == {"window_bytes": None}


def test_artemis() -> None:
    found = numbers(
        "artemis",
        "--message-size",
        "1000",
        "--consumers",
        "3",
        "--ring",
        "1000",
        "--memory",
        "3MB",
    )
    assert found == {
        "window_bytes": 1048576,
        "held_messages": 1049,
        "held_by_all_messages": 3147,
        "resume_bytes": 524288,
        "batch_messages": 525,
        "window_for_ring_bytes": 333000,
        "window_for_memory_bytes": 1000000,
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("openmq", "--memory", "5MB"), "--memory needs --message-size"),
        (("openmq", "--rate", "5"), "--rate and --round-trip belong together"),
        (("openmq", "--limit", "-2"), "-2 is not in the range"),
        (("openmq", "--limit", "many"), "'many' is not a valid integer"),
        (("openmq", "--threshold", "half"), "'half' is not a valid integer"),
        (("openmq", "--message-size", "4 potatoes"), "is not a size"),
        (("openmq", "--message-size", "0"), "give more than nothing"),
        (("openmq", "--rate", "0", "--round-trip", "1s"), "give more than 0"),
        (("openmq", "--rate", "nan", "--round-trip", "1s"), "nan: give more than 0"),
        (("openmq", "--rate", "quick", "--round-trip", "1s"), "quick"),
        (("openmq", "--rate", "1", "--round-trip", "soon"), "is not a duration"),
        (("artemis", "--window", "-2"), "-2 is not in the range"),
        (("artemis", "--ring", "0"), "0 is not in the range"),
    ],
)
def test_bad_input_says_what_is_allowed(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_threshold_counts_as_the_client_counts_it() -> None:
    assert numbers("openmq", "--threshold", "150")["resume_at"] == 999
    assert numbers("openmq", "--threshold", "-5")["resume_at"] == 0
