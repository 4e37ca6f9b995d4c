"""`dead_lettering`: messages keep going to the dead letters."""

from penstock.conditions.condition import ARTEMIS, Condition, Raised, Scope, always
from penstock.conditions.evidence import rate, window, window_begin
from penstock.observation.activity import KILLED, moved_in_both_halves
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    moves = moved_in_both_halves(poll.activity, KILLED, poll.constants, poll.found.interval)
    return Raised(poll.found.judged & moves, window_begin(poll))


DEAD_LETTERING = Condition(
    name="dead_lettering",
    scope=Scope.QUEUE,
    title="Messages go to the dead letters.",
    rule=rule,
    when="messages are given up in both halves of the window",
    quiet_on="one purge",
    evidence=rate("d_killed"),
    causes={
        "attempts_used_up": "deliveries fail max-delivery-attempts times",
        "purged": "an operator removes messages",
    },
    action="{rate:.2f} messages a second go to the dead letters",
    notice=always,
    may_be_critical=False,
    window=window,
    brokers=ARTEMIS,
)
