"""The parts of the poll engine by themselves."""

import numpy as np
import pytest

from penstock.brokers.cadence import SETTINGS_AGE, Aged, Cadence
from penstock.core.table import SLACK
from penstock.model import Process

NAN = float("nan")
BEFORE = Process("n1", clock=1000.0, uptime=600.0, session="7")


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (Process("n1", 1015.0, 615.0, "7"), True),
        (
            Process("n1", 1015.0, 614.0, "7"),
            True,
        ),  # as far apart as two readings may be
        (Process("n1", 1015.0, 10.0, "7"), False),
        (
            Process("n1", 5015.0, 700.0, "7"),
            False,
        ),  # a gap longer than the process before lived
        (Process("n2", 1015.0, 615.0, "7"), False),
        (Process("n1", 1015.0, 615.0, "8"), False),
        (Process("n1", 1015.0, 615.0), True),  # the session is not shown this time
        (
            Process("n1", 400.0, 0.0, "7"),
            True,
        ),  # the clock was set back, and an uptime taken from it
        (Process("n1", NAN, 615.0, "7"), True),
        (Process("n1", NAN, 10.0, "7"), False),
        (Process("n1", NAN, NAN, "7"), True),
    ],
)
def test_the_same_process(now: Process, same: bool) -> None:
    assert now.follows(BEFORE) is same


def test_a_slow_call_is_made_less_often() -> None:
    assert Cadence().due(0.0)
    assert not Cadence(100.0, seconds=1.0).due(119.0)
    assert Cadence(100.0, seconds=1.0).due(120.0)
    assert not Cadence(100.0, seconds=1.0).due(150.0, age=60.0)


def test_settings_of_new_things_are_due_at_once_and_those_of_gone_ones_are_forgotten() -> (
    None
):
    aged: Aged[str, int] = Aged()
    names = ["a", "b"]
    assert aged.due(names, 0.0, names) == names
    assert aged.note(["a"], {"a": 1}, 0.0)
    assert aged.due(names, 1.0, names) == ["b"]
    assert not aged.note(["b"], {}, 1.0), (
        "what cannot be read is not tried at every poll"
    )
    values = aged.values
    assert aged.due(names, 2.0, names) == []
    assert aged.due(names, SETTINGS_AGE, names) == ["a"]
    assert not aged.note(["a"], {"a": 1}, SETTINGS_AGE)
    assert aged.values is values
    assert aged.due(["a", "c"], SETTINGS_AGE) == ["c"]
    many = [str(number) for number in range(2 * SLACK)]
    aged.note(many, dict.fromkeys(many, 2), SETTINGS_AGE)
    assert aged.due(["a"], SETTINGS_AGE) == []
    assert aged.values == {"a": 1}


def test_of_the_same_source_names_are_not_looked_at_until_one_is_due() -> None:
    aged: Aged[str, int] = Aged()
    source = object()
    aged.note(["a"], {}, 0.0)
    assert aged.due(["a"], 1.0, source) == []
    assert aged.due(["a", "new"], 2.0, source) == []
    assert aged.due(["a", "new"], 2.0, object()) == ["new"]
    assert aged.due(["a"], SETTINGS_AGE, source) == ["a"]
    assert aged.due([], np.inf) == []
