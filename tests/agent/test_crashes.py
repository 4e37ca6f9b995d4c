"""The agent is killed at any change of its files: no counter falls, nothing counts twice, each event is told once."""

from pathlib import Path
from typing import Any

import pytest

from agent.crashes import Agent, Faults, killed_at, undisturbed


def check(whole: Agent, tmp_path: Path, *kills: Faults) -> None:
    name = "-".join(f"{one.at}-{one.part}" for one in kills)
    agent, wrong = killed_at(tmp_path / name, *kills)
    assert not wrong, name
    assert agent.shown.keys() == whole.shown.keys()
    assert all(
        value <= whole.shown[counter] for counter, value in agent.shown.items()
    ), "counted twice"
    assert max(agent.events().values()) == 1, name
    if (
        len(kills) == 1
    ):  # after several, polls are missing: what came and went between them, and windows that began anew
        assert without_later_accounts(agent, whole) == without_later_accounts(
            whole, agent
        ), name
        assert agent.events() == whole.events(), name
    assert not list((tmp_path / name).glob("*.unusable")), name


def without_later_accounts(agent: Agent, other: Agent) -> dict[tuple[Any, ...], float]:
    """Its counters; without the account where one of both began it later: killed before its first poll was kept."""
    began, others = (
        one.assessor.state.judgement.account.books.since.min() for one in (agent, other)
    )
    same = bool(began == others)
    return {
        name: value
        for name, value in agent.shown.items()
        if same or name[0] != "mq_account_messages_total"
    }


@pytest.mark.nightly  # many processes that are killed
def test_killed_at_some_changes_of_the_files(tmp_path: Path) -> None:
    """All of them: `trust/crash_points_check.py`."""
    whole, changes = undisturbed(tmp_path / "whole")
    assert changes > 40
    for at in range(0, changes, 4):
        check(whole, tmp_path, Faults(at, (0.0, 0.3, 0.999, 1.0)[at // 4 % 4]))


@pytest.mark.slow  # takes a second
def test_killed_without_a_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal alone is enough."""
    monkeypatch.setattr("agent.crashes.SAVED_AT", ())
    whole, changes = undisturbed(tmp_path / "whole")
    for at in range(3, changes, 7):
        check(whole, tmp_path, Faults(at, 0.5))


@pytest.mark.slow  # takes a second
def test_killed_again_as_it_starts(tmp_path: Path) -> None:
    whole, _ = undisturbed(tmp_path / "whole")
    for at in range(0, 12, 2):
        check(whole, tmp_path, Faults(33, 0.5), Faults(at, 0.5), Faults(at + 1, 0.0))
