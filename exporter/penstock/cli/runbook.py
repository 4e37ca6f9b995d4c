"""`penstock runbook`: what to do about an alert, with the names of what it is about filled in."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping

import click

from penstock.actions.catalogue import ACTIONS, SOMETIMES, ActionTemplate
from penstock.assets.alerts import INCIDENT
from penstock.assets.rule_files import all_alerts
from penstock.assets.runbooks import section
from penstock.assets.wording import command
from penstock.brokers.artemis.requests import queue_object
from penstock.brokers.requests import quote
from penstock.cli import completion, options
from penstock.conditions.catalogue import CONDITIONS
from penstock.core.errors import PenstockError
from penstock.insight.actions import filled
from penstock.insight.text import action_lines
from penstock.tui.lines import say

_ARTEMIS = f"org.apache.activemq.artemis:broker={quote('NAME')}"
_HOW = ("", "PENSTOCK_URL=http://AGENT:19771 ", "kubectl exec POD -- ")


@options.command()
@click.argument("alert")
@click.argument("broker", required=False, shell_complete=completion.brokers)
@click.argument("queue", required=False, shell_complete=completion.queues)
@click.argument("client", required=False, shell_complete=completion.clients)
@click.option("--address")
def runbook(
    alert: str,
    broker: str | None,
    queue: str | None,
    client: str | None,
    address: str | None,
) -> None:
    """Show the runbook of an ALERT and what can be done, with the names that you give.

    It asks no agent: what only an agent knows stays in capitals, and `penstock explain` prints the commands with it.
    """
    name = alert if alert.startswith("Penstock") else f"Penstock{alert}"
    rule = {candidate.name: candidate for candidate in all_alerts()}.get(
        name.removesuffix("Critical")
    )
    if rule is None:
        raise PenstockError(
            f"{alert}: no such alert; `penstock alerts write DIR` and docs/runbooks have them all"
        )
    arguments = {
        "broker": broker,
        "queue": queue,
        "client": client,
        "address": address or queue,
    }
    names = {key: text for key, text in arguments.items() if text}
    text = section(
        rule.runbook, rule.name
    ) + f"\n\n{section('incidents', 'What to do')}" * (rule.name == INCIDENT)
    say(f"{rule.name}: {rule.summary}", "", *_filled_in(text, names), "")
    for number, action in enumerate(
        sorted(fitting(rule.name), key=lambda candidate: bool(candidate.proof)), 1
    ):  # proven last
        say(*_lines(number, action, names))
    asked = command(
        rule.labels, lambda label: shlex.quote(names.get(label, label.upper()))
    )
    say("", "Evidence", *(f"  {how}{asked}" for how in _HOW))


def fitting(alert: str) -> list[ActionTemplate]:
    """The actions for the alert and for its condition."""
    conditions = {
        candidate.name
        for candidate in CONDITIONS.values()
        if candidate.alert is not None and candidate.alert.name == alert
    }
    return [
        candidate
        for candidate in ACTIONS
        if candidate.conditions & conditions or alert in candidate.alerts
    ]


def _filled_in(text: str, names_given: Mapping[str, str]) -> list[str]:
    """The section without what a terminal has no use for: the list of actions, which follows, and targets of links."""
    text = re.sub(
        r"\[([^\]]*)\]\([^)]*\)",
        r"\1",
        re.sub(r"(?m)^(\*\*Commands\*\* |<!-- ).*\n{0,2}", "", text),
    )
    values = {name.upper(): shlex.quote(text) for name, text in names_given.items()}
    return re.sub(
        r"\b(BROKER|QUEUE|CLIENT)\b", lambda match: values.get(match[0], match[0]), text
    ).splitlines()


def _lines(
    number: int, action: ActionTemplate, names_given: Mapping[str, str]
) -> Iterator[str]:
    texts = " ".join(
        [
            action.do,
            action.effect,
            action.check,
            action.never,
            action.command,
            str(action.calls),
        ]
    )
    names = {name: name.upper() for name in re.findall(r"\{(\w+)\}", texts)} | SOMETIMES
    address = names_given.get("address", "ADDRESS")
    mbeans = {
        "broker": _ARTEMIS,
        "address": f"{_ARTEMIS},component=addresses,address={quote(address)}",
        "queue": queue_object(
            _ARTEMIS, address, "TYPE", names_given.get("queue", "QUEUE")
        ),
        "dead_letters": queue_object(_ARTEMIS, "DLA", "TYPE", "DLQ"),
    }
    destination = (
        {"destination": names_given["address"]} if "address" in names_given else {}
    )
    destination |= (
        {"queue_json": json.dumps(names_given["queue"])[1:-1]}
        if "queue" in names_given
        else {}
    )
    for filled_action in filled(
        action, {**names, **names_given, **destination}, mbeans
    ):
        limits = ", ".join([*sorted(action.brokers), *sorted(action.protocols)])
        proof = " or ".join(sorted(action.proof))
        first, *rest = action_lines(number, filled_action)
        first += f" ({limits} only)" * bool(
            limits
        ) + f" (only where `penstock explain` proves {proof})" * bool(proof)
        yield from (first, *rest)
