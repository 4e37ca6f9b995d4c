"""Durations and sizes: what is written, read and written back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.values import check_link, format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("1m30s", 90),
        ("500ms", 0.5),
        ("1d2h3m4s5ms", 93784.005),
        ("1.5h", 5400),
        ("0s", 0),
        ("20", 20),
        (20, 20),
        (0.25, 0.25),
    ],
)
def test_duration(text: object, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "s", "15 s", "-1s", "1s1m", "1w", "1m1m", "\u0661s", "1e3", "15S", None, True, [15], {}]
)
def test_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="is not a duration; write 500ms, 15s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MiB", 2**26),
        ("64 MiB", 2**26),
        ("1.5KiB", 1536),
        ("10MB", 10**7),
        ("1kB", 1000),
        ("7B", 7),
        ("7", 7),
        (7, 7),
    ],
)
def test_size(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1B", "64mib", "64M", "1  B", "1e3", 1.5, None, False, []])
def test_no_size(text: object) -> None:
    with pytest.raises(ValueError, match="is not a size; write 64B"):
        parse_size(text)


@given(st.integers(0, 10**9))
def test_what_is_written_is_read_back(number: int) -> None:
    assert parse_size(format_size(number)) == number
    assert parse_duration(format_duration(number / 1000)) == pytest.approx(number / 1000)


@pytest.mark.parametrize(
    "link",
    [
        "https://wiki.example/{condition}",
        "http://{broker}.example:8161/console",
        "https://g.example/d?q={queue}&a={address}#{client}",
    ],
)
def test_links_that_fit(link: str) -> None:
    check_link(link)


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("javascript:alert(1)", "must be http"),
        ("//wiki.example", "must be http"),
        ("https://{queue}.example/", "must be http"),
        ("https://user:secret@wiki.example/", "credentials"),
        ("https://wiki.example/{nope}", "no names but"),
        ("https://wiki.example/{queue", "no names but"),
    ],
)
def test_links_that_do_not_fit(link: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        check_link(link)
    assert "secret" not in str(refused.value)
