"""
What an OpenMQ client says of its own flow control: buffered messages, windows asked for, time paused.

No MBean shows it. Two outputs of the client's runtime do, best both in one file: the debug output
(`imq.flowcontrol.debug`: pauses, and what is buffered every ping interval) and the logger
`jakarta.jms.consumer.flowcontrol` (the limit, and each window asked for).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

_CONSUMER = re.compile(
    r"ConsumerFlowControl(?:Entry)?\[ConnectionID=(\d+), SessionID=\d+, ConsumerID=(\d+), DestName=([^]]*)]"
    r"(?:maxMsgCount=(?P<limit>-?\d+)|sendResumeFlow\((?P<window>\d+)\))?"
)
_CONNECTION = re.compile(r"(?:ConnectionFlowControlEntry\[|for Connection : ).*?ConnectionID=(\d+)")
_STATE = re.compile(r"\s*# (pending messages|threshodCount|flowControlWaterMark) : (-?\d+)")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_DUMP = re.compile(r"-{8,} \S+FlowControl@\w+ : \w{3} (\w{3} \d+ [\d:]{8}) \S+ (\d{4})")
_NAMES = {"pending messages": "buffered", "threshodCount": "resume", "flowControlWaterMark": "limit"}


@dataclass(slots=True)
class LoggedConsumer:
    """
    A consumer, or a connection with all its consumers. Messages; times in seconds; None where the log does not say.

    looks, buffered_sum: how often and what in all was seen in the buffer. windows: sizes of those asked for.
    paused_least, paused_most: time between being told to wait and asking again; the debug output has no times of its
    own, so it is known between bounds.
    """

    connection: str
    consumer: str = ""
    destination: str = ""
    limit: int | None = None
    resume: int | None = None
    buffered: int | None = None
    buffered_most: int = 0
    buffered_sum: int = 0
    looks: int = 0
    windows: Counter[int] = field(default_factory=Counter)
    pauses: int = 0
    paused_least: float = 0.0
    paused_most: float = 0.0
    paused_from: float | None = None
    """Of a pause that has not ended: the earliest time at which it can have begun."""
    paused_before: float | None = None
    """The latest."""
    is_paused: bool = False

    def look(self, buffered: int) -> None:
        self.buffered = buffered
        self.buffered_most = max(self.buffered_most, buffered)
        self.buffered_sum += buffered
        self.looks += 1

    def pause(self, earliest: float | None) -> None:
        self.pauses += 1  # also where the line of the request before it comes late: other threads write it
        if not self.is_paused:
            self.is_paused, self.paused_from, self.paused_before = True, earliest, None

    def seen(self, now: float) -> None:
        """The first time that is told after a pause began: it began no later."""
        if self.is_paused and self.paused_before is None:
            self.paused_before = now

    def go_on(self, now: float | None) -> None:
        if not self.is_paused:
            return
        if now is not None:
            self.paused_most += now - (self.paused_from if self.paused_from is not None else now)
            self.paused_least += now - (self.paused_before if self.paused_before is not None else now)
        self.is_paused = False


@dataclass(slots=True)
class ClientLog:
    """All that one log says. first, last: its times, seconds since 1970, by the client's clock."""

    consumers: dict[str, LoggedConsumer] = field(default_factory=dict)
    connections: dict[str, LoggedConsumer] = field(default_factory=dict)
    first: float | None = None
    last: float | None = None

    @property
    def seconds(self) -> float | None:
        return None if self.first is None or self.last is None else self.last - self.first


def read_client_log(lines: Iterable[str]) -> ClientLog:
    """What the lines say; those of anything else are passed over. A pause that lasts at the end ends there."""
    log = ClientLog()
    told = LogParser(log)
    for line in lines:
        told.line(line)
    for entry in (*log.consumers.values(), *log.connections.values()):
        lasts = entry.is_paused
        if log.last is not None:
            entry.seen(log.last)
        entry.go_on(log.last)
        entry.is_paused = lasts
    return log


class LogParser:
    """Reads line by line; remembers whose state the lines of a dump tell."""

    def __init__(self, log: ClientLog) -> None:
        self._log = log
        self._state_of: LoggedConsumer | None = None
        self._stamped = False
        """The logger's lines carry times: those of the dumps, whole seconds of an unknown zone, are not used."""

    def line(self, line: str) -> None:
        self._time(line)
        if state := _STATE.match(line):
            self._state(_NAMES[state[1]], int(state[2]))
        elif found := _CONSUMER.search(line):
            connection, consumer, destination = found[1], found[2], found[3]
            entry = self._log.consumers.setdefault(consumer, LoggedConsumer(connection, consumer, destination))
            self._event(line, entry)
            self._logged(entry, found)
        elif found := _CONNECTION.search(line):
            self._event(line, self._log.connections.setdefault(found[1], LoggedConsumer(found[1])))

    def _event(self, line: str, entry: LoggedConsumer) -> None:
        self._state_of = entry if "FlowControlState for" in line else None
        if "PAUSED MESSAGE DELIVERY" in line:
            entry.pause(self._log.last)
        elif "SENDING RESUME_FLOW" in line and not entry.windows:
            entry.go_on(self._log.last)

    def _logged(self, entry: LoggedConsumer, found: re.Match[str]) -> None:
        if found["limit"]:
            entry.limit = int(found["limit"])
        if found["window"]:
            entry.windows[int(found["window"])] += 1
            entry.go_on(self._log.last)

    def _state(self, name: str, value: int) -> None:
        if self._state_of is None:
            return
        if name == "buffered":
            self._state_of.look(value)
        else:
            setattr(self._state_of, name, value)

    def _time(self, line: str) -> None:
        now = _first_time(line, (_of_logger, _of_dump)[: 1 if self._stamped else 2])
        if now is None:
            return
        log = self._log
        if not self._stamped and _STAMP.match(line):
            # What the dumps told before is of another clock.
            self._stamped, log.first, log.last = True, None, None
        log.first = now if log.first is None else log.first
        log.last = now if log.last is None else max(log.last, now)
        for entry in (*log.consumers.values(), *log.connections.values()):
            entry.seen(now)


def _first_time(line: str, readers: Iterable[Callable[[str], float | None]]) -> float | None:
    return next((now for read in readers if (now := read(line)) is not None), None)


def _of_logger(line: str) -> float | None:
    found = _STAMP.match(line)
    try:
        return None if found is None else datetime.fromisoformat(found[0].replace(",", ".")).timestamp()
    except ValueError:
        return None


def _of_dump(line: str) -> float | None:
    found = _DUMP.match(line)
    try:
        return None if found is None else datetime.strptime(f"{found[1]} {found[2]}", "%b %d %H:%M:%S %Y").timestamp()  # noqa: DTZ007
    except ValueError:
        return None
