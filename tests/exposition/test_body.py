import tracemalloc
import zlib

import numpy as np
import pytest

from exposition.tables import (
    blocks,
    everything,
    expected,
    parse,
    queues,
    row,
    samples,
    table,
)
from penstock.exposition.body import PIECE, Exposition
from penstock.exposition.catalogue import CATALOGUE
from penstock.exposition.gzip_stream import ISAL, ZLIB, Codec
from penstock.exposition.render import BLOCK, BrokerBlocks
from penstock.exposition.self_metrics import SelfMetrics
from penstock.exposition.syntax import END, Format

CODECS = [
    pytest.param(ZLIB, id="zlib"),
    pytest.param(
        ISAL,
        id="isal",
        marks=pytest.mark.skipif(ISAL is None, reason="isal is not installed here"),
    ),
]


def whole(
    exposition: Exposition, form: Format = Format.TEXT, *, gzip: bool = False
) -> bytes:
    body = b"".join(exposition.chunks(form, gzip=gzip))
    if not gzip:
        return body
    inflate = zlib.decompressobj(31)
    raw = inflate.decompress(body)
    assert inflate.eof
    assert not inflate.unused_data
    return raw


@pytest.fixture
def exposition() -> Exposition:
    return Exposition(lambda _: b"")


@pytest.mark.parametrize("form", Format)
@pytest.mark.parametrize("codec", CODECS)
def test_two_brokers_and_the_agent_in_one_body(codec: Codec, form: Format) -> None:
    exposition = Exposition(SelfMetrics("1.0").render, codec=codec)
    tables = {name: everything(name) for name in ("b1", "b2")}
    for name, shown in tables.items():
        made = BrokerBlocks(codec=codec)
        made.update(shown)
        exposition.set_broker(name, made)
    text = whole(exposition, form, gzip=True)
    found = samples(form, text)
    wanted = expected(CATALOGUE, tables["b1"]) | expected(CATALOGUE, tables["b2"])
    assert {key: value for key, value in found.items() if key[0].startswith("mq_")} == {
        key: value for key, value in wanted.items() if key[0].startswith("mq_")
    }
    names = [metric.name for metric in parse(form, text)]
    assert len(set(names)) == len(names)  # each family in one piece
    assert text.endswith(END[form])
    assert text.count(b"# EOF") == (form is Format.OPENMETRICS)


@pytest.mark.slow  # a large body
@pytest.mark.parametrize("form", Format)
def test_plain_and_gzip_are_the_same(exposition: Exposition, form: Format) -> None:
    exposition.set_broker("b", blocks(everything("b", BLOCK + 1)))
    assert whole(exposition, form) == whole(exposition, form, gzip=True)


def test_no_broker_at_all(exposition: Exposition) -> None:
    assert whole(exposition) == b""
    assert whole(exposition, gzip=True) == b""
    assert whole(exposition, Format.OPENMETRICS, gzip=True) == b"# EOF\n"


def test_a_broker_publishes_anew(exposition: Exposition) -> None:
    made = blocks(queues("b", messages=[1]))
    exposition.set_broker("b", made)
    assert b'queue="q0"} 1\n' in whole(exposition, gzip=True)
    made.update(queues("b", messages=[2]))
    assert b'queue="q0"} 2\n' in whole(exposition, gzip=True)


def test_a_broker_is_replaced_and_removed(exposition: Exposition) -> None:
    exposition.set_broker("b", blocks(queues("b", messages=[1])))
    exposition.set_broker("b", blocks(queues("b", messages=[2])))
    assert list(samples(Format.TEXT, whole(exposition)).values()) == [2]
    exposition.remove_broker("b")
    exposition.remove_broker("b")
    assert whole(exposition) == b""


@pytest.mark.parametrize("gzip", [False, True])
def test_a_body_keeps_the_view_it_began_with(
    exposition: Exposition, gzip: bool
) -> None:
    made = blocks(queues("b", messages=[1]))
    exposition.set_broker("b", made)
    body = exposition.chunks(Format.TEXT, gzip=gzip)
    made.update(queues("b", messages=[2]))
    exposition.remove_broker("b")
    text = b"".join(body)
    assert b'queue="q0"} 1\n' in (zlib.decompress(text, 31) if gzip else text)


def test_nothing_is_assembled_twice(exposition: Exposition) -> None:
    exposition.set_broker("b", blocks(queues("b", messages=[1])))
    first = exposition._current(Format.TEXT)
    assert exposition._current(Format.TEXT) is first
    assert exposition._current(Format.OPENMETRICS) is not first
    exposition.set_broker("c", blocks(queues("c", messages=[1])))
    assert exposition._current(Format.TEXT) is not first


@pytest.mark.parametrize("gzip", [False, True])
def test_pieces_are_neither_large_nor_many(exposition: Exposition, gzip: bool) -> None:
    noise = np.random.default_rng(1)
    rows = [
        row(broker="b", address=noise.bytes(300).hex(), queue=f"q{n}")
        for n in range(5000)
    ]
    exposition.set_broker(
        "b", blocks({"queue": table(rows, messages=np.arange(5000.0).tolist())})
    )
    exposition.set_broker("c", blocks(everything("c")))
    pieces = list(exposition.chunks(Format.TEXT, gzip=gzip))
    size = sum(map(len, pieces))
    assert size > 3 * PIECE / 2
    assert all(0 < len(piece) <= PIECE for piece in pieces)
    assert len(pieces) <= 2 * size / PIECE + 2


@pytest.mark.slow  # takes a second
def test_a_plain_body_is_never_whole_in_memory(exposition: Exposition) -> None:
    exposition.set_broker("b", blocks(everything("b", 8_000)))
    size = len(whole(exposition))
    tracemalloc.start()
    try:
        for _ in exposition.chunks(Format.TEXT, gzip=False):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 8_000_000
    assert peak < 2_000_000


def test_self_metrics_are_asked_once_per_body_and_format() -> None:
    asked = []

    def own(form: Format) -> bytes:
        asked.append(form)
        return b"x 1\n"

    exposition = Exposition(own)
    assert whole(exposition, Format.OPENMETRICS, gzip=True) == b"x 1\n# EOF\n"
    assert whole(exposition) == b"x 1\n"
    assert asked == [Format.OPENMETRICS, Format.TEXT]
