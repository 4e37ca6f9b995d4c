"""Keeps what is known of one broker. Assesses each poll after the one before, also over a restart of the agent.

It also says what `/metrics` shows of the broker, and until when.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from penstock.agent import tables as own
from penstock.agent.checkpoint import (
    Checkpoint,
    checkpoint_of,
    node_of,
    restore,
    with_late,
)
from penstock.agent.nodes import Nodes, Undecided
from penstock.agent.profiles import profile_file
from penstock.agent.recent import Recent
from penstock.agent.record import Record, Written, record_of, written_as
from penstock.agent.tables import SERIES, SeriesBudget
from penstock.agent.workers import Lane
from penstock.assessment.assess import State, Tables, assess
from penstock.assessment.states import all_stale
from penstock.conditions.condition import Severity
from penstock.core.table import Table
from penstock.exposition.render import BrokerBlocks
from penstock.insight.events import (
    ConditionKey,
    Event,
    StatusSummary,
    Told,
    changes,
    summarize,
)
from penstock.insight.explain import BrokerView
from penstock.model import BROKER_KINDS, Collector, LeftOut, Role, Snapshot
from penstock.rule_engine.judgement import Judgement, glanced
from penstock.series.last_good import LastGood, keep_last_good, keep_seconds
from penstock.series.queues import COUNTERS
from penstock.settings.policy import Policy


class Result(StrEnum):
    """How a scheduled poll went."""

    OK = "ok"
    PARTIAL = "partial"
    """The broker was read, some of its collectors failed."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not made: the one before was still under way, or the broker needed a pause."""


@dataclass(frozen=True, slots=True)
class PollResult:
    result: Result
    error: str = ""
    seconds: float = np.nan
    """How long the broker was read; NaN: it was not."""
    pause: float = 0.0
    """Seconds for which the broker is better left alone."""


log = logging.getLogger(__name__)


@dataclass(slots=True)
class Assessor:
    """Carries what is known of one broker from poll to poll.

    Everything belongs to the jobs of `lane`, but for `next_policy`, which the event loop sets; `view`, `recent` and
    `blocks` may be read by any thread, `fresh_until` between the jobs.
    """

    policy: Policy
    """In force at the last poll."""
    interval: float
    nodes: Nodes = field(default_factory=Nodes)
    """What an earlier agent, or another assessor, knew; who else serves the node id."""
    on_poll: Callable[[Snapshot, Judgement], None] = lambda _, __: None
    """Called with each poll as it was read, and what it was judged to mean; must be quick."""
    view: BrokerView | None = None
    """All that is known after the last poll, failed parts as they last were; None: nothing is fresh enough."""
    last_view: BrokerView | None = None
    """The same, however old."""
    recent: Recent = field(default_factory=Recent)
    state: State = field(default_factory=State)
    collectors: Mapping[str, Collector] = field(default_factory=dict)
    """Each as it last was."""
    written: Written | None = None
    """What the state database has of it; None: nothing that a record can rest on."""
    lane: Lane | None = None
    """Where polls are assessed; None: by the only thread there is."""
    on_change: Callable[[Iterable[Event]], None] = lambda _: None
    """Called where `publish` runs, with what changed at a poll."""
    on_record: Callable[["Assessor", Sequence[Event]], None] = lambda _, __: None
    """Called there with the same before the poll is shown: what is shown must not be lost."""
    recall: Callable[[str], Checkpoint | None] = lambda _: None
    """Called once, with its name, where the first poll fails: what an earlier agent knew of it."""
    failing_since: float = np.nan
    """When the first of the polls ended that have failed since; NaN where the last did not."""
    blocks: BrokerBlocks = field(default_factory=BrokerBlocks)
    budget: SeriesBudget = field(default_factory=SeriesBudget)
    fresh_until: float = np.inf
    """When what is shown becomes too old, by the monotonic clock; inf while nothing is."""
    next_policy: Policy = field(init=False)
    """From the next poll on, which takes it over: the state may be under work when it is set."""
    _restored: bool = False
    """Whether there was a first complete poll: only from then on there is something to keep."""
    _waits_since: float = np.nan
    """Of the first poll that something to be restored waited for."""
    _summary: StatusSummary | None = None
    _last_good: LastGood = field(default_factory=LastGood)

    def __post_init__(self) -> None:
        self.next_policy = self.policy

    @property
    def name(self) -> str:
        return self.policy.broker

    @property
    def snapshot(self) -> Snapshot | None:
        return None if self.view is None else self.view.snapshot

    @property
    def node(self) -> str:
        """The node id that it serves; empty while nothing is known."""
        snapshot = self.snapshot
        return (
            ""
            if snapshot is None or snapshot.broker is None
            else node_of(snapshot.broker, self.name)
        )

    @property
    def tables(self) -> Tables:
        return {} if self.view is None else self.view.tables

    def hidden(self) -> dict[str, int]:
        """How many rows are held back by the series limits, by table."""
        return self.state.hidden() if self.tables else {}

    def take(self, snapshot: Snapshot) -> None:
        if self.next_policy is not self.policy:
            self.policy, self.state = self.next_policy, self.state.with_new_labels()
        self.nodes.polled(self.name, snapshot)
        if self._summary is None:
            self._summary = self._as_left(snapshot)
        snapshot = with_noted(snapshot, self.nodes, self.name, self.budget.left_out)
        self._last_good, completed = keep_last_good(
            self._last_good, snapshot, keep_seconds(self.interval)
        )
        if not self._restored:
            completed = self._restore(completed)
        profile = (
            profile_file(self.policy.profiles).of(self.name)
            if self.policy.profiles
            else None
        )
        if profile is not self.state.judgement.normal.history:
            self.state = replace(
                self.state, judgement=self.state.judgement.with_profile(profile)
            )
        self.state, tables = assess(self.state, completed, self.policy)
        if not self._restored and (queues := tables.get("queue")) is not None:
            columns = {
                name: column
                for name, column in queues.columns.items()
                if name not in COUNTERS
            }
            tables = {**tables, "queue": Table(queues.index, columns)}
        self.view = self.last_view = BrokerView(
            self.state, tables, completed, self.policy, self.interval
        )
        # Not every part is read at every poll: the others stay as they were last.
        self.collectors = {
            **({} if is_passive(snapshot) else self.collectors),
            **snapshot.collectors,
        }
        self.recent.add(snapshot.stamp, tables)
        self.on_poll(snapshot, self.state.judgement)

    def glance(self, snapshot: Snapshot) -> None:
        """A poll between two: it reports only the losses of rings."""
        if (
            self._restored
            and self.next_policy is self.policy
            and not is_passive(snapshot)
        ):
            judgement = glanced(self.state.judgement, snapshot, self.policy.constants)
            self.state = replace(self.state, judgement=judgement)

    def forget(self) -> None:
        """Forget the last poll, which is too old to be used; the state goes on with the next one."""
        self.view = None
        self._last_good = LastGood()
        self.collectors = {}
        self.nodes.forget(self.name)

    def _as_left(self, snapshot: Snapshot) -> StatusSummary:
        """At the first poll: how an earlier agent left the broker, which took over from whom; its conditions where they
        are judged no more.
        """
        own = self.nodes.own(self.name, snapshot)
        if own is None:
            return StatusSummary(self.name)
        left = StatusSummary(
            self.name,
            role=own.role,
            process=own.process,
            takeover=self.nodes.resumed(self.name, own),
        )
        if is_passive(snapshot):
            left = replace(
                left, conditions=conditions_of(own.told), incidents=own.incidents
            )
        return left

    def _show_as_left(self) -> None:
        """Show what an earlier agent knew last, for a broker that has not answered this one."""
        recall = self.recall
        self.recall = lambda _: None
        checkpoint = recall(self.name)
        if (
            checkpoint is None
            or checkpoint.snapshot is None
            or checkpoint.snapshot.broker is None
        ):
            return
        about = checkpoint.snapshot.broker
        then = Assessor(self.policy, self.interval, Nodes(lambda _: [checkpoint]))
        then.take(
            replace(
                checkpoint.snapshot,
                broker=replace(about, kind=BROKER_KINDS[about.kind.name]),
            )
        )
        self.failing_since = checkpoint.failing_since
        self.last_view = then.last_view

    def _restore(self, snapshot: Snapshot) -> Snapshot:
        """At the first complete poll; until then consumers are left out, lest they be counted twice."""
        if snapshot.broker is None or is_passive(snapshot):
            return snapshot
        try:
            checkpoint = self.nodes.recalled(self.name, snapshot)
        except Undecided:
            return held_back(snapshot)
        if checkpoint is None:
            self._restored = True
            return snapshot
        if np.isnan(self._waits_since):
            self._waits_since = snapshot.stamp
        waits = bool(
            checkpoint.producers
        ) and snapshot.stamp - self._waits_since <= keep_seconds(self.interval)
        if (
            snapshot.queues is None
            or snapshot.consumers is None
            or (snapshot.producers is None and waits)
        ):
            return held_back(snapshot)
        self._restored = True
        try:
            self.state = restore(checkpoint, self.state, snapshot, self.policy)
        except (ValueError, LookupError, TypeError) as error:
            log.warning(
                "broker %s: what was kept of it does not fit (%s), and is not used",
                self.name,
                error,
            )
            return snapshot
        if checkpoint.broker in ("", self.name):
            conditions = conditions_of(checkpoint.told)
            summary = self._summary or StatusSummary(self.name)
            self._summary = replace(
                summary, conditions=conditions, incidents=checkpoint.incidents
            )
        return with_late(checkpoint, snapshot)

    @property
    def _told(self) -> Told:
        return self._summary.conditions if self._summary else {}

    def checkpoint(self) -> Checkpoint | None:
        """Return what is kept over a restart of the agent; None before the first complete poll."""
        snapshot = self.snapshot
        if snapshot is None:
            return None
        if self._restored:
            checkpoint = checkpoint_of(self.state, snapshot, self.policy)
            conditions = [(name, *how) for name, how in self._told.items()]
            return checkpoint and replace(
                checkpoint,
                told=conditions,
                snapshot=snapshot,
                failing_since=self.failing_since,
            )
        if not is_passive(snapshot):
            return None
        # Not active yet in this agent's time: what was known before stays, and that it is passive now.
        passive = checkpoint_of(State(), snapshot, self.policy)
        own = self.nodes.own(self.name, snapshot)
        if passive is None or own is None:
            return passive
        return replace(
            own,
            now=passive.now,
            role=passive.role,
            process=passive.process,
            told=(),
            incidents=(),
        )

    def record(self, sequence: int) -> tuple[Record | None, Written | None]:
        """Return the record of the last poll, None where nothing changed, and what is written with it."""
        snapshot = self.snapshot if self._restored else None
        return record_of(
            self.written, self.state, snapshot, self.policy, self._told, sequence
        )

    def kept_as(self, checkpoint: Checkpoint, sequence: int) -> None:
        """Note that `checkpoint`, which is of now, was written with this sequence: records rest on it from now on."""
        if checkpoint.role is Role.ACTIVE:
            self.written = written_as(checkpoint, self.state, self._told, sequence)

    def changes(self, poll: PollResult) -> Iterable[Event]:
        """Return the events since the last call; to be called once after each poll."""
        if poll.result is Result.FAILED:
            self.nodes.failed(self.name)
        before = self._summary or StatusSummary(self.name)
        up = poll.result is not Result.FAILED
        self._summary = summarize(
            before, self.state, self.snapshot, up=up, error=poll.error
        )
        return changes(before, self._summary, time.time())

    def publish(self, poll: PollResult, polls: Mapping[Result, int]) -> None:
        """Render after a poll; what it could not read is shown only while it is fresh enough. polls: so far."""
        failed = poll.result is Result.FAILED
        if failed and self.last_view is None:
            self._show_as_left()
        since = np.fmin(self.failing_since, time.time())
        self.failing_since = float(since) if failed else np.nan
        if failed and (
            time.monotonic() > self.fresh_until or self.nodes.is_succeeded(self.name)
        ):
            self.forget()
        changed = list(self.changes(poll))
        self.on_record(self, changed)
        try:
            self.blocks.update(
                self._shown(poll, polls), self.policy.limits.label_length
            )
        finally:
            self.on_change(changed)
        if self.view is None:
            self.fresh_until = np.inf
        elif not failed or np.isinf(self.fresh_until):
            self.fresh_until = (
                time.monotonic() - poll.seconds + keep_seconds(self.interval)
            )

    def withdraw(self, poll: PollResult, polls: Mapping[Result, int]) -> None:
        """Show only that the broker is down. poll: the last one."""
        self.fresh_until = np.inf
        self.forget()
        self.publish(replace(poll, result=Result.FAILED), polls)

    def _shown(self, poll: PollResult, polls: Mapping[Result, int]) -> Tables:
        """The tables of the assessment and those of the agent; how many samples there are is counted last."""
        snapshot = self.snapshot
        left_out = () if snapshot is None else snapshot.observation.left_out
        tables = {
            **self.tables,
            "collector": own.collector_table(self.name, self.collectors),
            "poll": own.poll_table(self.name, polls),
        }
        if poll.result is Result.FAILED and "known" in tables:
            tables["known"] = all_stale(tables["known"])
        numbers = {
            "up": float(poll.result is not Result.FAILED),
            "poll_duration": round(poll.seconds, 6),
            "poll_timestamp": np.nan if snapshot is None else round(snapshot.stamp, 3),
            "series_dropped": 0.0,
            "rows_dropped": float(
                sum(one.count for one in left_out if one.what != SERIES)
            ),
            "series": 0.0,
        }
        tables["broker"] = own.with_poll(tables, self.name, numbers)
        tables = self.budget.fitted(tables, self.policy)
        numbers["series_dropped"] = float(
            own.series_of_hidden(self.hidden()) + self.budget.dropped
        )
        numbers["series"] = float(own.series(tables))
        tables["broker"] = own.with_poll(tables, self.name, numbers)
        return tables


def is_passive(snapshot: Snapshot) -> bool:
    return snapshot.broker is not None and snapshot.broker.role is not Role.ACTIVE


def held_back(snapshot: Snapshot) -> Snapshot:
    """Without what adds up: its totals would begin at 0, and jump when they are restored."""
    return replace(snapshot, consumers=None, producers=None)


def with_noted(
    snapshot: Snapshot, nodes: Nodes, name: str, series: LeftOut | None
) -> Snapshot:
    """Return the snapshot with the other brokers of its node id, and with the series left out of the poll before."""
    noted = replace(
        snapshot.observation, rivals=nodes.rivals(name), takeover=nodes.takeover(name)
    )
    snapshot = replace(snapshot, observation=noted)
    if series is None:
        return snapshot
    observation = replace(
        snapshot.observation, left_out=(*snapshot.observation.left_out, series)
    )
    return replace(
        snapshot,
        observation=observation,
        notes=(*snapshot.notes, f"not shown in /metrics: {series}"),
    )


def conditions_of(
    conditions: Sequence[tuple[ConditionKey, Severity, float]],
) -> dict[ConditionKey, tuple[Severity, float]]:
    return {name: (severity, since) for name, severity, since in conditions}
