"""Values of the state as msgpack: columns as their bytes; what is kept over a restart is made of such values."""

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

import msgspec
import numpy as np

ValueT = TypeVar("ValueT")


def pack(value: Any) -> bytes:
    return msgspec.msgpack.encode(value, enc_hook=_to_bytes)


def unpack(content: bytes, kind: type[ValueT]) -> ValueT:
    """Raises ValueError: it is damaged."""
    try:
        return msgspec.msgpack.decode(content, type=kind, dec_hook=_from_bytes)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"is damaged ({error})") from None


def _to_bytes(value: Any) -> Any:
    match value:
        case np.ndarray():
            return value.tobytes()
        case Mapping():
            return dict(value)
        case np.generic():
            return value.item()
    raise TypeError(f"{type(value)} has no place in the state file")


def _from_bytes(kind: Any, value: Any) -> Any:
    """Columns; their type says of what."""
    (of,) = get_args(get_args(kind)[1])
    return np.frombuffer(value, of)
