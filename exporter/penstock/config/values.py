"""The kinds of value that a configuration holds: durations, sizes, texts with `${ENV}`, patterns, files."""

import errno
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

import pydantic
from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainSerializer,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
)
from yarl import URL

if TYPE_CHECKING:
    from penstock.config.discovery import Profile

ValueT = TypeVar("ValueT")

DURATION_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
SIZE_UNITS = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}

_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
NAME_IN_BRACES = rf"\$\{{({_VARIABLE})\}}"
SHORTEST_SECRET = 4
"""Characters; what is shorter is part of too many words, and keeps nothing secret."""

_NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
_DURATION = "".join(f"(?:({_NUMBER}){unit})?" for unit in DURATION_UNITS)
_SIZE = rf"({_NUMBER}) ?({'|'.join(SIZE_UNITS)})"


@dataclass
class Reading:
    """What validation must know beside the value itself; pydantic's context, filled during validation."""

    directory: Path = Path()
    """Relative file names are relative to it: the directory of the configuration file."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    names: set[str] = field(default_factory=set)
    """Names of brokers met so far."""
    interval: float | None = None
    """The general interval, which a broker's timeout must stay below; None while it is not known."""
    profiles: Mapping[str, "Profile"] | None = None
    """The connection profiles that a source of brokers may name, the usual one first; None while not known."""
    expanded: dict[str, str] = field(default_factory=dict, repr=False)
    """What was taken from the environment so far, by the name of the variable."""

    @classmethod
    def of(cls, info: ValidationInfo) -> "Reading":
        return info.context if isinstance(info.context, Reading) else cls()


def parse_duration(value: object) -> float:
    """Seconds of `15s`, `1m30s`, `500ms`, or of a plain number. ValueError says what is allowed."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = value.strip() if isinstance(value, str) else ""
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return float(text)
    if text and (found := re.fullmatch(_DURATION, text, re.ASCII)):
        return sum(
            float(n) * unit
            for n, unit in zip(found.groups(), DURATION_UNITS.values(), strict=True)
            if n
        )
    raise ValueError(
        f"{shown(value)} is not a duration; write 500ms, 15s, 1m30s, 2h, 1d or a number of seconds"
    )


def format_duration(seconds: float) -> str:
    """The shortest text that `parse_duration` reads back; milliseconds are the finest."""
    left = round(seconds * 1000)
    text = ""
    for unit, size in DURATION_UNITS.items():
        count, left = divmod(left, round(size * 1000))
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def parse_size(value: object) -> int:
    """Bytes of `64MiB`, `10MB`, or of a plain number. ValueError says what is allowed."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if re.fullmatch(r"\d{1,18}", text, re.ASCII):
        return int(text)
    if found := re.fullmatch(_SIZE, text, re.ASCII):
        return int(float(found[1]) * SIZE_UNITS[found[2]])
    raise ValueError(
        f"{shown(value)} is not a size; write {', '.join(f'64{unit}' for unit in SIZE_UNITS)} or bytes"
    )


def format_size(size: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % SIZE_UNITS[unit] == 0:
            return f"{size // SIZE_UNITS[unit]}{unit}"
    return f"{size}B"


def between(
    least: float, most: float, show: Callable[[Any], str] = format_duration
) -> AfterValidator:
    """Bounds, reported in the unit that the value is written in: of durations unless another is given."""

    def check(value: float) -> float:
        if not value >= least:  # NaN too
            raise ValueError(f"must be at least {show(least)}")
        if value > most:
            raise ValueError(f"must be at most {show(most)}")
        return value

    return AfterValidator(check)


def refusing(check: Callable[[str], object]) -> AfterValidator:
    """Refuses a text for which `check` raises ValueError, and takes any other as it is."""

    def passed(value: str) -> str:
        check(value)
        return value

    return AfterValidator(passed)


def shown(value: object) -> str:
    """A value within an error text; never used on what may be secret."""
    text = value if isinstance(value, str) else repr(value)
    return (
        f"'{text[:60]}{'…' if len(text) > 60 else ''}'"
        if text.isprintable()
        else "this"
    )


def expand(value: object, info: ValidationInfo) -> object:
    """`${NAME}` → the environment's value, `$$` → `$`. The error names the variable, never a value."""
    if not isinstance(value, str):
        return value
    reading = Reading.of(info)
    environ = reading.environ

    def one(found: re.Match[str]) -> str:
        name: str | None = found["name"]
        if name is None:
            if found[0] == "$$":
                return "$"
            raise ValueError(
                "'${' is not followed by a variable's name and '}'; for a literal $ write $$"
            )
        if name not in environ:
            raise ValueError(
                f"environment variable {name} is not set; set it, or for a literal $ write $$"
            )
        if re.search(
            "[\ud800-\udfff]", environ[name]
        ):  # how Python carries bytes that are no text
            raise ValueError(f"environment variable {name} is not UTF-8 text")
        reading.expanded[name] = environ[name]
        return environ[name]

    return re.sub(rf"\$\$|\$\{{(?:(?P<name>{_VARIABLE})\}})?", one, value)


def mask(text: str, expanded: Mapping[str, str]) -> str:
    """`text` with `${NAME}` in place of each value of `expanded` that is long enough to be a secret."""
    for name, value in sorted(expanded.items(), key=lambda item: -len(item[1])):
        if len(value) >= SHORTEST_SECRET:
            for form in (
                value,
                value.lower(),
                quote(value),
                quote(value, safe=""),
            ):  # as URLs and hosts are written
                text = text.replace(form, f"${{{name}}}")
    return text


def not_expanded(value: str) -> str:
    """For texts of files that the operator does not write alone."""
    if "${" in value:
        raise ValueError(
            "may take nothing from the environment; ${NAME} is for the main configuration file"
        )
    return value


def check_origin(value: str) -> str:
    parts = http_url(value)
    if parts.path not in ("", "/"):
        raise ValueError("must be only scheme://host[:port], as a browser sends it")
    port = "" if parts.port is None else f":{parts.port}"
    return value.rstrip("/") if value.isascii() else origin_of_url(value) + port


_ZONE_OF_URL = re.compile(r"(\[[0-9A-Fa-f:.]+)%25(?=[^\]]+\])")


def plain_zone(text: str) -> str:
    """A URL or HOST:PORT with the zone of an IPv6 address as the system writes it: `[fe80::1%eth0]`.

    In a URL the mark before a zone may be written `%25` (RFC 6874). `[fe80::1%25]` is zone 25.
    """
    return _ZONE_OF_URL.sub(r"\1%", text, count=1)


def host_port(value: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; a host of IPv6 is in brackets."""
    try:
        parts = urlsplit(f"//{plain_zone(value)}")
        host = parts.hostname
        port = parts.port
    except ValueError:
        host = port = None
    if (
        not host
        or not port
        or "@" in value
        or parts.path
        or parts.query
        or re.search(r"[\s\\]", value)
    ):
        raise ValueError("must be HOST:PORT")
    return host, port


def jmx_url(value: str, *, port_mapper: bool) -> None:
    """The errors never show the URL: it may hold a password."""
    if port_mapper and value.startswith("mq://"):
        try:
            host_port(value.removeprefix("mq://").removesuffix("/"))
        except ValueError:
            raise ValueError(
                "must be mq://HOST:PORT with the port of the broker's port mapper"
            ) from None
        return
    if not re.fullmatch(r"service:jmx:[a-z]+://[!-~]*", value):
        also = "mq://HOST:PORT or " if port_mapper else ""
        raise ValueError(
            f"must be {also}service:jmx:rmi:///jndi/rmi://HOST:PORT/…, as transport is JMX"
        )
    if "@" in value:
        raise ValueError(
            "must not hold credentials; put them into username and password or password_file"
        )


def http_url(value: str) -> SplitResult:
    """The parts of an http or https URL without credentials. The errors never show the URL: it may hold a password."""
    try:
        parts = urlsplit(value)
        host = ascii_host(parts.hostname or "")
        _ = parts.port
    except ValueError:
        raise ValueError("is not a URL; write http://host:port/path") from None
    if (
        parts.scheme not in ("http", "https")
        or not host
        or re.search(r"[\s\\]", value)
        or not value.isprintable()
    ):
        raise ValueError("must be http://host:port/path or https://host:port/path")
    if "@" in parts.netloc:
        raise ValueError(
            "must not hold credentials; put them into username and password or password_file"
        )
    if parts.query or parts.fragment:
        raise ValueError("must not hold a query (?…) or fragment (#…)")
    return parts


LINK_NAME = re.compile(r"\{(broker|address|queue|client|condition)\}")


def check_link(value: str) -> None:
    """An http or https URL with such names; in its host only the broker's."""
    http_url(re.split(r"[?#{]", value.replace("{broker}", "name"), maxsplit=1)[0])
    if set("{}").intersection(LINK_NAME.sub("", value)):
        raise ValueError(
            "may hold no names but {broker}, {address}, {queue}, {client} and {condition}"
        )


_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?")


def split_host(value: str) -> tuple[str, int | None]:
    """Host and port of `HOST` or `HOST:PORT`; IPv6 in brackets where there is a port.

    A host is a name or an address and nothing else. The errors never show the value: it may hold a password.
    """
    if _is_ipv6(value):
        return value, None
    has_port = re.search(r":[0-9]+$", value) is not None
    try:
        host, port = host_port(value if has_port else f"{value}:1")
    except ValueError:
        raise ValueError(_NO_HOST) from None
    if not is_host(host):
        raise ValueError(_NO_HOST)
    return host, port if has_port else None


_ZONE = re.compile(r"[A-Za-z0-9._-]{1,15}")
"""What Linux calls a network interface, as far as it needs no quotes in a URL."""
_NO_HOST = "must be HOST or HOST:PORT, a name or an address without scheme, user, password or path"


def is_host(text: str) -> bool:
    """Whether it is a name or an address, and so can be put into a URL. Letters of any language may be in a name."""
    try:
        name = ascii_host(text)
    except ValueError:
        return False
    return _HOST_NAME.fullmatch(name) is not None or _is_ipv6(name)


def ascii_host(host: str) -> str:
    """A host as DNS, headers and Java want it: an international name in its form of ASCII, `xn--bcher-kva.example`.

    ValueError: the name has no such form.
    """
    if host.isascii():
        return host
    name = URL.build(scheme="http", host=host).raw_host
    if name is None or not name.isascii():
        raise ValueError("is no name of a host")
    return name


def _is_ipv6(text: str) -> bool:
    """An address, also one that holds in a zone: `fe80::1%eth0`. The zone is the name of a network interface."""
    address, separator, zone = text.partition("%")
    if separator and not _ZONE.fullmatch(zone):
        return False
    try:
        return bool(IPv6Address(address))
    except ValueError:
        return False


def origin_of_url(url: str) -> str:
    """Scheme and host of a URL as a browser names them in the header Origin: in ASCII, without port and zone."""
    parts = urlsplit(url)
    host = ascii_host(parts.netloc.removesuffix(f":{parts.port}"))
    return f"{parts.scheme}://{re.sub('%[^]]*', '', host)}"


def existing_file(value: object, info: ValidationInfo) -> object:
    """A file that can be read now, as an absolute path; relative to the configuration's directory."""
    if not isinstance(value, str):
        return value
    if not value:
        raise ValueError("must not be empty")
    path = Reading.of(info).directory / value
    read_file(path, limit=1)
    return path.absolute()


def read_file(path: Path, *, limit: int, regular: bool = False) -> bytes:
    """At most `limit` bytes of it. ValueError when it cannot be read, with the reason.

    regular: refuse at once what is no regular file, such as a FIFO, which could keep the reader waiting.
    """
    try:
        with open(path, "rb", opener=_open_regular if regular else None) as file:
            return file.read(limit)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:
        raise ValueError("is not a file name") from None


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file")
    return descriptor


MAX_PASSWORD_BYTES = 4096


def read_password(path: Path) -> str:
    """The password in a file, without a byte order mark and the line ends at its end. ValueError when there is none.

    Blanks stay: they may be part of it. `penstock check` names a password that has one at its end.
    """
    content = read_file(path, limit=MAX_PASSWORD_BYTES + 1)
    if len(content) > MAX_PASSWORD_BYTES:
        raise ValueError(
            f"{path} is larger than {MAX_PASSWORD_BYTES} bytes; it must hold the password only"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    password = text.rstrip("\r\n")
    if not password:
        raise ValueError(f"{path} is empty; write the password into it")
    return password


def one_password(file: Path | None, info: ValidationInfo) -> Path | None:
    """A file of a password that can be read, and nothing else."""
    if file is not None:
        if info.data.get("inline_password", info.data.get("password")) is not None:
            raise ValueError(
                "is given together with password; give only one of the two"
            )
        read_password(file)
    return file


_escape_dollar = PlainSerializer(lambda text: text.replace("$", "$$"), return_type=str)


def one_text(
    parse: Callable[..., ValueT], text: Callable[[ValueT], str], of: str, *others: str
) -> tuple[object, ...]:
    """A value that is written as one text. of: what it is, for the JSON schema; others: types that are read as well."""
    return (
        BeforeValidator(parse),
        PlainSerializer(text, return_type=str),
        WithJsonSchema(
            {"type": ["string", *others] if others else "string", "description": of}
        ),
    )


Duration = Annotated[
    float,
    *one_text(
        parse_duration,
        format_duration,
        "Duration such as 500ms, 15s, 1m30s; a number is seconds",
        "number",
    ),
]
Size = Annotated[
    int,
    *one_text(
        parse_size, format_size, "Size such as 64MiB; a number is bytes", "integer"
    ),
]
Text = Annotated[str, pydantic.StringConstraints(min_length=1, max_length=1000)]
PlainText = Annotated[Text, AfterValidator(not_expanded)]
Link = Annotated[Text, refusing(check_link)]
EnvText = Annotated[Text, BeforeValidator(expand), _escape_dollar]
EnvSecret = Annotated[
    SecretStr, pydantic.StringConstraints(min_length=1), BeforeValidator(expand)
]
File = Annotated[
    Path,
    *one_text(existing_file, str, "File name, relative to the directory of this file"),
]
