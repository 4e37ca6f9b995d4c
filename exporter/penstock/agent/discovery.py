"""Which brokers there are: those of the configuration, those in files, those behind names in DNS."""

import asyncio
import contextlib
import glob
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from penstock.config import (
    Broker,
    Config,
    DnsTarget,
    Profile,
    Records,
    Target,
    load_targets,
)
from penstock.config.discovery import MAX_TARGETS
from penstock.core.errors import ConfigError
from penstock.core.watched_files import signature as file_signature

MAX_FILES = 1000
"""Of one pattern that are read."""
MAX_BYTES = 2**20
"""Of the files of one pattern that are read; a thousand brokers with 16 labels each are a sixth of it."""
RETRY_SECONDS = 60.0
"""Until a file that cannot be used is read again, though it has not changed: the fault may have been the disk's."""

Found = list[tuple[Profile, Broker]]


class ReadFile(NamedTuple):
    """What a file names. targets: as read last; found: the same as the profiles ask them; fault: why it is not used."""

    signature: tuple[int, ...]
    profiles: Mapping[str, Profile]
    at: float
    fault: str
    targets: tuple[Target, ...]
    found: Found


Files = Mapping[Path, ReadFile]


def read_files(
    pattern: str, before: Files, profiles: Mapping[str, Profile], now: float
) -> tuple[Files, Found, Mapping[str, str]]:
    """The files that fit, the brokers in them, and what is wrong, by file. now: of a clock that never goes back."""
    # Without a wildcard the file must be there.
    paths = (
        sorted(map(Path, glob.glob(pattern)))  # noqa: PTH207
        if glob.has_magic(pattern)
        else [Path(pattern)]
    )
    faults = {}
    files = dict[Path, ReadFile]()
    left = MAX_BYTES
    if len(paths) > MAX_FILES:
        faults[pattern] = (
            f"matches {len(paths)} files, of which the first {MAX_FILES} are read"
        )
    for path in paths[:MAX_FILES]:
        signature = file_signature(path)
        left -= signature[0]
        files[path] = one = _read(
            path, (*signature, left < 0), profiles, now, before.get(path)
        )
        if one.fault:
            faults[str(path)] = one.fault
    found = [pair for one in files.values() for pair in one.found]
    if len(found) > MAX_TARGETS:
        faults[pattern] = (
            f"names {len(found)} brokers, of which the first {MAX_TARGETS} are watched"
        )
    return files, found[:MAX_TARGETS], faults


def _read(
    file: Path,
    signature: tuple[int, ...],
    profiles: Mapping[str, Profile],
    now: float,
    before: ReadFile | None,
) -> ReadFile:
    """signature: its last part is whether there is no room for it."""
    same = before is not None and (before.signature, before.profiles) == (
        signature,
        profiles,
    )
    if (
        before is not None
        and same
        and (not before.fault or now - before.at < RETRY_SECONDS)
    ):
        return before
    targets = () if before is None else before.targets
    fault = ""
    if signature[-1]:
        fault = (
            f"is not read: the files of its pattern hold more than {MAX_BYTES} bytes"
        )
    else:
        try:
            targets = load_targets(file, profiles)
        except ConfigError as error:
            fault = str(error)
    found: Found = []
    for target in targets:  # the profiles may be others than when these were read
        with contextlib.suppress(ValueError):  # the file is refused for it
            found.append((target.profile_of(profiles), target.broker(profiles)))
    return ReadFile(signature, profiles, now, fault, targets, found)


log = logging.getLogger(__name__)

DNS_SECONDS = 60.0
"""Between two resolutions of a name."""
FILE_SECONDS = 5.0
"""Between two readings of the files."""
DNS_DEADLINE = 10.0
REPORT_SECONDS = 60.0
"""Between two reports of new faults: who writes a file that breaks and heals shall not fill the log of events."""


class SourcePlace(NamedTuple):
    """Where a broker is; port: of the SRV record, None in other records."""

    host: str
    port: int | None = None


Resolve = Callable[[DnsTarget], Awaitable[Iterable[SourcePlace]]]


class ResolvedName(NamedTuple):
    """When a name in DNS was asked last, the places as it was resolved last, and why it cannot be now.

    Of one fault the texts differ: the first is kept.
    """

    at: float = float("-inf")
    places: tuple[SourcePlace, ...] = ()
    fault: str = ""


class NotResolved(Exception):
    """A name could not be resolved; the text says why."""


class Remembered(NamedTuple):
    """When a broker was found last (seconds of a clock that never goes back), where, and by which profile."""

    at: float
    source: str
    profile: Profile
    broker: Broker


Source = tuple[str, Sequence[tuple[Profile, Broker]]]
"""What it is called, and what it gives."""


@dataclass(frozen=True, slots=True)
class FoundBrokers:
    """brokers: all there are, the configured ones first, names unique. remembered: those of discovery, by name."""

    brokers: tuple[Broker, ...]
    remembered: Mapping[str, Remembered]


@dataclass(slots=True)
class Discovery:
    """directory: relative file names are relative to it. report: called with new faults, beside the log."""

    directory: Path
    resolve: Resolve = field(default_factory=lambda: resolve)
    report: Callable[[str], object] = field(default=lambda _: None)
    failures: int = 0
    """How often a source could not be used."""
    _resolved: dict[str, ResolvedName] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    """Those that there are, by what has them: each is logged once."""
    _files: dict[str, Files] = field(default_factory=dict)
    _remembered: Mapping[str, Remembered] = field(default_factory=dict)
    _unreported: Mapping[str, str] = field(default_factory=dict)
    _reported_at: float = float("-inf")
    _refused: str = ""

    async def brokers(self, config: Config, now: float) -> tuple[Broker, ...]:
        """All brokers at `now` (seconds of a clock that never goes back), the configured ones first, names unique."""
        found = await self.look(config, now)
        self.keep(found)
        return found.brokers

    async def look(self, config: Config, now: float) -> FoundBrokers:
        """What there is at `now`, beside what was kept and is gone; to be kept as soon as it is watched."""
        faults: dict[str, str] = {}
        taken = {broker.name: "the configuration" for broker in config.brokers}
        found: dict[str, Remembered] = {}
        sources = await self._sources(config, now, faults)
        for source, brokers in sources:
            for profile, broker in brokers:
                before = found.get(broker.name)
                clash = f"broker {broker.name} of {source}"
                if taken.setdefault(broker.name, source) != source:
                    faults[clash] = f"its name is taken by {taken[broker.name]}"
                    continue
                if before is not None and before.broker != broker:
                    faults[clash] = "is there twice and differs; the last one counts"
                found[broker.name] = Remembered(now, source, profile, broker)
        self._tell(faults, now)
        names = {source for source, _ in sources}
        profiles = list(config.discovery.profiles.values())
        # A broker that has another name now is not gone; one whose profile has changed may not be asked as before.
        present = {(one.source, one.broker.url) for one in found.values()}
        gone = {
            name: one
            for name, one in self._remembered.items()
            if name not in taken
            and one.source in names
            and one.profile in profiles
            and (one.source, one.broker.url) not in present
            and now - one.at <= config.discovery.forget
        }
        # What was there before keeps its place in the order.
        remembered = {
            name: found.get(name) or gone[name]
            for name in self._remembered
            if name in found or name in gone
        }
        remembered |= found
        return FoundBrokers(
            (*config.brokers, *(one.broker for one in remembered.values())), remembered
        )

    def keep(self, found: FoundBrokers) -> None:
        """Go on from what is watched now."""
        self._remembered = found.remembered
        self._refused = ""

    def refused(self, why: str) -> bool:
        """Count that what was found could not be watched; whether it is for another reason than at the look before."""
        self.failures += 1
        before = self._refused
        self._refused = why
        return why != before

    async def _sources(
        self, config: Config, now: float, faults: dict[str, str]
    ) -> list[Source]:
        profiles = config.discovery.profiles
        found = [
            await self._in_dns(target, profiles[target.profile], now, faults)
            for target in config.discovery.dns
        ]
        for entry in config.discovery.files:
            allowed = {name: profiles[name] for name in entry.profiles}
            for pattern in entry.files:
                path = str(self.directory / pattern)
                before = self._files.get(path, {})
                self._files[path], of_files, wrong = await asyncio.to_thread(
                    read_files, path, before, allowed, now
                )
                self.failures += len(wrong)
                faults.update(wrong)
                found.append((pattern, of_files))
        return found

    async def _in_dns(
        self, target: DnsTarget, profile: Profile, now: float, faults: dict[str, str]
    ) -> Source:
        source = f"{target.records} {target.shown('dns')}"
        resolved = self._resolved[source] = await self._resolve(
            self._resolved.get(source, ResolvedName()), target, now
        )
        if resolved.fault:
            faults[source] = resolved.fault
        found: list[tuple[Profile, Broker]] = []
        for name, place in named(profile, resolved.places).items():
            try:
                found.append((profile, profile.broker(name, *place)))
            except ValueError as error:
                self.failures += 1
                faults[f"{source}: {name}"] = str(error)
        return source, found

    async def _resolve(
        self, before: ResolvedName, target: DnsTarget, now: float
    ) -> ResolvedName:
        if now - before.at < DNS_SECONDS:
            return before
        try:
            async with asyncio.timeout(DNS_DEADLINE):
                return ResolvedName(now, tuple(sorted(set(await self.resolve(target)))))
        except (NotResolved, TimeoutError) as error:
            self.failures += 1
            why = target.mask(str(error)) or f"no answer within {DNS_DEADLINE:g} s"
            return ResolvedName(now, before.places, before.fault or why)

    def _tell(self, faults: Mapping[str, str], now: float) -> None:
        for what, why in faults.items():
            if self.faults.get(what) != why:
                log.warning("discovery: %s: %s; what was known before stays", what, why)
        new = {
            what: why
            for what, why in faults.items()
            if what in self._unreported or what not in self.faults
        }
        self.faults = faults
        self._unreported = new
        if new and now - self._reported_at >= REPORT_SECONDS:
            (what, why), *more = new.items()
            others = f"; and {len(more)} more" if more else ""
            self.report(
                f"discovery: {what}: {why.splitlines()[0]}; what was known before stays{others}"
            )
            self._unreported = {}
            self._reported_at = now


def named(profile: Profile, places: Iterable[SourcePlace]) -> dict[str, SourcePlace]:
    """Places by their names: an address, or the first label of a host where no other has the same, else the whole host.

    A host with several ports is several brokers, named with it, only where the broker's URL takes its port from DNS.
    """
    if not profile.takes_port():
        places = {place.host: place for place in places}.values()
    places = list(places)
    forms = [
        [
            place.host if place.port is None else place.host.partition(".")[0]
            for place in places
        ],
        [place.host for place in places],
        [f"{place.host}:{place.port}" for place in places],
    ]
    counts = [Counter(form) for form in forms]
    return {
        next(
            form[i]
            for form, count in zip(forms, counts, strict=True)
            if count[form[i]] == 1
        ): place
        for i, place in enumerate(places)
    }


async def resolve(target: DnsTarget) -> list[SourcePlace]:
    """What DNS answers now; nothing when there is no such name. NotResolved when there is no answer."""
    return await (
        _services(target.dns)
        if target.records is Records.SRV
        else _addresses(target.dns)
    )


async def _services(name: str) -> list[SourcePlace]:
    import dns.asyncresolver  # noqa: PLC0415 - only those who use it spend its memory
    import dns.exception  # noqa: PLC0415
    import dns.resolver  # noqa: PLC0415

    try:
        answer = await dns.asyncresolver.resolve(name, "SRV", search=True)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except (dns.exception.DNSException, OSError) as error:
        raise NotResolved(str(error)) from None
    found = [
        SourcePlace(record.target.to_text(omit_final_dot=True), record.port)
        for record in answer
    ]
    return [
        place for place in found if place.host not in ("", ".")
    ]  # the root says: no such service here


async def _addresses(name: str) -> list[SourcePlace]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            name, None, type=socket.SOCK_STREAM
        )
    except socket.gaierror as error:
        if error.errno in (
            socket.EAI_NONAME,
            getattr(socket, "EAI_NODATA", socket.EAI_NONAME),
        ):
            return []
        raise NotResolved(error.strerror or str(error)) from None
    except UnicodeError:
        raise NotResolved("is no name that DNS can have") from None
    return [SourcePlace(str(address[0])) for *_, address in found]
