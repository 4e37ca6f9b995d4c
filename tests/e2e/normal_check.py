"""
Each condition against normal on a real Artemis, and what only looks like it (`make check-normal`).

What is normal comes from a file of profiles, as the daily trend job writes it, and from the state of an agent that has
watched for weeks: it is started, its state file is given that past, and it is started again. Seconds count from the
begin that the clients logged.
"""

import json
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow.parquet as pq
import pytest
from proton import Delivery

from e2e.agent import PENSTOCK, Agent, entry
from penstock.agent.checkpoint import Checkpoint, SavedTables
from penstock.agent.state_database import StateDatabase
from penstock.agent.state_store import StateStore
from penstock.core.formatting import quantity
from penstock.learned.byte_tables import WEEKS
from penstock.learned.profile import QueueProfile, broker_profile
from penstock.settings.calendar import HOURS, Calendar
from penstock_demo.broker import Broker
from penstock_demo.load import paced
from penstock_trends.normal import hours_of, profile_of
from penstock_trends.profiles import profile_table
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer
from trends.rows import rows_of_hours

pytestmark = [pytest.mark.broker, pytest.mark.timeout(1200)]

INTERVAL = 5.0
HISTORY_INTERVAL = 15
SEEN = 2.0
"""Seconds between polls: of the agent, and of the history; until the check looks at what a poll said."""
RATE = 20.0
"""Messages a second of a queue that never pauses."""
FIRST_LIFE = 30.0
WARM = 130.0
LOOK = 420.0
MOST = 790.0
"""Seconds: of the agent before it gets its past; of health after that; for which look-alikes are watched; at most."""
DAY = 86400.0
MISSED = 6600.0
RUN = 1200.0
"""Seconds: after its time a missed run is reported; a run takes."""
OF_RUN = 600.0
"""Messages."""
KNOWN = 3 * DAY
"""Seconds: an agent in its first week, which has not seen this hour before, but for the queues that its tables know."""
NIGHT = "Check/Night"
"""A zone in which a run at 02:10 is missed for 110 minutes when the check is half over."""
SHARE = 0.93
"""Of the messages that expire."""
LIFE = 5.0
SLOW_READER = 0.7
"""Seconds: a message lives; its reader takes for one, so that of 20 a second 1.4 are read."""
READ_APART = 2
"""Messages: two counts are not read at one moment."""
SLOWER = 5.0
PUSH = 80.0
"""Times as long as usual; seconds for which more comes than one consumer can do."""
LEAKS = 1000
BATCH = 50
"""Of so many messages one is never acknowledged; so many are acknowledged at once."""
NOW_AND_USUAL = {
    "producer_silent": ("age", "usual_pause"),
    "slowed": ("service_time", "usual_service_time"),
    "expiring_unusually": ("share", "usual_share"),
    "dead_lettering_unusually": ("share", "usual_share"),
    "surge": ("rate_in", "usual_high"),
    "leaking": ("held", "one_in"),
}
"""Evidence; a leak is held against the consumer's own pace."""


class Sender:
    """Sends at a rate until it is stopped; last: when the broker had taken the last one. lives: seconds."""

    def __init__(
        self, broker: Broker, queue: str, rate: float, *, lives: float = 0.0
    ) -> None:
        self.last = 0.0
        self._lives = lives
        self._ending = threading.Event()
        self._producer = AmqpProducer(
            broker.endpoint(), queue, client_id=f"{queue}-producer{rate:g}"
        )
        self._thread = threading.Thread(target=self._run, args=(rate,), daemon=True)
        self._thread.start()

    @property
    def sent(self) -> int:
        return self._producer.counts.sent

    def _run(self, rate: float) -> None:
        fields: dict[str, Any] = {"ttl": self._lives} if self._lives else {}
        for _ in paced(rate, self._ending):
            self._producer.send(**fields)
            self.last = time.time()

    def stop(self) -> float:
        """It stays connected; when it had sent its last."""
        self._ending.set()
        self._thread.join()
        return self.last

    def close(self) -> None:
        self.stop()
        self._producer.close()


class Worker(AmqpConsumer):
    """Takes `work` seconds for a message, which may change; of so many it leaves one, or rejects each second one."""

    def __init__(
        self,
        broker: Broker,
        queue: str,
        work: float,
        *,
        credit: int = 100,
        skips: int = 0,
    ) -> None:
        self.left = 0
        self.left_at = 0.0
        self.rejected_at = 0.0
        self.rejects = False
        self._skips = skips
        super().__init__(
            broker.endpoint(),
            queue,
            credit=credit,
            work=work,
            client_id=f"{queue}-reader",
        )

    def slow_down(self, work: float) -> None:
        self._work = work

    def _next(self) -> None:
        if self._skips and (self.counts.acknowledged + 1) // self._skips > self.left:
            self._held.popleft()
            self.left, self.left_at = self.left + 1, self.left_at or time.time()
        elif self.rejects and self.counts.received % 2:
            self._update(1, Delivery.REJECTED)
            self.rejected_at = self.rejected_at or time.time()
            self._link.flow(1)
        else:
            super()._next()


class BatchReader(AmqpHolder):
    """Acknowledges so many at once."""

    def arrived(self) -> None:
        if len(self._held) >= BATCH:
            self._update(BATCH, Delivery.ACCEPTED)
            self._link.flow(BATCH)


# --- the past


def steady(
    rate: float, begin: float, end: float, *, expired: float = 0.0, killed: float = 0.0
) -> dict[str, Any]:
    """The polls of a history in which messages always come at this rate; shares of them expire or are killed."""
    stamp = np.arange(begin, end, HISTORY_INTERVAL)
    added = np.floor(rate * (stamp - begin))
    lost = {"expired": np.floor(expired * added), "killed": np.floor(killed * added)}
    return {
        "stamp": stamp,
        "added": added,
        "acknowledged": added - sum(lost.values()),
        **lost,
    }


def nightly(begin: float, end: float, at: float, *, until: float) -> dict[str, Any]:
    """A run of RUN seconds once a day at the second `at` of the day, minutes early or late, none after `until`."""
    stamp = np.arange(begin, end, HISTORY_INTERVAL)
    late = 180 * np.sin(7.0 * np.floor((stamp - at) / DAY))
    runs = ((stamp - at - late) % DAY < RUN) & (stamp < until)
    added = np.cumsum(runs * HISTORY_INTERVAL * OF_RUN / RUN)
    return {"stamp": stamp, "added": added, "acknowledged": added}


def profile(polls: dict[str, Any], **more: float) -> QueueProfile:
    """As the trend job makes it of its polls; more: the same in each hour, of `penstock_trends.normal.HIGHEST`."""
    hours, columns = hours_of(rows_of_hours(polls, HISTORY_INTERVAL))
    return profile_of(
        hours,
        columns | {name: np.full(len(hours), value) for name, value in more.items()},
    )


def zone_file(folder: Path, offset: int) -> None:
    """The zone NIGHT, always so many seconds east of UTC."""
    file = folder / NIGHT
    file.parent.mkdir(parents=True)
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    only = struct.pack(">lBB", offset, 0, 0)
    file.write_bytes(b"TZif".ljust(20, b"\0") + counts + only + b"CHK\0")


def with_past(
    known: Checkpoint,
    hour: int,
    tables: dict[str, QueueProfile],
    began: float,
    arrivals: dict[str, tuple[float, float]],
) -> Checkpoint:
    """As of an agent that has watched since `began`, and learned these tables until `hour`.

    arrivals: when messages came last, and how many should have come since.
    """
    assert known.snapshot is not None
    assert known.snapshot.queues is not None
    index = known.snapshot.queues.index
    name_of = dict(zip(index.keys.tolist(), (row.name for row in index), strict=True))
    names = [name_of[key] for key in known.queue_keys.tolist()]
    columns = {name: column.copy() for name, column in known.queues.items()}
    columns["normal_began"][:] = np.fmin(columns["normal_began"], began)
    for name, (at, missing) in arrivals.items():
        row = names.index(name)
        columns["normal_arrival"][row], columns["normal_clock"][row] = at, missing
    learned = broker_profile({(name, name): one for name, one in tables.items()})
    return replace(
        known,
        queues=columns,
        flows=SavedTables(*learned.flows.stored()),
        absences=SavedTables(*learned.absences.stored()),
        hour=hour,
    )


# --- what is seen


@dataclass(slots=True)
class Wanted:
    """A condition and its severity on a queue, within `bar` seconds of its begin (and two polls), not before `least`.

    by_hour: what is normal at this hour is known. missing: what `explain` lacks.
    """

    scene: str
    queue: str
    condition: str
    severity: str
    bar: float
    least: float = 0.0
    by_hour: bool = True
    begin: float = np.nan
    seen: float = np.nan
    evidence: str = ""
    missing: str = ""

    @property
    def seconds(self) -> float:
        return self.seen - self.begin

    @property
    def right(self) -> bool:
        return (
            self.least <= self.seconds <= self.bar + 2 * INTERVAL + SEEN
            and not self.missing
        )

    def line(self) -> str:
        bar = (
            f"{self.bar:.0f} ± {2 * INTERVAL:.0f}" if self.least else f"{self.bar:.0f}"
        )
        said = "right" if self.right else f"WRONG {self.missing}"
        kind = "notice" if self.severity == "info" else self.severity
        return f"| {self.scene} | {self.condition}, {kind} | {self.seconds:.0f} | {bar} | {self.evidence} | {said} |"


@dataclass(slots=True)
class Watch:
    """What the agent reports. first: when each condition was seen first, by queue and severity."""

    agent: Agent
    broker: str
    first: dict[tuple[str, str, str], float] = field(default_factory=dict)
    explained: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    """What `explain` said of the queue when a condition was there for the first time with that severity."""

    def look(self) -> None:
        at = time.time()
        status, body = self.agent.request(
            f"/api/v1/conditions?broker={quote(self.broker)}&limit=1000"
        )
        for one in (
            json.loads(body)["conditions"] if status == 200 else ()
        ):  # it was polled
            key = one["queue"], one["condition"], one["severity"]
            if key not in self.first:
                self.first[key], self.explained[key] = at, self.explain(one["queue"])

    def explain(self, queue: str) -> dict[str, Any]:
        _, body = self.agent.request(
            f"/api/v1/explain?broker={quote(self.broker)}&queue={quote(queue)}"
        )
        found: dict[str, Any] = json.loads(body)
        return found

    def complete(self, wanted: Wanted) -> None:
        """With when it was seen, and what `explain` says."""
        key = wanted.queue, wanted.condition, wanted.severity
        wanted.seen = self.first.get(key, np.nan)
        found = self.explained.get(key, {"conditions": [], "usual": ""})
        evidence: dict[str, Any] = next(
            (
                one["evidence"]
                for one in found["conditions"]
                if one["condition"] == wanted.condition
            ),
            {},
        )
        names = [
            name
            for name in NOW_AND_USUAL[wanted.condition]
            if evidence.get(name, {}).get("value") is not None
        ]
        said = [
            quantity(evidence[name]["value"], evidence[name]["unit"]) for name in names
        ]
        wanted.evidence = f"{' / '.join(said)}; {found['usual']}"
        lacks = [name for name in NOW_AND_USUAL[wanted.condition] if name not in names]
        lacks += (
            ["at this hour"]
            if wanted.by_hour == found["usual"].startswith("not known")
            else []
        )
        wanted.missing = " and ".join(lacks)

    def alarms(self, queue: str) -> list[str]:
        """Above a notice."""
        return [
            f"{name} ({severity})"
            for of, name, severity in self.first
            if of == queue and severity != "info"
        ]


def reports(watch: Watch, wanted: list[Wanted]) -> bool:
    return all(
        (one.queue, one.condition, one.severity) in watch.first for one in wanted
    )


# --- the scenes


@dataclass(frozen=True, slots=True)
class Names:
    """Of the queues."""

    silent: str = "normal.silent"
    online: str = "normal.online"
    missed: str = "normal.missed"
    came: str = "normal.came"
    slow: str = "normal.slow"
    buffered: str = "normal.buffered"
    busy: str = "normal.busy"
    leak: str = "normal.leak"
    batches: str = "normal.batches"
    expiring: str = "normal.expiring"
    expires: str = "normal.expires"
    surge: str = "normal.surge"
    rejecting: str = "normal.rejecting"
    rejects: str = "normal.rejects"

    def all(self) -> list[str]:
        return [getattr(self, name) for name in self.__slots__]


NAMES = Names()
WORK = 0.04
"""Seconds for a message, at 20 a second: four fifths of what one consumer can do."""


def history_file(file: Path, broker: str, now: float) -> None:
    """What the daily trend job leaves, until the last whole hour."""
    end = now // 3600 * 3600
    begin = end - (WEEKS * HOURS + 1) * 3600
    shares: dict[str, dict[str, float]] = {
        NAMES.silent: {},
        NAMES.expiring: {},
        NAMES.rejecting: {},
    }
    shares |= {NAMES.expires: {"expired": SHARE}, NAMES.rejects: {"killed": 0.5}}
    rows = [
        (broker, (name, name), profile(steady(RATE, begin, end, **share)))
        for name, share in shares.items()
    ]
    pq.write_table(profile_table(rows), file)


def give_past(folder: Path, broker: str, offset: int, boundary: float) -> None:
    """To the state database of an agent that has just ended."""
    state = StateStore(StateDatabase(folder))
    state.database.open()
    state.load()
    known = state.of_name(broker)
    assert known is not None
    now = time.time()
    local = (now + offset) // 3600 * 3600
    begin = local - (WEEKS * HOURS + 1) * 3600
    run = boundary - MISSED
    usual = {
        NAMES.missed: profile(
            nightly(begin, local, run + offset, until=run + offset - DAY / 2)
        ),
        NAMES.came: profile(nightly(begin, local, run + offset, until=np.inf)),
        NAMES.surge: profile(steady(RATE / 2, begin, local), peak=300 * RATE / 2),
    }
    arrivals = {NAMES.missed: (run - DAY + RUN, OF_RUN), NAMES.came: (run + RUN, 0.0)}
    aged = with_past(known, Calendar().hour(local - 1), usual, now - KNOWN, arrivals)
    assert state.keep(aged, state.next_sequence(), now)
    state.database.close()


@dataclass(slots=True)
class Clients:
    """At work, each queue for its scene."""

    broker: Broker
    stack: ExitStack
    senders: dict[str, list[Sender]] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    batches: BatchReader | None = None

    def flow(
        self,
        queue: str,
        rate: float = RATE,
        work: float = 0.001,
        *,
        lives: float = 0.0,
        **of: Any,
    ) -> None:
        self.workers[queue] = Worker(self.broker, queue, work, **of)
        self.stack.callback(self.workers[queue].close)
        self.more(queue, rate, lives=lives)

    def more(self, queue: str, rate: float, *, lives: float = 0.0) -> Sender:
        sender = Sender(self.broker, queue, rate, lives=lives)
        self.stack.callback(sender.close)
        self.senders.setdefault(queue, []).append(sender)
        return sender

    def sent(self, queue: str) -> int:
        return sum(one.sent for one in self.senders[queue])

    def depth(self, queue: str) -> int:
        """By their own counts."""
        return self.sent(queue) - self.workers[queue].counts.acknowledged


def start(clients: Clients) -> None:
    for queue in (NAMES.silent, NAMES.online, NAMES.rejecting, NAMES.rejects):
        clients.flow(queue)
    for queue in (NAMES.missed, NAMES.came):
        worker = clients.workers[queue] = Worker(clients.broker, queue, 0.01)
        clients.stack.callback(worker.close)
    clients.workers[NAMES.rejects].rejects = True
    clients.flow(NAMES.slow, work=WORK, credit=2)
    clients.flow(NAMES.buffered, work=WORK, credit=50_000)
    clients.flow(NAMES.busy, RATE / 2, work=WORK, credit=100)
    clients.flow(NAMES.leak, skips=LEAKS, credit=1000)
    endpoint = clients.broker.endpoint()
    clients.batches = BatchReader(
        endpoint, NAMES.batches, credit=4 * BATCH, client_id="batches-reader"
    )
    clients.stack.callback(clients.batches.close)
    clients.more(NAMES.batches, RATE)
    clients.flow(NAMES.expiring, credit=2, lives=LIFE)
    clients.flow(NAMES.expires, work=SLOW_READER, credit=2, lives=LIFE)
    clients.flow(NAMES.surge, RATE / 2)


def faults(clients: Clients) -> Iterator[tuple[str, float]]:
    """All at once: queue and begin."""
    for queue in (NAMES.silent, NAMES.online):
        yield queue, clients.senders[queue][0].stop()
    for queue in (NAMES.slow, NAMES.buffered):
        clients.workers[queue].slow_down(SLOWER * WORK)
    clients.workers[NAMES.expiring].slow_down(SLOW_READER)
    yield NAMES.expiring, time.time()
    clients.workers[NAMES.rejecting].rejects = True
    clients.more(NAMES.surge, 1.5 * RATE)
    yield NAMES.surge, time.time()
    for queue in (NAMES.slow, NAMES.buffered):
        until(lambda queue=queue: clients.depth(queue) >= 2)  # type: ignore[misc]
        yield queue, time.time()
    until(lambda: clients.workers[NAMES.rejecting].rejected_at > 0)
    yield NAMES.rejecting, clients.workers[NAMES.rejecting].rejected_at


def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def wanted_of(boundary: float) -> list[Wanted]:
    missed = MISSED - 2 * INTERVAL
    silent = "never pauses"
    online = "never pauses, learned online"
    buffered = "5 times slower, all in the buffer"
    return [
        Wanted(silent, NAMES.silent, "producer_silent", "info", 90.0),
        Wanted(silent, NAMES.silent, "producer_silent", "warning", 360.0),
        Wanted(
            online, NAMES.online, "producer_silent", "warning", 360.0, by_hour=False
        ),
        Wanted(
            "nightly run missed",
            NAMES.missed,
            "producer_silent",
            "warning",
            MISSED,
            missed,
            begin=boundary - MISSED,
        ),
        Wanted(
            "5 times slower, in the queue",
            NAMES.slow,
            "slowed",
            "warning",
            120.0,
            by_hour=False,
        ),
        Wanted(buffered, NAMES.buffered, "slowed", "warning", 120.0, by_hour=False),
        Wanted("leaks 1 in 1,000", NAMES.leak, "leaking", "info", 600.0, by_hour=False),
        Wanted("93 % expire", NAMES.expiring, "expiring_unusually", "warning", 600.0),
        Wanted(
            "half is rejected",
            NAMES.rejecting,
            "dead_lettering_unusually",
            "warning",
            600.0,
        ),
        Wanted("4 times as much", NAMES.surge, "surge", "info", 600.0),
    ]


LOOK_ALIKES = {
    NAMES.came: "nightly run came",
    NAMES.busy: "more traffic at the usual pace",
    NAMES.batches: "acknowledges in batches",
    NAMES.expires: "93 % expire as usual",
    NAMES.rejects: "half is rejected as usual",
}


@dataclass(slots=True)
class Truth:
    """What the clients know, second by second, that makes a scene one."""

    clients: Clients
    deepest: int = 0
    """Backlog of the queue that gets more."""
    ready: list[int] = field(default_factory=list)
    """Of the queue whose backlog its consumer buffers, while that is slow and not reported."""
    expiring: tuple[int, int] = (0, 0)
    """Sent and acknowledged when the reader became slow."""

    def look(self, *, slow: bool) -> None:
        self.deepest = max(self.deepest, self.clients.depth(NAMES.busy))
        if slow:
            manage = self.clients.broker.manage
            messages, delivering = (
                int(manage.queue(NAMES.buffered, f"{of}Count"))
                for of in ("Message", "Delivering")
            )
            self.ready.append(max(messages - delivering, 0))

    def counted(self, queue: str) -> tuple[int, int]:
        return self.clients.sent(queue), self.clients.workers[queue].counts.acknowledged

    def untrue(self) -> list[str]:
        sent, read = np.subtract(self.counted(NAMES.expiring), self.expiring)
        leaker, rejecter = (
            self.clients.workers[name] for name in (NAMES.leak, NAMES.rejects)
        )
        usually_sent, usually_read = self.counted(NAMES.expires)
        batches = (
            0
            if self.clients.batches is None
            else self.clients.batches.counts.acknowledged // BATCH
        )
        rejected = 1 - rejecter.counts.acknowledged / rejecter.counts.received
        held = {
            f"a backlog of {self.deepest} at the usual pace": self.deepest > 200,
            f"at most {max(self.ready)} ready, all in the buffer": max(self.ready)
            <= READ_APART,
            f"{100 * (1 - read / sent):.0f} % expire": abs(1 - read / sent - SHARE)
            < 0.04,
            f"{leaker.left} of {leaker.counts.received} leak": abs(
                leaker.left - leaker.counts.received / LEAKS
            )
            < 1.5,
            f"{100 * (1 - usually_read / usually_sent):.0f} % expire as usual": (
                abs(1 - usually_read / usually_sent - SHARE) < 0.04
            ),
            f"{100 * rejected:.0f} % are rejected as usual": abs(rejected - 0.5) < 0.05,
            f"{batches} batches are acknowledged": batches > 100,
            "its run came to nobody": self.clients.workers[NAMES.missed].counts.received
            == 0,
        }
        say("by the clients: " + ", ".join(held))
        return [what for what, holds in held.items() if not holds]


def played(
    agent: Agent, clients: Clients, boundary: float
) -> tuple[list[Wanted], Watch, list[str]]:
    """The faults of all scenes on an agent that knows what is normal; the last: what did not come about."""
    truth = Truth(clients)
    watch = Watch(agent, clients.broker.name)
    wanted = wanted_of(boundary)
    begins: dict[str, float] = {}
    for passed in seconds_until(MOST):
        watch.look()
        if not begins and passed > WARM:
            truth.expiring = truth.counted(NAMES.expiring)
            begins = dict(faults(clients))
            pushes = clients.more(NAMES.busy, 1.25 * RATE)
        if begins:
            truth.look(slow=(NAMES.buffered, "slowed", "warning") not in watch.first)
            if passed > WARM + PUSH:
                pushes.stop()
        if passed > WARM + LOOK and reports(watch, wanted):
            break
    begins[NAMES.leak] = clients.workers[NAMES.leak].left_at
    for one in wanted:
        one.begin = begins.get(one.queue, one.begin)
        watch.complete(one)
    return wanted, watch, truth.untrue()


def seconds_until(end: float) -> Iterator[float]:
    """Twice a second, how many have passed."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < end:
        yield passed
        time.sleep(0.5)


@pytest.mark.slow  # minutes, on purpose
def test_each_condition_against_normal_in_time(artemis: Broker, tmp_path: Path) -> None:
    artemis.manage.create_queues(NAMES.all())
    boundary = float(round(time.time() + 75 + FIRST_LIFE + WARM + 120))
    offset = round((4 * 3600 - boundary + DAY / 2) % DAY - DAY / 2)
    zone_file(tmp_path / "zones", offset)
    profiles = tmp_path / "profiles.parquet"
    history_file(profiles, artemis.name, time.time())
    agent = Agent(
        tmp_path / "agent",
        program=("env", f"PYTHONTZPATH={tmp_path / 'zones'}", str(PENSTOCK)),
        brokers=[entry(artemis, include=[{"queue": name} for name in NAMES.all()])],
        interval=f"{INTERVAL:g}s",
        timeout="4s",
        normal={"profiles": str(profiles), "timezone": NIGHT},
    )
    with ExitStack() as stack:
        clients = Clients(artemis, stack)
        start(clients)
        with agent:
            time.sleep(FIRST_LIFE)
            agent.terminate(timeout=10)
            give_past(agent.work / "data", artemis.name, offset, boundary)
            agent.run()
            wanted, watch, untrue = played(agent, clients, boundary)
    false = {scene: watch.alarms(queue) for queue, scene in LOOK_ALIKES.items()}
    say(
        "\n| scene | condition | seconds | bar | now / usual; at this hour | |\n|---|---|---|---|---|---|"
    )
    for one in wanted:
        say(one.line())
    for scene, alarms in false.items():
        say(f"| {scene} | | | none | | {', '.join(alarms) or 'right'} |")
    say(
        "all that was reported: "
        + ", ".join(
            sorted(f"{queue} {name} ({how})" for queue, name, how in watch.first)
        )
    )
    figures = {
        f"{one.queue} {one.condition} {one.severity}": round(one.seconds, 1)
        for one in wanted
    }
    wrong = [one.line() for one in wanted if not one.right]
    said = {
        "check": "normal",
        **figures,
        "wrong": len(wrong),
        "false": sum(map(len, false.values())),
    }
    say(json.dumps({**said, "load": os.getloadavg()[2]}))
    assert not wrong, wrong
    assert not any(false.values()), false
    assert not untrue, untrue


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - with -s
