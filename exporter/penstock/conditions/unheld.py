"""`unheld`: messages are in delivery, and no consumer has them: no one gets them before the broker restarts."""

import numpy as np

from penstock.conditions.condition import ARTEMIS, Alert, Condition, Raised, Scope
from penstock.observation.facts import SKEW
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    since = poll.losses.unheld_since
    return Raised(poll.found.judged & ~np.isnan(since), since, np.full(len(since), poll.constants.persistent))


UNHELD = Condition(
    name="unheld",
    scope=Scope.QUEUE,
    title="Messages are in delivery, and no consumer has them.",
    rule=rule,
    when=f"for {{persistent}}, and at four polls in a row, more than {SKEW:.0f} messages are in delivery that no listed"
    " consumer has, no prepared transaction explains, and are more than what moves between two reads",
    quiet_on="prepared transactions (in_doubt), bridges and cluster links, consumers that come and go, accounts that"
    " may not call `listPreparedTransactions`",
    evidence=lambda poll, at: {"unheld": poll.losses.unheld[at], "consumers": poll.found.consumers[at]},
    causes={
        "dead_letter_address_full": "the dead-letter address is full and its policy is FAIL: messages that used up"
        " their delivery attempts go nowhere",
        "left_behind": "a client went in a way that the broker did not notice",
    },
    action="{unheld:.0f} messages are with no one: no consumer, new or old, gets them, and emptying the dead-letter"
    " address does not free them. Make room there first; then a restart of the broker gives them back",
    may_be_critical=False,
    by_consumer=True,
    brokers=ARTEMIS,
    alert=Alert(
        name="PenstockUnheld",
        description="Some of the {queue.delivering} messages of {in_queue} in delivery are with no consumer.",
        runbook="queues",
    ),
)
