"""`connection_paused`: one consumer uses up the flow limit of its connection, and others starve. OpenMQ only."""

import numpy as np

from penstock.conditions import openmq
from penstock.conditions.condition import Condition, Raised, declared
from penstock.conditions.evidence import dispatch_timeout, undelivered
from penstock.conditions.paused import PAUSED
from penstock.conditions.starving import starving
from penstock.core.table import Column, Positions
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """A consumer that could take the messages shares its connection with one that may use up its limit.

    Where the operator gives the limit, and it is reached, nothing need be waited for.
    """
    given = (
        (openmq.connection_limits(poll) > 0)
        & openmq.reaches_limit(poll)
        & (poll.found.consumer.queue >= 0)
    )
    sure = poll.found.queues_of(np.flatnonzero(given))
    starves = starving(
        poll, np.where(sure, poll.constants.proof, dispatch_timeout(poll))
    )
    return starves._replace(
        mask=starves.mask & openmq.starved_by(poll, openmq.blockers(poll))
    )


def evidence(poll: RuleInputs, at: Positions) -> dict[str, Column]:
    limits = openmq.connection_limits(poll)
    blockers = openmq.blockers(poll)
    held = poll.found.consumer.held

    def of_queue(i: int) -> tuple[float, float]:
        keys = openmq.starving_connections(poll, np.array([i]))
        here = np.isin(openmq.facts(poll).connection, keys)
        return float(held[blockers & here].sum()), float(
            np.fmin.reduce(limits[here], initial=np.nan)
        )

    buffered, limit = np.array([of_queue(i) for i in at.tolist()]).reshape(-1, 2).T
    return {**undelivered(poll, at), "held": buffered, "limit": limit}


CONNECTION_PAUSED = Condition(
    rule=rule,
    evidence=evidence,
    silenced_by=(PAUSED,),
    blockers=openmq.blocking,
    **declared("connection_paused"),
)
