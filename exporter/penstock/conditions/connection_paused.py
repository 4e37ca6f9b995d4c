"""`connection_paused`: one consumer uses up the flow limit of its connection, and others starve. OpenMQ only."""

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import OPENMQ, Condition, Raised, Scope
from penstock.conditions.evidence import undelivered
from penstock.conditions.paused import PAUSED
from penstock.conditions.starving import starving
from penstock.conditions.texts import texts
from penstock.core.table import Column, Positions
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """A consumer that could take the messages shares its connection with one that may use up its limit."""
    starves, connection = poll.of(starving), openmq.facts(poll).connection
    shared = openmq.starving_connections(poll, np.flatnonzero(starves.mask))
    of_blocked = np.isin(connection, shared) & np.isnan(poll.unacked.hold_since)
    return starves._replace(mask=starves.mask & (poll.found.of_queue(of_blocked) > 0))


def evidence(poll: RuleInputs, at: Positions) -> dict[str, Column]:
    limits, blockers, held = openmq.connection_limits(poll), openmq.blockers(poll), poll.found.consumer.held

    def of_queue(i: int) -> tuple[float, float]:
        keys = openmq.starving_connections(poll, np.array([i]))
        here = np.isin(openmq.facts(poll).connection, keys)
        return float(held[blockers & here].sum()), float(np.fmin.reduce(limits[here], initial=np.nan))

    buffered, limit = np.array([of_queue(i) for i in at.tolist()]).reshape(-1, 2).T
    return undelivered(poll, at) | {"held": buffered, "limit": limit}


CONNECTION_PAUSED = Condition(
    name="connection_paused",
    scope=Scope.QUEUE,
    rule=rule,
    evidence=evidence,
    silenced_by=(PAUSED,),
    blockers=openmq.blocking,
    brokers=OPENMQ,
    **texts("connection_paused"),
)
