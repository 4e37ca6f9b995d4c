"""The answers of `explain` and `account`, and events, as lines for a terminal; `texts.jinja` has the sentences."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import count
from typing import Any

from markupsafe import Markup

from penstock.account.fates import HANDLED, LOSSES, UNCOMMITTED
from penstock.causes.verdict import AGAINST, CauseState
from penstock.conditions.wording import Cause
from penstock.core.formatting import duration, number_text
from penstock.core.visible import visible
from penstock.incidents.incident import Incident, Key
from penstock.insight import answers
from penstock.insight.events import Event
from penstock.insight.formatting import (
    UNKNOWN,
    age,
    amount_text,
    client_name_text,
    counted,
    formatted,
    in_bytes,
    moment,
    name_text,
)

NOTICE = {"info": "notice"}
"""The names of severities that people read another name for."""
HERE = "penstock.insight"
NO_LINE = Markup("\0")


@cache
def _macros(package: str) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - commands start sooner without it

    # Escaping only marks texts of macros, which have lines: names must not break a line.
    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        finalize=_shown,
        line_statement_prefix="%",
        undefined=StrictUndefined,
    )
    made.filters |= {
        "amount": amount_text,
        "by_key": _by_key,
        "counted": counted,
        "duration": duration,
        "facts": _facts,
        "figures": _figures,
        "formatted": formatted,
        "labelled": _labelled,
        "messages": partial(counted, thing="message"),
        "moment": moment,
        "client_name_text": client_name_text,
        "name_text": name_text,
        "number": number_text,
        "severity": lambda name: NOTICE.get(name, name),
        "size": in_bytes,
        "watched": watched,
        "worth_telling": worth_telling,
    }
    made.globals |= {
        "blank": "",
        "handled": (HANDLED, UNCOMMITTED),
        "losses": LOSSES,
        "unknown": UNKNOWN,
    }
    return made.get_template("texts.jinja").module


def watched(watched_for: answers.Watched) -> str:
    """For how long it has been so, what that would become, and what would end it."""
    seconds = duration(watched_for.seconds)
    needed = duration(watched_for.needed)
    if watched_for.condition == answers.WINDOW:
        so_far = f"Penstock has read this broker for {seconds} and needs {needed}"
    else:
        so_far = f"for {seconds}, a condition after {needed}"
    return f"{so_far}: {watched_for.proves}"


def _shown(value: object) -> Markup:
    """A value as a template shows it: the lines of a macro as they are, any other text made visible."""
    if isinstance(value, Markup):
        return value.removesuffix("\n") or NO_LINE
    return Markup(visible(str(value)))  # noqa: S704 - for a terminal


def text_lines(package: str, macro: str, *given: object) -> Iterator[str]:
    """The lines that a macro of the package's `texts.jinja` makes of these values."""
    # As str: no encoder of answers takes Markup.
    text = str(getattr(_macros(package), macro)(*given))
    lines = text.split("\n")[:-1]
    return (line.rstrip(f" {NO_LINE}") for line in lines if line != NO_LINE)


explanation, object_lines, incident_lines, action_lines, account_lines = (
    partial(text_lines, HERE, macro)
    for macro in ("explanation", "object", "incidents", "action", "account")
)
"""Of an Explanation; an ObjectView; incidents and the time; a number and an Action; an AccountList."""


def impact(incident: Incident) -> str:
    """How many messages wait, how that grows, and the consequences."""
    return next(text_lines(HERE, "impact", incident))


def worth_telling(causes: Sequence[Cause]) -> list[str]:
    """The causes as lines; one line for all with evidence against them only.

    Beside a proven cause the possible ones explain no more.
    """
    proven = any(cause.state is CauseState.PROVEN for cause in causes)
    chosen = [
        cause for cause in causes if not (proven and cause.state is CauseState.POSSIBLE)
    ]
    unlikely = [
        f"{cause.text} ({cause.fact.removeprefix(AGAINST)})"
        for cause in chosen
        if AGAINST in cause.fact
    ]
    less_likely = f"less likely: {'; '.join(unlikely)}"
    lines = [less_likely if AGAINST in cause.fact else str(cause) for cause in chosen]
    return list(dict.fromkeys(lines))


def _by_key(
    answer: answers.Explanation | answers.ObjectView,
) -> Mapping[Key, answers.Condition]:
    """The conditions of an answer by the keys that incidents name them by."""
    if isinstance(answer, answers.Explanation):
        return {
            (each.condition, answer.address, answer.queue, each.client): each
            for each in answer.conditions
        }
    return {
        (each.condition, each.address, each.queue, each.client): each
        for each in answer.conditions
    }


def _labelled(advice: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The advice with a label each: acts with their numbers, how to check them, and what not to do."""
    labels = {"Check: ": "check", "Avoid: ": "avoid", "Do not ": "do not"}
    number = count(1)
    for text in advice:
        prefix = next((start for start in labels if text.startswith(start)), "")
        if prefix:
            yield labels[prefix], text.removeprefix(prefix)
        else:
            yield "do", f"{next(number)}. {text}"


def _facts(answer: answers.ObjectView) -> list[tuple[str, str]]:
    """Names, all as long as the longest, and values."""
    facts = {
        name_text(fact.name): str(fact)
        for fact in answer.facts
        if fact.value is not None
    }
    width = max(map(len, facts), default=0)
    return [(name.ljust(width), text) for name, text in facts.items()]


def _figures(answer: answers.Explanation) -> list[str]:
    """The numbers of a queue with their names."""
    numbers = dict(answer.numbers)
    exact = numbers.get("oldest_message")
    earliest = numbers.get("oldest_earliest")
    latest = numbers.get("oldest_latest")
    if not numbers.get("ready"):
        # Without a backlog nothing drains.
        numbers.pop("drain", None)
    texts = {name_text(name): formatted(name, value) for name, value in numbers.items()}
    oldest = age(answer.stamp, exact, earliest, latest)
    if oldest:
        texts["age of the oldest message"] = oldest
    if answer.rate_in is not None:
        texts["in"] = f"{number_text(answer.rate_in)}/s"
    if answer.rate_out is not None:
        texts["out"] = f"{number_text(answer.rate_out)}/s"
    return [f"{name} {text}" for name, text in texts.items()]


def event_line(event: Event) -> str:
    """One line: when, what, on what."""
    return next(text_lines(HERE, "event", event))
