"""A history whose writer is killed before any of its steps, of which `make test` takes three."""

from pathlib import Path

from history.steps import killed_and_started_again, total

EVERY = 7


def test_killed_before_any_step_the_next_start_is_whole(tmp_path: Path) -> None:
    steps = total(tmp_path / "whole")
    assert steps > 200
    for step in range(0, steps, EVERY):
        killed_and_started_again(tmp_path / str(step), step)
