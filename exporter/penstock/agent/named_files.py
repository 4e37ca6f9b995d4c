"""The files that brokers of a configuration name: certificates, keys, passwords, programs.

The reader of a broker takes a file that has changed by itself. Here is found what there is to report of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from penstock.agent.factory import jmx_target, tls_files
from penstock.config import Broker, Transport
from penstock.core.errors import ConfigError
from penstock.core.watched_files import Contents, FileContents
from penstock.transports.jmx import find_java, program_fault
from penstock.transports.tls import TlsFiles, ssl_context


def file_faults(brokers: Iterable[Broker]) -> Sequence[str]:
    """Return a sentence for each fault of the files that these brokers name; one of many brokers names the first."""
    affected = defaultdict[str, list[str]](list)
    checked: dict[TlsFiles, str] = {}
    for broker in brokers:
        for fault in (
            _password_fault(broker),
            _tls_fault(broker, checked),
            _program_fault(broker),
        ):
            if fault:
                affected[fault].append(broker.name)
    sentences = []
    for fault, names in affected.items():
        sentences.append(f"broker {_first_of(names)}: {fault}")
    return sentences


def _first_of(names: Sequence[str]) -> str:
    others = len(names) - 1
    return f"{names[0]} and {others} more" if others else names[0]


def _password_fault(broker: Broker) -> str:
    try:
        broker.password()
    except ConfigError as error:
        return str(error).removeprefix(f"broker {broker.name}: ")
    return ""


def _tls_fault(broker: Broker, checked: dict[TlsFiles, str]) -> str:
    """checked: what was found of the files of other brokers, which may be the same ones."""
    if broker.transport is not Transport.JOLOKIA or not broker.url.startswith("https:"):
        return ""
    files = tls_files(broker)
    if files not in checked:
        try:
            ssl_context(files)
            checked[files] = ""
        except ConfigError as error:
            checked[files] = str(error)
    return checked[files]


def _program_fault(broker: Broker) -> str:
    if broker.transport is not Transport.JMX:
        return ""
    try:
        return program_fault(find_java(broker.java), jmx_target(broker).jars)
    except ConfigError as error:
        return str(error)


def named_files(brokers: Iterable[Broker]) -> set[Path]:
    """All of them, those of a running Java excepted that no key names."""
    files = set[Path | None]()
    for broker in brokers:
        files.add(broker.password_file)
        files.add(broker.java)
        files.add(broker.imqjmx_jar)
        if broker.url.startswith("https:"):
            files.update(tls_files(broker).paths())
    files.discard(None)
    return cast("set[Path]", files)


@dataclass(frozen=True, slots=True)
class FileNews:
    """The result of a look at the files.

    Attributes:
        changed: Files with other contents, or gone.
        faults: Why a file cannot be used now.
    """

    changed: tuple[Path, ...] = ()
    faults: tuple[str, ...] = ()


class NamedFiles:
    """Finds what has changed since it looked last. Not to be used by two threads at once.

    A file may be read while it is being written. So what is wrong with files is reported only after two looks in a row
    found the same contents; what can be used is reported at once.
    """

    def __init__(self) -> None:
        self._contents = FileContents()
        self._last_look: Contents | None = None
        self._judged: Contents | None = None
        """What the files held when their faults were last reported, or that there are none."""
        self._faults: tuple[str, ...] = ()

    def look(self, brokers: Sequence[Broker]) -> FileNews:
        """Changes and faults of the files that these brokers name.

        Files of a broker that is new since the look before are not reported as changed; their faults are reported.
        """
        named = named_files(brokers)
        now = self._contents.of(named)
        at_rest = now == self._last_look
        self._last_look = now
        if now == self._judged and not self._faults:
            return FileNews()
        faults = tuple(file_faults(brokers))
        if faults and not at_rest:
            return FileNews(faults=self._faults)
        judged_before = now if self._judged is None else self._judged
        seen_before = named & judged_before.keys()
        changed = tuple(
            sorted(file for file in seen_before if judged_before[file] != now.get(file))
        )
        self._judged = now
        self._faults = faults
        return FileNews(changed, faults)
