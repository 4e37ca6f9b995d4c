"""Patterns and rules: which names match, and which rule gave which key."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model import QueueKind
from penstock.settings.rules import (
    Match,
    Resolved,
    Rule,
    Rules,
    RuleSettings,
    Selection,
    compile_pattern,
)


def matches(pattern: str, name: str) -> bool:
    return compile_pattern(pattern).match(f".{name}") is not None


@pytest.mark.parametrize(
    ("pattern", "fits", "misses"),
    [
        ("orders", ["orders"], ["order", "orders.eu", "xorders", "Orders", ""]),
        ("*", ["", "a", "a.b", "a\nb", "ID:1 x"], []),
        ("#", ["", "a", "a.b.c", "a\nb"], []),
        (
            "orders.#",
            ["orders", "orders.eu", "orders.eu.de", "orders."],
            ["ordersx", "x.orders"],
        ),
        ("orders.*", ["orders.eu", "orders."], ["orders", "orders.eu.de"]),
        ("*.*", ["a.b", "."], ["a", "a.b.c"]),
        ("#.eu", ["eu", "a.eu", "a.b.eu"], ["a.eux", "aeu", "eu.a"]),
        ("a.#.z", ["a.z", "a.b.z", "a.b.c.z"], ["az", "a.bz", "a.z.y"]),
        ("#.b.#", ["b", "a.b", "b.c", "a.b.c"], ["ab", "bc", "a.c"]),
        ("a.#.*.z", ["a.b.z", "a.b.c.z"], ["a.z"]),
        ("#.a.#.a.#", ["a.a", "a.b.a", "x.a.a"], ["a", "x.a.y"]),
        ("*.#", ["", "a", "a.b"], []),
        ("pre-*", ["pre-", "pre-x"], ["pre", "pre-x.y", "xpre-"]),
        ("*a*a*", ["aa", "xaya"], ["a", "a.a"]),
        ("a*a", ["aa", "aba"], ["a", "ab"]),
        ("a#", ["a#"], ["ab", "a"]),
        ("a+b$(c)\\", ["a+b$(c)\\"], ["aab"]),
    ],
)
def test_pattern(pattern: str, fits: list[str], misses: list[str]) -> None:
    assert [name for name in fits if not matches(pattern, name)] == []
    assert [name for name in misses if matches(pattern, name)] == []


@cache
def naive(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """The definition: `#` takes no word, or one and stays."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return naive(pattern[1:], words) or bool(words and naive(pattern, words[1:]))
    return (
        bool(words)
        and naive_word(pattern[0], words[0])
        and naive(pattern[1:], words[1:])
    )


@cache
def naive_word(pattern: str, word: str) -> bool:
    if not pattern:
        return not word
    if pattern[0] == "*":
        return naive_word(pattern[1:], word) or bool(
            word and naive_word(pattern, word[1:])
        )
    return bool(word) and pattern[0] == word[0] and naive_word(pattern[1:], word[1:])


@given(
    st.lists(
        st.one_of(st.sampled_from(["#", "*", "a", "b"]), st.text("ab*", max_size=4)),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.text("ab", max_size=4), min_size=1, max_size=6),
)
def test_pattern_by_its_definition(pattern: list[str], words: list[str]) -> None:
    expected = pattern == ["*"] or naive(tuple(pattern), tuple(words))
    assert matches(".".join(pattern), ".".join(words)) == expected


def test_no_name_makes_a_pattern_slow() -> None:
    """Without atomic groups these take longer than anyone waits."""
    assert not matches("*a*a*a*a*a*a*a*a*b", "a" * 5000)
    assert not matches("#.a.#.a.#.a.#.a.#.a.#.b", ".".join("a" * 5000))


RULES = Rules(
    (
        Rule(Match(address="orders.#"), RuleSettings(owner="payments", ignore=False)),
        Rule(
            Match(queue="*.dlq", broker="prod-*"),
            RuleSettings(kind=QueueKind.DEAD_LETTER, team="ops"),
        ),
        Rule(
            Match(client="billing"),
            RuleSettings(owner="billing", team="money", ignore=True),
        ),
        Rule(Match(), RuleSettings(owner="everyone", ignore=True)),
    )
)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            ("prod-1", "orders.eu", "orders.dlq"),
            Resolved(
                "payments",
                "ops",
                QueueKind.DEAD_LETTER,
                False,
                given_by={"owner": 1, "ignore": 1, "kind": 2, "team": 2},
            ),
        ),
        (
            ("dev", "x", "orders.dlq"),
            Resolved("everyone", None, None, True, given_by={"owner": 4, "ignore": 4}),
        ),
        (
            ("dev", "x", "q", "billing"),
            Resolved(
                "billing",
                "money",
                None,
                True,
                given_by={"owner": 3, "team": 3, "ignore": 3},
            ),
        ),
        (
            ("dev", "orders", "q", "billing"),
            Resolved(
                "payments",
                "money",
                None,
                False,
                given_by={"owner": 1, "ignore": 1, "team": 3},
            ),
        ),
        (
            ("dev", "x", "q", "other"),
            Resolved("everyone", None, None, True, given_by={"owner": 4, "ignore": 4}),
        ),
    ],
)
def test_first_match_wins_per_key(asked: tuple[str, ...], expected: Resolved) -> None:
    assert RULES.resolve(*asked) == expected


def test_no_rules_say_nothing() -> None:
    assert Rules().resolve("b", "a", "q") == Resolved()


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ([], [], True),
        ([Match(address="a")], [], True),
        ([Match(address="b"), Match(queue="q")], [], True),
        ([Match(address="a", queue="x")], [], False),
        ([Match(address="a")], [Match(queue="q")], False),
        ([], [Match(queue="x")], True),
    ],
)
def test_selection(include: list[Match], exclude: list[Match], expected: bool) -> None:
    assert Selection(include, exclude)("a", "q") is expected
