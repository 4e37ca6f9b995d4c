"""Why a consumer buffers messages and settles none: listener, acknowledgement, commit, send, connection."""

import numpy as np

from penstock.causes.surroundings import full_addresses, sends_to, siblings, stopped_with
from penstock.causes.verdict import AGAINST, Verdict, Verdicts, excluded, judged, possible
from penstock.core.formatting import duration
from penstock.model import AcknowledgeMode
from penstock.observation.poll import RuleInputs
from penstock.observation.unacked import CONVERTED

BATCH = 2.0**20
"""Bytes of a window, and of acknowledgements that are sent together, of a Core client that says nothing else."""
AT_ONCE = 3
"""Clients that stop together: less is an accident."""
FLAT = 15.0
"""Seconds without a delivery while messages wait, after which a consumer takes none."""


def said(poll: RuleInputs, row: int, column: str) -> float:
    return np.nan if poll.snapshot.consumers is None else float(poll.snapshot.consumers[column][row])


def flat_for(poll: RuleInputs, row: int) -> float:
    """Seconds for which messages waited and none was delivered to it; 0 where it may have no right to any."""
    found, consumer, queue = poll.found, poll.found.consumer, poll.found.consumer.queue[row]
    if queue < 0 or consumer.selective[row]:
        return 0.0
    address, needed = found.address, found.dispatch_at[queue]
    limit = address.page_read_limit_bytes[queue]
    limited = address.paging[queue] > 0 and not found.delivering_bytes[queue] < 0.5 * limit
    held_up = found.paused[queue] > 0 or address.paused[queue] > 0 or found.exclusive[queue] > 0
    if limited or held_up or needed > found.consumers[queue]:
        return 0.0
    flat = float(found.now - np.maximum(consumer.last_delivery[row], poll.timers.ready[queue]))
    return flat if flat >= max(FLAT, 2 * found.interval) else 0.0


def pace(poll: RuleInputs, row: int, taken: float) -> float:
    """Messages per second before it stalled, at least; 0 where it came before the agent."""
    seen, worked = poll.unacked.seen_since, poll.unacked.unacked_since[row] + poll.found.interval
    came = seen[row] > seen.min() and worked > seen[row] and not poll.left_out
    return float(taken / (worked - seen[row])) if came else 0.0


def decide(poll: RuleInputs, row: int) -> Verdicts:
    """On Artemis, where nothing is acknowledged and uncommitted."""
    consumer, flat, others = poll.found.consumer, flat_for(poll, row), stopped_with(poll, row)
    speaks, held, taken = consumer.index.rows[row].protocol.rstrip("5"), consumer.held[row], consumer.left[row]
    none = f"nothing was delivered to it for {duration(flat)} while {poll.found.ready[consumer.queue[row]]:.0f} wait"
    forgets = forgotten(poll, row, taken, flat, none) if speaks == "CORE" else possible()
    foreign, mqtt = excluded(f"it speaks {speaks}"), f"{held:.0f} were delivered and have no PUBACK"
    chance = ", which may be chance" if 0 < len(others) < AT_ONCE - 1 else ""
    together = f"{', '.join(others[:3]) or AGAINST + 'no other client'} stopped within 2 s of it{chance}"
    received = judged(not taken > 0, False, "it took none yet", f"it has taken {taken:.0f} messages before")
    return {
        "listener_hangs": possible(f"it took {taken:.0f} messages; {none}" if flat else forgets.fact),
        "long_job": possible("the broker shows it as it shows a hang: compare two thread dumps of the client"),
        "never_receives": foreign if speaks in ("STOMP", "MQTT") else received,
        "never_acknowledges": foreign if speaks == "MQTT" else forgets,
        "never_commits": foreign if speaks in ("AMQP", "STOMP", "MQTT") else forgets,
        "puback_missing": judged(speaks == "MQTT", True, mqtt, foreign.fact),
        "blocked_in_send": blocked_in_send(poll, row),
        "outside": possible(together, likely=len(others) + 1 >= AT_ONCE),
        "frozen": frozen(poll, row),
    }


def forgotten(poll: RuleInputs, row: int, taken: float, flat: float, none: str) -> Verdict:
    """Whether a Core client may receive and acknowledge nothing: it asks for more with each half of its window."""
    held, size = poll.found.consumer.held[row], said(poll, row, "buffered_bytes") / BATCH
    rate = pace(poll, row, taken)
    if flat and rate * flat >= held:
        return excluded(f"it would go on taking messages, {rate:.1f} each second as before; {none}")
    if flat:
        return possible(f"only if it receives less than {held / 2 / flat:.2g} messages each second: {none}")
    if size > 1.2:
        return possible(f"{size:.1f} MiB are buffered: it receives, unless its consumerWindowSize is above 1 MiB")
    return possible(f"decidable when 1 MiB has been received or messages wait; {mib(size)} are buffered")


def mib(size: float) -> str:
    return "an unknown number of bytes" if np.isnan(size) else f"{size:.2f} MiB"


def blocked_in_send(poll: RuleInputs, row: int) -> Verdict:
    """Proven where the address closed as the consumer stopped: one that had been full before did not stop it."""
    full, session = poll.of(full_addresses), poll.found.consumer.index.rows[row].session
    if full is not None and not full:
        return excluded("no address of this broker is full")
    address, closed = poll.of(sends_to).get(session, ("", np.nan))
    if full is None or not address:
        read = full is not None and poll.snapshot.producers is not None
        return possible(f"{AGAINST if read else ''}no producer of its session is known to send to a full address")
    said = f"its session sends to {address} ({full[address]}); nothing has come in there for"
    said += f" {duration(poll.found.now - closed)}"
    slack = max(5.0, poll.found.interval)  # it closed up to a poll after `closed`
    together = -slack <= poll.unacked.unacked_since[row] - closed <= 2 * slack
    return judged(True, together, f"{said}, since it stopped" if together else said, "")


def frozen(poll: RuleInputs, row: int) -> Verdict:
    """A sibling that settled within the last two polls shows that the process works."""
    others = siblings(poll, row)
    at = np.append(others, row)
    last = np.fmax(poll.unacked.settled[at], poll.found.consumer.last_acknowledgement[at])
    works = others[poll.found.now - last[:-1] <= 2 * poll.found.interval]
    queue = poll.found.consumer.index.rows[works[0]].queue if len(works) else ""
    with_it = np.abs(last[:-1] - last[-1]) <= max(1.0, poll.found.interval)
    busy = poll.found.consumer.held[others] > 0  # an idle one may have nothing to do
    with_it = np.count_nonzero(with_it & busy)
    stopped = f"{with_it or AGAINST + 'none'} of {len(others)} other consumers of its connection stopped with it"
    stopped = stopped if busy.any() else "no other consumer of its connection shows whether the process works"
    said = judged(not len(works), False, stopped, f"another consumer of its connection works on {queue}")
    return said._replace(likely=bool(0 < len(others) == with_it))


def decide_uncommitted(poll: RuleInputs, row: int) -> Verdicts:
    """On Artemis: acknowledgements that go on distinguish a missing commit from a hang in a transaction."""
    found, last = poll.found, poll.found.consumer.last_acknowledgement[row]
    speaks, core = found.consumer.index.rows[row].protocol, found.consumer.index.rows[row].protocol == "CORE"
    ago = f"{found.consumer.uncommitted[row]:.0f} are acknowledged and uncommitted, the last"
    ago += " at an unknown time" if np.isnan(last) else f" {duration(max(round(found.now - last), 1))} ago"
    recent = found.now - last <= 3 * found.interval
    goes_on = recent and last > poll.unacked.unacked_since[row] + found.interval
    # By default a Core client sends acknowledgements when it has received 1 MiB, all at once.
    queue, more = found.consumer.queue[row], found.consumer.d_uncommitted[row]
    each = (found.delivering_bytes[queue] / max(found.delivering[queue], 1.0) + CONVERTED) / BATCH
    size = each * (more if more > 0 else found.consumer.uncommitted[row])
    sent = f"acknowledgements of at most {mib(size)} were sent; by default they are sent at 1 MiB"
    foreign = f"{speaks} has transactions only"
    return {
        "never_commits": judged(True, goes_on and not core, ago, ""),
        "never_acknowledges": judged(core, False, "Core shows it as a missing commit", foreign),
        "acknowledges_one_by_one": judged(core, size < 0.5, sent, f"it speaks {speaks}"),
        "listener_hangs": judged(not goes_on, False, ago, f"it goes on: {ago}"),
    }


def decide_openmq(poll: RuleInputs, row: int) -> Verdicts:
    mode = said(poll, row, "acknowledge_mode")
    by_client = mode not in (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK, AcknowledgeMode.TRANSACTED)
    how = "acknowledges by the client" if mode == AcknowledgeMode.CLIENT else "has a mode that is not known"
    own = judged(by_client, False, f"its session {how}", "its session does not acknowledge by the client")
    reported, consumer = poll.openmq.said if poll.openmq else None, poll.found.consumer
    asks = "has asked for no more since it stopped" if reported and reported.flow_paused[row] else "may ask for more"
    took = possible(f"it took {consumer.left[row]:.0f} messages and {asks}; a thread dump shows whether it hangs")
    host = consumer.index.rows[row].remote_host
    shows = f"the broker shows one as a JMS client of its own host; this one is on {host}"
    return {**decide(poll, row), "never_acknowledges": own, "listener_hangs": took, "stomp_reader": possible(shows)}


def decide_openmq_uncommitted(poll: RuleInputs, row: int) -> Verdicts:
    failed = poll.openmq and poll.openmq.said and poll.openmq.said.failed[row]
    return {"transaction_failed": judged(failed, True, "the broker says so", "the broker shows none")}
