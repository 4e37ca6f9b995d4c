"""Which brokers there are: those of the configuration, those in files, those behind names in DNS."""

import asyncio
import glob
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.config import Broker, Config, DnsTarget, Records, load_brokers
from penstock.errors import ConfigError

log = logging.getLogger(__name__)

DNS_SECONDS = 60.0
"""Between two looks at a name."""
FILE_SECONDS = 5.0
"""Between two looks at the files."""
DNS_DEADLINE = 10.0

Place = tuple[str, str]
"""Name and host of a broker found in DNS."""
Resolve = Callable[[DnsTarget], Awaitable[Iterable[Place]]]


class NotResolved(Exception):
    """A name in DNS could not be asked; the text says why."""


@dataclass(slots=True)
class Discovery:
    """
    Finds brokers again and again; keeps what a source gave while it fails, and a broker for a while after it is gone.

    directory: relative file names are relative to it.
    """

    directory: Path
    resolve: Resolve = field(default_factory=lambda: resolve)
    failures: int = 0
    """How often a source could not be read."""
    _asked: dict[str, float] = field(default_factory=dict)
    _places: dict[str, tuple[Place, ...]] = field(default_factory=dict)
    _files: dict[Path, tuple[Broker, ...]] = field(default_factory=dict)
    _last: dict[str, tuple[float, str, Broker]] = field(default_factory=dict)
    """By name: when it was found last, where."""
    _told: dict[str, str] = field(default_factory=dict)

    async def brokers(self, config: Config, now: float) -> tuple[Broker, ...]:
        """All brokers at `now` (seconds of a clock that never goes back), the configured ones first, names unique."""
        taken = {broker.name: "the configuration" for broker in config.brokers}
        sources: set[str] = set()
        for source, brokers in await self._sources(config, now):
            sources.add(source)
            for broker in brokers:
                if taken.setdefault(broker.name, source) == source:
                    self._last[broker.name] = now, source, broker
                else:
                    self._tell(f"broker {broker.name} of {source}", f"its name is taken by {taken[broker.name]}")
        self._last = {
            name: (at, source, broker)
            for name, (at, source, broker) in self._last.items()
            if source in sources and taken.get(name, source) == source and now - at <= config.discovery.forget
        }
        return (*config.brokers, *(broker for *_, broker in self._last.values()))

    async def _sources(self, config: Config, now: float) -> list[tuple[str, Sequence[Broker]]]:
        found: list[tuple[str, Sequence[Broker]]] = []
        for target in config.discovery.dns:
            source = f"{target.records} {target.dns}"
            await self._ask(source, target, now)
            places = self._places.get(source, ())
            found.append((source, [target.broker.broker(name, host) for name, host in places]))
        files = config.discovery.files
        return [*found, *[(pattern, await asyncio.to_thread(self._in_files, pattern)) for pattern in files]]

    async def _ask(self, source: str, target: DnsTarget, now: float) -> None:
        if now - self._asked.get(source, float("-inf")) < DNS_SECONDS:
            return
        self._asked[source] = now
        try:
            async with asyncio.timeout(DNS_DEADLINE):
                self._places[source] = tuple(sorted(set(await self.resolve(target))))
        except (NotResolved, TimeoutError) as error:
            self._failed(source, str(error) or f"no answer within {DNS_DEADLINE:g} s")
        else:
            self._told.pop(source, None)

    def _in_files(self, pattern: str) -> list[Broker]:
        whole = str(self.directory / pattern)
        # Without a wildcard the file must be there.
        files = sorted(map(Path, glob.glob(whole))) if glob.has_magic(pattern) else [Path(whole)]  # noqa: PTH207
        for file in files:
            try:
                self._files[file] = load_brokers(file)
            except ConfigError as error:
                self._failed(pattern, str(error))
            else:
                self._told.pop(pattern, None)
        return [broker for file in files for broker in self._files.get(file, ())]

    def _failed(self, source: str, why: str) -> None:
        self.failures += 1
        self._tell(source, why)

    def _tell(self, source: str, why: str) -> None:
        """Once, not at every look."""
        if self._told.get(source) != why:
            self._told[source] = why
            log.warning("discovery: %s: %s; what was known before stays", source, why)


async def resolve(target: DnsTarget) -> list[Place]:
    """What DNS says now; nothing when there is no such name. NotResolved when it cannot be asked."""
    return await (_services(target.dns) if target.records is Records.SRV else _addresses(target.dns))


async def _services(name: str) -> list[Place]:
    import dns.asyncresolver  # noqa: PLC0415 - costs memory that only those who use it need spend
    import dns.exception  # noqa: PLC0415
    import dns.resolver  # noqa: PLC0415

    try:
        answer = await dns.asyncresolver.resolve(name, "SRV", search=True)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except (dns.exception.DNSException, OSError) as error:
        raise NotResolved(str(error)) from None
    hosts = [record.target.to_text(omit_final_dot=True) for record in answer]
    return [(host.partition(".")[0], host) for host in hosts]


async def _addresses(name: str) -> list[Place]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)):
            return []
        raise NotResolved(error.strerror or str(error)) from None
    except UnicodeError:
        raise NotResolved("is no name that DNS can have") from None
    return [(str(address[0]), str(address[0])) for *_, address in found]
