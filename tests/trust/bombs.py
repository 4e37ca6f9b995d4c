"""Answers that are meant to do harm: by size, by depth, by what they unpack to, by having no end."""

import gzip
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping

Bomb = Callable[[], Iterable[bytes]]

CHUNK = 256 * 1024
GIGABYTE = 2**30
OK = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def whole(body: bytes, *headers: str) -> Iterator[bytes]:
    lines = "".join(f"{header}\r\n" for header in headers)
    yield f"{OK}{lines}Content-Length: {len(body)}\r\n\r\n".encode()
    yield body


def gigabyte() -> Iterator[bytes]:
    """As long as it says: 1 GiB."""
    yield f"{OK}Content-Length: {GIGABYTE}\r\n\r\n".encode()
    yield from itertools.repeat(b" " * CHUNK, GIGABYTE // CHUNK)


def endless() -> Iterator[bytes]:
    """Chunks for ever."""
    yield f"{OK}Transfer-Encoding: chunked\r\n\r\n".encode()
    yield from itertools.repeat(b"%x\r\n%s\r\n" % (CHUNK, b"[" * CHUNK))


def endless_headers() -> Iterator[bytes]:
    yield OK.encode()
    yield from itertools.repeat(b"X-More: yes\r\n" * 1000)


def endless_header() -> Iterator[bytes]:
    yield OK.encode() + b"X-Long: "
    yield from itertools.repeat(b"x" * CHUNK)


def compressed() -> Iterator[bytes]:
    """1 MB that unpacks to 1 GiB."""
    members = gzip.compress(b" " * (64 * 2**20), 9) * 16
    return whole(members, "Content-Encoding: gzip")


def nested() -> Iterator[bytes]:
    return whole(b"[" * 20_000_000)


def nested_value() -> Iterator[bytes]:
    """Nesting where any value is allowed."""
    depth = 5_000_000
    return whole(
        b'[{"status":200,"value":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}]"
    )


def nested_text() -> Iterator[bytes]:
    """JSON in a text in JSON, as listings are, in all three answers of the first call."""
    text = json.dumps('{"data":' + "[" * 1_000_000)
    return whole(
        ("[" + ",".join([f'{{"status":200,"value":{text}}}'] * 3) + "]").encode()
    )


def many_answers() -> Iterator[bytes]:
    """Millions of small answers to three requests."""
    return whole(b"[" + b",".join([b'{"status":200}'] * 4_000_000) + b"]")


def many_brokers() -> Iterator[bytes]:
    """One answer with hundreds of thousands of MBeans."""
    beans = ",".join(
        f'"x:broker=\\"{number}\\"":{{"Version":"2.44.0"}}' for number in range(500_000)
    )
    return whole(
        f'[{{"status":200,"value":{{{beans}}}}},{{"status":404}},{{"status":404}}]'.encode()
    )


def long_number() -> Iterator[bytes]:
    return whole(b'[{"status":' + b"1" * 10_000_000 + b"}]")


BOMBS: Mapping[str, Bomb] = {
    bomb.__name__: bomb
    for bomb in (
        gigabyte, endless, endless_headers, endless_header, compressed, nested, nested_value, nested_text, many_answers,
        many_brokers, long_number,
    )
}  # fmt: skip
