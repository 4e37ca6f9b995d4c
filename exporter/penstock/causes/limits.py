"""Why nothing comes in to an address, or what comes is refused: its own limit, the whole broker, an operator."""

from collections import Counter

import numpy as np

from penstock.causes.surroundings import full_broker
from penstock.causes.verdict import Verdicts, judged
from penstock.model import ResourceState
from penstock.observation.openmq import at_limit, near_limit
from penstock.observation.poll import RuleInputs


def senders(poll: RuleInputs) -> Counter[str]:
    """Producers by address."""
    return Counter(row.address for row in poll.snapshot.producers.index) if poll.snapshot.producers else Counter()


def blocked(poll: RuleInputs, queue: int) -> Verdicts:
    """Artemis shows a limit of its own as a ratio; the percent of an address without one is that of the broker."""
    address, said, whole = poll.found.queues.rows[queue].address, poll.found.address, full_broker(poll.broker)
    ratio, producers = said.memory_used_ratio[queue], poll.snapshot.producers
    disk = poll.broker.disk_used_ratio >= poll.broker.disk_limit_ratio
    who = "its producers were not read" if producers is None else f"{poll.of(senders)[address]} producers send there"
    own = f"it uses {ratio:.0%} of its limit; {who}" if ratio >= 0 else "it has no limit of its own"
    return {
        "address_full": judged(ratio >= 1, True, own, own),
        "memory_full": judged(whole == "memory", True, who, "the broker's memory is not full"),
        "disk_full": judged(disk, True, who, "its disk is not full"),
    }


def refused(poll: RuleInputs, queue: int) -> Verdicts:
    name, addresses = poll.found.queues.rows[queue].address, poll.snapshot.addresses
    policy = next((row.policy for row in addresses.index if row.name == name), "") if addresses else ""
    fate = {"drop": "DROP: messages vanish, producers see nothing", "fail": "FAIL: producers see an error"}
    return {"address_full": judged(True, policy in fate, fate.get(policy, "its policy was not read"), "")}


def room(messages: float, limit: float) -> str:
    return f"{messages:,.0f} messages" + ("" if np.isnan(limit) else f", its limit is {limit:,.0f}")


def blocked_openmq(poll: RuleInputs, queue: int) -> Verdicts:
    """Producers that still have a part of their last batch must wait before the limit is reached."""
    closed, count = poll.found.address.producers_paused[queue] > 0, poll.found.messages[queue]
    said = poll.openmq.said if poll.openmq else None
    near = said is None or near_limit(poll.found, said)[queue] or at_limit(poll.found, said)[queue]
    full = room(count, np.nan if said is None else said.limit_messages[queue])
    return {
        "address_full": judged(near, said and at_limit(poll.found, said)[queue], full, full),
        "operator": judged(closed or np.isnan(closed), closed, "its producers are paused", "it accepts producers"),
    }


def refused_openmq(poll: RuleInputs, queue: int) -> Verdicts:
    """What is refused below the limit, while the broker has memory, is refused one by one."""
    said = poll.openmq.said if poll.openmq else None
    if said is None:
        return {}
    count, limit, largest = poll.found.messages[queue], said.limit_messages[queue], said.message_limit_bytes[queue]
    near = at_limit(poll.found, said)[queue] or near_limit(poll.found, said)[queue] or count >= 0.9 * limit
    full = room(count, limit)
    green = poll.broker.resource_state == ResourceState.GREEN
    sizes = f"a message may have {largest:,.0f} bytes; {full}"
    return {
        "address_full": judged(said.rejects[queue] and near, True, full, full),
        "too_large": judged(not np.isnan(largest), green and not near, sizes, "it limits no message's size"),
    }
