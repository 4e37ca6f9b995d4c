import gzip
import shutil
import subprocess
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposition.tables import patiently
from penstock.exposition.gzip_stream import (
    HEADER,
    ISAL,
    ZLIB,
    Codec,
    Fragment,
    crc32_combine,
    trailer,
)

CODECS = [
    pytest.param(ZLIB, id="zlib"),
    pytest.param(
        ISAL,
        id="isal",
        marks=pytest.mark.skipif(ISAL is None, reason="isal is not installed here"),
    ),
]
BEYOND_FOUR_GIGABYTES = [
    pytest.param(
        ZLIB, id="zlib", marks=pytest.mark.nightly
    ),  # eight seconds, two gigabytes: it moves on by zeros
    CODECS[1],
]
NOISE = np.random.default_rng(1).bytes(300_000)


def member(codec: Codec, fragments: list[Fragment]) -> bytes:
    checksum = codec.checksum(fragment.checksum for fragment in fragments)
    return (
        HEADER + b"".join(fragment.data for fragment in fragments) + trailer(checksum)
    )


def inflate_single_member(stream: bytes) -> bytes:
    """As receivers do that stop at the end of the first member."""
    inflate = zlib.decompressobj(31)
    raw = inflate.decompress(stream)
    assert inflate.eof
    assert inflate.unused_data == b""
    return raw


@pytest.mark.parametrize("codec", CODECS)
@patiently
@given(
    parts=st.lists(
        st.binary(max_size=300)
        | st.builds(bytes.__mul__, st.binary(max_size=20), st.integers(0, 5000))
    )
)
def test_parts_become_one_member(codec: Codec, parts: list[bytes]) -> None:
    fragments = [codec.compress(part) for part in parts]
    stream = member(codec, fragments)
    assert inflate_single_member(stream) == b"".join(parts)
    assert gzip.decompress(stream) == b"".join(parts)
    assert [codec.inflate(fragment) for fragment in fragments] == parts


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 8191, 32_768, 65_535, 65_536, 300_000])
def test_data_that_does_not_shrink(codec: Codec, size: int) -> None:
    parts = [NOISE[:size], b"text " * 1000, NOISE[:size]]
    assert inflate_single_member(
        member(codec, [codec.compress(part) for part in parts])
    ) == b"".join(parts)


@pytest.mark.parametrize("codec", CODECS)
def test_a_fragment_stands_anywhere_and_needs_nothing_before_it(codec: Codec) -> None:
    one = codec.compress(b"the same words " * 200)
    other = codec.compress(b"the same words again " * 200)
    for order in ([one, other, one], [other, one], [other, other]):
        assert inflate_single_member(member(codec, order)) == b"".join(
            map(codec.inflate, order)
        )


@pytest.mark.skipif(ISAL is None, reason="isal is not installed here")
def test_fragments_of_both_libraries_mix() -> None:
    assert ISAL is not None
    fragments = [
        ISAL.compress(b"abc" * 500),
        ZLIB.compress(b"abc" * 500),
        ISAL.compress(b""),
    ]
    assert inflate_single_member(member(ZLIB, fragments)) == b"abc" * 1000
    assert member(ZLIB, fragments) == member(ISAL, fragments)


@patiently
@given(first=st.binary(), second=st.binary())
def test_crc_of_two_strings(first: bytes, second: bytes) -> None:
    assert crc32_combine(
        zlib.crc32(first), zlib.crc32(second), len(second)
    ) == zlib.crc32(first + second)


@pytest.mark.parametrize("codec", BEYOND_FOUR_GIGABYTES)
def test_crc_and_length_beyond_four_gigabytes(codec: Codec) -> None:
    piece = b"0123456789abcdef" * 2**18
    whole = part = codec.compress(piece).checksum
    for _ in range(10):  # doubled up to 4 GiB
        whole = codec.checksum((whole, whole))
    assert whole.length == len(piece) * 2**10
    assert trailer(whole)[-4:] == (0).to_bytes(4, "little")
    # The same crc from the other end: as many zero bits as the pieces that follow.
    crc = 0
    for _ in range(2**10):
        crc = codec.combine(crc, part.crc, part.length)
    assert whole.crc == crc


@pytest.mark.parametrize("codec", CODECS)
def test_the_gzip_command_finds_no_fault(codec: Codec) -> None:
    command = shutil.which("gzip")
    if command is None:
        pytest.skip("there is no gzip here")
    stream = member(codec, [codec.compress(b"mq_up 1\n" * 1000), codec.compress(NOISE)])
    done = subprocess.run(
        [command, "-t"], input=stream, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
