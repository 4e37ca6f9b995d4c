import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposition.tables import patiently
from penstock.exposition.negotiate import accepts_gzip, answer
from penstock.exposition.syntax import Format

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping="
UNDERSCORES = OPENMETRICS + "underscores"
UTF8 = OPENMETRICS + "allow-utf-8"

PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3_PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,"
    + PROMETHEUS_3
)
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, TEXT),
        ("", TEXT),
        ("*/*", TEXT),
        (BROWSER, TEXT),
        (PROMETHEUS_2, UNDERSCORES),
        (PROMETHEUS_3, UTF8),
        (PROMETHEUS_3_PROTOBUF, UTF8),
        ("text/plain", TEXT),
        ("text/*", TEXT),
        ("application/openmetrics-text", UNDERSCORES),
        ("application/*", UNDERSCORES),
        ("APPLICATION/OpenMetrics-Text; Version=1.0.0; Q=1", UNDERSCORES),
        ('application/openmetrics-text; version="1.0.0"; charset="a,b;c"', UNDERSCORES),
        # versions that are not produced
        ("application/openmetrics-text;version=0.0.1", TEXT),
        ("application/openmetrics-text;version=2.0.0", TEXT),
        ("application/openmetrics-text;version=9.9.9, text/plain;q=0.1", TEXT),
        (
            "application/openmetrics-text;version=0.0.1, application/openmetrics-text;version=1.0.0;q=0.1",
            UNDERSCORES,
        ),
        ("text/plain;version=1.0.0", TEXT),
        (
            "text/plain;version=1.0.0, application/openmetrics-text;version=1.0.0;q=0.1",
            UNDERSCORES,
        ),
        ("application/json", TEXT),
        # quality
        (
            "application/openmetrics-text;version=1.0.0;q=0.2, text/plain;version=0.0.4;q=0.3",
            TEXT,
        ),
        (
            "text/plain;version=0.0.4;q=0.3, application/openmetrics-text;version=1.0.0;q=0.31",
            UNDERSCORES,
        ),
        ("application/openmetrics-text;version=1.0.0;q=0", TEXT),
        ("application/openmetrics-text;version=1.0.0;q=0, */*", TEXT),
        ("text/plain;q=0, */*", UNDERSCORES),
        ("text/plain;q=0", TEXT),
        # the same quality: the more exact one, then the first
        ("*/*, application/openmetrics-text", UNDERSCORES),
        (
            "application/openmetrics-text;version=1.0.0, text/plain;version=0.0.4",
            UNDERSCORES,
        ),
        ("text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0", TEXT),
        # malformed elements are as if they were not there
        ("application/openmetrics-text;q=2", TEXT),
        ("application/openmetrics-text;q=nan, text/plain;q=0.1", TEXT),
        (",,;q=1, ;, application/openmetrics-text", UNDERSCORES),
        ('application/openmetrics-text; version="1.0.0', UNDERSCORES),
    ],
)
def test_format(accept: str | None, content_type: str) -> None:
    assert answer(accept).content_type == content_type
    assert answer(accept).format is (
        Format.TEXT if content_type == TEXT else Format.OPENMETRICS
    )


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("allow-utf-8", UTF8),
        ("allow-utf8", UTF8),
        ("Allow-UTF-8", UTF8),
        ("underscores", UNDERSCORES),
        ("dots", UNDERSCORES),
        ("values", UNDERSCORES),
        ("whatever", UNDERSCORES),
    ],
)
def test_escaping(asked: str, answered: str) -> None:
    assert (
        answer(
            f"application/openmetrics-text; version=1.0.0; escaping={asked}"
        ).content_type
        == answered
    )
    assert answer(f"text/plain; version=0.0.4; escaping={asked}").content_type == TEXT


@pytest.mark.slow  # a large body
@patiently
@given(st.text() | st.text(alphabet='*/,;="\\ .qtextplainversion0149'))
def test_nothing_asked_comes_back(accept: str) -> None:
    assert answer(accept).content_type in {TEXT, UNDERSCORES, UTF8}
    accepts_gzip(accept)


@pytest.mark.parametrize(
    ("accept_encoding", "gzip"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("gzip, deflate, br", True),
        ("deflate", False),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("gzip;q=0.001", True),
        ("identity", False),
        ("identity;q=0.5, gzip;q=1.0", True),
        ("identity;q=1, gzip;q=0.5", False),
        ("identity;q=0, *;q=0", False),
        ("gzip;q=banana", False),
        ("notgzip", False),
    ],
)
def test_encoding(accept_encoding: str | None, gzip: bool) -> None:
    assert accepts_gzip(accept_encoding) is gzip
