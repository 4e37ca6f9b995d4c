"""Ways to show that several dashboards share."""

from collections.abc import Iterator
from typing import Any

from dashboards.generate.panels import (
    CRITICAL,
    OK,
    WARNING,
    Column,
    Panel,
    Query,
    Scope,
    apart,
    largest,
    rate,
    table,
    timeline,
    to_dashboard,
    total,
)

from penstock.conditions.condition import Severity

QUEUE = ("broker", "address", "queue")
BY_QUEUE = ", ".join(QUEUE)
CLIENT = (*QUEUE, "client")
BY_CLIENT = ", ".join(CLIENT)

_COLOURS = {
    Severity.INFO: ("notice", OK),
    Severity.WARNING: ("warning", WARNING),
    Severity.CRITICAL: ("critical", CRITICAL),
}
SEVERITIES = {str(int(severity)): shown for severity, shown in _COLOURS.items()}
WARN = 0.8
"""Share of a limit from which it is coloured; the alerts' thresholds are coloured as critical."""
NOTHING_WRONG = "No active conditions"
WORST_FIRST = ("Worst condition", "Ready")
"""Order of a table of queues."""
UP = {"0": ("down", CRITICAL), "1": ("up", OK)}
DONE = {"0": ("failed", CRITICAL), "1": ("ok", OK)}

QUEUE_LINK = to_dashboard("This queue", "penstock-queue", QUEUE, fields=True)
QUEUE_LINE_LINK = to_dashboard("This queue", "penstock-queue", QUEUE)
CLIENT_LINK = to_dashboard("This client", "penstock-clients", CLIENT, fields=True)
CLIENT_LINE_LINK = to_dashboard("This client", "penstock-clients", CLIENT)
BROKER_LINK = to_dashboard("This broker", "penstock-broker", ("broker",), fields=True)


def conditions(scope: Scope, by: str, legend: str, **more: int) -> Panel:
    """Conditions and notices over time, a line a cause."""
    return timeline(
        "Conditions",
        "Active conditions, a line for each, and since when. Orange is a warning; red is critical: the queue has no"
        " acknowledgements; notices never alert. `penstock explain BROKER QUEUE` shows the evidence and what to do."
        " Empty: no active conditions.",
        Query(largest(by, scope("mq_queue_unhealthy")), legend),
        Query(largest(by, f"{scope('mq_queue_notice')} * 0"), f"{legend} (notice)"),
        mappings=SEVERITIES,
        empty=NOTHING_WRONG,
        **more,
    )


def queue_line(scope: Scope, family: str, what: str = "") -> Query:
    """A line for each queue, of a counter its rate; what: said behind the queue's name."""
    return Query(
        _line(BY_QUEUE, scope, family), f"{{{{broker}}}} {{{{queue}}}} {what}".rstrip()
    )


def client_line(scope: Scope, family: str) -> Query:
    """The same for each client of a queue."""
    return Query(_line(BY_CLIENT, scope, family), "{{broker}} {{queue}} {{client}}")


def _line(by: str, scope: Scope, family: str) -> str:
    return (rate if family.endswith("_total") else largest)(by, scope(family))


def where_they_are(scope: Scope) -> Iterator[Query]:
    """All messages, by where they are."""
    for where in ("ready", "delivering", "scheduled"):
        yield Query(total(scope(f"mq_queue_{where}_messages")), where)


def ready(scope: Scope, by: str) -> Column:
    return Column("Ready", largest(by, scope("mq_queue_ready_messages")))


def consumers(scope: Scope, by: str) -> Column:
    return Column("Consumers", largest(by, scope("mq_queue_consumers")))


def worst(scope: Scope, by: str) -> Column:
    """The worst condition of each queue; a queue without one has an empty cell."""
    return Column(
        WORST_FIRST[0],
        largest(by, scope("mq_queue_unhealthy")),
        "none",
        mappings=SEVERITIES,
    )


def incidents(scope: Scope, **more: Any) -> Panel:
    by = "broker, kind, object"
    members = "mq_incident_members"
    critical, warning = (
        largest(by, scope(members, f'severity="{name}"'))
        for name in ("critical", "warning")
    )
    return table(
        "Incidents",
        "One row for each incident, with the conditions and clients that belong to it and how many clients and queues"
        " suffer. Begin at the top: the agent's page says who, why and what to do.",
        ("broker", "kind", "object"),
        Column("Members", largest(by, scope(members))),
        Column("Victims", largest(by, scope("mq_incident_victims"))),
        Column(
            "Severity",
            f"(0 * {critical} + 2 or 0 * {warning} + 1)",
            "none",
            mappings=SEVERITIES,
        ),
        sort=("Severity", "Victims", "Members"),
        **{"height": 6} | more,
    )


def active_conditions(scope: Scope, **more: Any) -> Panel:
    severity = largest(f"{BY_QUEUE}, cause", scope("mq_queue_unhealthy"))
    return table(
        "Active conditions",
        "One row for each queue and cause. Click a queue for its history; the runbook of the alert of the same cause"
        " says what to do. Empty: no active conditions.",
        (*QUEUE, "cause"),
        Column("Severity", severity, "none", mappings=SEVERITIES),
        **{"height": 8} | more,
    )


def added(scope: Scope, by: str) -> Column:
    return Column("In", rate(by, scope("mq_queue_messages_added_total")), "mps")


def out(scope: Scope, by: str) -> Column:
    return Column("Out", out_rate(scope, by), "mps")


def settled(scope: Scope) -> Iterator[str]:
    """Messages a second that consumers settle; where a broker does not say why messages go, the second: all that go."""
    for family in (
        "mq_queue_messages_acknowledged_total",
        "mq_queue_messages_removed_total",
    ):
        yield f"rate({scope(family)}[$__rate_interval])"


def out_rate(scope: Scope, by: str) -> str:
    """The same by labels; of two agents on one broker the one with more."""
    return largest(by, " or ".join(settled(scope)))


def seen_by(by: str, info: str) -> Column:
    """The number column of a table of texts."""
    return Column("Seen by agents", f"count by ({apart(by)}) ({info})")


def findings(chosen: str, *, height: int = 9) -> Panel:
    """`chosen`: PromQL of the findings to show."""
    by = "broker, scope, object, rule"
    return table(
        "Findings",
        "Settings, and ways of using a queue, that will do harm, often before anything is wrong: one row for each rule"
        " and what it is about (a client as QUEUE/CLIENT). `penstock explain` and `penstock check` show the"
        " arithmetic and what to change; an empty table means that nothing was found.",
        ("broker", "scope", "object", "rule"),
        seen_by(by, chosen),
        height=height,
    )
