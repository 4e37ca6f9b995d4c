"""What one poll means, continued from the one before. State is by the broker's clock, conditions by the agent's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.account.account import MessageAccount, in_part
from penstock.account.openmq import OpenmqAccount
from penstock.conditions.condition import ActiveCondition
from penstock.core.table import Column, Index, Mask
from penstock.core.windows import reindex
from penstock.incidents.incidents import Incidents
from penstock.learned import timeout
from penstock.learned.absence import Absences
from penstock.learned.churn import Churn
from penstock.learned.normal import LONG, Normal, Profile
from penstock.learned.prefetch import PrefetchEstimate
from penstock.learned.saturation import Saturation, ServiceRate
from penstock.learned.service import ServiceTime
from penstock.learned.warm_up import WarmUp
from penstock.model import Broker, BrokerKind, Role, Snapshot
from penstock.observation import losses as lost
from penstock.observation.activity import Activity, Trend, returns, trend
from penstock.observation.buffers import Buffers
from penstock.observation.facts import (
    JUDGED,
    PARKED,
    Facts,
    Seen,
    Times,
    facts,
    time_of,
)
from penstock.observation.losses import Losses
from penstock.observation.measures import Measures, blocked_since
from penstock.observation.oldest import Oldest
from penstock.observation.openmq import Openmq
from penstock.observation.poll import Groups, RuleInputs
from penstock.observation.unacked import Progress, QueueTimers, Unacked, progress_of
from penstock.rule_engine.engine import Debounce, advance_conditions, blockers
from penstock.rule_engine.reports import active_conditions
from penstock.rule_engine.shown_since import ShownSince
from penstock.series.clock import Clock
from penstock.series.labels import CLIENT, QUEUE, Grouping, QueueSeries
from penstock.series.queues import TARGETS
from penstock.settings.calendar import Calendar
from penstock.settings.constants import Constants


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is carried from poll to poll."""

    seen: Seen = field(default_factory=Seen)
    unacked: Unacked = field(default_factory=Unacked)
    timers: QueueTimers = field(default_factory=QueueTimers)
    patience: timeout.LearnedTimeout = field(default_factory=timeout.LearnedTimeout)
    dispatch: timeout.LearnedTimeout = field(default_factory=timeout.LearnedTimeout)
    absences: Absences = field(default_factory=Absences)
    normal: Normal = field(default_factory=Normal)
    service: ServiceTime = field(default_factory=ServiceTime)
    trend: Trend = field(default_factory=Trend)
    account: MessageAccount = field(default_factory=MessageAccount)
    warm_up: WarmUp = field(default_factory=WarmUp)
    activity: Activity = field(default_factory=Activity)
    service_rate: ServiceRate = field(default_factory=ServiceRate)
    churn: Churn = field(default_factory=Churn)
    buffers: Buffers = field(default_factory=Buffers)
    debounced: Mapping[str, Debounce] = field(default_factory=dict)
    patience_of_clients: Column = field(default_factory=lambda: np.empty(0))
    """By the rows of the clients' grouping."""
    measures: Measures = field(default_factory=Measures)
    oldest: Oldest = field(default_factory=Oldest)
    shares: Saturation = field(default_factory=Saturation)
    prefetch: PrefetchEstimate = field(default_factory=PrefetchEstimate)
    blocked_since: Column = field(default_factory=lambda: np.empty(0))
    """Per client, by the rows of the clients' grouping."""
    counted: bool = True
    """The broker's version shows numbers of each consumer."""
    keeps: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    """Queues that keep what is acknowledged."""
    rings: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    """Queues with a ring limit."""
    openmq: Openmq = field(default_factory=Openmq)
    """What only an OpenMQ broker needs."""
    openmq_account: OpenmqAccount = field(default_factory=OpenmqAccount)
    conditions: tuple[ActiveCondition, ...] = ()
    shown_since: ShownSince = field(default_factory=ShownSince)
    incidents: Incidents = field(default_factory=Incidents)
    glanced: Seen | None = None
    """By polls since, of which only the account was advanced."""
    rings_held: bool = False
    """Clients buffer more messages than some ring has room for."""
    unjudged_since: float = np.nan
    """Since when no poll can be judged, by the agent's clock; NaN where the last one was."""
    resumed_at: float = np.nan
    """Last poll of the agent before its restart, where its judgement goes on; the windows started again then."""

    def with_new_labels(self) -> "Judgement":
        """The clients are about to be numbered again."""
        return replace(
            self,
            patience=self.patience.laid_aside(),
            churn=replace(self.churn, clients=Grouping()),
            shares=Saturation(queues=self.shares.queues),
            prefetch=PrefetchEstimate(queues=self.prefetch.queues),
            warm_up=WarmUp(self.warm_up.stamps),
        )

    def held_unsettled_since(self, consumers: Index[Any]) -> Column:
        """Per consumer since when it holds something and has settled nothing, by the broker's clock; else NaN."""
        return reindex(
            consumers, self.unacked.index, self.unacked.unacked_since, np.nan
        )

    def with_profile(self, profile: Profile | None) -> "Judgement":
        """From now on what is normal also comes from this history."""
        return replace(self, normal=replace(self.normal, history=profile, hour=-1))

    def absence_seconds(self, constants: Constants) -> Column:
        """Per queue how long its consumers may be away: as usual at this hour, else by what its absences taught."""
        lessons = self.absences.seconds(self.seen.times.now, constants.cold)
        usual = self.normal.expected.absence
        seconds = np.where(np.isnan(usual), lessons, np.maximum(constants.cold, usual))
        # A holiday within it makes a regular absence longer.
        return seconds + np.where(
            seconds > LONG,
            np.fmax(self.normal.holiday_end - self.timers.absent, 0.0),
            0.0,
        )

    def begun_anew(self, now: float) -> "Judgement":
        """After a restart or a failover: only patience stays, and clients get time to come back."""
        seen = Seen(times=Times(interval=self.seen.times.interval, started=now))
        parts = ("timers", "absences", "normal", "service", "account", "openmq_account")
        anew: dict[str, Any] = {
            name: getattr(self, name).begun_anew() for name in parts
        }
        return Judgement(
            seen=seen, patience=self.patience, dispatch=self.dispatch, **anew
        )

    def still_stands(self, now: float, constants: Constants) -> bool:
        """Whether what was reported last is recent; now: by the broker's clock, the agent's where it has none."""
        times = self.seen.times
        return bool(
            now - times.now <= max(constants.verdicts, 3 * max(0.0, times.interval))
        )

    def without_verdict(self, snapshot: Snapshot, constants: Constants) -> "Judgement":
        """After a poll that cannot be judged: the broker is passive, or a part that the rules need was not read."""
        since = snapshot.stamp if np.isnan(self.unjudged_since) else self.unjudged_since
        if snapshot.broker is not None and snapshot.broker.role is Role.PASSIVE:
            return replace(self.begun_anew(snapshot.stamp), unjudged_since=since)
        # Verdicts stay for a while, then nothing is known.
        if self.conditions and not self.still_stands(time_of(snapshot), constants):
            return replace(
                self, conditions=(), incidents=Incidents(), unjudged_since=since
            )
        return replace(self, unjudged_since=since)


def judge(
    state: Judgement,
    snapshot: Snapshot,
    groups: Groups,
    clock: Clock,
    constants: Constants,
    calendar: Calendar,
) -> tuple[Judgement, bool]:
    """The state after this snapshot with the active conditions, and whether it could be judged."""
    passive = snapshot.broker is not None and snapshot.broker.role is Role.PASSIVE
    pair = None if passive else facts(state.seen, snapshot, constants)
    if pair is None or snapshot.broker is None:
        return state.without_verdict(snapshot, constants), False
    seen = pair[0]
    found = of_given_kind(pair[1], groups.queues)
    if found.restarted:
        state = state.begun_anew(found.now)
    openmq, found, progress = as_its_broker_counts(state, found, snapshot, seen)
    now = advance(state, found, progress, groups, constants, calendar)
    if snapshot.broker.kind.fates:
        now = replace(
            now,
            account=accounted(state, found, snapshot, seen, constants),
            glanced=None,
        )
    elif openmq is not None and openmq.said is not None:
        now = replace(
            now,
            openmq_account=state.openmq_account.advance(
                found, openmq.said, snapshot, constants
            ),
        )
    poll = rule_inputs(now, found, snapshot, snapshot.broker, groups, constants, openmq)
    churn = state.churn.advance(poll, state.seen, state.unacked)
    debounced = advance_conditions(state.debounced, poll, state.resumed_at)
    if openmq is not None:
        openmq = replace(openmq, blockers=blockers(debounced, poll))
    shown_since, conditions = state.shown_since.advance(
        active_conditions(debounced, poll, churn, clock)
    )
    conditions = with_silence(conditions, groups)
    oldest = state.oldest.advance(poll)
    judgement = replace(
        now,
        seen=seen,
        counted=found.counted,
        keeps=found.keeps,
        churn=churn,
        debounced=debounced,
        measures=state.measures.advance(poll),
        oldest=oldest,
        shares=state.shares.advance(found, groups.clients),
        prefetch=state.prefetch.advance(found, groups.clients),
        warm_up=state.warm_up.advance(found.now, groups.queues, groups.clients),
        blocked_since=blocked_since(poll),
        openmq=openmq or state.openmq,
        rings_held=bool((poll.at_risk > 0).any()) and not in_part(snapshot.observation),
        conditions=conditions,
        unjudged_since=np.nan,
        shown_since=shown_since,
        incidents=state.incidents.advance(
            poll, conditions, oldest.latest, state.seen.consumers.index
        ),
    )
    return judgement, True


# --- what is carried from poll to poll


def as_its_broker_counts(
    state: Judgement, found: Facts, snapshot: Snapshot, seen: Seen
) -> tuple[Openmq | None, Facts, Progress]:
    """The facts with one meaning for both brokers, who made progress, and what only OpenMQ needs."""
    if snapshot.broker is not None and snapshot.broker.kind is BrokerKind.OPENMQ:
        return state.openmq.advance(found, snapshot, seen.addresses)
    return None, found, progress_of(found.consumer, found.now)


def advance(
    state: Judgement,
    found: Facts,
    progress: Progress,
    groups: Groups,
    constants: Constants,
    calendar: Calendar,
) -> Judgement:
    """`state` with what this poll adds to what is unacknowledged, the timers, thresholds and windows."""
    unacked = state.unacked.advance(found, progress)
    then = state.seen.times.now
    timers, dispatch, absences = timeout.advance_timers(
        state.timers, state.dispatch, found, then, constants
    )
    activity = state.activity.advance(found, constants)
    service = state.service.advance(found, found.now - then)
    flow = trend(activity, constants, found.interval)
    normal = state.normal.advance(
        found, found.now - then, timers, activity, flow, service, calendar
    )
    patience, of_clients = timeout.advance_patience(
        state.patience, unacked, groups.clients, found, constants
    )
    if not found.counted:
        of_clients = np.full(len(of_clients), np.nan)
    return replace(
        state,
        unacked=unacked,
        timers=timers,
        patience=patience,
        dispatch=dispatch,
        absences=state.absences.advance(
            found, np.where(found.now - absences > normal.gap, absences, np.nan)
        ),
        activity=activity,
        service=service,
        normal=normal,
        trend=flow,
        service_rate=state.service_rate.advance(found, found.now - then),
        buffers=state.buffers.advance(found) if found.counted else state.buffers,
        patience_of_clients=of_clients,
        rings=~np.isnan(found.ring),
    )


def accounted(
    state: Judgement, found: Facts, snapshot: Snapshot, seen: Seen, constants: Constants
) -> MessageAccount:
    """The account after a poll; `found` is since the one that was judged before."""
    if state.glanced is None:
        return state.account.advance(found, snapshot, state.seen, seen)
    pair = facts(state.glanced, snapshot, constants)
    since = pair[1] if pair else found
    account = state.account.advance(
        found, snapshot, state.seen, seen, (since, state.glanced)
    )
    return replace(
        account,
        ring_losses=account.ring_losses.with_growth_of(state.account.ring_losses),
    )


def glanced(state: Judgement, snapshot: Snapshot, constants: Constants) -> Judgement:
    """After a poll between two that are judged; as it was where that cannot be compared."""
    before = state.glanced or state.seen
    pair = facts(
        replace(before, times=replace(before.times, interval=np.nan)),
        snapshot,
        constants,
    )
    if pair is None or pair[1].restarted or in_part(snapshot.observation):
        return state
    account = state.account.glanced(
        pair[1], snapshot, before, goes_on=state.glanced is not None
    )
    return replace(
        state,
        account=account,
        glanced=pair[0],
        rings_held=bool((lost.at_risk(pair[1]) > 0).any()),
    )


def evictions(account: MessageAccount, found: Facts) -> lost.Evictions:
    books = account.books
    losses = account.ring_losses
    nothing = np.full(len(found.queues), np.nan)
    if losses.index is not found.queues:  # of a kind of broker that has none
        return lost.Evictions(nothing, nothing, nothing, nothing, nothing, nothing, {})
    return lost.Evictions(
        books.evicted,
        losses.by_consumers,
        losses.grew,
        losses.low,
        losses.low_last,
        losses.high_last,
        losses.latest,
    )


def rule_inputs(
    now: Judgement,
    found: Facts,
    snapshot: Snapshot,
    broker: Broker,
    groups: Groups,
    constants: Constants,
    openmq: Openmq | None,
) -> RuleInputs:
    per_consumer = timeout.consumer_patience(groups, found, now.patience_of_clients)
    soon = max(constants.proof, constants.floor_polls * found.interval)
    known = (
        constants
        if openmq is not None
        else replace(constants, cold=min(constants.cold, soon))
    )
    patience = now.patience  # not `now`: conditions hold on to these inputs, and it to the last poll's conditions
    return RuleInputs(
        snapshot=snapshot,
        found=found,
        unacked=now.unacked,
        timers=now.timers,
        returns=returns(now.activity, constants, found.interval),
        trend=now.trend,
        evictions=evictions(now.account, found),
        activity=now.activity,
        constants=constants,
        broker=broker,
        groups=groups,
        client_patience=per_consumer,
        queue_patience=timeout.queue_patience(found, per_consumer, constants),
        dispatch=now.dispatch.seconds(constants, found.interval),
        absence=now.absence_seconds(constants),
        usual=now.normal.usual(now.service),
        expected=groups.queues.by_source(
            "expected_consumers", TARGETS["expected_consumers"]
        ),
        closed=closed(groups.queues, snapshot.stamp),
        at_risk=lost.at_risk(found),
        service_rate=now.service_rate.best,
        works_since=now.service_rate.since,
        service_window=now.service.window,
        buffers=now.buffers,
        rivals=snapshot.observation.rivals,
        left_out=snapshot.observation.left_out,
        losses=now.account.losses if openmq is None else Losses(),
        openmq=openmq,
        accounted=now.openmq_account.of_queues(found.queues, constants, found.interval)
        if openmq is not None and openmq.said is not None
        else {},
        eager=lambda full: timeout.eager_patience(
            patience, groups, per_consumer, full, found.interval, known
        ),
    )


def of_given_kind(found: Facts, queues: Grouping[QueueSeries]) -> Facts:
    """With the kind that a rule gives a queue in place of what the broker's settings say."""
    given = (
        queues.by_source(
            "kind given", lambda series: float(series.said.kind is not None)
        )
        > 0
    )
    if not given.any():
        return found
    judged = (
        queues.by_source("judged as", lambda series: float(series.said.kind in JUDGED))
        > 0
    )
    parked = (
        queues.by_source("parked as", lambda series: float(series.said.kind in PARKED))
        > 0
    )
    return replace(
        found,
        judged=np.where(given, judged, found.judged),
        parked=np.where(given, parked, found.parked),
    )


def closed(queues: Grouping[QueueSeries], now: float) -> Mask:
    """Queues outside of their business hours at `now`, by the agent's clock."""
    timed = np.flatnonzero(
        queues.by_source("hours", lambda series: float(series.said.hours is not None))
        > 0
    )
    mask = np.zeros(len(queues.member), np.bool_)
    hours = [queues.index.rows[queues.member[i]].said.hours for i in timed.tolist()]
    is_open = {one: one(now) for one in set(hours)}
    mask[timed] = [not is_open[one] for one in hours]
    return mask


def with_silence(
    conditions: tuple[ActiveCondition, ...], groups: Groups
) -> tuple[ActiveCondition, ...]:
    """The conditions, those that a rule silences marked."""
    names = frozenset(
        (
            *map(QUEUE, silenced(groups.queues.index)),
            *map(CLIENT, silenced(groups.clients.index)),
        )
    )
    of = ((one, names.isdisjoint((QUEUE(one), CLIENT(one)))) for one in conditions)
    return (
        tuple(one if apart else one._replace(silenced=True) for one, apart in of)
        if names
        else conditions
    )


def silenced(index: Index[Any]) -> Iterable[Any]:
    """The series that a rule silences."""
    return index.rows[index.column("silence", lambda row: bool(row.said.silence)) > 0]
