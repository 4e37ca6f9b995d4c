"""A poll whose tables are not shown is judged as any other."""

from typing import Any

import pytest

from conditions.scenarios import FAULTS
from conditions.town import Town
from penstock.assessment.assess import State, Tables, advance, assess
from penstock.model import Snapshot


class Remembered(Town):
    """Keeps what was polled."""

    def judge(self, snapshot: Snapshot) -> None:
        self.seen = [*getattr(self, "seen", []), snapshot]
        super().judge(snapshot)


def judged(state: State) -> list[tuple[Any, ...]]:
    return [
        (one.name, one.queue, one.client, one.severity, one.begin, dict(one.evidence))
        for one in state.judgement.conditions
    ]


def by_row(tables: Tables) -> dict[str, dict[str, dict[str, str]]]:
    """Table → row → column → value as text, for NaN is not equal to itself."""
    return {
        name: {
            str(row): {
                column: str(values[at]) for column, values in table.columns.items()
            }
            for at, row in enumerate(table.index)
        }
        for name, table in tables.items()
        if name != "finding"
    }


@pytest.mark.slow  # many polls
def test_the_same_is_judged_and_would_be_shown_without_tables_before() -> None:
    town = Remembered(
        {fault: setup for fault, (setup, _, _) in FAULTS.items()}, step=30.0
    )
    town.run(450, town.live, tick=5.0)
    shown = State()
    light = State()
    *before, last = town.seen
    for snapshot in before:
        shown, _ = assess(shown, snapshot, town.policy)
        light = advance(light, snapshot, town.policy)
        assert judged(light) == judged(shown)
    tables = assess(shown, last, town.policy)[1]
    assert len({name for name, *_ in judged(shown)}) > 8
    assert by_row(assess(light, last, town.policy)[1]) == by_row(tables)
