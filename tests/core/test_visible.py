"""The one safe form of names: a line, nothing that acts, and names that differ look different."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.visible import visible

HARM = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""What acts on a terminal, or is not seen there; listed here by itself, not by the rule that is tested."""
NAMES = st.text(
    st.one_of(
        st.characters(), st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Zs"])
    )
)


@given(NAMES)
def test_nothing_in_it_acts_and_it_is_one_line(text: str) -> None:
    found = visible(text)
    assert not HARM.search(found)
    assert len(f"{found}|".splitlines()) == 1
    found.encode()  # no surrogate
    assert not any(
        unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") for one in found
    )
    assert not any(one.isspace() and one != " " for one in found)


@given(NAMES)
def test_what_is_visible_stays_as_it_is(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@given(
    NAMES.filter(
        lambda text: "\\" not in text and not re.search("[\ud800-\udfff]", text)
    )
)
def test_the_name_can_be_read_back_so_two_never_look_the_same(text: str) -> None:
    quoted = visible(text).replace('"', r"\"")
    assert json.loads(f'"{quoted}"') == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\t", r"a\nb\r\t"),
        ("\x1b[31m\x9b1m\x7f", r"\u001b[31m\u009b1m\u007f"),
        ("a\u202eb\u2066\u061c\u200f", r"a\u202eb\u2066\u061c\u200f"),
        ("a\u2028b\u2029\x85", r"a\u2028b\u2029\u0085"),
        ("a\u200bb\ufeff\u3164\ufe0f", r"a\u200bb\ufeff\u3164\ufe0f"),
        ("\ud800x", r"\ud800x"),
        ("\U000e0041", r"\udb40\udc41"),
        ("a\xa0b\u3000", r"a\u00a0b\u3000"),
    ],
)
def test_what_is_not_seen_is_written_as_json_writes_it(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders",
        "a b",
        "Zürich",
        "订单",
        "注文🚚",
        "шина",
        "הזמנות",
        "طلبات",
        "คิว",
        "e\u0301",
        "a\\b",
        "[red]x[/]",
        "50 % \"<&>'",
    ],
)
def test_names_of_all_languages_stay_as_they_are(name: str) -> None:
    assert visible(name) == name
