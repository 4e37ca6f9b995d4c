"""Who is slow: one client or all of a queue, and whether it is slow on other queues too."""

from collections.abc import Callable, Collection, Mapping
from operator import attrgetter

import numpy as np

from penstock.causes.case import Case
from penstock.causes.evidence import Claim, Truth, known
from penstock.causes.verdict import AGAINST, Verdict, Verdicts, concluded, possible
from penstock.core.table import Mask
from penstock.model import ConsumerRow
from penstock.observation.poll import RuleInputs

ALIKE = 2.0
"""Times as long as usual: queues on which a client is slow, too."""
OTHERS = 2
"""Other queues whose pace is known, from which on it is said of the whole broker."""


def slowed(case: Case) -> Verdicts:
    rows = case.rows_of(case.consumers)
    hosts = {row.remote_host for row in rows}
    of_client = others_of(
        case, case.poll.of(queues_by_client), {row.client for row in rows}
    )
    of_host = others_of(case, case.poll.of(queues_by_host), hosts)
    slow_of_client = np.count_nonzero(of_client & is_slow(case))
    slow_of_host = np.count_nonzero(of_host & is_slow(case))
    on_hosts = f"{slow_of_host} more queues with consumers on {', '.join(sorted(hosts)[:3])} are slow"
    return {
        "client_slow": concluded(
            f"its clients are slow on {slow_of_client} more queues"
            if slow_of_client
            else "",
            excluded_by=none_is_slow(
                case, of_client, "the pace of its clients on another queue"
            ),
            otherwise="they are slow on no other queue",
        ),
        "host_slow": concluded(
            on_hosts if slow_of_host else "",
            excluded_by=none_is_slow(
                case, of_host, "the pace of another queue on their hosts"
            ),
            otherwise="nothing else on their hosts is slow",
        ),
        "broker_slow": broker_slow(case),
    }


QueuesOf = Mapping[str, set[int]]
"""By the name of a client or a host the positions of the queues that it consumes."""


def queues_by_client(poll: RuleInputs) -> QueuesOf:
    return queues_by(poll, attrgetter("client"))


def queues_by_host(poll: RuleInputs) -> QueuesOf:
    return queues_by(poll, attrgetter("remote_host"))


def queues_by(poll: RuleInputs, name: Callable[[ConsumerRow], str]) -> QueuesOf:
    found: dict[str, set[int]] = {}
    consumer = poll.found.consumer
    for row, queue in zip(consumer.index, consumer.queue.tolist(), strict=True):
        found.setdefault(name(row), set()).add(queue)
    return found


def others_of(case: Case, queues: QueuesOf, names: Collection[str]) -> Mask:
    """The other queues that these consume."""
    positions = set[int]().union(*(queues.get(name, set()) for name in names)) - {
        case.row,
        -1,
    }
    mask = np.zeros(len(case.poll.found.queues), np.bool_)
    mask[sorted(positions)] = True
    return mask


def is_slow(case: Case) -> Mask:
    usual = case.poll.usual
    with np.errstate(invalid="ignore"):
        slow: Mask = usual.service >= ALIKE * usual.usual_service
    return slow


def pace_is_known(case: Case) -> Mask:
    usual = case.poll.usual
    return np.asarray(~np.isnan(usual.service) & ~np.isnan(usual.usual_service))


def none_is_slow(case: Case, queues: Mask, name: str) -> Claim:
    """Whether the pace of others of these queues is known, and usual. name: what has to be known, for people."""
    known_ones = queues & pace_is_known(case)
    if not known_ones.any():
        return Claim(Truth.UNKNOWN, (f"{name} is not known",))
    return known(not (known_ones & is_slow(case)).any())


def broker_slow(case: Case) -> Verdict:
    """A slow disk delays durable messages alone, and no number shows which are: other queues speak against it only."""
    comparable = pace_is_known(case)
    comparable[case.row] = False
    slow = np.count_nonzero(is_slow(case) & comparable)
    count = np.count_nonzero(comparable)
    if not count:
        return possible(
            "the pace of no other queue is known; look at the disk of the broker"
        )
    said = f"{slow} of {count} other queues with a backlog are slow, too"
    most = bool(count >= OTHERS and slow > count / 2)
    return possible(said if slow else f"{AGAINST}{said}", likely=most)
