"""Who is slow: one client or all of a queue, and whether it is slow on other queues too."""

import numpy as np

from penstock.causes.surroundings import consumers_of
from penstock.causes.verdict import Verdicts, judged
from penstock.observation.poll import RuleInputs

ALIKE = 2.0
"""Times as long as usual: queues on which a client is slow, too."""


def slowed(poll: RuleInputs, queue: int) -> Verdicts:
    usual, consumer = poll.usual, poll.found.consumer
    with np.errstate(invalid="ignore"):
        slow = np.flatnonzero(usual.service >= ALIKE * usual.usual_service)
    rows = consumer.index.rows[consumers_of(poll, queue)]
    here, hosts = {row.client for row in rows}, {row.remote_host for row in rows}
    at = np.flatnonzero(np.isin(consumer.queue, slow[slow != queue]))
    shared = {consumer.queue[i] for i in at if consumer.index.rows[i].client in here}
    of_host = {consumer.queue[i] for i in at if consumer.index.rows[i].remote_host in hosts}
    with_usual = int(np.count_nonzero(~np.isnan(usual.service)))
    all_slow = with_usual > 2 and len(slow) > with_usual / 2
    others = f"its clients are slow on {len(shared)} more queues"
    on_host = f"{len(of_host)} more queues with consumers on {', '.join(sorted(hosts)[:3])} are slow"
    everywhere = f"{len(slow)} of the {with_usual} queues with a backlog are slow"
    return {
        "client_slow": judged(shared, False, others, "they are slow on no other queue"),
        "host_slow": judged(of_host, False, on_host, "nothing else on their hosts is slow"),
        "broker_slow": judged(all_slow, False, everywhere, everywhere),
    }
