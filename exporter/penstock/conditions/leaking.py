"""`leaking`: a consumer works and leaves a few messages unacknowledged for good."""

import numpy as np

from penstock.conditions.condition import Condition, Raised, declared
from penstock.core.table import Column, Mask, Positions
from penstock.observation.buffers import (
    CLEAR,
    LULL,
    POLLS,
    PROVEN,
    SECONDS,
    SHARE,
    WINDOWS,
)
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Not on OpenMQ where a limit removes messages: they stay in the buffers of their consumers."""
    found = poll.found
    buffers = poll.buffers
    mask = np.zeros(len(found.consumer.index), np.bool_)
    since = np.full(len(found.consumer.index), np.nan)
    at = buffers.at[buffers.suspected]
    removes = (
        found.keeps
        if poll.openmq is None or poll.openmq.said is None
        else poll.openmq.said.removes
    )
    mask[at] = (
        ~np.isnan(poll.client_patience[at])
        & ~(removes | found.keeps)[found.consumer.queue[at]]
    )
    since[at] = buffers.began[buffers.suspected]
    return Raised(mask, since)


def evidence(poll: RuleInputs, at: Positions) -> dict[str, Column]:
    buffers = poll.buffers
    places = poll.buffers.place[at].astype(np.intp)
    leaked = np.full(len(at), np.nan)
    share = np.full(len(at), np.nan)
    known = np.flatnonzero((places >= 0) & (np.append(buffers.then, -1)[places] >= 0))
    leaked[known], share[known] = (
        buffers.rows[PROVEN, places[known]],
        buffers.share(places[known]),
    )
    return {
        "held": poll.found.consumer.held[at],
        "leaked": np.where(leaked > 0, leaked, np.nan),
        "one_in": np.where(
            share > 0, np.round(1 / np.where(share > 0, share, 1)), np.nan
        ),
    }


def suspicion(poll: RuleInputs, queues: Positions) -> Mask:
    """Queues of which no consumer is proven to leak."""
    return ~np.isin(
        queues, poll.found.consumer.queue[poll.buffers.at[poll.buffers.proven]]
    )


LEAKING = Condition(
    rule=rule,
    evidence=evidence,
    notice=suspicion,
    window=lambda _, interval: WINDOWS * max(SECONDS, POLLS * interval),
    **declared(
        "leaking",
        share=100 * SHARE,
        windows=WINDOWS,
        clear=CLEAR,
        seconds=SECONDS,
        polls=POLLS,
        lull=LULL,
    ),
)
