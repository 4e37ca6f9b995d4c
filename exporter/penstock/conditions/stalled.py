"""`stalled`: a consumer buffers messages and settles none for longer than its stall threshold."""

import numpy as np

from penstock.conditions import evidence, openmq
from penstock.conditions.condition import Alert, Condition, Raised, Scope, Variant
from penstock.conditions.evidence import nearly
from penstock.conditions.leaking import LEAKING
from penstock.core.table import Column
from penstock.core.windows import Mask, longer
from penstock.model import BrokerKind
from penstock.observation.facts import or_zero
from penstock.observation.poll import RuleInputs
from penstock.observation.unacked import BATCH


def rule(poll: RuleInputs) -> Raised:
    mask = overdue(poll, nearly(poll, poll.client_patience)) & ~poll.of(undecided)
    return Raised(mask, poll.unacked.unacked_since, poll.client_patience)


def undecided(poll: RuleInputs) -> Mask:
    """Core consumers that may be filling a batch: for `cap` where batches were settled, else twice the patience."""
    found, consumer = poll.found, poll.found.consumer
    core = consumer.index.column("core", lambda row: row.protocol == "CORE") > 0
    waits = consumer.at_queue(or_zero(found.ready), 0.0) > 0
    unacked, patience = poll.unacked, poll.client_patience
    gets = longer(-consumer.last_delivery, -found.now, -patience)  # the last came within its patience
    unseen = np.where(np.isnan(unacked.settled), 2 * patience, 0.0)
    bound = np.where(unacked.least > BATCH / 2, poll.constants.cap, unseen)
    young = longer(-unacked.unacked_since, -found.now, -bound)
    fills = (consumer.held_bytes < BATCH) & gets & ((consumer.d_delivered > 0) | ~waits)
    return core & fills & young


def overdue(poll: RuleInputs, threshold: Column) -> Mask:
    """Consumers beyond their threshold (seconds) of which nothing is acknowledged and uncommitted."""
    return longer(poll.unacked.unacked_since, poll.found.now, threshold) & (poll.found.consumer.uncommitted == 0)


def openmq_rule(poll: RuleInputs) -> Raised:
    """The same, but not while it gives back what it gets: that is a loop.

    A consumer whose buffer the broker shows as full and untouched is given less time while little is known of it.
    """
    full = full_and_untouched(poll) & overdue(poll, poll.eager)
    mask = (overdue(poll, poll.client_patience) | full) & ~openmq.gives_back(poll)
    return Raised(mask, openmq.unacked_since(poll))


def full_and_untouched(poll: RuleInputs) -> Mask:
    """Paused by its own limit, and asking for no more ever since it last made progress, while more waits."""
    state, said = openmq.of(poll)
    since_progress = state.consumers.still_since <= poll.unacked.unacked_since + 2 * poll.found.interval
    return said.flow_paused & since_progress & (np.append(poll.found.ready, 0.0)[poll.found.consumer.queue] > 0)


STALLED = Condition(
    name="stalled",
    scope=Scope.CLIENT,
    title="A client holds messages and settles none.",
    rule=rule,
    when="a consumer holds messages, has acknowledged none for longer than its client's patience, and none of them is"
    " acknowledged and uncommitted",
    quiet_on="long jobs once they are learned (or `patience` is configured), a commit every 25 s, an idle client, one"
    " that the broker shows as flow-controlled while it works, a Core"
    " client that may acknowledge in batches (DUPS_OK) while it gets what comes and buffers less than 1.2 MiB: for an"
    " hour where it was only seen to settle whole batches, for twice its patience where it never settled",
    evidence=evidence.buffered,
    causes={
        "listener_hangs": "a listener that is blocked",
        "never_acknowledges": "CLIENT_ACKNOWLEDGE or individual acknowledgement that never comes",
        "never_commits": "a Core transaction that is not committed (its acknowledgements stay in the client)",
        "frozen": "a process that is frozen or cut off, until its connection times out",
        "long_job": "a job longer than any before",
    },
    action="holds {held:.0f} messages for {age:.0f} s, usual are {patience:.0f} s; closing it returns them"
    "{at_risk_text}",
    silenced_by=(LEAKING,),
    by_consumer=True,
    alert=Alert(
        name="PenstockClientBlocked",
        description="{client} holds {client.buffered} messages of {in_queue} and has settled none for"
        " {client.blocked_since|age}; usual are {client.patience}. Blocked consumers: {value} of {client.consumers};"
        " {queue.ready} messages wait.",
        runbook="clients",
    ),
    variants={
        BrokerKind.OPENMQ.name: Variant(
            rule=openmq_rule,
            causes={
                "listener_hangs": "a listener that is blocked",
                "never_receives": "receive() that is not called",
                "never_acknowledges": "CLIENT_ACKNOWLEDGE that never comes, or that a reconnect has made invalid"
                " until recover()",
                "frozen": "a process that is frozen",
                "stomp_reader": "a STOMP reader that has stopped, acknowledges nothing, or leaves a transaction open",
                "long_job": "a job longer than any before",
            },
        )
    },
)
