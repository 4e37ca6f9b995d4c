"""The situations of `tests/assets/situations.yaml` as tests for promtool.

The table names for each alert what Prometheus has (`given`) and which alerts fire at which time (`then`). What is the
same for most series and most alerts is filled in here: labels of a scrape, of a broker and of a queue.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from assets.promql import FAMILIES
from penstock.assets.runbooks import part, section

TABLE: Final = Path(__file__).with_name("situations.yaml")
Test = dict[str, Any]
Entry = Mapping[str, Any]
"""An alert of the table."""
Labels = Mapping[str, str]

USUAL_LABELS: Final[Labels] = {
    "job": "penstock",
    "instance": "agent:19771",
    "broker": "b1",
    "address": "orders",
    "queue": "orders",
    "client": "billing",
}
LABELS_OF_SCRAPES: Final = ("job", "instance")
LABEL: Final = re.compile(r'(?P<name>\w+)="(?P<value>(?:[^"\\]|\\.)*)"')

OF_CONDITIONS: Final = "of conditions"
"""The part of the table with the situations that all alerts of conditions share."""
SCOPES: Final = ("client", "queue", "address", "broker")
"""What a condition may be about: the first of these that its alert has as a label."""
NOTHING_SETTLED: Final = " Nothing is settled meanwhile."
"""What the critical alert of a condition says after the sentence of its warning."""


@cache
def table() -> Entry:
    read: Entry = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return read


def alerts() -> set[str]:
    """The names of all alerts with situations, and `recording`."""
    return table().keys() - {OF_CONDITIONS}


def document(alert: str) -> dict[str, Any]:
    """The tests of an alert, or of the recording rules under the name `recording`, as promtool reads them."""
    entry = table()[alert]
    interval = entry.get("interval", "15s")
    return {
        "evaluation_interval": entry.get("evaluated", interval),
        "tests": [*tests(alert, entry, interval)],
    }


def tests(alert: str, entry: Entry, interval: str) -> Iterator[Test]:
    """Each situation of an alert."""
    for name, situation in situations_of(entry).items():
        test = {
            "name": name,
            "interval": situation.get("interval", interval),
            "input_series": [*given(entry, situation)],
        }
        if "asked" in situation:
            test["promql_expr_test"] = situation["asked"]
        else:
            test["alert_rule_test"] = [*checks(alert, entry, situation["then"])]
        yield test


def situations_of(entry: Entry) -> Entry:
    """Those of all alerts of conditions about such a thing, and those that the alert has for itself."""
    own: Entry = entry.get("situations", {})
    if "condition" not in entry:
        return own
    scope = next(scope for scope in SCOPES if scope in entry["labels"])
    return {**table()[OF_CONDITIONS][scope], **own}


def given(entry: Entry, situation: Entry) -> Iterator[Labels]:
    """The series of a situation, after those that all situations of the alert have."""
    both = {**entry.get("given", {}), **situation["given"]}
    for short, values in both.items():
        yield {"series": series(short, entry), "values": str(values)}


def series(short: str, entry: Entry) -> str:
    """A selector with all labels; one that the table sets to nothing is left out.

    `mq_queue_unhealthy{queue="o"}` is that of queue o at address orders on broker b1, seen by the usual agent, with
    the condition of the alert as its cause.
    """
    family, _, written = short.partition("{")
    usual = {**USUAL_LABELS, "cause": entry.get("condition", "")}
    labels = {}
    for name in (*LABELS_OF_SCRAPES, *labels_of(family)):
        labels[name] = usual.get(name, "")
    for label in LABEL.finditer(written):
        labels[label["name"]] = json.loads(f'"{label["value"]}"')
    inside = [f"{name}={json.dumps(value)}" for name, value in labels.items() if value]
    return f"{family}{{{','.join(inside)}}}"


def labels_of(family: str) -> Sequence[str]:
    """Labels that the catalogue has for a family; none for one of Prometheus itself, as `up`."""
    if family not in FAMILIES:
        return ()
    return FAMILIES[family].label_names


def checks(
    alert: str, entry: Entry, then: Mapping[str, Sequence[Labels]]
) -> Iterator[dict[str, Any]]:
    """What promtool has to find at each time."""
    for at, firing in then.items():
        expected = [fired(alert, entry, one) for one in firing]
        yield {"eval_time": at, "alertname": alert, "exp_alerts": expected}


def fired(alert: str, entry: Entry, written: Mapping[str, Any]) -> dict[str, Any]:
    """An alert that fires, with its labels and its texts as a person reads them.

    written: labels that differ from the usual ones, and under `shows` the numbers in its sentence.
    """
    labels = {
        "severity": entry.get("severity", "warning"),
        **entry["labels"],
        **written,
    }
    numbers = labels.pop("shows", ())
    if labels["severity"] == "worst":
        labels["severity"] = "critical" if entry.get("critical") else "warning"
    labels = {name: value for name, value in labels.items() if value != ""}

    severity = labels["severity"]
    sentence = of_severity(entry["says"], severity).format(*numbers, **labels)
    if severity == "critical" and "condition" in entry:
        sentence += NOTHING_SETTLED
    return {
        "exp_labels": labels,
        "exp_annotations": annotations(alert, entry, labels, sentence),
    }


def annotations(alert: str, entry: Entry, labels: Labels, sentence: str) -> Labels:
    """The texts of an alert that says this sentence, with links to the things that its labels name."""
    runbook = section(entry["runbook"], alert)
    things = {
        name: labels.get(name, "") for name in entry.get("opened_with", entry["labels"])
    }
    description = [
        sentence,
        f"Impact: {part(runbook, 'Impact')}",
        f"Action: {part(runbook, 'Do')}",
        f"Explain: {command(things)}",
    ]
    return {
        "summary": of_severity(entry["summary"], labels["severity"]),
        "description": "\n".join(description),
        "runbook_url": f"https://penstock.example/runbooks/{entry['runbook']}.html#{alert.lower()}",
        "dashboard_url": dashboard(entry["dashboard"], labels, things),
        "agent_url": page(things),
    }


def of_severity(text: str | Labels, severity: str) -> str:
    """A text that is the same as a warning and as critical, or has one for each."""
    if isinstance(text, str):
        return text
    return text[severity]


def command(things: Labels) -> str:
    """What to type for more about the things of an alert."""
    if not things:
        return "penstock check"
    named = [
        f"'{things[name]}'" for name in ("broker", "queue", "client") if name in things
    ]
    words = ["penstock explain", *named]
    if "address" in things:
        words.append(f"--address '{things['address']}'")
    return " ".join(words)


def dashboard(uid: str, labels: Labels, things: Labels) -> str:
    """The address of a dashboard that shows the things of an alert."""
    chosen = {
        "cluster": labels.get("cluster", ""),
        "namespace": labels.get("namespace", ""),
        **things,
    }
    variables = [f"var-{name}={value}" for name, value in chosen.items()]
    return f"https://grafana.example/d/{uid}?{'&'.join(variables)}"


def page(things: Labels) -> str:
    """The address of the agent's page about the narrowest of the things of an alert."""
    if not things:
        return "https://penstock.example/"
    *_, narrowest = things
    asked = [f"{name}={value}" for name, value in things.items()]
    return f"https://penstock.example/{narrowest}?{'&'.join(asked)}"
