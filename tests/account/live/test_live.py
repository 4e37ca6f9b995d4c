"""A few of the situations for a short while; `make test-account` plays all of them for minutes."""

from pathlib import Path

import pytest

from account.live.__main__ import play
from account.live.situations import SITUATIONS
from account.live.stage import Watch


@pytest.mark.broker
@pytest.mark.nightly  # a minute; make test-account has all situations
def test_what_clients_know_is_what_the_account_says(tmp_path: Path) -> None:
    """Each result with what is wrong in it."""
    chosen = [one for one in SITUATIONS if one.short]
    assert sum(not one.healthy for one in chosen) >= 10
    results, run = play(tmp_path, chosen, 12, [Watch(1), Watch(2)])
    assert run["sent"] > 10_000
    assert not {
        f"{name}: {one.situation.name}": one.line()
        for name, of in results.items()
        for one in of
        if not one.right
    }
