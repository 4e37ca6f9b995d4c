"""The files that brokers of a configuration name: certificates, keys, passwords, programs.

The reader of a broker takes a file that has changed by itself. Here is found what there is to report of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.agent.factory import jmx_target, tls_files
from penstock.config import Broker, Transport
from penstock.core.errors import ConfigError
from penstock.core.watched_files import Contents, FileContents
from penstock.transports.jmx import find_java, program_fault
from penstock.transports.tls import TlsFiles, ssl_context


def file_faults(brokers: Iterable[Broker]) -> Sequence[str]:
    """What is wrong with files that these name, a sentence for each fault; that of many brokers names the first."""
    names = defaultdict[str, list[str]](list)
    known: dict[TlsFiles, str] = {}
    for broker in brokers:
        for fault in (_password_fault(broker), _tls_fault(broker, known), _program_fault(broker)):
            if fault:
                names[fault].append(broker.name)
    return [f"broker {_first_of(affected)}: {fault}" for fault, affected in names.items()]


def _first_of(names: Sequence[str]) -> str:
    others = len(names) - 1
    return f"{names[0]} and {others} more" if others else names[0]


def _password_fault(broker: Broker) -> str:
    try:
        broker.password()
    except ConfigError as error:
        return str(error).removeprefix(f"broker {broker.name}: ")
    return ""


def _tls_fault(broker: Broker, known: dict[TlsFiles, str]) -> str:
    """known: what was found of the files of other brokers, which may be the same ones."""
    if broker.transport is not Transport.JOLOKIA or not broker.url.startswith("https:"):
        return ""
    files = tls_files(broker)
    if files not in known:
        try:
            ssl_context(files)
            known[files] = ""
        except ConfigError as error:
            known[files] = str(error)
    return known[files]


def _program_fault(broker: Broker) -> str:
    if broker.transport is not Transport.JMX:
        return ""
    try:
        return program_fault(find_java(broker.java), jmx_target(broker).jars)
    except ConfigError as error:
        return str(error)


def named_files(brokers: Iterable[Broker]) -> set[Path]:
    """All of them, those of a running Java excepted that no key names."""
    found = set[Path | None]()
    for broker in brokers:
        found |= {broker.password_file, broker.java, broker.imqjmx_jar}
        if broker.url.startswith("https:"):
            found.update(tls_files(broker).paths())
    return {file for file in found if file is not None}


@dataclass(frozen=True, slots=True)
class FileNews:
    """What a look found. changed: files that hold something else, or are gone; faults: what cannot be used now."""

    changed: Sequence[Path] = ()
    faults: Sequence[str] = ()


class NamedFiles:
    """Finds what has changed since it looked last. Not to be used by two threads at once."""

    def __init__(self) -> None:
        self._contents = FileContents()
        self._before: Contents | None = None
        self._faults: Sequence[str] = ()

    def look(self, brokers: Sequence[Broker]) -> FileNews:
        """The files of brokers that are new since the look before are no news, their faults are."""
        named = named_files(brokers)
        now = self._contents.of(named)
        before = now if self._before is None else self._before
        changed = sorted(file for file in named & before.keys() if before[file] != now.get(file))
        if changed or self._faults or self._before is None or before.keys() != now.keys():
            self._faults = file_faults(brokers)
        self._before = now
        return FileNews(changed, self._faults)
