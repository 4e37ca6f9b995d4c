"""Brokers that are not known in advance: names in DNS and files name targets, profiles say how these are asked.

The writer of a file, and those who answer for DNS, choose hosts, names and labels. What carries rights is in the main
file: programs, files, credentials, what is read of the environment.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo, model_validator
from pydantic import field_validator as check

from penstock.config.broker import Broker, Pattern, Transport, check_labels, unique_name
from penstock.config.section import Section
from penstock.config.values import (
    Duration,
    EnvText,
    PlainText,
    Reading,
    Text,
    ascii_host,
    between,
    is_host,
    refusing,
    shown,
    split_host,
)
from penstock.settings.rules import compile_pattern

HOST = "{host}"
NAME = "{name}"
PORT = "{port}"
_WITHOUT_PORT = re.compile(r"^(https?://\{host\})(?=[/?#]|$)")

MAX_TARGETS = 1000
"""In one file, and in all of one pattern."""


class Profile(Broker):
    """How brokers that are found are polled. `{name}` is replaced by a broker's name, `{host}` by its host,
    `{port}` by the port that was found with it, which is also used where an HTTP url names none.
    """

    name: EnvText = NAME
    hosts: tuple[Pattern, ...] = ()

    @check("name")
    @classmethod
    def _named(cls, value: str) -> str:
        """Refuse a name that would be the same for all brokers."""
        if NAME not in value:
            raise ValueError(
                f"must hold {NAME}, so that each broker found has a name of its own"
            )
        return value

    @check("url")
    @classmethod
    def _usable_url(cls, value: str, info: ValidationInfo) -> str:
        """Refuse a URL without a place for the host."""
        if info.data.get("transport") is Transport.RECORDING:
            raise ValueError("must be that of a broker: a recording cannot be found")
        super()._usable_url(value.replace(PORT, "1"), info)
        if HOST not in value:
            raise ValueError(
                f"must contain {HOST}, which is replaced by the host of each broker found"
            )
        return value

    def takes_port(self) -> bool:
        """Whether the port that is found is used: the URL asks for it, or is one of HTTP that names no other."""
        return PORT in self.url or _WITHOUT_PORT.search(self.url) is not None

    def broker(
        self,
        name: str,
        host: str,
        port: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Broker:
        """The broker `name` at `host` (a name or an address) and `port`, where that is known.

        Raises ValueError, with a text that shows none of these, where the profile is not for such brokers.
        """
        if not is_host(host):  # a name in DNS may hold any character
            raise ValueError("has a host that is neither a name nor an address")
        host = ascii_host(host)
        if not self._allows(host):
            raise ValueError("has a host that is not among the hosts of its profile")
        if port is None and PORT in self.url:
            raise ValueError(
                f"names no port, and the url of its profile holds {PORT}; write HOST:PORT"
            )

        def filled(key: str, text: str) -> str:
            """Return a text of the profile with host, port and name in their places."""
            if key == "url" and port is not None:
                text = _WITHOUT_PORT.sub(rf"\1:{PORT}", text).replace(PORT, str(port))
            if key == "name":
                return text.replace(NAME, name)
            if key == "server_name":  # no certificate names a zone
                return text.replace(HOST, host.partition("%")[0])
            return text.replace(HOST, f"[{host}]" if ":" in host else host)

        values = {key: getattr(self, key) for key in Broker.model_fields}
        values |= {
            key: filled(key, text)
            for key in ("name", "url", "port_mapper")
            if (text := values[key])
        }
        values["labels"] = {**(labels or {}), **self.labels}
        if self.tls.server_name is not None:
            server_name = filled("server_name", self.tls.server_name).replace(
                NAME, name
            )
            values["tls"] = self.tls.model_copy(update={"server_name": server_name})
        broker_found = Broker.model_construct(**values)
        broker_found.expanded_from(
            {key: filled(key, text) for key, text in self._written.items()},
            self._expanded,
        )
        return broker_found

    def _allows(self, host: str) -> bool:
        """Return whether a host matches one of the patterns; without patterns all do."""
        dotted = f".{host.rstrip('.').lower()}"
        return not self.hosts or any(
            compile_pattern(_ascii_pattern(pattern.lower())).match(dotted)
            for pattern in self.hosts
        )


def _ascii_pattern(pattern: str) -> str:
    """A pattern of hosts with its international labels in the form that hosts have; such a label has no wildcard."""
    try:
        return ".".join(map(ascii_host, pattern.split(".")))
    except ValueError:
        return pattern


def _known(value: str, info: ValidationInfo) -> str:
    profiles = Reading.of(info).profiles
    if profiles is not None and value not in profiles:
        raise ValueError(f"{shown(value)} is none of discovery.profiles")
    return value


ProfileName = Annotated[Text, AfterValidator(_known)]


class Records(StrEnum):
    """Which DNS records name the brokers."""

    SRV = "SRV"
    A = "A"


class DnsTarget(Section):
    """Brokers behind a name in DNS, such as a headless Service; asked again each minute."""

    dns: EnvText
    records: Records = Records.SRV
    profile: ProfileName

    @check("profile")
    @classmethod
    def _with_port(cls, value: str, info: ValidationInfo) -> str:
        """Refuse a profile that needs a port where the records have none."""
        profile = (Reading.of(info).profiles or {}).get(value)
        if (
            profile is not None
            and PORT in profile.url
            and info.data.get("records") is Records.A
        ):
            raise ValueError(
                f"has a url that holds {PORT}, which only SRV records have"
            )
        return value


class FileTargets(Section):
    """Brokers in files that something else writes."""

    files: Annotated[tuple[Text, ...], Field(min_length=1)]
    profiles: Annotated[tuple[ProfileName, ...], Field(min_length=1)]


class Discovery(Section):
    """Brokers that are not known in advance."""

    profiles: dict[Text, Profile] = Field(default={}, validate_default=True)
    dns: tuple[DnsTarget, ...] = ()
    files: tuple[FileTargets, ...] = ()
    forget: Annotated[Duration, between(0, 30 * 86400)] = 900.0

    @check("profiles")
    @classmethod
    def _noted(
        cls, value: dict[str, Profile], info: ValidationInfo
    ) -> dict[str, Profile]:
        Reading.of(info).profiles = value
        return value


_PROFILE = "discovery.profiles.NAME of the main configuration file"


class Target(Section):
    """A broker in a file of discovery: where it is and what it is called. All that carries rights is in its profile."""

    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        **{
            field.alias or key: f"belongs into {_PROFILE}"
            for key, field in Broker.model_fields.items()
        },
        "url": f"is not read here; write host: HOST or HOST:PORT, and the URL with {HOST} in it into {_PROFILE}",
    }

    name: Annotated[PlainText, AfterValidator(unique_name)]
    host: Annotated[PlainText, refusing(split_host)]
    profile: PlainText | None = None
    labels: Annotated[dict[str, PlainText], AfterValidator(check_labels)] = Field(
        default={}
    )

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo) -> "Target":
        self.broker(Reading.of(info).profiles or {})
        return self

    def profile_of(self, profiles: Mapping[str, Profile]) -> Profile:
        """That by which it is asked. Raises ValueError, with a text that shows no value of the file."""
        name = self.profile or next(iter(profiles), "")
        if name not in profiles:
            raise ValueError(
                f"names a profile that this file may not use; allowed: {', '.join(profiles)}"
            )
        return profiles[name]

    def broker(self, profiles: Mapping[str, Profile]) -> Broker:
        """The broker as one of these profiles asks it. Raises ValueError as `profile_of` does."""
        profile = self.profile_of(profiles)
        (host, port) = split_host(self.host)
        if port is not None and not profile.takes_port():
            raise ValueError(
                f"names a port, as the url of its profile does; write {PORT} there, or no port here"
            )
        return profile.broker(self.name, host, port, self.labels)


class TargetFile(Section):
    """A file of `discovery.files`."""

    brokers: Annotated[tuple[Target, ...], Field(max_length=MAX_TARGETS)]
