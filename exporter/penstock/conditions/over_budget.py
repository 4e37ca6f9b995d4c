"""`over_budget`: the broker has more than its budgets allow, and part of it is left out."""

import numpy as np

from penstock.conditions.condition import Alert, Condition, Raised, Scope
from penstock.observation.poll import RuleInputs


def rule(poll: RuleInputs) -> Raised:
    return Raised(np.array([bool(poll.left_out)]), np.array([np.nan]))


def why(poll: RuleInputs, _: int) -> str:
    return f"left out: {', '.join(map(str, poll.left_out))}"


OVER_BUDGET = Condition(
    name="over_budget",
    scope=Scope.BROKER,
    title="The broker has more than its budgets allow; part of it is left out.",
    rule=rule,
    when="the broker has more queues, addresses, consumers, connections, sessions or producers than its budgets let"
    " Penstock read, or makes more series than they let it show",
    quiet_on="consumers and connections that are not shown one by one by choice (`series` in the configuration)",
    causes={
        "creates": "a client creates queues, addresses or connections without end",
        "large": "the broker is larger than the defaults are made for: a broker of 100,000 queues fits in",
    },
    why=why,
    may_be_critical=False,
    action="Look for the client that creates them; raise these budgets of the broker where they are meant to be there,"
    " and the memory of Penstock with them: what is left out is neither judged nor shown",
    alert=Alert(
        name="PenstockOverBudget",
        description="Penstock reads {broker.rows_dropped} rows less than {{ $labels.broker }} has, and holds"
        " {broker.series_dropped} series back; the status page says which.",
        runbook="brokers",
    ),
)
