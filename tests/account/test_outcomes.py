"""What each fate means for a message, and which addresses a wildcard matches."""

import pytest

from penstock.account.fates import (
    FATES,
    LOSSES,
    OUTCOMES,
    UNCOMMITTED,
    FateOutcome,
    outcome_of,
)
from penstock.account.wildcards import matching


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("w.#", ["w", "w.a", "w.a.b"]),
        ("w.*", ["w.a"]),
        ("*.a", ["w.a", "x.a"]),
        ("#", ["w", "w.a", "w.a.b", "wa", "x.a"]),
        ("w.#.b", ["w.a.b"]),
        ("x.*.b", []),
    ],
)
def test_what_a_wildcard_matches(pattern: str, names: list[str]) -> None:
    assert [*matching(pattern, ["w", "w.a", "w.a.b", "wa", "x.a"])] == names


def test_each_fate_of_artemis_has_an_outcome() -> None:
    assert set(FATES) | {UNCOMMITTED} <= OUTCOMES.keys()
    assert {"missing", "lost_at_restart"} <= {*LOSSES}


@pytest.mark.parametrize("fate", ["something new"])
def test_a_fate_without_an_outcome_is_never_harmless(fate: str) -> None:
    assert outcome_of(fate) is FateOutcome.POSSIBLY_LOST
