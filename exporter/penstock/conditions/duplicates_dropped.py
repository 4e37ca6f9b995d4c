"""`duplicates_dropped`: an address keeps dropping messages whose duplicate id it has seen."""

from penstock.conditions.condition import Condition, declared
from penstock.conditions.evidence import lost, spell, window
from penstock.core.formatting import some
from penstock.core.table import Mask, Positions
from penstock.observation.losses import DUPLICATE
from penstock.observation.poll import RuleInputs

FEW = 0.1
"""Share of what was sent: clients that send again what they had no answer to are what the ids are for."""


def notice(poll: RuleInputs, queues: Positions) -> Mask:
    return (poll.losses.share(DUPLICATE) < FEW)[queues]


def senders(poll: RuleInputs) -> dict[str, set[str]]:
    """Clients of the producers that are listed, by address."""
    found: dict[str, set[str]] = {}
    for row in poll.losses.producers.index if poll.losses.producers is not None else ():
        found.setdefault(row.address, set()).add(row.client)
    return found


def producers(poll: RuleInputs, queue: int) -> str:
    clients = sorted(poll.of(senders).get(poll.found.queues.rows[queue].address, ()))
    return f"producers of the address: {some(clients)}" if clients else ""


def why(poll: RuleInputs, queue: int) -> str:
    return (said := producers(poll, queue)) and f"{said}; one of them uses ids again"


DUPLICATES_DROPPED = Condition(
    rule=lambda poll: spell(poll, DUPLICATE),
    evidence=lost(DUPLICATE, share=True),
    why=why,
    notice=notice,
    window=window,
    **declared("duplicates_dropped", share=100 * FEW),
)
