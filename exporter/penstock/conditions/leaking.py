"""`leaking`: a consumer works and leaves a few messages unacknowledged for good."""

from collections.abc import Mapping

import numpy as np

from penstock.conditions.condition import Condition, Raised, Scope
from penstock.conditions.texts import texts
from penstock.core.table import Column, Positions
from penstock.core.windows import Mask
from penstock.observation.buffers import LULL, POLLS, PROVEN, SECONDS, SHARE, WINDOWS
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    """Not on OpenMQ where a limit removes messages: they stay in the buffers of their consumers."""
    found, buffers = poll.found, poll.buffers
    mask, since = np.zeros(len(found.consumer.index), np.bool_), np.full(len(found.consumer.index), np.nan)
    places = np.flatnonzero(buffers.suspected)
    if len(places):
        at = buffers.at[places]
        removes = found.keeps if poll.openmq is None or poll.openmq.said is None else poll.openmq.said.removes
        mask[at] = ~np.isnan(poll.client_patience[at]) & ~(removes | found.keeps)[found.consumer.queue[at]]
        since[at] = buffers.began[places]
    return Raised(mask, since)


def evidence(poll: RuleInputs, at: Positions) -> Mapping[str, Column]:
    buffers, places = poll.buffers, poll.buffers.place[at].astype(np.intp)
    leaked, share = np.full(len(at), np.nan), np.full(len(at), np.nan)
    known = np.flatnonzero((places >= 0) & (np.append(buffers.then, -1)[places] >= 0))
    leaked[known], share[known] = buffers.rows[PROVEN, places[known]], buffers.share(places[known])
    return {
        "held": poll.found.consumer.held[at],
        "leaked": np.where(leaked > 0, leaked, np.nan),
        "one_in": np.where(share > 0, np.round(1 / np.where(share > 0, share, 1)), np.nan),
    }


def suspicion(poll: RuleInputs, queues: Positions) -> Mask:
    """Queues of which no consumer is proven to leak."""
    return ~np.isin(queues, poll.found.consumer.queue[poll.buffers.at[poll.buffers.proven]])


LEAKING = Condition(
    name="leaking",
    scope=Scope.CLIENT,
    rule=rule,
    when=f"a consumer acknowledges at nearly every poll, and the least that it buffers never falls and rises by at most"
    f" {SHARE:.0%} of what it acknowledges, in {WINDOWS} windows of {SECONDS:g} s or {POLLS}"
    f" polls, or longer ones: a notice. A warning once {LULL} polls without any message to process show what it"
    " still buffers: exactly that leaked",
    evidence=evidence,
    notice=suspicion,
    may_be_critical=False,
    window=lambda _, interval: WINDOWS * max(SECONDS, POLLS * interval),
    by_consumer=True,
    **texts("leaking"),
)
