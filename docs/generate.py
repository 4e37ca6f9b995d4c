"""
`python docs/generate.py [DIRECTORY]`: write what pages of the documentation have from the code.

metrics.md: the catalogue; cli.md: the commands' own help; conditions.md: a section for each condition, below a mark;
findings.md: the table of rules, between two marks; incidents.md: what to do about each kind, between two marks;
actions.md: all actions, below a mark; runbooks: the thresholds of each alert, and the actions that fit it, before what
clears it, and on their first page a table of all alerts, between two marks; pictures/rooms.svg: the rooms of the
package and what each imports.
"""

import re
import runpy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
from msgspec import structs

from penstock.actions.catalogue import ACTIONS, SOMETIMES, ActionTemplate
from penstock.assets.rule_files import all_alerts
from penstock.assets.runbooks import RUNBOOKS
from penstock.assets.thresholds import THRESHOLDS, Thresholds
from penstock.assets.values import AlertValues
from penstock.assets.wording import command
from penstock.cli.main import main
from penstock.cli.runbook import fitting
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import Condition, Scope, always, never
from penstock.conditions.wording import RAISE_LIMIT, constant_texts
from penstock.exposition.catalogue import CATALOGUE, TABLES, Family
from penstock.findings import catalogue
from penstock.findings.finding import FindingRule
from penstock.incidents.incidents import TEXTS
from penstock.model import BROKER_KINDS, BrokerKind
from penstock.settings.constants import Constants

# --- metrics.md

METRICS = """\
# Metrics

Generated from the catalogue by `python docs/generate.py`; do not edit.

- `mq_…` is about brokers, `penstock_…` about the agent. A number that the broker does not give is absent, never 0.
- Names are those of the text format. In OpenMetrics the family lines leave out `_total` and `_info`, and info metrics
  have a type of their own; in text 0.0.4 they are gauges.
- The agent's process is described by the usual `process_…` metrics.
"""


def metrics(_: str) -> str:
    """One table of families per table of the catalogue."""
    parts = [METRICS]
    for table in TABLES:
        families = [family for family in CATALOGUE if family.table == table]
        parts += [f"## {table}", "", *family_rows(families), ""]
    return "\n".join(parts)


def family_rows(families: Iterable[Family]) -> Iterator[str]:
    yield "| metric | type | labels | meaning | source |"
    yield "|---|---|---|---|---|"
    for family in families:
        labels = ", ".join(f"`{name}`" for name in family.label_names)
        cells = (f"`{family.name}`", family.type, labels, family.help, family.source)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# --- cli.md

COMMANDS = """\
# Commands

Made from the commands themselves by `python docs/generate.py`; do not edit.

Exit status: 0 when all is healthy, watching or a notice; 1 when something is critical, a warning or unknown, or when a
broker or an agent cannot be read; 2 when the command line or a configuration is wrong. Where standard output is closed
or full, each command says so in one line and ends with 1; where its reader goes away, as behind `| head`, it ends
silently by SIGPIPE, as `grep` does.
Errors go to standard error and say what to do. Colours are for terminals only, and not when `NO_COLOR` is set.

Completion in bash: `eval "$(penstock completion bash)"` in `~/.bashrc`; in zsh and fish:
[completion](#penstock-completion).
"""


def commands(_: str) -> str:
    """Of each command its help as the terminal shows it, examples apart."""
    sections = [command_section(context) for context in contexts(main, "penstock")]
    return "\n".join([COMMANDS, *sections])


def contexts(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """The command and all below it, each with its context."""
    context = click.Context(
        command,
        parent,
        name,
        terminal_width=100,
        max_content_width=100,
        **command.context_settings,
    )
    yield context
    if isinstance(command, click.Group):
        for subcommand_name in command.list_commands(context):
            subcommand = command.get_command(context, subcommand_name)
            assert subcommand is not None  # noqa: S101 - it was listed
            yield from contexts(subcommand, subcommand_name, context)


def command_section(context: click.Context) -> str:
    head, _, tail = context.get_help().partition("\n  Examples:\n")
    parts = [f"## {context.command_path}", "", "```text", head.rstrip(), "```", ""]
    if tail:
        parts += [
            "```",
            *(line.strip() for line in tail.splitlines() if line.strip()),
            "```",
            "",
        ]
    return "\n".join(parts)


# --- conditions.md

MARK = "<!-- Below this line: made from exporter/penstock/conditions by `python docs/generate.py`. -->\n"


def conditions(text: str) -> str:
    """The page with the sections of all conditions in place of what is below the mark."""
    head, mark, _ = text.partition(MARK)
    if not mark:
        raise SystemExit(f"conditions.md has no line {MARK.strip()}")
    sections = [
        f"\n## {one.name}\n\n" + "".join(f"{line}\n" for line in about(one))
        for one in CONDITIONS.values()
    ]
    listed = " · ".join(f"[{name}](#{name})" for name in CONDITIONS)
    return f"{head}{MARK}\n{listed}\n{''.join(sections)}"


def about(condition: Condition) -> Iterator[str]:
    event = ", an event" if condition.event else ""
    only = (
        ""
        if condition.brokers is None
        else f" {', '.join(called(kind) for kind in sorted(condition.brokers))} only."
    )
    yield f"On a {condition.scope}; {levels(condition)}{event}.{only}"
    yield ""
    yield f"- **Raised when** {in_words(condition.when)}."
    yield f"- **Quiet on** {in_words(condition.quiet_on)}."
    if condition.causes:
        yield f"- **Possible causes**: {'; '.join(condition.causes.values())}."
    yield f"- **Advice**: {with_numbers(condition.action)}."
    for kind, variant in condition.variants.items():
        parts = []
        if variant.when is not None:
            parts.append(f"raised when {in_words(variant.when)}.")
        if variant.causes is not None:
            parts.append(f"possible causes: {'; '.join(variant.causes.values())}.")
        if variant.action is not None:
            parts.append(f"advice: {with_numbers(variant.action)}.")
        if parts:
            yield f"- **On {called(kind)}**: " + " ".join(
                part[0].upper() + part[1:] for part in parts
            )
    links = [
        f"[{action.name}](actions.md#{action.name})"
        for action in ACTIONS
        if condition.name in action.conditions
    ]
    if links:
        yield f"- **Actions**: {', '.join(links)}."
    yield from alert_line(condition)


def alert_line(condition: Condition) -> Iterator[str]:
    """Give the line about the alert of a condition, if it has one."""
    name = alert_of(condition)
    runbooks_of_alert = {alert.runbook for alert in all_alerts() if alert.name == name}
    may_be_critical = "critical" in levels(condition)
    always_warning = may_be_critical and levels_of(name) == ["warning"]
    note = " (always a warning)" if always_warning else ""
    for page in runbooks_of_alert:
        yield f"- **Alert**: [{name}](runbooks/{page}.md#{name.lower()}){note}."


def alert_of(condition: Condition) -> str:
    """Its alert, or that of `alerts.yaml` which has its name."""
    return (
        condition.alert.name
        if condition.alert
        else "Penstock" + condition.name.title().replace("_", "")
    )


def levels(condition: Condition) -> str:
    """How bad it can be; one of a broker is at once as bad as it can be."""
    worst = "critical" if condition.may_be_critical else "warning"
    if condition.scope is Scope.BROKER:
        return worst
    if condition.notice is always:
        return "notice"
    names = ["warning"]
    if condition.notice is not never:
        names.insert(0, "notice")
    if condition.may_be_critical:
        names.append("critical")
    listed = ", ".join(names)
    return " or ".join(listed.rsplit(", ", 1))


def levels_of(alert: str) -> list[str]:
    return sorted(
        {one.severity for one in all_alerts() if one.name == alert},
        key=["info", "warning", "critical"].index,
    )


def called(kind: str) -> str:
    return BROKER_KINDS[kind].product.split()[-1]


def in_words(text: str) -> str:
    """With the constants as they are by default."""
    return text.format_map(constant_texts(Constants()))


def with_numbers(action: str) -> str:
    """With *N* in place of each number; of texts that depend on numbers only what is always there."""
    return re.sub(r"\{[^}]*\}", "*N*", re.sub(r"\{\w+_text\}", "", action))


# --- findings.md

BEGIN = "<!-- Made by `python docs/generate.py`; do not edit. -->\n"
END = "<!-- end -->\n"


def findings(text: str) -> str:
    """The page with the table of today between the two marks."""
    rows = [("rule", "scope", "brokers", "applies when", "arithmetic shown")]
    for rule in catalogue.RULES:
        brokers = ", ".join(sorted(map(str, kinds(rule))))
        name = f"`{rule.name}`"
        rows.append((name, rule.scope, brokers, rule.when, rule.arithmetic))
    return between("findings.md", text, markdown_table(rows))


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table; its first row is the head."""
    head, *body = rows
    rule = ["---"] * len(head)
    lines = [f"| {' | '.join(row)} |\n" for row in (head, rule, *body)]
    return "".join(lines)


def between(page: str, text: str, made: str) -> str:
    """The text of a page with what is made in place of what is between the two marks."""
    head, mark, rest = text.partition(BEGIN)
    if not mark:
        raise SystemExit(f"{page} has no line {BEGIN.strip()}")
    return f"{head}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}"


def kinds(rule: FindingRule) -> Iterable[BrokerKind]:
    return BROKER_KINDS.values() if rule.brokers is None else rule.brokers


# --- actions.md

ACTIONS_MARK = (
    "<!-- Below this line: made from exporter/penstock/actions/catalogue.toml by "
    "`python docs/generate.py`. -->\n"
)


def actions(text: str) -> str:
    """The page with all actions below the mark."""
    head, mark, _ = text.partition(ACTIONS_MARK)
    if not mark:
        raise SystemExit(f"actions.md has no line {ACTIONS_MARK.strip()}")
    page = head + mark
    for action in ACTIONS:
        lines = [f"{line}\n" for line in one_action(action)]
        page += "\n" + "".join(lines)
    return page


def one_action(action: ActionTemplate) -> Iterator[str]:
    """Give the lines about one action."""
    yield f"### {action.name}"
    yield ""
    conditions_of_action = sorted(action.conditions)
    links = [f"[{name}](conditions.md#{name})" for name in conditions_of_action]
    kinds_of_broker = [called(kind) for kind in sorted(action.brokers)]
    limits = ", ".join([*kinds_of_broker, *sorted(action.protocols)])
    only = f" ({limits})" if limits else ""
    yield f"For {', '.join(links)}{only}. {in_capitals(action.do)}."
    yield ""
    for call in action.calls:
        place = call.on.replace("_", "-")
        yield f"- **Call** on the {place}: `{call.operation}`"
    if action.command:
        yield f"- **Command**: `{in_capitals(action.command)}`"
    yield f"- **Effect on messages**: {in_capitals(action.effect)}"
    yield f"- **Check**: {in_capitals(action.check)}"
    if action.never:
        yield f"- **Do not**: {in_capitals(action.never)}"


def in_capitals(text: str) -> str:
    """With the names in braces as capitals; what is not always there is left out."""
    return re.sub(r"\{(\w+)\}", lambda one: SOMETIMES.get(one[1], one[1].upper()), text)


# --- incidents.md


def incidents(text: str) -> str:
    """The page with the steps for each kind between the two marks."""
    sections: list[str] = []
    for kind, steps in incident_steps():
        lines = [f"{number}. {step}.\n" for number, step in enumerate(steps, 1)]
        sections.append(f"### {kind}\n\n" + "".join(lines))
    return between("incidents.md", text, "\n".join(sections))


def incident_steps() -> Iterator[tuple[str, list[str]]]:
    """By kind of incident, where it has steps of its own: these with the facts in capitals."""
    for kind, text in TEXTS.items():
        texts = {kind: text, f"{kind} on OpenMQ": text.get("openmq", {})}
        for name, text_of_kind in texts.items():
            advice = text_of_kind.get("advice", ())
            steps = [step.replace("{raise_limit}", RAISE_LIMIT) for step in advice]
            if steps:
                yield name, [in_capitals(step) for step in steps]


# --- runbooks


def runbooks(text: str) -> str:
    """Their first page with a table of all alerts between the two marks."""
    rows = {"": ("alert", "severity", "says")}
    for alert in sorted(all_alerts(), key=attrgetter("name")):
        link = f"[{alert.name}]({alert.runbook}.md#{alert.name.lower()})"
        severities = ", ".join(levels_of(alert.name))
        rows[alert.name] = (link, severities, alert.summary)
    table = markdown_table([*rows.values()])
    return between("runbooks/README.md", text, table)


def runbook(text: str, thresholds: Thresholds = THRESHOLDS) -> str:
    """A page of runbooks with the thresholds and actions of each alert as they are now."""
    names: Mapping[str, Any] = {
        name: f"@{name}@" for name in Thresholds.__struct_fields__
    }
    named = AlertValues(thresholds=Thresholds(**names))
    used: dict[str, set[str]] = {}
    for alert in all_alerts(named):
        used.setdefault(alert.name, set()).update(
            re.findall(r"@(\w+)@", f"{alert.expr} {alert.wait} {alert.keep}")
        )
    asked = {alert.name: explains(alert.labels) for alert in all_alerts()}
    text = re.sub(r"(?m)^\*\*(Thresholds|Commands)\*\* .*\n\n", "", text)

    def with_paragraphs(section: re.Match[str]) -> str:
        alert = section[1]
        paragraphs = "".join(of_alert(alert, asked, used[alert], thresholds))
        return section[0] + paragraphs

    return re.sub(r"(?ms)^## (\w+)$.*?(?=^\*\*Clears)", with_paragraphs, text)


def explains(labels: tuple[str, ...]) -> str:
    """The command that explains an alert with these labels; a queue is known without its address."""
    arguments = list(labels)
    if "queue" in labels and "address" in labels:
        arguments.remove("address")
    return command(tuple(arguments), str.upper)


def of_alert(
    alert: str, asked: Mapping[str, str], used: Iterable[str], thresholds: Thresholds
) -> Iterator[str]:
    """Give the paragraphs about commands and thresholds of an alert."""
    links = [
        f"[{action.name}](../actions.md#{action.name})" for action in fitting(alert)
    ]
    alerts_of_conditions = [
        condition.alert.name for condition in CONDITIONS.values() if condition.alert
    ]
    source = f"`penstock runbook {alert}` shows them with ids in capitals"
    if alert in alerts_of_conditions:
        explain = f"`{asked[alert]}` prints those that fit, with the ids of this broker"
        source = f"{explain}; {source}"
    if links:
        yield f"**Commands** {source}: {', '.join(links)}.\n\n"
    values = structs.asdict(thresholds)
    listed = [f"`{name}` {values[name]}" for name in values if name in set(used)]
    yield f"**Thresholds** {', '.join(listed)}.\n\n"


ROOMS = runpy.run_path(str(Path(__file__).parent / "rooms.py"))
"""Of a script beside this one, which is in no package."""
RUNBOOK_PAGES = tuple(f"runbooks/{name}.md" for name in RUNBOOKS)
PAGES: Mapping[str, Callable[[str], str]] = {
    "metrics.md": metrics,
    "cli.md": commands,
    "conditions.md": conditions,
    "findings.md": findings,
    "incidents.md": incidents,
    "actions.md": actions,
    "runbooks/README.md": runbooks,
    "pictures/rooms.svg": ROOMS["rooms_picture"],
    **dict.fromkeys(RUNBOOK_PAGES, runbook),
}
"""By page: what it is to be, of what it is."""


def write(directory: Path) -> None:
    for name, page in PAGES.items():
        file = directory / name
        file.write_text(
            page(file.read_text(encoding="utf-8") if file.exists() else ""),
            encoding="utf-8",
        )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("usage: python docs/generate.py [DIRECTORY]")
    write(Path(sys.argv[1]) if len(sys.argv) == 2 else Path(__file__).parent)
