import gzip

import pytest

from exposition.tables import blocks, everything, samples
from penstock.exposition.body import Exposition
from penstock.exposition.catalogue import CATALOGUE
from penstock.exposition.negotiate import MOST, FamilyFilter, UnknownFamily, families
from penstock.exposition.self_metrics import SelfMetrics
from penstock.exposition.syntax import END, Format


@pytest.fixture
def exposition() -> Exposition:
    made = Exposition(SelfMetrics("1.0").render)
    for name in ("b1", "b2"):
        made.set_broker(name, blocks(everything(name)))
    return made


def names(exposition: Exposition, form: Format, choice: FamilyFilter) -> set[str]:
    """Of the samples in a body."""
    body = gzip.decompress(b"".join(exposition.chunks(form, gzip=True, choice=choice)))
    assert body.endswith(END[form])
    return {name for name, _ in samples(form, body)}


@pytest.mark.parametrize("form", Format)
def test_parts_make_the_whole(exposition: Exposition, form: Format) -> None:
    everything_there = names(exposition, form, FamilyFilter())
    some = names(exposition, form, FamilyFilter(("mq_client_*", "mq_consumer_*")))
    others = names(
        exposition, form, FamilyFilter(without=("mq_client_*", "mq_consumer_*"))
    )
    assert some == {
        name
        for name in everything_there
        if name.startswith(("mq_client_", "mq_consumer_"))
    }
    assert len(some) > 10
    assert others == everything_there - some


@pytest.mark.parametrize("form", Format)
@pytest.mark.parametrize(
    "name",
    [
        "mq_queue_messages_added_total",
        "mq_broker_info",
        "process_cpu_seconds_total",
        "penstock_build_info",
    ],
)
def test_one_family_by_the_name_of_its_samples(
    exposition: Exposition, form: Format, name: str
) -> None:
    assert names(exposition, form, FamilyFilter((name,))) == {name}


def test_a_name_that_is_not_there_is_told_before_anything_is_sent(
    exposition: Exposition,
) -> None:
    for choice in (
        FamilyFilter(("mq_queue_mesages",)),
        FamilyFilter(without=("mq_nothing_*",)),
        FamilyFilter(("*a",) * 2 + ("",)),
    ):
        with pytest.raises(UnknownFamily, match="no metric is named"):
            exposition.chunks(Format.TEXT, gzip=True, choice=choice)
    with pytest.raises(UnknownFamily, match="at most"):
        exposition.chunks(
            Format.TEXT,
            gzip=True,
            choice=FamilyFilter(tuple(f"*{n}" for n in range(MOST + 1))),
        )


def test_what_is_in_the_catalogue_and_not_there_now_is_no_error() -> None:
    empty = Exposition(lambda _: b"")
    for family in CATALOGUE:
        assert (
            b"".join(
                empty.chunks(
                    Format.TEXT, gzip=False, choice=FamilyFilter((family.name,))
                )
            )
            == b""
        )


def test_families_of_a_text() -> None:
    text = b"# HELP a_b c\n# TYPE a_b counter\na_b_total 1\n# HELP d e # HELP f\n# TYPE d gauge\nd 2\n"
    assert list(families(text)) == ["a_b_total", "d"]
    assert b"".join(families(text).values()) == text
