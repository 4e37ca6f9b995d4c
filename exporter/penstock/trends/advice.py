"""Advice on settings of clients and on limits, each with the numbers that it rests on.

None without a day of evidence. Polls see what lasts: a buffer that runs dry for less than an interval is not seen.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.findings.limits import ARTEMIS_WINDOW, DEFAULT_LIMIT, DEFAULT_THRESHOLD, limit_for_memory, window_for_ring
from penstock.insight.formatting import duration

Plain = dict[str, Any]
LEAST_HOURS: Final = 24
ROUND_TRIP: Final = 0.05
"""Seconds that a batch is taken to be on its way; the polls cannot measure it."""
RESERVE: Final = 1.5
"""So many times what a consumer works off in a round trip must be there when it asks for more."""
LIES: Final = 60.0
"""Seconds that a message may lie in the buffer of one client while another could have it."""
STARVED: Final = 0.05
WAITING: Final = 0.05
HEAP: Final = 64 * 2**20
"""Bytes of one client's buffers from which they are told."""
HEADROOM: Final = 1.5
NEAR: Final = 1.2
CORE: Final = "CORE"
BACKLOG: Final = "limit of the backlog"


def advise(queues: Sequence[Plain], clients: Sequence[Plain]) -> list[Plain]:
    """Of all queues and clients, clients with most traffic first; limits of backlogs, which any queue has, last."""
    by_queue = {(q["broker"], q["address"], q["queue"]): q for q in queues}
    found: list[tuple[bool, float, Plain]] = []
    for client in clients:
        queue = by_queue.get((client["broker"], client["address"], client["queue"]))
        if queue is not None and client["hours"] >= LEAST_HOURS and client["settled"]:
            found += [(False, client["settled"], one) for one in of_client(client, queue)]
    for queue in queues:
        if queue["last"] - queue["first"] >= LEAST_HOURS * 3600:
            depth = queue["needed"] or 0.0
            found += [(one["subject"] == BACKLOG, depth, one) for one in of_queue(queue)]
    return [one for *_, one in sorted(found, key=lambda one: (one[0], -one[1], one[2]["subject"]))]


def utilised(clients: Sequence[Plain], queues: Sequence[Plain]) -> None:
    """Adds `utilisation` to each client: what comes at the busiest over what its consumers can do; None = not known."""
    rates = {(q["broker"], q["address"], q["queue"]): q["busiest_rate"] for q in queues}
    for client in clients:
        rate, able = rates.get((client["broker"], client["address"], client["queue"])), None
        if client["pace"] and client["consumers"]:
            able = client["pace"] * client["consumers"]
        client["utilisation"] = None if rate is None or able is None else rate / able


def of_client(client: Mapping[str, Any], queue: Mapping[str, Any]) -> Iterator[Plain]:
    starved, waiting = queue["starved_share"] or 0.0, queue["backlog_share"] or 0.0
    if starved >= STARVED and waiting >= 0.01:
        yield starving(client, starved)
    elif waiting >= WAITING and client["consumers"]:
        yield too_slow(client, queue, waiting)
    found = [hoarding(client, waiting), heavy(client)]
    if queue["ring"] and client["protocol"] == CORE:
        found.append(beside_ring(client, queue))
    yield from (one for one in found if one is not None)


def told(subject: str, of: Mapping[str, Any], evidence: str, do: str) -> Plain:
    """of: a client or a queue. evidence: what was seen, with its numbers; do: what to set, with the arithmetic."""
    about = {"broker": of["broker"], "queue": of["queue"], "client": of.get("client", "")}
    return {"subject": subject, **about, "evidence": evidence, "do": do}


def starving(client: Mapping[str, Any], starved: float) -> Plain:
    """Messages wait and the buffers are empty: batches are too small, or too late."""
    pace, held = client["pace"], client["most_held"] or 0.0
    reserve = RESERVE * pace * ROUND_TRIP
    evidence = (
        f"While messages waited its buffers were empty at {100 * starved:.0f} % of the polls; one consumer held"
        f" {held:.0f} messages at most and worked off up to {pace:.2g} a second."
    )
    if client["protocol"] == CORE:
        size = client["size"] or 1024.0
        window = max(2 * reserve, 2 * held, 10) * size
        do = (
            f"consumerWindowSize {bytes_text(window)} (the default is {ARTEMIS_WINDOW} bytes): twice what was held, at"
            f" {size:.0f} bytes a message; half of it must outlast {1000 * ROUND_TRIP:.0f} ms at that pace,"
            f" {reserve:.1f} messages."
        )
    else:
        limit = max(reserve * 100 / DEFAULT_THRESHOLD, 2 * held, 10)
        do = (
            f"A prefetch or flow limit of {round_up(limit)} messages (OpenMQ's default is {DEFAULT_LIMIT}): twice what"
            f" was held; {DEFAULT_THRESHOLD} % of it must outlast {1000 * ROUND_TRIP:.0f} ms at that pace,"
            f" {reserve:.1f} messages."
        )
    return told("too little in the buffer", client, evidence, do)


def too_slow(client: Mapping[str, Any], queue: Mapping[str, Any], waiting: float) -> Plain:
    """Messages wait and the buffers are full: what the consumers do is what limits."""
    pace, rate, there = client["pace"], queue["busiest_rate"], client["consumers"]
    needed = max(math.ceil(NEAR * rate / pace), math.ceil(there) + 1) if pace else math.ceil(there) + 1
    evidence = (
        f"Messages waited at {100 * waiting:.0f} % of the polls while its consumers had messages in hand. At the"
        f" busiest {rate:.2g} came each second, {there:.2g} consumers worked off up to {pace:.2g} each."
    )
    do = (
        f"{needed} consumers ({rate:.2g} a second / {pace:.2g} each, and a fifth more), or make one message cheaper; a"
        " larger buffer would only move the queue into the client."
    )
    return told("too few consumers", client, evidence, do)


def hoarding(client: Mapping[str, Any], waiting: float) -> Plain | None:
    """One consumer held far more than it works off in LIES, while others are there that could."""
    pace, most = client["pace"], client["most_held"] or 0.0
    fair = max(math.ceil(pace * LIES), 10) if pace else 0
    if not pace or client["consumers"] < 1.5 or most < 5 * fair or waiting >= WAITING:
        return None
    evidence = (
        f"One of {client['consumers']:.2g} consumers held up to {most:.0f} messages: at {pace:.2g} a second the last of"
        f" them lies there for {duration(most / pace)}, where no other consumer can have it."
    )
    size = client["size"]
    if client["protocol"] == CORE and size:
        do = f"consumerWindowSize {bytes_text(fair * size)}: {fair} messages of {size:.0f} bytes, {LIES:.0f} s of work."
    else:
        do = f"A prefetch or flow limit of {round_up(fair)} messages, {LIES:.0f} s of work."
    return told("too much in the buffer", client, evidence, do)


def heavy(client: Mapping[str, Any]) -> Plain | None:
    """Buffers that weigh on the client's memory."""
    size, limit = client["size"], client["limit"]
    most = max(client["most_bytes"] or 0.0, (limit or 0.0) * (size or 0.0)) * client["consumers"]
    if not size or most < HEAP:
        return None
    room = limit_for_memory(HEAP, size, max(math.ceil(client["consumers"]), 1))
    mib = most / 2**20
    evidence = (
        f"{client['consumers']:.2g} consumers may hold {mib:.0f} MiB in the client, at {size:.0f} bytes a message."
    )
    do = f"{room} messages a consumer keep it to {HEAP // 2**20} MiB; or give the client so much heap."
    return told("memory of the client", client, evidence, do)


def beside_ring(client: Mapping[str, Any], queue: Mapping[str, Any]) -> Plain | None:
    """What consumers hold of a ring comes back when they go, and what does not fit is lost."""
    size, there = client["size"], max(math.ceil(client["consumers"]), 1)
    held = (client["most_held"] or 0.0) * there
    if not size or held <= queue["ring"]:
        return None
    evidence = (
        f"Its consumers held up to {held:.0f} messages beside a ring of {queue['ring']:.0f}: had they gone, what comes"
        " back would not have fitted."
    )
    window = window_for_ring(int(queue["ring"]), size, there)
    do = f"consumerWindowSize {window} bytes: a ring shared by {there} consumers, at {size:.0f} bytes a message."
    return told("buffer beside a ring", client, evidence, do)


def of_queue(queue: Mapping[str, Any]) -> Iterator[Plain]:
    advice, needed, size = queue["ring_advice"], queue["needed"], queue["size"]
    if advice:
        covers = (
            ""
            if advice["covers_hours"] is None
            else f" At the busiest it covers {duration(advice['covers_hours'] * 3600)}."
        )
        yield told(
            "ring size", queue,
            f"A ring of {queue['ring']:.0f} threw {advice['lost']:.0f} messages away unread.{covers}",
            f"ring-size {advice['size']:.0f}: what 99.9 % of the hours lost at most, on top of the present size.",
        )  # fmt: skip
    elif not queue["ring"] and needed and needed >= 100 and size:
        limit = HEADROOM * needed
        yield told(
            BACKLOG, queue,
            f"In 99.9 % of the hours at most {needed:.0f} messages were there, {size:.0f} bytes each.",
            f"Room for {round_up(limit)} messages (MaxNumMsgs) or {bytes_text(limit * size)} (max-size-bytes) is"
            f" {HEADROOM} times that; less would have stopped producers or paged.",
        )  # fmt: skip


def bytes_text(value: float) -> str:
    """Rounded up, with its unit."""
    value = round_up(value)
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= 10 * size:
            return f"{value / size:g} {unit}"
    return f"{value} bytes"


def round_up(value: float) -> int:
    """To two digits."""
    if value <= 10:
        return math.ceil(value)
    unit = 10 ** (math.floor(math.log10(value)) - 1)
    return int(math.ceil(value / unit) * unit)
