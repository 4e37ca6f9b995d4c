"""From one poll to the active conditions. State is by the broker's clock, conditions are by the agent's.

Words of the state: `patience` is the learned stall threshold, the time after which a client that buffers messages and
acknowledges none is stalled. `unacked` is what consumers buffer. The `account` says what became of each message. A poll
is *glanced* at where only the account is advanced, between two polls that are judged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

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
from penstock.series.labels import CLIENT, QUEUE, ClientSeries, Grouping, QueueSeries
from penstock.series.queues import TARGETS
from penstock.settings.calendar import Calendar
from penstock.settings.constants import Constants

SilencedT = TypeVar("SilencedT", QueueSeries, ClientSeries)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The state of the rules, continued from poll to poll."""

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
    """(clients,) The stall threshold of each, in seconds."""
    measures: Measures = field(default_factory=Measures)
    oldest: Oldest = field(default_factory=Oldest)
    shares: Saturation = field(default_factory=Saturation)
    prefetch: PrefetchEstimate = field(default_factory=PrefetchEstimate)
    blocked_since: Column = field(default_factory=lambda: np.empty(0))
    """(clients,) Since when each has buffered messages and settled none."""
    counted: bool = True
    """The broker's version shows numbers of each consumer."""
    keeps: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    """(queues,) Whether the queue keeps what is acknowledged."""
    rings: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    """(queues,) Whether the queue has a ring limit."""
    openmq: Openmq = field(default_factory=Openmq)
    """What only an OpenMQ broker needs."""
    openmq_account: OpenmqAccount = field(default_factory=OpenmqAccount)
    conditions: tuple[ActiveCondition, ...] = ()
    shown_since: ShownSince = field(default_factory=ShownSince)
    incidents: Incidents = field(default_factory=Incidents)
    glanced: Seen | None = None
    """The numbers of the last poll since then of which only the account was advanced."""
    rings_held: bool = False
    """Clients buffer more messages than some ring has room for."""
    unjudged_since: float = np.nan
    """Since when no poll can be judged, by the agent's clock; NaN where the last one was."""
    resumed_at: float = np.nan
    """The last poll of the agent before its restart, where the judgement goes on; its windows started again then."""

    def with_new_labels(self) -> "Judgement":
        """Return the state without the numbers by client: with new labels the clients get new positions and keys."""
        return replace(
            self,
            patience=self.patience.laid_aside(),
            churn=replace(self.churn, clients=Grouping()),
            shares=Saturation(queues=self.shares.queues),
            prefetch=PrefetchEstimate(queues=self.prefetch.queues),
            warm_up=WarmUp(self.warm_up.stamps),
        )

    def held_unsettled_since(self, consumers: Index[object]) -> Column:
        """(consumers,) Since when each has buffered messages and settled none, by the broker's clock; else NaN."""
        unacked = self.unacked
        return reindex(consumers, unacked.index, unacked.unacked_since, np.nan)

    def with_profile(self, profile: Profile | None) -> "Judgement":
        """Return the state with normal values from this history, too."""
        return replace(self, normal=replace(self.normal, history=profile, hour=-1))

    def absence_seconds(self, constants: Constants) -> Column:
        """(queues,) Seconds for which a queue may be without consumers before that is a condition.

        It is the time that is usual at this hour of the week, but no less than the cold value; without such a normal
        value, what was learned from earlier absences of its consumers.
        """
        learned = self.absences.seconds(self.seen.times.now, constants.cold)
        usual = self.normal.expected.absence
        at_least_cold = np.maximum(constants.cold, usual)
        seconds = np.where(np.isnan(usual), learned, at_least_cold)
        # A holiday that falls into a long absence (a night, a weekend) makes it longer; a short one it does not.
        holiday_seconds = np.fmax(self.normal.holiday_end - self.timers.absent, 0.0)
        return seconds + np.where(seconds > LONG, holiday_seconds, 0.0)

    def begun_anew(self, now: float) -> "Judgement":
        """Return the state after a restart or a failover: thresholds stay, and clients get time to come back.

        Each part begins anew by its own rule. Conditions, windows and all parts that are not named start empty.
        """
        seen = Seen(times=Times(interval=self.seen.times.interval, started=now))
        parts = ("timers", "absences", "normal", "service", "account", "openmq_account")
        anew: dict[str, Any] = {
            name: getattr(self, name).begun_anew() for name in parts
        }
        return Judgement(
            seen=seen, patience=self.patience, dispatch=self.dispatch, **anew
        )

    def still_stands(self, now: float, constants: Constants) -> bool:
        """Return whether the last judged poll is recent. now: by the broker's clock, the agent's where it has none."""
        times = self.seen.times
        three_polls = 3 * max(0.0, times.interval)
        return bool(now - times.now <= max(constants.verdicts, three_polls))

    def without_verdict(self, snapshot: Snapshot, constants: Constants) -> "Judgement":
        """Return the state after a poll that cannot be judged: the broker is passive, or a part was not read."""
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
    """Return the state after this snapshot with the active conditions, and whether the poll could be judged."""
    # Without a broker, or on one that does nothing until it takes over, there is nothing to judge.
    is_passive = snapshot.broker is not None and snapshot.broker.role is Role.PASSIVE
    pair = None if is_passive else facts(state.seen, snapshot, constants)
    if pair is None or snapshot.broker is None:
        return state.without_verdict(snapshot, constants), False
    seen = pair[0]
    poll_facts = of_given_kind(pair[1], groups.queues)
    if poll_facts.restarted:
        state = state.begun_anew(poll_facts.now)

    # First the state of this poll, from which the rules read; `state` is still that of the poll before.
    openmq, poll_facts, progress = as_its_broker_counts(
        state, poll_facts, snapshot, seen
    )
    now = advance(state, poll_facts, progress, groups, constants, calendar)
    now = with_account(now, state, poll_facts, snapshot, seen, openmq, constants)
    poll = rule_inputs(
        now, poll_facts, snapshot, snapshot.broker, groups, constants, openmq
    )

    # Then the rules, and what follows from their results.
    churn = state.churn.advance(poll, state.seen, state.unacked)
    debounced = advance_conditions(state.debounced, poll, state.resumed_at)
    if openmq is not None:
        openmq = replace(openmq, blockers=blockers(debounced, poll))
    shown_since, conditions = state.shown_since.advance(
        active_conditions(debounced, poll, churn, clock)
    )
    conditions = with_silence(conditions, groups)
    oldest = state.oldest.advance(poll)
    incidents = state.incidents.advance(
        poll, conditions, oldest.latest, state.seen.consumers.index
    )
    judgement = replace(
        now,
        seen=seen,
        counted=poll_facts.counted,
        keeps=poll_facts.keeps,
        churn=churn,
        debounced=debounced,
        measures=state.measures.advance(poll),
        oldest=oldest,
        shares=state.shares.advance(poll_facts, groups.clients),
        prefetch=state.prefetch.advance(poll_facts, groups.clients),
        warm_up=state.warm_up.advance(poll_facts.now, groups.queues, groups.clients),
        blocked_since=blocked_since(poll),
        openmq=openmq or state.openmq,
        rings_held=bool((poll.at_risk > 0).any()) and not in_part(snapshot.observation),
        conditions=conditions,
        unjudged_since=np.nan,
        shown_since=shown_since,
        incidents=incidents,
    )
    return judgement, True


# --- the state, poll by poll


def as_its_broker_counts(
    state: Judgement, poll_facts: Facts, snapshot: Snapshot, seen: Seen
) -> tuple[Openmq | None, Facts, Progress]:
    """Return the state that only OpenMQ needs, the facts with one meaning for all brokers, and who made progress.

    OpenMQ counts other things under the same names, so its facts are translated; other brokers have no such state.
    """
    if snapshot.broker is not None and snapshot.broker.kind is BrokerKind.OPENMQ:
        return state.openmq.advance(poll_facts, snapshot, seen.addresses)
    return None, poll_facts, progress_of(poll_facts.consumer, poll_facts.now)


def advance(
    state: Judgement,
    poll_facts: Facts,
    progress: Progress,
    groups: Groups,
    constants: Constants,
    calendar: Calendar,
) -> Judgement:
    """Return the state with unacknowledged messages, timers, thresholds and windows after this poll.

    Stall thresholds are NaN where the broker shows no numbers of each consumer. An absence of consumers that has ended
    is learned only if it began after the last gap in the polls: nobody knows what happened in a gap.
    """
    unacked = state.unacked.advance(poll_facts, progress)
    previous = state.seen.times.now
    seconds = poll_facts.now - previous
    timers, dispatch, absence_seconds = timeout.advance_timers(
        state.timers, state.dispatch, poll_facts, previous, constants
    )
    activity = state.activity.advance(poll_facts, constants)
    service = state.service.advance(poll_facts, seconds)
    flow = trend(activity, constants, poll_facts.interval)
    normal = state.normal.advance(
        poll_facts, seconds, timers, activity, flow, service, calendar
    )
    patience, of_clients = timeout.advance_patience(
        state.patience, unacked, groups.clients, poll_facts, constants
    )
    buffers = state.buffers
    if poll_facts.counted:
        buffers = buffers.advance(poll_facts)
    else:
        of_clients = np.full(len(of_clients), np.nan)
    began_after_gap = poll_facts.now - absence_seconds > normal.gap
    observed_absences = np.where(began_after_gap, absence_seconds, np.nan)
    return replace(
        state,
        unacked=unacked,
        timers=timers,
        patience=patience,
        dispatch=dispatch,
        absences=state.absences.advance(poll_facts, observed_absences),
        activity=activity,
        service=service,
        normal=normal,
        trend=flow,
        service_rate=state.service_rate.advance(poll_facts, seconds),
        buffers=buffers,
        patience_of_clients=of_clients,
        rings=~np.isnan(poll_facts.ring),
    )


def with_account(
    now: Judgement,
    before: Judgement,
    poll_facts: Facts,
    snapshot: Snapshot,
    seen: Seen,
    openmq: Openmq | None,
    constants: Constants,
) -> Judgement:
    """Return the state with the account after this poll; as it is for a kind of broker that has none.

    Artemis and OpenMQ count different things, so each has an account of its own.

    Args:
        now: The state after this poll.
        before: The state before it.
        poll_facts: The facts of the poll.
        snapshot: The poll.
        seen: The numbers of the poll.
        openmq: What only OpenMQ needs.
        constants: The times that operators may change.
    """
    if snapshot.broker is not None and snapshot.broker.kind.fates:
        account = accounted(before, poll_facts, snapshot, seen, constants)
        return replace(now, account=account, glanced=None)
    if openmq is not None and openmq.said is not None:
        books = before.openmq_account.advance(
            poll_facts, openmq.said, snapshot, constants
        )
        return replace(now, openmq_account=books)
    return now


def accounted(
    state: Judgement,
    poll_facts: Facts,
    snapshot: Snapshot,
    seen: Seen,
    constants: Constants,
) -> MessageAccount:
    """Return the account after a poll that is judged. poll_facts: the changes since the last poll that was judged.

    Where polls were glanced at since then, the account has their changes already: it gets those since the last of them,
    too.
    """
    if state.glanced is None:
        return state.account.advance(poll_facts, snapshot, state.seen, seen)
    pair = facts(state.glanced, snapshot, constants)
    since_glance = pair[1] if pair else poll_facts
    account = state.account.advance(
        poll_facts, snapshot, state.seen, seen, (since_glance, state.glanced)
    )
    # For the rules, what rings lost at glances and at this poll is one growth.
    ring_losses = account.ring_losses.with_growth_of(state.account.ring_losses)
    return replace(account, ring_losses=ring_losses)


def glanced(state: Judgement, snapshot: Snapshot, constants: Constants) -> Judgement:
    """Return the state after a glance: a poll between two that are judged, at which only the account is advanced.

    It stays as it was where this poll cannot be compared with the last one: a part is missing, or the broker restarted.
    """
    before = state.glanced or state.seen
    # Glances are more frequent than polls: the interval of the polls would not be true of them.
    without_interval = replace(before, times=replace(before.times, interval=np.nan))
    pair = facts(without_interval, snapshot, constants)
    if pair is None or in_part(snapshot.observation):
        return state
    seen, changes = pair
    if changes.restarted:
        return state
    goes_on = state.glanced is not None
    account = state.account.glanced(changes, snapshot, before, goes_on=goes_on)
    is_at_risk = lost.at_risk(changes) > 0
    return replace(
        state, account=account, glanced=seen, rings_held=bool(is_at_risk.any())
    )


def evictions(account: MessageAccount, poll_facts: Facts) -> lost.Evictions:
    """Return what the account says about evictions of each queue; NaN where the broker has no rings."""
    books = account.books
    losses = account.ring_losses
    nothing = np.full(len(poll_facts.queues), np.nan)
    has_rings = losses.index is poll_facts.queues  # else the account was never advanced
    if not has_rings:
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
    poll_facts: Facts,
    snapshot: Snapshot,
    broker: Broker,
    groups: Groups,
    constants: Constants,
    openmq: Openmq | None,
) -> RuleInputs:
    """Return all that the rules read at this poll: its facts, and the state after it.

    Args:
        now: The state after this poll.
        poll_facts: The facts of the poll.
        snapshot: The poll.
        broker: The broker of the poll.
        groups: The series of queues and clients.
        constants: The times that operators may change.
        openmq: What only OpenMQ needs; None for another kind of broker.
    """
    per_consumer = timeout.consumer_patience(
        groups, poll_facts, now.patience_of_clients
    )
    for_full_buffers = constants_for_full_buffers(constants, poll_facts, openmq)
    # A name of its own: conditions keep these inputs, and the function below must not keep the whole state with them.
    patience = now.patience
    accounted_columns: Mapping[str, Column | Mask] = {}
    if openmq is not None and openmq.said is not None:
        accounted_columns = now.openmq_account.of_queues(
            poll_facts.queues, constants, poll_facts.interval
        )
    return RuleInputs(
        snapshot=snapshot,
        found=poll_facts,
        unacked=now.unacked,
        timers=now.timers,
        returns=returns(now.activity, constants, poll_facts.interval),
        trend=now.trend,
        evictions=evictions(now.account, poll_facts),
        activity=now.activity,
        constants=constants,
        broker=broker,
        groups=groups,
        client_patience=per_consumer,
        queue_patience=timeout.queue_patience(poll_facts, per_consumer, constants),
        dispatch=now.dispatch.seconds(constants, poll_facts.interval),
        absence=now.absence_seconds(constants),
        usual=now.normal.usual(now.service),
        expected=groups.queues.by_source(
            "expected_consumers", TARGETS["expected_consumers"]
        ),
        closed=closed(groups.queues, snapshot.stamp),
        at_risk=lost.at_risk(poll_facts),
        service_rate=now.service_rate.best,
        works_since=now.service_rate.since,
        service_window=now.service.window,
        buffers=now.buffers,
        rivals=snapshot.observation.rivals,
        left_out=snapshot.observation.left_out,
        losses=now.account.losses if openmq is None else Losses(),
        openmq=openmq,
        accounted=accounted_columns,
        eager=lambda full: timeout.eager_patience(
            patience, groups, per_consumer, full, poll_facts.interval, for_full_buffers
        ),
    )


def constants_for_full_buffers(
    constants: Constants, poll_facts: Facts, openmq: Openmq | None
) -> Constants:
    """Return the constants for the stall thresholds of consumers whose buffer is full.

    A full buffer is evidence by itself: a client of which nothing was learned need not be watched for the whole cold
    time, but only for the time of a proof. OpenMQ keeps the cold time.
    """
    if openmq is not None:
        return constants
    soon = max(constants.proof, constants.floor_polls * poll_facts.interval)
    return replace(constants, cold=min(constants.cold, soon))


def of_given_kind(poll_facts: Facts, queues: Grouping[QueueSeries]) -> Facts:
    """Return the facts with the kind that an operator's rule gives a queue, in place of the kind that the broker shows.

    The kind decides whether the rules judge the queue, and whether it is one where messages are parked.
    """
    has_kind = queues.by_source(
        "kind given", lambda series: series.said.kind is not None
    )
    is_given = has_kind > 0
    if not is_given.any():
        return poll_facts
    judged = queues.by_source("judged as", lambda series: series.said.kind in JUDGED)
    parked = queues.by_source("parked as", lambda series: series.said.kind in PARKED)
    return replace(
        poll_facts,
        judged=np.where(is_given, judged > 0, poll_facts.judged),
        parked=np.where(is_given, parked > 0, poll_facts.parked),
    )


def closed(queues: Grouping[QueueSeries], now: float) -> Mask:
    """(queues,) Whether the queue is outside of its business hours at `now`, by the agent's clock."""
    has_hours = queues.by_source("hours", lambda series: series.said.hours is not None)
    with_hours = np.flatnonzero(has_hours > 0)
    hours = [
        queues.index.rows[queues.member[queue]].said.hours
        for queue in with_hours.tolist()
    ]
    is_open = {distinct: distinct(now) for distinct in set(hours)}  # most share a few
    mask = np.zeros(len(queues.member), np.bool_)
    mask[with_hours] = [not is_open[hours_of_queue] for hours_of_queue in hours]
    return mask


def with_silence(
    conditions: tuple[ActiveCondition, ...], groups: Groups
) -> tuple[ActiveCondition, ...]:
    """Return the conditions, marked where an operator's rule silences their queue or their client."""
    queues = {QUEUE(series) for series in silenced(groups.queues.index)}
    clients = {CLIENT(series) for series in silenced(groups.clients.index)}
    if not queues and not clients:
        return conditions
    return tuple(
        condition._replace(silenced=True)
        if QUEUE(condition) in queues or CLIENT(condition) in clients
        else condition
        for condition in conditions
    )


def silenced(index: Index[SilencedT]) -> Iterable[SilencedT]:
    """Return the series that a rule silences."""
    is_silenced = index.column("silence", lambda series: bool(series.said.silence)) > 0
    return index.rows[is_silenced]
