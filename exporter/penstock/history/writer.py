"""The history writer: takes each poll off the hot path, spools it, publishes what is due, keeps the stores bounded.

One thread of its own. A poll is passed on as the immutable values that the agent has anyway; when the thread is
behind, polls are dropped and counted rather than held.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from penstock.account.account import MessageAccount
from penstock.account.openmq import OpenmqAccount
from penstock.conditions.condition import ActiveCondition
from penstock.core.table import Column
from penstock.history import told as told_file
from penstock.history.compact import Keep, Known, tidy, warm_up
from penstock.history.epoch import CounterEpochs
from penstock.history.exported import Exported, Told, of_incidents
from penstock.history.fates import Fates
from penstock.history.publish import give_back, publish
from penstock.history.ranges import HistoryReader
from penstock.history.schema import BROKER, CONDITION, FATE, TABLES
from penstock.history.snapshots import (
    MICRO,
    MILLI,
    Texts,
    broker_batch,
    extra_columns,
    table_batch,
)
from penstock.history.spool import Spool
from penstock.history.store import Store, StoreError
from penstock.model import Snapshot
from penstock.rule_engine.judgement import Judgement

log = logging.getLogger(__name__)

WAITING = 8
"""Polls that may wait for the thread; of a large broker each holds some megabytes."""
TIDY_SECONDS = 3600.0
WAKE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class PollRecord:
    """A poll as the agent passes it on. evicted: per queue by the account, empty where it was not judged."""

    broker: str
    snapshot: Snapshot
    conditions: Sequence[ActiveCondition] = ()
    evicted: Column = field(default_factory=lambda: np.empty(0))
    interval: float = 15.0
    account: MessageAccount | OpenmqAccount | None = None


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """url: where to publish, every `publish` seconds. spool_bytes: what may wait there. agent: names its files."""

    spool: Path
    url: str
    publish: float
    spool_bytes: int
    keep: Keep
    agent: str


class HistoryWriter:
    """Started with `start`, ended with `stop`; `offer_poll` never blocks and never raises."""

    def __init__(
        self,
        settings: WriterSettings,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """clock: the time of day, which may be set. steady: one that is never set."""
        self._settings = settings
        self._clock = clock
        self._steady = steady
        self._known = Known(steady)
        self._store = Store(settings.url)
        self.reader = HistoryReader(self._store)
        self._spool = Spool(
            settings.spool,
            f"{int(clock() * 1000):012x}",
            settings.spool_bytes,
            settings.publish,
        )
        self._polls: queue.SimpleQueue[PollRecord | None] = queue.SimpleQueue()
        self._texts = Texts()
        self._lives = CounterEpochs()
        self._told: dict[str, Exported] = {}
        self._fates: dict[str, Fates] = {}
        """Both as the polls that were kept say it."""
        self._lives_file = settings.spool / "lives.arrow"
        self._told_file = settings.spool / "told.bin"
        self._thread = threading.Thread(
            target=self._run, name="penstock-history", daemon=True
        )
        self._after: HistoryWriter | None = None
        self._tidied = -np.inf
        self._stopping = False
        self.dropped = 0
        """Polls lost: the thread was behind, or the spool could not be written."""
        self.dropped_segments = 0
        """Spool segments thrown away unpublished to stay below the limit."""
        self.damaged_segments = 0
        """Spool segments of which a part could not be read."""
        self.published = np.nan
        """Agent's clock at the last publication that went well."""
        self._why: dict[str, str] = {}
        """Why the last attempt failed, by what was attempted: "spool", "publish". Each is mended by itself only."""

    @property
    def failing(self) -> str:
        """Why the last spooling or publication failed; empty when both went well."""
        return next(iter(self._why.values()), "")

    def start(self, after: "HistoryWriter | None" = None) -> None:
        """Begin when `after` has published what it has; polls may be offered at once."""
        self._after = after
        self._thread.start()

    def recall(self) -> None:
        """Go on with what an earlier agent left."""
        self._lives.load(self._lives_file)
        self._told = told_file.load(self._told_file)

    def offer_poll(
        self,
        broker: str,
        interval: float,
        snapshot: Snapshot,
        judgement: Judgement,
        evicted: Column,
    ) -> None:
        """Take over a poll; it is dropped and counted when too many wait already."""
        if self._polls.qsize() >= WAITING:
            self.dropped += 1
        else:
            openmq = judgement.openmq_account
            conditions = [
                one._replace(verdicts={}) for one in judgement.conditions
            ]  # which hold on to their poll
            told = (*conditions, *of_incidents(judgement.incidents.told))
            found = (
                told,
                evicted,
                interval,
                openmq if openmq.watched else judgement.account,
            )
            self._polls.put(PollRecord(broker, snapshot, *found))

    def end(self) -> None:
        """Take no more polls, and publish what there is."""
        self._polls.put(None)

    def stop(self, seconds: float = 30.0) -> None:
        """End, and wait; what cannot be published within `seconds` stays in the spool for the next run."""
        self.end()
        self._thread.join(seconds)

    def finish(self) -> None:
        """Publish everything, without a thread; for a writer that was never started."""
        self._stopping = True
        self.step(None)

    def numbers(self) -> Mapping[str, float]:
        """What the agent shows of it, by the columns of the catalogue's table `agent`."""
        return {
            "history_dropped_polls": float(self.dropped),
            "history_dropped_segments": float(self.dropped_segments),
            "history_damaged_segments": float(self.damaged_segments),
            "history_publish_timestamp": self.published,
            "history_success": float(not self.failing),
        }

    # --- in the thread

    def _run(self) -> None:
        if self._after is not None:
            self._after.stop()
            self._after = None
        try:
            self.recall()
        except Exception:
            log.exception(
                "what an earlier agent left in %s could not be taken up; please report this",
                self._settings.spool,
            )
        rehearsed = False
        while not self._stopping:
            try:
                poll = self._polls.get(timeout=WAKE_SECONDS)
            except queue.Empty:
                poll = None
            else:
                self._stopping = poll is None
            try:
                self.step(poll)
            except Exception:
                log.exception("the history could not be written; please report this")
                self.dropped += poll is not None
            # Not before the first polls: those of many brokers come close together.
            if not (rehearsed or self._stopping) and self._polls.empty():
                rehearsed = True
                try:
                    warm_up(self._settings.spool)
                except Exception as error:  # noqa: BLE001 - nothing is lost; joining itself will report what is wrong
                    log.info("the joining of history was not rehearsed: %s", error)

    def step(self, poll: PollRecord | None) -> None:
        """Spool `poll`, when there is one, and publish what is due; all of it when the writer is being stopped."""
        if poll is not None:
            self._keep(poll)
        if self._stopping or self._spool.is_due(self._clock()):
            self._rotate()
        self._publish()
        now = self._steady()
        if (
            not self._stopping
            and now - self._tidied >= TIDY_SECONDS
            and not self.failing
        ):
            self._tidied = now
            self._guarded(
                "publish",
                lambda: tidy(
                    self._store, self._settings.keep, self._clock(), self._known
                ),
            )

    def _keep(self, poll: PollRecord) -> None:
        told = replace(self._told.get(poll.broker, Exported()))
        fates = self._fates.get(poll.broker, Fates())
        try:
            fates = fates.advance(
                poll.account, poll.snapshot.queues, poll.snapshot.stamp
            )
            batches = self.batches(poll, told, fates)
            self._spool.append(poll.snapshot.stamp, batches)
        except OSError as error:
            self.dropped += 1
            self._failed(
                "spool",
                f"{self._settings.spool}: {error.strerror or error}; this poll is lost to the history",
            )
        else:
            self._mended("spool")
            # Not before: what a lost poll would have written is written by the next.
            self._told[poll.broker], self._fates[poll.broker] = told, fates
            if CONDITION.name in batches:
                self._save_told()

    def _save_told(self) -> None:
        self._guarded(
            "told", lambda: told_file.save(self._told, self._told_file), self._told_file
        )

    def _rotate(self) -> None:
        try:
            self._spool.rotate()
        except (
            OSError
        ) as error:  # its polls are whole: only the mark of its end is missing
            self._failed("spool", f"{self._settings.spool}: {error.strerror or error}")

    def _publish(self) -> None:
        closed = self._spool.closed()
        if not closed:
            return
        self._save_told()
        self._guarded(
            "publish", lambda: self._lives.save(self._lives_file), self._lives_file
        )
        if self._guarded("publish", lambda: self._publish_each(closed)):
            self.published = self._clock()
            give_back()
        elif dropped := self._spool.drop_beyond_limit():
            self.dropped_segments += dropped
            log.warning(
                "the history's spool is full: %d of its oldest segments were dropped",
                dropped,
            )

    def _publish_each(self, closed: Sequence[Path]) -> None:
        """Raises StoreError, and OSError where the disk does not give one of them, which keeps no other back."""
        unread: OSError | None = None
        for segment in closed:
            try:
                if not publish(segment, self._store, self._settings.agent):
                    self.damaged_segments += 1
                    log.warning(
                        "%s: some polls of the history cannot be read and are not published; they are kept there",
                        self._spool.set_aside(segment),
                    )
            except OSError as error:
                unread = unread or error
        if unread is not None:
            raise unread

    def _guarded(
        self, what: str, work: Callable[[], object], file: Path | None = None
    ) -> bool:
        try:
            work()
        except (StoreError, OSError) as error:
            self._failed(
                what,
                str(error)
                if file is None
                else f"{file}: {getattr(error, 'strerror', None) or error}",
            )
            return False
        self._mended(what)
        return True

    def _failed(self, what: str, why: str) -> None:
        if what not in self._why:
            kept = "" if what == "spool" else ", the spool keeps it meanwhile"
            log.warning("the history cannot be written%s: %s", kept, why)
        self._why[what] = why

    def _mended(self, what: str) -> None:
        if self._why.pop(what, None) and not self._why:
            log.info("the history is written again")

    def batches(
        self, poll: PollRecord, told: Exported, fates: Fates
    ) -> dict[str, pa.RecordBatch]:
        """One poll as record batches by kind; a kind without rows is left out. told: goes on with this poll."""
        broker = poll.broker
        snapshot = poll.snapshot
        self._lives.begin_poll(broker, snapshot)
        found = {}
        for name, kind in TABLES.items():
            table = getattr(snapshot, name)
            if table is not None and len(table):
                sids, _ = self._texts.of(broker, kind, table.index)
                incs = self._lives.of(
                    broker, kind.name, table, sids, kind.counters, snapshot.stamp
                )
                added = extra_columns(
                    snapshot, kind, table, poll.evicted, poll.interval
                )
                found[kind.name] = table_batch(
                    broker, kind, snapshot, table, self._texts, incs, added
                )
        conditions = conditions_batch(
            poll, told.advance(poll.snapshot.stamp, poll.conditions)
        )
        if conditions is not None:
            found[CONDITION.name] = conditions
        if len(fates.rows):
            inc = fates.rows["inc"].astype(np.int64)
            found[FATE.name] = table_batch(
                broker, FATE, snapshot, fates.rows, self._texts, inc, {}
            )
        found[BROKER.name] = broker_batch(broker, snapshot, poll.interval)
        return found


def conditions_batch(poll: PollRecord, told: Sequence[Told]) -> pa.RecordBatch | None:
    """What is written of this poll, None where that is nothing."""
    if not told:
        return None
    rows = [
        {
            **{
                name: getattr(one.condition, name)
                for name in ("address", "queue", "client", "consumers")
            },
            "stamp": round(poll.snapshot.stamp * MICRO),
            "broker": poll.broker,
            "event": one.event,
            "condition": one.condition.name,
            "severity": one.condition.severity.name.lower(),
            "evidence": msgspec.json.encode(
                one.condition.evidence, order="sorted"
            ).decode(),
            "since": None
            if np.isnan(one.condition.since)
            else round(one.condition.since * MILLI),
            "seen": round(one.seen * MILLI),
        }
        for one in told
    ]
    return pa.RecordBatch.from_pylist(rows, CONDITION.schema)
