"""What follows from what was read: claims joined, and the verdicts that are made of them."""

import numpy as np
import pytest

from penstock.causes.evidence import (
    UNKNOWN,
    Claim,
    NumberRead,
    Truth,
    all_of,
    any_of,
    known,
    lacks_of,
    negated,
    unread,
)
from penstock.causes.verdict import (
    CauseState,
    OnDemand,
    Verdict,
    concluded,
    excluded,
    held_to_rivals,
    is_excluded,
    possible,
    proven,
)

YES = known(True)
NO = known(False)
LACKING = unread("the depth")
LACKS_TWO = Claim(Truth.UNKNOWN, ("the depth was not read", "the limit was not read"))


def test_what_was_not_read_is_named() -> None:
    assert unread("the depth", "the limit") == LACKS_TWO
    assert lacks_of(LACKING, LACKS_TWO, YES) == LACKS_TWO.lacks


@pytest.mark.parametrize(
    ("claim", "opposite"),
    [(YES, NO), (NO, YES), (UNKNOWN, UNKNOWN), (LACKING, LACKING)],
)
def test_the_opposite_of_what_is_not_known_is_not_known(
    claim: Claim, opposite: Claim
) -> None:
    assert negated(claim) == opposite


@pytest.mark.parametrize(
    ("claims", "found_all", "found_any"),
    [
        ([YES, YES], YES, YES),
        ([YES, NO], NO, YES),
        ([NO, NO], NO, NO),
        ([YES, LACKING], LACKING, YES),
        ([NO, LACKING], NO, LACKING),
        ([LACKING, LACKS_TWO], LACKS_TWO, LACKS_TWO),
        ([], YES, NO),
    ],
)
def test_claims_are_joined(
    claims: list[Claim], found_all: Claim, found_any: Claim
) -> None:
    assert all_of(*claims) == found_all
    assert any_of(*claims) == found_any


def test_a_claim_is_so_or_not() -> None:
    assert [claim.is_so for claim in (YES, NO, UNKNOWN)] == [True, False, False]
    assert [claim.is_not_so for claim in (YES, NO, UNKNOWN)] == [False, True, False]
    assert known(np.True_) == YES


# --- numbers

DEPTH = NumberRead("the depth", 5.0)
MISSING = NumberRead("the depth", np.nan)
STALE = NumberRead("the depth", 5.0, 90.0)


@pytest.mark.parametrize(
    ("compare", "bound", "expected"),
    [
        ("above", 4.9, YES),
        ("above", 5.0, NO),
        ("below", 5.1, YES),
        ("below", 5.0, NO),
        ("at_least", 5.0, YES),
        ("at_least", 5.1, NO),
        ("equals", 5.0, YES),
        ("equals", 4.0, NO),
    ],
)
def test_a_number_is_compared(compare: str, bound: float, expected: Claim) -> None:
    assert getattr(DEPTH, compare)(bound) == expected
    assert getattr(MISSING, compare)(bound) == LACKING


def test_with_what_it_is_compared_may_not_have_been_read() -> None:
    lacks = ("what the depth is compared with was not read",)
    assert DEPTH.above(np.nan) == Claim(Truth.UNKNOWN, lacks)


@pytest.mark.parametrize(
    ("number", "is_known", "lack"),
    [
        (MISSING, False, "the depth was not read"),
        (STALE, False, "the depth: last read 1 min 30 s before this began"),
        (
            STALE._replace(source="the settings"),
            False,
            "the settings: last read 1 min 30 s before this began",
        ),
        (
            STALE._replace(stale_seconds=np.inf),
            False,
            "the depth: last read at an unknown time",
        ),
        (MISSING._replace(stale_seconds=90.0), False, "the depth was not read"),
    ],
)
def test_why_a_number_says_nothing(
    number: NumberRead, is_known: bool, lack: str
) -> None:
    assert number.is_known is is_known
    assert number.lack == lack
    assert number.satisfies(lambda _: True) == Claim(Truth.UNKNOWN, (lack,))


def test_a_number_that_was_read_since_is_known() -> None:
    assert DEPTH.is_known
    assert DEPTH._replace(stale_seconds=np.nan).is_known
    assert DEPTH.satisfies(lambda value: value == 5) == YES


LIMIT = NumberRead("the limit", 5.0)


@pytest.mark.parametrize(
    ("number", "limit", "expected"),
    [
        (DEPTH, LIMIT, YES),
        (DEPTH, LIMIT._replace(value=5.1), NO),
        (DEPTH, LIMIT._replace(value=np.inf), NO),
        (MISSING, LIMIT._replace(value=np.inf), NO),
        (MISSING, LIMIT, LACKING),
        (MISSING, LIMIT._replace(value=np.nan), LACKS_TWO),
        (DEPTH, LIMIT._replace(value=np.nan), unread("the limit")),
    ],
)
def test_a_number_reaches_another_one(
    number: NumberRead, limit: NumberRead, expected: Claim
) -> None:
    assert number.reaches(limit) == expected


# --- verdicts


@pytest.mark.parametrize(
    ("excluded_by", "proof", "expected"),
    [
        (YES, NO, excluded("why not")),
        (YES, YES, excluded("why not")),
        (NO, YES, proven("why")),
        (UNKNOWN, YES, proven("why")),
        (NO, NO, possible("why", True)),
        (UNKNOWN, UNKNOWN, possible("why", True)),
        (LACKING, NO, possible("why; the depth was not read", True)),
        (
            LACKING,
            unread("the limit"),
            possible("why; the depth was not read; the limit was not read", True),
        ),
    ],
)
def test_only_what_is_known_excludes_or_proves(
    excluded_by: Claim, proof: Claim, expected: Verdict
) -> None:
    made = concluded(
        "why", excluded_by=excluded_by, proof=proof, otherwise="why not", likely=True
    )
    assert made == expected


def test_a_verdict_without_a_claim_is_possible() -> None:
    assert concluded("") == Verdict(CauseState.POSSIBLE)
    assert concluded("", proof=LACKING).fact == "the depth was not read"
    assert concluded("", excluded_by=YES) == excluded("")


TEXTS = {"crash": "a crash", "stop": "a stop", "pause": "a pause"}


@pytest.mark.parametrize(
    ("verdicts", "rivals", "fact"),
    [
        ({"crash": proven("seen", likely=True)}, {}, "seen"),
        (
            {"crash": proven("seen", likely=True)},
            {"crash": ("stop",)},
            "seen; it may as well be a stop",
        ),
        (
            {"crash": proven("seen", likely=True), "stop": excluded("no")},
            {"crash": ("stop",)},
            "seen",
        ),
        (
            {"crash": proven("seen", likely=True), "stop": possible()},
            {"crash": ("stop", "pause")},
            "seen; it may as well be a stop or a pause",
        ),
        ({"crash": proven("seen", likely=True)}, {"stop": ("pause",)}, "seen"),
    ],
)
def test_a_cause_is_proven_only_where_its_rivals_are_excluded(
    verdicts: dict[str, Verdict], rivals: dict[str, tuple[str, ...]], fact: str
) -> None:
    state = CauseState.PROVEN if fact == "seen" else CauseState.POSSIBLE
    held = held_to_rivals(verdicts, rivals, TEXTS)
    assert held["crash"] == Verdict(state, fact, likely=True)
    assert {**held, "crash": verdicts["crash"]} == verdicts


def test_what_is_not_proven_has_no_rivals() -> None:
    verdicts = {"crash": possible("seen"), "stop": proven("read")}
    assert held_to_rivals(verdicts, {"crash": ("pause",)}, TEXTS) == verdicts
    assert (
        held_to_rivals(verdicts, {"stop": ("pause",)}, TEXTS)["stop"].state
        is CauseState.POSSIBLE
    )


def test_what_is_excluded() -> None:
    verdicts = {"crash": excluded(), "stop": possible()}
    assert [is_excluded(verdicts, cause) for cause in TEXTS] == [True, False, False]


def test_verdicts_are_worked_out_once_when_they_are_looked_at() -> None:
    asked = []

    def decide(*of: int) -> dict[str, Verdict]:
        asked.append(of)
        return {"crash": proven("seen")}

    verdicts = OnDemand(decide, 1, 2)
    assert asked == []
    assert (len(verdicts), [*verdicts], verdicts["crash"]) == (
        1,
        ["crash"],
        proven("seen"),
    )
    assert asked == [(1, 2)]
