"""
`judge(state, snapshot, …) -> (state, conditions)`: all rules over one poll.

State holds by the broker's clock what spans polls; conditions carry the agent's clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.flow.clock import Clock
from penstock.flow.judge import openmq_rules, rules
from penstock.flow.judge.churn import Churn
from penstock.flow.judge.conditions import KINDS, Condition, Scope
from penstock.flow.judge.constants import Constants
from penstock.flow.judge.drops import Drops
from penstock.flow.judge.facts import Facts, Seen, Times, facts, time_of
from penstock.flow.judge.history import (
    EXPIRED,
    KILLED,
    History,
    moved_in_both_halves,
    returns,
    trend,
)
from penstock.flow.judge.holds import Holds, Progress, progress_of
from penstock.flow.judge.ledger import Ledger
from penstock.flow.judge.measures import Measures, blocked_since
from penstock.flow.judge.openmq import Openmq
from penstock.flow.judge.pace import Pace
from penstock.flow.judge.patience import FEW, Patience
from penstock.flow.judge.poll import Groups, Poll, Spans
from penstock.flow.judge.shares import Shares
from penstock.flow.judge.sightings import Sightings
from penstock.flow.judge.spans import Mask, longer, moved, since
from penstock.flow.judge.standing import Standing
from penstock.flow.judge.telling import tell
from penstock.flow.judge.wanted import closed, of_given_kind, of_queues, with_silence
from penstock.flow.judge.watched import Watched
from penstock.flow.queues import TARGETS, told
from penstock.flow.series import ClientSeries, Grouping
from penstock.model import Broker, BrokerKind, QueueKind, Role, Snapshot
from penstock.table import Column, Index

CLIENT_KINDS = frozenset({QueueKind.USER, QueueKind.SUBSCRIPTION, QueueKind.DEAD_LETTER, QueueKind.EXPIRY})
"""Kinds of queues whose consumers are judged."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is carried from poll to poll."""

    seen: Seen = field(default_factory=Seen)
    holds: Holds = field(default_factory=Holds)
    spans: Spans = field(default_factory=Spans)
    patience: Patience = field(default_factory=Patience)
    dispatch: Patience = field(default_factory=Patience)
    absence: Patience = field(default_factory=Patience)
    ledger: Ledger = field(default_factory=Ledger)
    drops: Drops = field(default_factory=Drops)
    watched: Watched = field(default_factory=Watched)
    history: History = field(default_factory=History)
    pace: Pace = field(default_factory=Pace)
    churn: Churn = field(default_factory=Churn)
    standing: Mapping[str, Standing] = field(default_factory=dict)
    patience_of_clients: Column = field(default_factory=lambda: np.empty(0))
    """By the rows of the clients' grouping."""
    measures: Measures = field(default_factory=Measures)
    shares: Shares = field(default_factory=Shares)
    sightings: Sightings = field(default_factory=Sightings)
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
    conditions: tuple[Condition, ...] = ()
    resumed_at: float = np.nan
    """Last poll of the agent before its restart, where its judgement goes on; the windows began anew then."""

    def with_new_labels(self) -> "Judgement":
        """The clients are about to be numbered anew."""
        return replace(
            self,
            patience=self.patience.laid_aside(),
            churn=replace(self.churn, clients=Grouping()),
            shares=Shares(queues=self.shares.queues),
            sightings=Sightings(queues=self.sightings.queues, deepest=self.sightings.deepest),
            watched=Watched(self.watched.stamps),
        )

    def held_unsettled_since(self, consumers: Index[Any]) -> Column:
        """Per consumer since when it holds something and has settled nothing, by the broker's clock; else NaN."""
        return moved(consumers, self.holds.index, self.holds.mark, np.nan)

    def begun_anew(self, now: float) -> "Judgement":
        """After a restart or a failover: only patience stays, and clients get time to come back."""
        seen = Seen(times=Times(interval=self.seen.times.interval, started=now))
        return Judgement(
            seen=seen,
            spans=self.spans.begun_anew(),
            patience=self.patience,
            dispatch=self.dispatch,
            absence=self.absence,
        )

    def unjudged(self, now: float, constants: Constants) -> "Judgement":
        """After a poll that could not be judged: verdicts stay for a while, then nothing is known."""
        return self if self.still_stands(now, constants) or not self.conditions else replace(self, conditions=())

    def still_stands(self, now: float, constants: Constants) -> bool:
        """Whether what was told last is young enough; now: by the broker's clock, the agent's where it has none."""
        times = self.seen.times
        return bool(now - times.now <= max(constants.verdicts, 3 * np.nan_to_num(times.interval)))

    def without_verdict(self, snapshot: Snapshot, constants: Constants) -> "Judgement":
        """After a poll that cannot be judged: the broker is passive, or a part that the rules need was not read."""
        if snapshot.broker is not None and snapshot.broker.role is Role.PASSIVE:
            return self.begun_anew(snapshot.stamp)
        return self.unjudged(time_of(snapshot), constants)


def judge(
    state: Judgement, snapshot: Snapshot, groups: Groups, clock: Clock, constants: Constants
) -> tuple[Judgement, bool]:
    """The state after this snapshot with the conditions that stand, and whether it could be judged."""
    passive = snapshot.broker is not None and snapshot.broker.role is Role.PASSIVE
    pair = None if passive else facts(state.seen, snapshot, constants)
    if pair is None or snapshot.broker is None:
        return state.without_verdict(snapshot, constants), False
    seen, found = pair[0], of_given_kind(pair[1], groups.queues)
    if found.restarted:
        state = state.begun_anew(found.now)
    openmq, found, progress = as_its_broker_counts(state, found, snapshot, constants)
    now = follow(state, found, progress, groups, constants)
    poll = gathered(now, found, snapshot.broker, groups, snapshot.stamp, constants, openmq)
    churn = state.churn.follow(
        found, now.holds, groups.clients, poll.client_patience, state.seen, state.holds, constants.churn_ids
    )
    standing = follow_standing(state.standing, poll, state.resumed_at)
    if openmq is not None:
        openmq = replace(openmq, blockers=openmq_rules.blocking(poll, standing["connection_paused"].stands()[0]))
    judgement = replace(
        now,
        seen=seen,
        counted=found.counted,
        keeps=found.keeps,
        churn=churn,
        standing=standing,
        measures=state.measures.follow(poll),
        shares=state.shares.follow(found, groups.clients),
        sightings=state.sightings.follow(found, groups.clients),
        watched=state.watched.follow(found.now, groups.queues.index, groups.clients.index),
        blocked_since=blocked_since(poll),
        openmq=openmq or state.openmq,
        conditions=with_silence(tell(standing, poll, churn, clock), groups),
    )
    return judgement, True


# --- what spans polls


def as_its_broker_counts(
    state: Judgement, found: Facts, snapshot: Snapshot, constants: Constants
) -> tuple[Openmq | None, Facts, Progress]:
    """The facts with one meaning for both brokers, who made progress, and what only OpenMQ needs."""
    if snapshot.broker is not None and snapshot.broker.kind is BrokerKind.OPENMQ:
        return state.openmq.follow(found, snapshot, constants)
    return None, found, progress_of(found.consumer, found.now)


def follow(state: Judgement, found: Facts, progress: Progress, groups: Groups, constants: Constants) -> Judgement:
    """`state` with what this poll adds to holds, spans, patience, ledger, windows and pace."""
    holds = state.holds.follow(found, progress)
    spans, dispatch, absence = follow_spans(state, found, constants)
    patience, of_clients = follow_patience(state.patience, holds, groups.clients, found, constants)
    if not found.counted:
        of_clients = np.full(len(of_clients), np.nan)
    return replace(
        state,
        holds=holds,
        spans=spans,
        patience=patience,
        dispatch=dispatch,
        absence=absence,
        ledger=state.ledger.follow(found),
        drops=state.drops.follow(found, rules.refuses(found)),
        history=state.history.follow(found, constants),
        pace=state.pace.follow(found, found.now - state.seen.times.now),
        patience_of_clients=of_clients,
        rings=~np.isnan(found.ring),
    )


def gathered(
    now: Judgement,
    found: Facts,
    broker: Broker,
    groups: Groups,
    stamp: float,
    constants: Constants,
    openmq: Openmq | None,
) -> Poll:
    """All that the rules read. stamp: of the poll, by the agent's clock."""
    per_consumer = consumer_patience(groups, found, now.patience_of_clients)
    eager = np.empty(0) if openmq is None else eager_patience(now.patience, groups.clients, found, constants)
    return Poll(
        found=found,
        holds=now.holds,
        spans=now.spans,
        returns=returns(now.history, constants, found.interval),
        trend=trend(now.history, constants, found.interval),
        ledger=now.ledger,
        history=now.history,
        constants=constants,
        broker=broker,
        groups=groups,
        client_patience=per_consumer,
        queue_patience=queue_patience(found, per_consumer, constants),
        dispatch=now.dispatch.seconds(constants, found.interval),
        absence=now.absence.seconds(constants, found.interval),
        expected=of_queues(groups.queues, "expected_consumers", TARGETS["expected_consumers"]),
        closed=closed(groups.queues, stamp),
        at_risk=rules.at_risk(found),
        pace=now.pace.best(),
        openmq=openmq,
        eager=eager if openmq is None else consumer_patience(groups, found, eager),
    )


def follow_spans(state: Judgement, found: Facts, constants: Constants) -> tuple[Spans, Patience, Patience]:
    """
    The spans after this poll, and what the ends of two kinds of them teach about the queues.

    Where a counter has not moved since the poll before, it stood still from then on.
    """
    before, now, then = state.spans.moved(found), found.now, state.seen.times.now
    then = now if np.isnan(then) else then
    moves = (found.d_settled > 0) | (found.d_delivered > 0) | ~found.known
    settles, there = found.d_settled > 0, found.consumers > 0
    served = there | settles
    dispatch = state.dispatch.follow(found.queues)
    ended = (found.d_delivered > 0) & ~np.isnan(before.still) & ~np.isnan(before.ready)
    dispatch = taught(dispatch, ended, now - np.fmax(before.still, before.ready), constants, found.interval)
    absence = state.absence.follow(found.queues)
    # Who came and went between two polls ended no absence: nobody was gone for longer than that.
    ended = served & (before.absent < then) & ~np.isnan(before.ready)
    absence = taught(absence, ended, now - np.fmax(before.absent, before.ready), constants, found.interval)
    address = found.address
    spans = Spans(
        index=found.queues,
        still=since(~moves, before.still, then),
        ready=since(found.ready > 0, before.ready, now),
        # Where the number of consumers is missing nobody came and nobody went. Who came and went is absent from now on.
        absent=np.where(
            np.isnan(found.consumers) & ~served,
            before.absent,
            since(~there & ~np.isnan(found.consumers), np.where(settles, np.nan, before.absent), now),
        ),
        unsettled=since(~(found.d_settled > 0), before.unsettled, np.where(found.known, then, now)),
        blocked=since(found.known & (address.d_added == 0), before.blocked, then),
        # Up to the poll before: the first consumer that ever comes ends an absence, it does not make it a worse one.
        had_consumer=before.had_consumer
        | np.where(found.known, np.isnan(before.absent) | (found.settled > found.d_settled), found.settled > 0),
    )
    return spans, dispatch, absence


def taught(patience: Patience, ended: Mask, gaps: Column, constants: Constants, interval: float) -> Patience:
    at = np.flatnonzero(ended & (gaps > 0))
    return patience.learn(at, gaps[at], patience.seconds_of(at, constants, interval), constants)


def follow_patience(
    before: Patience, holds: Holds, clients: Grouping[ClientSeries], found: Facts, constants: Constants
) -> tuple[Patience, Column]:
    """What the clients taught by this poll, and the patience of each of them."""
    patience = before.follow(clients.index)
    configured = clients.index.column("patience", lambda series: told(series.said.patience))
    learns = np.flatnonzero(~np.isnan(holds.gaps) & (clients.member >= 0))
    at = clients.member[learns]
    before_these = patience.seconds_of(at, constants, found.interval, configured)
    patience = patience.learn(at, holds.gaps[learns], before_these, constants)
    return patience, patience.seconds(constants, found.interval, configured)


def eager_patience(patience: Patience, clients: Grouping[ClientSeries], found: Facts, constants: Constants) -> Column:
    """Of each client where a buffer is seen to be full: the longest of few gaps counts twice, not three times."""
    configured = clients.index.column("patience", lambda series: told(series.said.patience))
    usual = patience.seconds(constants, found.interval, configured)
    twice = patience.seconds(replace(constants, factor=min(constants.factor, 2.0)), found.interval, configured)
    return np.where(patience.weight < FEW, twice, usual)


def consumer_patience(groups: Groups, found: Facts, of_clients: Column) -> Column:
    """Per consumer; NaN for those that are not judged: hidden ones, and those of queues that are the broker's own."""
    judged = found.queues.column("consumers judged", lambda row: row.kind in CLIENT_KINDS) > 0
    patience = np.append(of_clients, np.nan)[groups.clients.member]
    return np.where(found.consumer.at_queue(judged, np.False_), patience, np.nan)


def queue_patience(found: Facts, per_consumer: Column, constants: Constants) -> Column:
    """Per queue the longest of its consumers', else cold."""
    longest = np.full(len(found.queues) + 1, -np.inf)
    np.fmax.at(longest, found.consumer.queue, per_consumer)
    return np.where(np.isinf(longest), constants.cold, longest)[:-1]


# --- the rules

Rule = Callable[[Poll], tuple[Mask, Column]]
"""What a rule says at this poll, and since when by its own account (NaN: this poll)."""


def nearly(poll: Poll, patience: Column | float) -> Column:
    """
    One poll before the patience is over a rule may begin to agree: what it rests on was so all the time.

    It comes when the patience is over; without this each such condition would be told a poll later than it could be.
    """
    return patience - np.nan_to_num(poll.found.interval)


def dispatch_patience(poll: Poll) -> Column:
    return np.maximum(poll.queue_patience, poll.dispatch)


def proof(poll: Poll) -> Column:
    return np.full(len(poll.found.queues), poll.constants.proof)


def _stalled(poll: Poll) -> tuple[Mask, Column]:
    return rules.stalled(poll.found, poll.holds, nearly(poll, poll.client_patience)), poll.holds.mark


def _open_transaction(poll: Poll) -> tuple[Mask, Column]:
    return rules.open_transaction(poll.found, poll.holds, nearly(poll, poll.client_patience)), poll.holds.mark


def _orphaned(poll: Poll) -> tuple[Mask, Column]:
    return rules.orphaned(poll.found) & ~np.isnan(poll.client_patience), poll.holds.mark


def _redelivery_loop(poll: Poll) -> tuple[Mask, Column]:
    holds = rules.redelivery_loop(poll.found, poll.returns) & (not poll.found.settling)
    return holds, _from(poll, poll.constants.window_seconds(poll.found.interval))


def _not_dispatching(poll: Poll) -> tuple[Mask, Column]:
    patience, spans = nearly(poll, dispatch_patience(poll)), poll.spans
    holds = rules.not_dispatching(poll.found, poll.holds, spans.ready, spans.still, patience)
    silenced = rules.paused(poll.found) | _depaging_frozen(poll)[0]
    return holds & ~silenced, np.fmax(spans.ready, spans.still)


def _no_consumer(poll: Poll) -> tuple[Mask, Column]:
    spans = poll.spans
    holds = rules.no_consumer(poll.found, spans.ready, spans.absent, nearly(poll, poll.absence))
    coming = ~rules.never_read(poll.found, spans.had_consumer) | (poll.trend.rate_in > 0) | (poll.expected > 0)
    wanted = ~poll.closed & ~(poll.expected == 0)
    return holds & coming & wanted & (not poll.found.settling), np.fmax(spans.ready, spans.absent)


def _too_few_consumers(poll: Poll) -> tuple[Mask, Column]:
    return rules.too_few_consumers(poll.found, poll.expected) & ~poll.closed, _now(poll)


def _paused(poll: Poll) -> tuple[Mask, Column]:
    return rules.paused(poll.found), _now(poll)


def _depaging_frozen(poll: Poll) -> tuple[Mask, Column]:
    lasts = longer(poll.spans.still, poll.found.now, nearly(poll, proof(poll)))
    return rules.depaging_frozen(poll.found) & lasts, poll.spans.still


def _producers_blocked(poll: Poll) -> tuple[Mask, Column]:
    lasts = longer(poll.spans.blocked, poll.found.now, nearly(poll, proof(poll)))
    return rules.producers_blocked(poll.found, rules.broker_full(poll.broker)) & lasts, poll.spans.blocked


def _rejecting(poll: Poll) -> tuple[Mask, Column]:
    return rules.rejecting(poll.found), _now(poll)


def _ring_losing(poll: Poll) -> tuple[Mask, Column]:
    return poll.found.judged & (poll.ledger.grew > 0), _now(poll)


def _expiring(poll: Poll) -> tuple[Mask, Column]:
    moves = moved_in_both_halves(poll.history, EXPIRED, poll.constants, poll.found.interval)
    return poll.found.judged & moves, _from(poll, poll.constants.window_seconds(poll.found.interval))


def _dead_lettering(poll: Poll) -> tuple[Mask, Column]:
    moves = moved_in_both_halves(poll.history, KILLED, poll.constants, poll.found.interval)
    return poll.found.judged & moves, _from(poll, poll.constants.window_seconds(poll.found.interval))


def _falling_behind(poll: Poll) -> tuple[Mask, Column]:
    return rules.falling_behind(poll.found, poll.trend), _from(poll, poll.trend.seconds)


def _hoarding(poll: Poll) -> tuple[Mask, Column]:
    is_stalled, constants = _stalled(poll)[0], poll.constants
    idle = float(nearly(poll, constants.proof))
    holds = rules.hoarding(poll.found, poll.holds, poll.pace, is_stalled, idle, constants)
    return holds, rules.idle_since(poll.found, poll.holds, holds)


def _ring_lost_by_consumer(poll: Poll) -> tuple[Mask, Column]:
    return poll.found.judged & (poll.ledger.lost_now > 0), _now(poll)


RULES: Mapping[str, Rule] = {
    "stalled": _stalled,
    "open_transaction": _open_transaction,
    "orphaned": _orphaned,
    "redelivery_loop": _redelivery_loop,
    "not_dispatching": _not_dispatching,
    "no_consumer": _no_consumer,
    "too_few_consumers": _too_few_consumers,
    "paused": _paused,
    "depaging_frozen": _depaging_frozen,
    "producers_blocked": _producers_blocked,
    "rejecting": _rejecting,
    "ring_losing": _ring_losing,
    "ring_lost_by_consumer": _ring_lost_by_consumer,
    "expiring": _expiring,
    "dead_lettering": _dead_lettering,
    "falling_behind": _falling_behind,
    "hoarding": _hoarding,
}


WINDOWED = ("redelivery_loop", "expiring", "dead_lettering")
"""Judged on the window; `falling_behind` on the longer one of the trend."""


def _now(poll: Poll) -> Column:
    return np.full(len(poll.found.queues), poll.found.now)


def _from(poll: Poll, seconds: float) -> Column:
    return np.full(len(poll.found.queues), poll.found.now - seconds)


# --- those of OpenMQ


def _openmq_not_dispatching(poll: Poll) -> tuple[Mask, Column]:
    starving, begins = _not_dispatching(poll)
    return starving & ~openmq_rules.connection_paused(poll, starving), begins


def _connection_paused(poll: Poll) -> tuple[Mask, Column]:
    starving, begins = _not_dispatching(poll)
    return openmq_rules.connection_paused(poll, starving), begins


def _producer_transaction_open(poll: Poll) -> tuple[Mask, Column]:
    state, told = openmq_rules.of(poll)
    return openmq_rules.producer_transaction_open(poll), np.fmin(state.held_since, told.transaction_since)


def _openmq(rule: Callable[[Poll], Mask], begins: Callable[[Poll], Column]) -> Rule:
    return lambda poll: (rule(poll), begins(poll))


def _window(poll: Poll) -> Column:
    return _from(poll, poll.constants.window_seconds(poll.found.interval))


def _hold(poll: Poll) -> Column:
    return np.fmax(poll.holds.mark, poll.holds.hold_since)


ARTEMIS_ONLY = frozenset(
    {"orphaned", "depaging_frozen", "ring_losing", "ring_lost_by_consumer", "expiring", "dead_lettering"}
)
OPENMQ_RULES: Mapping[str, Rule] = {
    **{name: rule for name, rule in RULES.items() if name not in ARTEMIS_ONLY},
    "stalled": _openmq(openmq_rules.stalled, _hold),
    "open_transaction": _openmq(openmq_rules.open_transaction, _hold),
    "redelivery_loop": _openmq(openmq_rules.redelivery_loop, _window),
    "not_dispatching": _openmq_not_dispatching,
    "connection_paused": _connection_paused,
    "producer_transaction_open": _producer_transaction_open,
    "producers_blocked": _openmq(openmq_rules.producers_blocked, lambda poll: poll.spans.blocked),
    "rejecting": _openmq(openmq_rules.rejecting, _window),
    "limit_losing": _openmq(openmq_rules.limit_losing, _now),
    "falling_behind": _openmq(openmq_rules.falling_behind, lambda poll: _from(poll, poll.trend.seconds)),
    "removed_unsettled": _openmq(openmq_rules.removed_unsettled, _window),
}


PATIENT: Mapping[Rule, Callable[[Poll], Column]] = {
    _stalled: lambda poll: poll.client_patience,
    _open_transaction: lambda poll: poll.client_patience,
    _no_consumer: lambda poll: poll.absence,
    _not_dispatching: dispatch_patience,
    _depaging_frozen: proof,
    _hoarding: proof,
    _producers_blocked: proof,
    _openmq_not_dispatching: dispatch_patience,
    _connection_paused: dispatch_patience,
}
"""The rules that agree one poll early, and how long they must have held to come."""


OPENMQ_WINDOWED = ("redelivery_loop", "rejecting", "removed_unsettled")


def windows_begun_anew(poll: Poll, resumed_at: float) -> frozenset[str]:
    """Conditions whose window is too short since the agent's restart to say anything: what stood goes on so long."""
    constants, interval = poll.constants, poll.found.interval
    lasts = poll.found.now - resumed_at
    short = {
        "falling_behind": constants.trend_seconds(interval),
        **dict.fromkeys(WINDOWED if poll.openmq is None else OPENMQ_WINDOWED, constants.window_seconds(interval)),
    }
    return frozenset(name for name, seconds in short.items() if lasts < seconds + 2 * interval)


BY_CONSUMER = frozenset({"stalled", "open_transaction", "orphaned", "redelivery_loop", "not_dispatching", "hoarding"})
"""What only numbers of each consumer tell; versions of Artemis without them are judged by all other rules."""


def rules_for(poll: Poll) -> Mapping[str, Rule]:
    if poll.openmq is not None:
        return OPENMQ_RULES
    return RULES if poll.found.counted else {name: rule for name, rule in RULES.items() if name not in BY_CONSUMER}


def follow_standing(before: Mapping[str, Standing], poll: Poll, resumed_at: float) -> dict[str, Standing]:
    found = poll.found
    windows = windows_begun_anew(poll, resumed_at)
    standing = {}
    for name, rule in rules_for(poll).items():
        kind = KINDS[name]
        holds, begins = rule(poll)
        stand = before.get(name, Standing()).follow(
            found.consumer.index if kind.scope is Scope.CLIENT else found.queues
        )
        if name in windows:
            holds = holds.copy()
            holds[stand.stands()[0]] = True
        at = np.flatnonzero(holds)
        ripe = longer(begins[at], found.now, PATIENT[rule](poll)[at]) if rule in PATIENT else None
        standing[name] = stand.judge(at, begins[at], found.now, poll.constants, event=kind.event, ripe=ripe)
    return standing
