"""Values of the state as msgpack: columns as their bytes; what is kept over a restart is made of such values."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any, TypeVar, get_args, get_origin

import msgspec
import numpy as np

from penstock.core.table import Index, pieces
from penstock.exposition.gzip_stream import CODEC

COLUMN_BYTES = 256 * 1024
FEW = 15
NO_COMPRESSION = 0
COMPRESSION_LEVEL = 1
MAX_CONTENT_BYTES = 1 << 26
MAX_COMPRESSION = 200
"""A stream may hold so many bytes, or so many times its own length if that is more: anything longer is a bomb."""

ValueT = TypeVar("ValueT")


def pack(value: object) -> bytes:
    return msgspec.msgpack.encode(value, enc_hook=_to_bytes)


def compressed(value: object) -> bytes:
    """Pack the value as a zlib stream, whose checksum finds damage that SQLite does not."""
    deflate = CODEC.module.compressobj(COMPRESSION_LEVEL)
    parts = [deflate.compress(piece) for piece in packed_in_pieces(value)]
    return b"".join([*parts, deflate.flush()])


def checksummed(content: bytes) -> bytes:
    """Return a zlib stream that holds the content as it is: for what each poll writes, compression costs too much."""
    return zlib.compress(content, NO_COMPRESSION)


def decompressed(stream: bytes) -> bytes:
    """Return what a zlib stream holds. Raises ValueError: it is damaged, or holds more than any state has."""
    limit = max(MAX_CONTENT_BYTES, MAX_COMPRESSION * len(stream))
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(stream, limit + 1)
    except zlib.error as error:
        raise ValueError(f"is damaged ({error})") from None
    if len(content) > limit:
        raise ValueError(f"unpacks to more than {limit:,} bytes")
    if not inflate.eof:
        raise ValueError("is cut off")
    return content


def packed_in_pieces(value: object) -> Iterator[bytes]:
    """As `pack`, but for how lengths are written: what is known of a large broker is a tenth of a second of packing."""
    match value:
        case np.ndarray():
            octets = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            yield b"\xc6" + len(octets).to_bytes(4)
            for some in pieces(len(octets), COLUMN_BYTES):
                yield octets[some].tobytes()
        case Mapping():
            yield b"\xdf" + len(value).to_bytes(4)
            for part in chain.from_iterable(value.items()):
                yield from packed_in_pieces(part)
        case list() | tuple():
            yield b"\xdd" + len(value).to_bytes(4)
            for some in pieces(len(value) if len(value) > FEW else 0):
                yield pack(value[some])[1 if len(value[some]) <= FEW else 3 :]
            yield from chain.from_iterable(
                map(packed_in_pieces, value if len(value) <= FEW else ())
            )
        case Index():
            yield from packed_in_pieces(_rows_by_key(value))
        case _ if is_dataclass(value):
            yield from packed_in_pieces(
                {part.name: getattr(value, part.name) for part in fields(value)}
            )
        case _:
            yield pack(value)


def unpack(content: bytes, kind: type[ValueT]) -> ValueT:
    """Raises ValueError: it is damaged."""
    try:
        return msgspec.msgpack.decode(content, type=kind, dec_hook=_from_bytes)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"is damaged ({error})") from None


def _rows_by_key(index: Index[object]) -> dict[str, object]:
    return {"keys": index.keys, "rows": index.rows.tolist()}


def _to_bytes(value: object) -> object:
    match value:
        case np.ndarray():
            return value.tobytes()
        case Mapping():
            return dict(value)
        case np.generic():
            return value.item()
        case Index():
            return _rows_by_key(value)
    raise TypeError(f"{type(value)} has no place in the state database")


def _from_bytes(kind: Any, value: Any) -> Any:
    """Columns and indexes; of what is their type."""
    if get_origin(kind) is Index:
        rows = msgspec.convert(value["rows"], list[get_args(kind)[0]])  # type: ignore[misc]
        keys = np.frombuffer(value["keys"], np.int64)
        return Index.empty().advance(keys, lambda new: [rows[i] for i in new])[0]
    (dtype,) = get_args(get_args(kind)[1])
    return np.frombuffer(value, dtype)
