import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exposition.tables import parse, patiently, row
from penstock.exposition.catalogue import Family
from penstock.exposition.syntax import END, Format, header, label_texts
from penstock.model import QueueKind

ANY_TEXT = st.text(st.characters(exclude_categories=()))


def printable(value: str) -> str:
    """What is left of a label value that UTF-8 and Prometheus' lexer can carry."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if c == "\0" or "\ud800" <= c <= "\udfff" else c
        for c in value
    )


@pytest.mark.parametrize("form", Format)
@patiently
@given(values=st.lists(ANY_TEXT, min_size=2, max_size=2))
@example(values=['a "quoted" \\ name\n', "\\n\\\\\\"])
@example(values=["half \udc80 of a pair", "nul \0 inside"])
@example(values=["} 1\nmq_up 0", '{x="y",} # EOF, \r\x85\u2028'])
def test_any_label_value_comes_back(form: Format, values: list[str]) -> None:
    (labels,) = label_texts(
        ("address", "queue"), [row(address=values[0], queue=values[1])]
    )
    body = (
        b"# TYPE mq_queue_messages gauge\nmq_queue_messages"
        + labels
        + b"7\n"
        + END[form]
    )
    (metric,) = parse(form, body)
    (sample,) = metric.samples
    assert sample.labels == {
        "address": printable(values[0]),
        "queue": printable(values[1]),
    }
    assert sample.value == 7


def test_values_that_are_no_text() -> None:
    (labels,) = label_texts(
        ("durable", "kind", "owner"),
        [row(durable=True, kind=QueueKind.DEAD_LETTER, owner=None)],
    )
    assert labels == b'{durable="true",kind="dead_letter",owner=""} '


def test_no_labels() -> None:
    assert label_texts((), [row()]) == [b" "]


@pytest.mark.parametrize(
    ("name", "form", "lines"),
    [
        ("x_total", Format.TEXT, b"# TYPE x_total counter"),
        ("x_total", Format.OPENMETRICS, b"# TYPE x counter"),
        ("x_info", Format.TEXT, b"# TYPE x_info gauge"),
        ("x_info", Format.OPENMETRICS, b"# TYPE x info"),
        ("x_seconds", Format.TEXT, b"# TYPE x_seconds gauge"),
        ("x_seconds", Format.OPENMETRICS, b"# TYPE x_seconds gauge"),
    ],
)
def test_type_line(name: str, form: Format, lines: bytes) -> None:
    family = Family(name, "Help.", "here")
    assert header(family, form).splitlines()[1] == lines


@pytest.mark.parametrize(
    ("form", "escaped"),
    [
        (Format.TEXT, rb'A "b" \\ \nc. Source: d.'),
        (Format.OPENMETRICS, rb"A \"b\" \\ \nc. Source: d."),
    ],
)
def test_help_line(form: Format, escaped: bytes) -> None:
    family = Family("x", 'A "b" \\ \nc.', "d")
    assert header(family, form) == b"# HELP x " + escaped + b"\n# TYPE x gauge\n"
    (metric,) = parse(form, header(family, form) + b"x 1\n" + END[form])
    assert metric.documentation == family.documentation
