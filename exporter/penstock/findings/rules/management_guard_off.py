"""The broker lets the account of Penstock read what an exporter must not."""

from penstock.findings.context import FindingContext
from penstock.findings.finding import ARTEMIS, Finding, FindingRule, FindingScope, Found


def find(context: FindingContext) -> Found:
    if context.broker.unguarded > 0:
        yield Finding(RULE, context.name)


RULE = FindingRule(
    name="management_guard_off",
    scope=FindingScope.BROKER,
    brokers=ARTEMIS,
    find=find,
    when="the account of Penstock may read what an exporter must be denied",
    says="the account that Penstock uses may read messages (FirstMessageAge of a queue)",
    advice="give Penstock a role of its own; or a -javaagent in the broker's JVM has switched etc/management.xml off,"
    " and then any account may purge too",
    arithmetic="—",
    evidence={},
)
