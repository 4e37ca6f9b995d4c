"""Why nothing comes in to an address, or what comes is refused: its own limit, the whole broker, an operator."""

from collections import Counter

from penstock.causes.surroundings import full_broker
from penstock.causes.verdict import Verdicts, judged
from penstock.observation.poll import RuleInputs


def senders(poll: RuleInputs) -> Counter[str]:
    """Producers by address."""
    return Counter(row.address for row in poll.snapshot.producers.index) if poll.snapshot.producers else Counter()


def blocked(poll: RuleInputs, queue: int) -> Verdicts:
    """Artemis shows a limit of its own as a ratio; the percent of an address without one is that of the broker."""
    address, said, whole = poll.found.queues.rows[queue].address, poll.found.address, full_broker(poll.broker)
    ratio, producers = said.memory_used_ratio[queue], poll.snapshot.producers
    who = "its producers were not read" if producers is None else f"{poll.of(senders)[address]} producers send there"
    own = f"it uses {ratio:.0%} of its limit; {who}" if ratio >= 0 else "it has no limit of its own"
    return {
        "address_full": judged(ratio >= 1, True, own, own),
        "memory_full": judged(whole == "memory", True, who, "the broker's memory is not full"),
        "disk_full": judged(
            poll.broker.disk_used_ratio >= poll.broker.disk_limit_ratio, True, who, "its disk is not full"
        ),
    }


def refused(poll: RuleInputs, queue: int) -> Verdicts:
    name, addresses = poll.found.queues.rows[queue].address, poll.snapshot.addresses
    policy = next((row.policy for row in addresses.index if row.name == name), "") if addresses else ""
    fate = {"drop": "DROP: messages vanish, producers see nothing", "fail": "FAIL: producers see an error"}
    return {"address_full": judged(True, policy in fate, fate.get(policy, "its policy was not read"), "")}
