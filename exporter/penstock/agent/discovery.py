"""Which brokers there are: those of the configuration, those in files, those behind names in DNS."""

import asyncio
import contextlib
import glob
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
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
    """The brokers that a file names.

    Attributes:
        targets: As they were read last.
        found: The same with their profiles.
        fault: Why the file is not used; "" where it is.
    """

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
        files[path] = file = _read(
            path, (*signature, left < 0), profiles, now, before.get(path)
        )
        if file.fault:
            faults[str(path)] = file.fault
    brokers = [pair for file in files.values() for pair in file.found]
    if len(brokers) > MAX_TARGETS:
        faults[pattern] = (
            f"names {len(brokers)} brokers, of which the first {MAX_TARGETS} are watched"
        )
    return files, brokers[:MAX_TARGETS], faults


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
    brokers: Found = []
    for target in targets:  # the profiles may be others than when these were read
        with contextlib.suppress(ValueError):  # the file is refused for it
            brokers.append((target.profile_of(profiles), target.broker(profiles)))
    return ReadFile(signature, profiles, now, fault, targets, brokers)


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
        brokers = await self.look(config, now)
        self.keep(brokers)
        return brokers.brokers

    async def look(self, config: Config, now: float) -> FoundBrokers:
        """Return the brokers at `now`, and those that are gone for a while; to be kept as soon as they are watched."""
        faults: dict[str, str] = {}
        taken = {broker.name: "the configuration" for broker in config.brokers}
        discovered: dict[str, Remembered] = {}
        sources = await self._sources(config, now, faults)
        for source, brokers in sources:
            for profile, broker in brokers:
                before = discovered.get(broker.name)
                clash = f"broker {broker.name} of {source}"
                if taken.setdefault(broker.name, source) != source:
                    faults[clash] = f"its name is taken by {taken[broker.name]}"
                    continue
                if before is not None and before.broker != broker:
                    faults[clash] = "is there twice and differs; the last one counts"
                discovered[broker.name] = Remembered(now, source, profile, broker)
        self._tell(faults, now)
        absent = self._absent(config, now, sources, taken, discovered)
        # What was there before keeps its place in the order.
        remembered: dict[str, Remembered] = {}
        for name in self._remembered:
            if name in discovered or name in absent:
                remembered[name] = discovered.get(name) or absent[name]
        remembered |= discovered
        still_watched = (entry.broker for entry in remembered.values())
        return FoundBrokers((*config.brokers, *still_watched), remembered)

    def _absent(
        self,
        config: Config,
        now: float,
        sources: Sequence[Source],
        taken: Collection[str],
        discovered: Mapping[str, Remembered],
    ) -> dict[str, Remembered]:
        """The brokers that were there a while ago, and go on to be watched though no source has them now."""
        names = {source for source, _ in sources}
        profiles = list(config.discovery.profiles.values())
        present = {(entry.source, entry.broker.url) for entry in discovered.values()}

        def stays(name: str, entry: Remembered) -> bool:
            if name in taken or now - entry.at > config.discovery.forget:
                return False
            # A broker whose profile has changed may not be asked as before.
            if entry.source not in names or entry.profile not in profiles:
                return False
            # A broker that has another name now is not gone.
            return (entry.source, entry.broker.url) not in present

        return {
            name: entry
            for name, entry in self._remembered.items()
            if stays(name, entry)
        }

    def keep(self, brokers: FoundBrokers) -> None:
        """Go on from what is watched now."""
        self._remembered = brokers.remembered
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
        sources = [
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
                sources.append((pattern, of_files))
        return sources

    async def _in_dns(
        self, target: DnsTarget, profile: Profile, now: float, faults: dict[str, str]
    ) -> Source:
        source = f"{target.records} {target.shown('dns')}"
        resolved = self._resolved[source] = await self._resolve(
            self._resolved.get(source, ResolvedName()), target, now
        )
        if resolved.fault:
            faults[source] = resolved.fault
        brokers: list[tuple[Profile, Broker]] = []
        for name, place in named(profile, resolved.places).items():
            try:
                brokers.append((profile, profile.broker(name, *place)))
            except ValueError as error:
                self.failures += 1
                faults[f"{source}: {name}"] = str(error)
        return source, brokers

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
        for subject, fault in faults.items():
            if self.faults.get(subject) != fault:
                log.warning(
                    "discovery: %s: %s; what was known before stays", subject, fault
                )
        new = {
            subject: fault
            for subject, fault in faults.items()
            if subject in self._unreported or subject not in self.faults
        }
        self.faults = faults
        self._unreported = new
        if new and now - self._reported_at >= REPORT_SECONDS:
            (subject, fault), *more = new.items()
            others = f"; and {len(more)} more" if more else ""
            self.report(
                f"discovery: {subject}: {fault.splitlines()[0]}; what was known before stays{others}"
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
    """Ask DNS now; nothing when there is no such name. NotResolved when there is no answer."""
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
    places = [
        SourcePlace(record.target.to_text(omit_final_dot=True), record.port)
        for record in answer
    ]
    return [
        place for place in places if place.host not in ("", ".")
    ]  # the root says: no such service here


async def _addresses(name: str) -> list[SourcePlace]:
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(
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
    return [SourcePlace(str(address[0])) for *_, address in addresses]
