"""Why a consumer buffers messages and settles none: listener, acknowledgement, commit, send, connection."""

import numpy as np

from penstock.causes.case import ConsumerCase
from penstock.causes.evidence import (
    UNKNOWN,
    Claim,
    NumberRead,
    all_of,
    any_of,
    known,
    negated,
    unread,
)
from penstock.causes.surroundings import full_addresses, sends_to, stopped_with
from penstock.causes.verdict import (
    AGAINST,
    Verdict,
    Verdicts,
    concluded,
    excluded,
    possible,
    proven,
)
from penstock.core.formatting import duration
from penstock.model import AcknowledgeMode
from penstock.observation.unacked import CONVERTED

BATCH = 2.0**20
"""Bytes of a window, and of acknowledgements that are sent together, of a Core client that says nothing else."""
AT_ONCE = 3
"""Clients that stop together: less is an accident."""
FLAT = 15.0
"""Seconds without a delivery while messages wait, after which a consumer takes none."""
PUSHED = ("STOMP", "MQTT")
"""Protocols without receive(): the client gets what the broker sends."""
WITHOUT_TRANSACTIONS = ("AMQP", "STOMP", "MQTT")
"""Protocols whose clients open transactions that the broker shows, or have none."""


def decide(case: ConsumerCase) -> Verdicts:
    """On Artemis, where nothing is acknowledged and uncommitted."""
    taken = case.poll.found.consumer.left[case.row]
    flat = flat_for(case)
    waits = nothing_delivered(case, flat)
    forgets = forgotten(case, flat, waits)
    took = f"it took {taken:.0f} messages; {waits}" if flat else forgets.fact
    return {
        "listener_hangs": possible(took),
        "long_job": possible(
            "the broker shows it as it shows a hang: compare two thread dumps of the client"
        ),
        "never_receives": never_receives(case, taken),
        "never_acknowledges": unless_spoken(case, ("MQTT",), forgets),
        "never_commits": unless_spoken(case, WITHOUT_TRANSACTIONS, forgets),
        "puback_missing": puback_missing(case),
        "blocked_in_send": blocked_in_send(case),
        "outside": outside(case),
        "frozen": frozen(case),
    }


def unless_spoken(
    case: ConsumerCase, protocols: tuple[str, ...], verdict: Verdict
) -> Verdict:
    """Excluded where the consumer speaks a protocol that does not know this."""
    return (
        excluded(f"it speaks {case.protocol}")
        if case.protocol in protocols
        else verdict
    )


def never_receives(case: ConsumerCase, taken: float) -> Verdict:
    """One that received before may have ceased to: a pooled consumer, a thread that ended."""
    took_some = (
        f"it has taken {taken:.0f} messages before, and may ask for no more since"
    )
    said = took_some if taken > 0 else "it took none yet"
    return unless_spoken(case, PUSHED, possible(said))


def puback_missing(case: ConsumerCase) -> Verdict:
    held = case.poll.found.consumer.held[case.row]
    speaks_mqtt = protocol_is(case, "MQTT")
    buffers = case.consumer("buffered", "what it buffers").above(0)
    return concluded(
        f"{held:.0f} were delivered and have no PUBACK",
        excluded_by=negated(speaks_mqtt),
        proof=all_of(speaks_mqtt, buffers),
        otherwise=f"it speaks {case.protocol}",
    )


def protocol_is(case: ConsumerCase, protocol: str) -> Claim:
    return known(case.protocol == protocol) if case.protocol else unread("its protocol")


def outside(case: ConsumerCase) -> Verdict:
    others = stopped_with(case.poll, case.row)
    chance = ", which may be chance" if 0 < len(others) < AT_ONCE - 1 else ""
    who = ", ".join(others[:3]) or f"{AGAINST}no other client"
    return possible(
        f"{who} stopped within 2 s of it{chance}", likely=len(others) + 1 >= AT_ONCE
    )


# --- whether it still takes messages


def flat_for(case: ConsumerCase) -> float:
    """Seconds for which messages waited and none was delivered to it; 0 where it may have no right to any, or where
    something that could hold them up was not read.
    """
    poll = case.poll
    queue = case.queue_at
    consumer = poll.found.consumer
    if queue < 0 or consumer.selective[case.row] or not nothing_holds_up(case).is_so:
        return 0.0
    flat = float(
        poll.found.now
        - np.maximum(consumer.last_delivery[case.row], poll.timers.ready[queue])
    )
    return flat if flat >= max(FLAT, 2 * poll.found.interval) else 0.0


def nothing_holds_up(case: ConsumerCase) -> Claim:
    """Whether the queue gives its messages to every consumer that asks."""
    return all_of(
        case.queue("paused", "whether the queue is paused").equals(0),
        case.address("paused", "whether the address is paused").equals(0),
        may_get_any_message(case),
        waits_for_none(case),
        pages_are_read(case),
    )


def may_get_any_message(case: ConsumerCase) -> Claim:
    """Whether no other consumer has a claim on the messages that wait: the only one gets all, of groups too."""
    exclusive = case.queue("exclusive", "whether the queue is exclusive")
    groups = case.queue("groups", "the number of message groups")
    is_alone = case.queue("consumers", "the number of consumers").equals(1)
    return any_of(is_alone, all_of(exclusive.equals(0), groups.equals(0)))


def waits_for_none(case: ConsumerCase) -> Claim:
    """Whether as many consumers are there as the queue waits for."""
    needed = case.queue("consumers_before_dispatch", "consumers-before-dispatch")
    return case.queue("consumers", "the number of consumers").reaches(needed)


def pages_are_read(case: ConsumerCase) -> Claim:
    """Whether the queue is not held up in reading its page files."""
    paging = case.address("paging", "whether the address pages")
    delivering = case.queue("delivering_bytes", "the bytes in delivery")
    limit = case.address("page_read_limit_bytes", "max-read-page-bytes")
    does_not_page = paging.equals(0)
    if not (delivering.is_known and limit.is_known):
        return does_not_page
    return any_of(does_not_page, delivering.below(0.5 * limit.value))


def nothing_delivered(case: ConsumerCase, flat: float) -> str:
    ready = case.poll.found.ready[case.queue_at]
    return f"nothing was delivered to it for {duration(flat)} while {ready:.0f} wait"


def forgotten(case: ConsumerCase, flat: float, waits: str) -> Verdict:
    """Whether a Core client may receive and acknowledge nothing: it asks for more with each half of its window."""
    if case.protocol != "CORE":
        return possible()
    held = case.poll.found.consumer.held[case.row]
    size = case.consumer("buffered_bytes", "the bytes that it buffers").value / BATCH
    rate = pace(case)
    if flat and rate * flat >= held:
        return excluded(
            f"it would go on taking messages, {rate:.1f} each second as before; {waits}"
        )
    if flat:
        return possible(
            f"only if it receives less than {held / 2 / flat:.2g} messages each second: {waits}"
        )
    if size > 1.2:
        return possible(
            f"{size:.1f} MiB are buffered: it receives, unless its consumerWindowSize is above 1 MiB"
        )
    return possible(
        f"decidable when 1 MiB has been received or messages wait; {mib(size)} are buffered"
    )


def pace(case: ConsumerCase) -> float:
    """Messages per second before it stalled, at least; 0 where it came before the agent."""
    unacked = case.poll.unacked
    row = case.row
    seen = unacked.seen_since
    worked_until = unacked.unacked_since[row] + case.poll.found.interval
    came_while_watched = (
        seen[row] > seen.min() and worked_until > seen[row] and not case.left_out
    )
    taken = case.poll.found.consumer.left[row]
    return float(taken / (worked_until - seen[row])) if came_while_watched else 0.0


def mib(size: float) -> str:
    return "an unknown number of bytes" if np.isnan(size) else f"{size:.2f} MiB"


# --- the send, and the process


def blocked_in_send(case: ConsumerCase) -> Verdict:
    """Proven where the address closed as the consumer stopped: one that had been full before did not stop it."""
    poll = case.poll
    full = poll.of(full_addresses)
    if full is not None and not full:
        return excluded("no address of this broker is full")
    address, closed = poll.of(sends_to).get(case.consumer_row.session, ("", np.nan))
    if full is None or not address:
        producers_are_known = full is not None and poll.snapshot.producers is not None
        against = AGAINST if producers_are_known else ""
        return possible(
            f"{against}no producer of its session is known to send to a full address"
        )
    said = f"its session sends to {address} ({full[address]}); nothing has come in there for"
    said += f" {duration(poll.found.now - closed)}"
    slack = max(5.0, poll.found.interval)  # it closed up to a poll after `closed`
    together = -slack <= poll.unacked.unacked_since[case.row] - closed <= 2 * slack
    return proven(f"{said}, since it stopped") if together else possible(said)


def frozen(case: ConsumerCase) -> Verdict:
    """A sibling that settled within the last two polls shows that the process works."""
    poll = case.poll
    consumer = case.poll.found.consumer
    others = case.siblings
    settled = np.fmax(poll.unacked.settled, consumer.last_acknowledgement)
    working = others[poll.found.now - settled[others] <= 2 * poll.found.interval]
    if len(working):
        return excluded(
            f"another consumer of its connection works on {case.rows_of(working[:1])[0].queue}"
        )
    busy = consumer.held[others] > 0  # an idle one may have nothing to do
    if not busy.any():
        return possible(
            "no other consumer of its connection shows whether the process works"
        )
    near = max(1.0, poll.found.interval)
    together = np.count_nonzero(
        busy & (np.abs(settled[others] - settled[case.row]) <= near)
    )
    said = f"{together or AGAINST + 'none'} of {len(others)} other consumers of its connection stopped with it"
    return possible(said, likely=bool(0 < len(others) == together))


# --- acknowledged and uncommitted


def decide_uncommitted(case: ConsumerCase) -> Verdicts:
    """On Artemis: acknowledgements that go on distinguish a missing commit from a hang in a transaction."""
    protocol = case.protocol
    is_core = protocol_is(case, "CORE")
    uncommitted = case.poll.found.consumer.uncommitted[case.row]
    ago = f"{uncommitted:.0f} are acknowledged and uncommitted, the last {since_last(case)}"
    goes_on = acknowledges_still(case)
    size = acknowledged_at_once(case)
    sent = f"acknowledgements of at most {mib(size.value)} were sent; by default they are sent at 1 MiB"
    return {
        "never_commits": concluded(ago, proof=all_of(goes_on, negated(is_core))),
        "never_acknowledges": concluded(
            "Core shows it as a missing commit",
            excluded_by=negated(is_core),
            otherwise=f"{protocol} has transactions only",
        ),
        "acknowledges_one_by_one": concluded(
            sent,
            excluded_by=negated(is_core),
            proof=all_of(is_core, size.satisfies(lambda mebibytes: mebibytes < 0.5)),
            otherwise=f"it speaks {protocol}",
        ),
        "listener_hangs": concluded(
            ago, excluded_by=goes_on, otherwise=f"it goes on: {ago}"
        ),
    }


def since_last(case: ConsumerCase) -> str:
    last = case.poll.found.consumer.last_acknowledgement[case.row]
    if np.isnan(last):
        return "at an unknown time"
    return f"{duration(max(round(case.poll.found.now - last), 1))} ago"


def acknowledges_still(case: ConsumerCase) -> Claim:
    """Whether acknowledgements came after the first one that is not committed, and lately. None is no sign of a hang:
    a client may send them together.
    """
    found = case.poll.found
    last = case.consumer("last_acknowledgement", "when it acknowledged last")
    if not last.is_known:
        return unread(last.name)
    is_recent = found.now - last.value <= 3 * found.interval
    is_later = last.value > case.poll.unacked.unacked_since[case.row] + found.interval
    return known(True) if is_recent and is_later else UNKNOWN


def acknowledged_at_once(case: ConsumerCase) -> NumberRead:
    """MiB of acknowledgements that were sent together. By default a Core client sends them when it has received 1 MiB,
    all at once.
    """
    name = "the bytes in delivery"
    found = case.poll.found
    in_bytes = case.queue("delivering_bytes", name)
    count = case.queue("delivering", "the messages in delivery")
    if case.queue_at < 0 or not (in_bytes.is_known and count.is_known):
        return NumberRead(name, np.nan)
    of_one = (in_bytes.value / max(count.value, 1.0) + CONVERTED) / BATCH
    more = found.consumer.d_uncommitted[case.row]
    return NumberRead(
        name,
        float(of_one * (more if more > 0 else found.consumer.uncommitted[case.row])),
    )


# --- OpenMQ


def decide_openmq(case: ConsumerCase) -> Verdicts:
    taken = case.poll.found.consumer.left[case.row]
    flow_paused = case.consumer("flow_paused", "whether it asks for more").above(0)
    asks = (
        "has asked for no more since it stopped"
        if flow_paused.is_so
        else "may ask for more"
    )
    took = possible(
        f"it took {taken:.0f} messages and {asks}; a thread dump shows whether it hangs"
    )
    host = case.consumer_row.remote_host
    shows = (
        f"the broker shows one as a JMS client of its own host; this one is on {host}"
    )
    return {
        **decide(case),
        "never_acknowledges": never_acknowledges_openmq(case),
        "listener_hangs": took,
        "stomp_reader": possible(shows),
    }


def never_acknowledges_openmq(case: ConsumerCase) -> Verdict:
    """AUTO and DUPS_OK acknowledge by themselves, a transaction by its commit."""
    mode = case.consumer("acknowledge_mode", "the acknowledge mode of its session")
    by_itself = (
        AcknowledgeMode.AUTO,
        AcknowledgeMode.DUPS_OK,
        AcknowledgeMode.TRANSACTED,
    )
    how = (
        "acknowledges by the client"
        if mode.value == AcknowledgeMode.CLIENT
        else "has a mode that is not known"
    )
    return concluded(
        f"its session {how}",
        excluded_by=mode.satisfies(lambda value: value in by_itself),
        otherwise="its session does not acknowledge by the client",
    )


def decide_openmq_uncommitted(case: ConsumerCase) -> Verdicts:
    said = case.poll.openmq.said if case.poll.openmq else None
    was_read = case.part_is_fresh("transactions", "the broker's transactions")
    has_failed = known(said is not None and bool(said.failed[case.row]))
    failed = all_of(was_read, has_failed)
    return {
        "transaction_failed": concluded(
            "the broker says so" if has_failed.is_so else "",
            excluded_by=all_of(was_read, case.connection_is_known, negated(has_failed)),
            proof=failed,
            otherwise="the broker shows none",
        )
    }
