"""`unaccounted`: messages went, or came, and no counter of the broker says why."""

from penstock.conditions.condition import ARTEMIS, Alert, Condition, Raised, Scope
from penstock.conditions.evidence import at_this_poll, lost
from penstock.observation.facts import SKEW
from penstock.observation.losses import UNEXPLAINED
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    grew = poll.losses.last[UNEXPLAINED] == poll.found.now
    return Raised(poll.found.judged & ~poll.found.keeps & grew, at_this_poll(poll))


UNACCOUNTED = Condition(
    name="unaccounted",
    scope=Scope.QUEUE,
    title="Messages are missing from a queue, or too many, and no counter says why.",
    rule=rule,
    when="what came to the queue is neither there nor left by a reason that is known, at three polls in a row, and it"
    f" is more than at any poll before: by more than {SKEW:.0f} while messages move, by one where none does",
    quiet_on="everything that the [account](account.md) explains: rings, last values, messages that expire on arrival,"
    " restarts, paging, counters that an operator sets back",
    evidence=lost(UNEXPLAINED),
    causes={
        "broker_lost": "the broker lost messages, or delivered some twice, for instance after damage to its journal",
        "operation": "an operation of management that Penstock does not know of",
        "unknown_case": "a case that Penstock's account does not know of",
    },
    action="Compare `penstock account` of the queue with what its clients count, and look into the broker's log:"
    " {lost:.0f} messages are in question. Please report it with a recording (`penstock record`)",
    event=True,
    may_be_critical=False,
    brokers=ARTEMIS,
    alert=Alert(
        name="PenstockUnaccounted",
        description="{queue.unexplained} messages of {in_queue} are missing, or too many, for no reason that the broker"
        " counts.",
        runbook="queues",
    ),
)
