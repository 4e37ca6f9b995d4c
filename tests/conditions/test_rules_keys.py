"""What the operator says about queues and clients, in what is judged and shown."""

import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agent.world import World
from conditions.rules_world import Q, rule, ruled, ruled_polls, unread
from config.refused import error_of
from penstock.agent.factory import policy_of
from penstock.config import load
from penstock.model import QueueKind
from penstock.settings.business_hours import parse_hours
from penstock.settings.constants import Constants
from penstock.settings.rules import RingLoss, Rule, Rules


def test_what_is_expected_is_shown() -> None:
    keys: dict[str, Any] = {
        "expected_consumers": 2,
        "ring_retention": 600.0,
        "drain_target": 300.0,
    }
    shown = unread(rule(**keys))
    ruled_polls(shown, 1)
    table = shown.tables["queue"]
    found = [
        table[name].tolist()
        for name in ("expected_consumers", "ring_retention_target", "drain_target")
    ]
    assert found == [[2.0], [600.0], [300.0]]


def holding(*rules: Rule) -> World:
    made = ruled(*rules)
    made.queue(Q, "q", messages=9, delivering=9, added=9)
    for key, client in ((10, "slow-batch"), (11, "web")):
        made.consumer(key, Q, client, buffered=4, delivered=4, last_delivery=made.now)
    return made


@pytest.mark.slow  # many polls
def test_a_configured_patience_is_that_of_its_clients_only() -> None:
    made = holding(rule("slow-*", patience=600.0))
    ruled_polls(made, 10)
    assert [c.client for c in made.conditions if c.name == "stalled"] == ["web"]
    table = made.tables["client"]
    assert dict(zip((row.client for row in table.index), table["patience"].tolist(), strict=True)) == {
        "slow-batch": 600.0, "web": 60.0
    }  # fmt: skip
    ruled_polls(made, 34)
    assert {c.client for c in made.conditions if c.name == "stalled"} == {
        "web",
        "slow-batch",
    }


def test_a_patience_of_the_queue_is_that_of_all_its_clients() -> None:
    made = holding(rule(patience=30.0))
    ruled_polls(made, 4)
    assert {c.client for c in made.conditions if c.name == "stalled"} == {
        "web",
        "slow-batch",
    }


@pytest.mark.slow  # many polls
def test_silence_is_judged_and_not_exported() -> None:
    made = holding(rule("web", silence=True))
    ruled_polls(made, 8)
    assert {c.client: c.silenced for c in made.conditions if c.name == "stalled"} == {
        "web": True,
        "slow-batch": False,
    }
    table = made.tables["client_cause"]
    assert [(row.client, row.cause) for row in table.index] == [
        ("slow-batch", "stalled")
    ]
    all_of_it = holding(rule(silence=True))
    ruled_polls(all_of_it, 8)
    assert "stalled" in all_of_it.names()
    assert (
        len(all_of_it.tables["queue_cause"])
        == len(all_of_it.tables["client_cause"])
        == 0
    )


def test_rules_read_anew_are_those_in_force() -> None:
    made = holding()
    ruled_polls(made, 8)
    assert not any(c.silenced for c in made.conditions)
    made.policy = replace(made.policy, rules=Rules((rule(silence=True),)))
    made.state = made.state.with_new_labels()
    ruled_polls(made, 1)
    assert made.conditions
    assert all(c.silenced for c in made.conditions)


def test_a_given_kind_is_what_is_judged() -> None:
    made = unread(rule(kind=QueueKind.DEAD_LETTER))
    made.queues[Q]["acknowledged"] = 1
    ruled_polls(made, 9, added=1)
    assert "no_consumer" not in made.names()


# --- as they stand in the file


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "rules: [{hours: Mo-Fr}]",
            "rules[0].hours: are no business hours; write days",
        ),
        ("rules: [{hours: 8}]", "rules[0].hours: are no business hours; write days"),
        (
            "rules: [{expected_consumers: -1}]",
            "rules[0].expected_consumers: must be at least 0",
        ),
        ("rules: [{patience: 0s}]", "rules[0].patience: must be at least 1s"),
        (
            "rules: [{ring_loss: maybe}]",
            "rules[0].ring_loss: must be one of 'expected' or 'alert'",
        ),
        ("judgement: {cold: 1x}", "judgement.cold: '1x' is not a duration"),
        ("judgement: {could: 1s}", "judgement.could: unknown key; did you mean cold?"),
        (
            "judgement: {decay: 0.5}",
            "judgement.decay: is no setting any more: remove it (it is always 0.999)",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "p.yml"
    error = error_of(
        path, f"brokers: [{{name: b, kind: artemis, url: 'http://h/'}}]\n{text}\n"
    )
    assert f"{path}:2: {told}" in error


def test_what_the_file_says_is_what_is_judged_by(tmp_path: Path) -> None:
    path = tmp_path / "p.yml"
    path.write_text(
        "brokers: [{name: b, kind: artemis, url: 'http://h/'}]\n"
        "rules: [{match: {queue: q}, expected_consumers: 2, patience: 10m, ring_loss: alert, ring_retention: 1h,"
        " drain_target: 5m, silence: true, hours: 'Mon 08:00-18:00'}]\njudgement: {cold: 45s, trend: 2m}\n"
    )
    config = load(path)
    assert policy_of(config, config.brokers[0]).constants == replace(
        Constants(), cold=45.0, trend=120.0
    )
    said = config.compiled_rules().resolve("b", "a", "q")
    assert (said.expected_consumers, said.patience, said.ring_loss) == (
        2,
        600.0,
        RingLoss.ALERT,
    )
    assert (said.ring_retention, said.drain_target, said.silence) == (
        3600.0,
        300.0,
        True,
    )
    assert said.hours == parse_hours("Mon 08:00-18:00")
    assert set(said.given_by.values()) == {1}
    assert "hours: Mon 08:00-18:00" in config.masked_yaml()


# --- hours


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("text", "opened", "closed"),
    [
        ("Mon-Fri 08:00-18:00", ["2026-11-20 08:00", "2026-11-20 17:59:59"],
         ["2026-11-20 07:59:59", "2026-11-20 18:00", "2026-11-21 12:00"]),
        ("Sat,Mon-Tue 00:00-24:00", ["2026-11-21 00:00", "2026-11-21 23:59", "2026-11-23 12:00"],
         ["2026-11-22 12:00", "2026-11-25 12:00"]),
        ("Fri-Mon 09:00-10:00", ["2026-11-20 09:30", "2026-11-22 09:30", "2026-11-23 09:30"], ["2026-11-24 09:30"]),
        ("Fri 22:00-06:00", ["2026-11-20 22:00", "2026-11-21 05:59"],
         ["2026-11-20 05:00", "2026-11-21 06:00", "2026-11-21 22:00"]),
    ],
)  # fmt: skip
def test_business_hours(text: str, opened: list[str], closed: list[str]) -> None:
    hours = parse_hours(text)
    assert [hours(at(time)) for time in opened + closed] == [True] * len(opened) + [
        False
    ] * len(closed)


def test_business_hours_follow_the_clock_of_their_zone() -> None:
    """Berlin: UTC+2 until 25 October 2026, 03:00, then UTC+1."""
    hours = parse_hours("Mon-Sun 08:00-18:00 Europe/Berlin")
    assert (hours(at("2026-10-24 06:00")), hours(at("2026-10-24 05:59"))) == (
        True,
        False,
    )
    assert (hours(at("2026-10-25 06:00")), hours(at("2026-10-25 07:00"))) == (
        False,
        True,
    )
    # The hour from 2 to 3 comes twice, and never on 29 March.
    night = parse_hours("Sun 02:00-03:00 Europe/Berlin")
    assert [night(at(f"2026-10-25 0{hour}:30")) for hour in range(4)] == [
        True,
        True,
        False,
        False,
    ]
    assert [night(at(f"2026-03-29 0{hour}:30")) for hour in range(4)] == [False] * 4


@pytest.mark.parametrize(
    "text",
    ["", "Mon", "08:00-18:00", "Mon-Fri 8-18", "Mo-Fr 08:00-18:00", "Mon 08:00-25:00", "Mon 08:61-09:00",
     "Mon 08:00-24:01", "Mon 24:00-08:00", "Mon 08:00-18:00 Mars/Olympus", "Mon 08:00-18:00 ../etc/passwd"],
)  # fmt: skip
def test_what_are_no_business_hours(text: str) -> None:
    with pytest.raises(
        ValueError,
        match=r"write days, times and, when not UTC, a zone: Mon-Fri 08:00-18:00 Europe/",
    ):
        parse_hours(text)


@pytest.mark.parametrize(
    ("start", "names"),
    [("2026-11-21 12:00", set()), ("2026-11-23 12:00", {"no_consumer"})],
)
def test_outside_of_business_hours_nobody_is_missed(
    start: str, names: set[str]
) -> None:
    made = unread(rule(expected_consumers=2, hours=parse_hours("Mon-Fri 08:00-18:00")))
    made.now = at(start)
    ruled_polls(made, 8)
    assert made.names() == names
    few = unread(rule(expected_consumers=2, hours=parse_hours("Mon-Fri 08:00-18:00")))
    few.consumer(10, Q, "c")
    few.now = at(start)
    ruled_polls(few, 3, added=1)
    assert few.names() == ({"too_few_consumers"} if names else set())


def test_a_machine_without_a_database_of_zones_knows_its_default() -> None:
    """Some images have none, and none of their brokers could be judged."""
    program = (
        "import sys, zoneinfo; sys.modules['tzdata'] = None; zoneinfo.reset_tzpath(());"
        "from penstock.settings.business_hours import time_zone; print(time_zone('UTC'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "UTC\n", done.stderr
