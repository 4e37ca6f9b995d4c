"""Durations and sizes: what is written, read and written back."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.values import (
    ascii_host,
    check_link,
    check_origin,
    format_duration,
    format_size,
    http_url,
    origin_of_url,
    parse_duration,
    parse_size,
    read_password,
    split_host,
)


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
        (" 15s\n", 15),
        (20, 20),
        (0.25, 0.25),
    ],
)
def test_duration(text: object, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "15 s",
        "-1s",
        "1s1m",
        "1w",
        "1m1m",
        "\u0661s",
        "1e3",
        "15S",
        None,
        True,
        [15],
        {},
    ],
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


@pytest.mark.parametrize(
    "text", ["", "MiB", "-1B", "64mib", "64M", "1  B", "1e3", 1.5, None, False, []]
)
def test_no_size(text: object) -> None:
    with pytest.raises(ValueError, match="is not a size; write 64B"):
        parse_size(text)


@given(st.integers(0, 10**9))
def test_what_is_written_is_read_back(number: int) -> None:
    assert parse_size(format_size(number)) == number
    assert parse_duration(format_duration(number / 1000)) == pytest.approx(
        number / 1000
    )


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


@pytest.mark.parametrize(
    ("content", "password"),
    [
        (b"secret", "secret"),
        (b"secret\n", "secret"),
        (b"secret\r\n", "secret"),
        (b"secret\n\n", "secret"),
        (b"secret\r\n\r\n", "secret"),
        (b"\xef\xbb\xbfsecret\r\n", "secret"),
        (b"secret \n", "secret "),
        (b" secret\t\n", " secret\t"),
        (b"one\ntwo\n", "one\ntwo"),
    ],
)
def test_a_password_is_without_byte_order_mark_and_line_ends(
    tmp_path: Path, content: bytes, password: str
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    assert read_password(file) == password


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\r\n\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"]
)
def test_a_file_without_a_password_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="is empty; write the password into it"):
        read_password(file)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("fe80::1%eth0", "fe80::1%eth0", None),
        ("[fe80::1%br-4f.100]:8161", "fe80::1%br-4f.100", 8161),
        ("[fe80::1%25eth0]:8161", "fe80::1%eth0", 8161),
        ("[fe80::1%25]:8161", "fe80::1%25", 8161),
        ("b\u00fccher.example", "b\u00fccher.example", None),
        ("\u65e5\u672c.example:8161", "\u65e5\u672c.example", 8161),
        ("xn--bcher-kva.example", "xn--bcher-kva.example", None),
    ],
)
def test_a_host_may_be_international_or_have_a_zone(
    text: str, host: str, port: int | None
) -> None:
    assert split_host(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "fe80::1%",
            "fe80::1%x/../y",
            "fe80::1%a b",
            "fe80::1%eth0%eth1",
            "fe80::1%" + 16 * "x",
            "10.0.0.1%eth0",
        ),
        *(
            "b\u00fc..cher",
            "b\u00fc cher",
            "\u00fc/x",
            "\u2100.example",
            "a\uff0fb",
            "\u00fc@x",
            "x\u200by",
            100 * "\u00fc",
        ),
    ],
)
def test_what_is_no_host_stays_none(text: str) -> None:
    with pytest.raises(ValueError, match="must be HOST or HOST:PORT"):
        split_host(text)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://h:8161/console/jolokia/", "http://h"),
        ("http://Host.Example/x", "http://Host.Example"),
        ("https://[::1]:8443/x", "https://[::1]"),
        ("http://[fe80::1%eth0]:8161/x", "http://[fe80::1]"),
        ("http://b\u00fccher.example:8161/x", "http://xn--bcher-kva.example"),
    ],
)
def test_an_origin_is_what_a_browser_would_send(url: str, origin: str) -> None:
    http_url(url)
    assert origin_of_url(url) == origin


def test_an_origin_in_the_configuration_is_sent_in_ascii() -> None:
    assert (
        check_origin("http://b\u00fccher.example:8161")
        == "http://xn--bcher-kva.example:8161"
    )
    assert check_origin("http://Host.Example:8161/") == "http://Host.Example:8161"


def test_a_name_that_no_resolver_takes_is_no_url() -> None:
    assert ascii_host("h.example") == "h.example"
    with pytest.raises(ValueError, match="is not a URL"):
        http_url("http://b\u00fc..cher/")
