"""`connection_paused`: one consumer uses up the flow limit of its connection, and others starve. OpenMQ only."""

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import OPENMQ, Alert, Condition, Raised, Scope
from penstock.conditions.evidence import undelivered
from penstock.conditions.paused import PAUSED
from penstock.conditions.starving import starving
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
    title="One consumer uses up the flow limit of its connection.",
    rule=rule,
    when="messages wait and nothing is delivered for longer than usual, while another consumer of the same connection"
    " holds messages, is not paused by its own limit and gets no more",
    quiet_on="connections without a limit of their own (`imqConnectionFlowLimitEnabled`); a consumer that is paused by"
    " its own limit, or still gets messages",
    evidence=evidence,
    causes={
        "connection_limit": "a consumer on the same connection uses up the connection's flow limit"
        " (imqConnectionFlowLimit)"
    },
    action="{ready:.0f} messages wait while {held:.0f} lie unread with another consumer of the same connection: give"
    " that one a connection of its own, or limit it by imqConsumerFlowLimit",
    silenced_by=(PAUSED,),
    blockers=openmq.blocking,
    brokers=OPENMQ,
    alert=Alert(
        name="PenstockConnectionPaused",
        description="{queue.ready} messages of {in_queue} wait while another consumer of the same connection fills the"
        " buffer of the client.",
        runbook="queues",
    ),
)
