"""Why deliveries come back, end in the dead letters or expire."""

from operator import attrgetter

import numpy as np

from penstock.causes.surroundings import consumers_of
from penstock.causes.verdict import Verdict, Verdicts, judged, possible
from penstock.core.formatting import duration
from penstock.core.table import Column
from penstock.model import AcknowledgeMode
from penstock.observation.activity import FLOW_IN
from penstock.observation.losses import IN_HAND
from penstock.observation.poll import RuleInputs


def comes_back(poll: RuleInputs, queue: int) -> Verdicts:
    """On Artemis. A release of AMQP is no attempt to acknowledge; rollback, recover and a failure are, all alike."""
    found, returns, rows = poll.found, poll.returns, poll.found.consumer.index.rows
    speak = {rows[i].protocol for i in consumers_of(poll, queue).tolist()}
    gone = goes_away(poll, queue)
    released = speak == {"AMQP"} and not found.attempts[queue] > found.settled[queue]
    said = f"{returns.returned[queue]:.0f} came back, {returns.settled[queue]:.0f} were settled"
    attempt = not released and "MQTT" not in speak
    none = "no attempt to acknowledge failed" if released else "it speaks MQTT"
    knows_recover = attempt and not (speak and speak <= {"AMQP", "STOMP"})
    return {
        "releases": judged("AMQP" in speak or not speak, released and not gone.fact, said, "no consumer speaks AMQP"),
        "rolls_back": judged(attempt, False, said, none),
        "recovers": judged(knows_recover, False, said, "it knows no recover()"),
        "listener_fails": judged(not released, False, said, none),
        "reconnects": gone,
    }


def goes_away(poll: RuleInputs, queue: int) -> Verdict:
    """Whether consumers go with what they have buffered. One that comes and goes between two polls is not seen."""
    losses, now, window = poll.losses, poll.found.now, poll.constants.window_seconds(poll.found.interval)
    if not now - losses.last[IN_HAND][queue] <= window:
        return possible()
    given, lasts = losses.lost[IN_HAND][queue], now - losses.since[IN_HAND][queue]
    unsettled = poll.returns.delivered[queue] - poll.returns.settled[queue]
    said = f"within {duration(max(lasts, poll.found.interval))} consumers went with {given:.0f} unacknowledged messages"
    return possible(said, likely=bool(given * min(1.0, window / max(lasts, 1e-9)) >= unsettled / 2))


def comes_back_openmq(poll: RuleInputs, queue: int) -> Verdicts:
    """By how the sessions of its consumers acknowledge: rollback is of transacted ones, the others' only recover."""
    consumers = poll.snapshot.consumers
    modes = set() if consumers is None else set(consumers["acknowledge_mode"][consumers_of(poll, queue)].tolist())
    transacted = AcknowledgeMode.TRANSACTED in modes
    said = f"{poll.returns.returned[queue]:.0f} came back, {poll.returns.settled[queue]:.0f} were settled"
    known, others = bool(modes) and not np.isnan([*modes]).any(), bool(modes - {AcknowledgeMode.TRANSACTED})
    return {
        "rolls_back": judged(transacted or not known, False, said, "no session is transacted"),
        "recovers": judged(others or not known, False, said, "all sessions are transacted, which have no recover()"),
        "listener_fails": judged(True, False, said, ""),
    }


def came_in(poll: RuleInputs) -> Column:
    return poll.activity.trend.sum(FLOW_IN)


def dies(poll: RuleInputs, queue: int) -> Verdicts:
    """A purge kills what was not delivered; attempts that are used up are deliveries, and fill the dead letters."""
    killed, tried = poll.returns.killed[queue], poll.returns.delivered[queue] - poll.returns.settled[queue]
    queues = poll.found.queues
    dead_letters = queues.where("address", attrgetter("address"), {queues.rows[queue].dead_letter_address} - {""})
    dead = poll.of(came_in)[dead_letters].sum()
    said = f"{killed:.0f} were killed, {max(tried, 0):.0f} deliveries were not settled, {dead:.0f} dead letters came"
    return {
        "attempts_used_up": judged(tried > 0, tried >= killed and dead >= killed, said, said),
        "purged": judged(True, tried < killed / 2, said, ""),
        "reconnects": goes_away(poll, queue),
    }


def expires(poll: RuleInputs, queue: int) -> Verdicts:
    """Messages without a time to live get the expiry-delay of the address settings."""
    delay = poll.found.address.expiry_delay[queue]
    said = (
        f"it is {duration(delay / 1000)}" if delay >= 0 else "" if np.isnan(delay) else "the address settings have none"
    )
    return {
        "expiry_delay": judged(not delay < 0, False, said, said),
        "time_to_live": judged(True, delay < 0, f"expiry-delay: {said}" if said else "", ""),
    }
