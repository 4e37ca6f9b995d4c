"""What `explain`, `account` and the log of events say, as lines for a terminal; `texts.jinja` has the sentences."""

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
"""What a severity is called, where it is not by its name."""
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


def watched(one: answers.Watched) -> str:
    """For how long it has been so, what that would become, and what would end it."""
    if one.condition == answers.WINDOW:
        so_far = f"Penstock has read this broker for {duration(one.seconds)} and needs {duration(one.needed)}"
    else:
        so_far = (
            f"for {duration(one.seconds)}, a condition after {duration(one.needed)}"
        )
    return f"{so_far}: {one.proves}"


def _shown(value: object) -> Markup:
    if isinstance(value, Markup):
        return value.removesuffix("\n") or NO_LINE
    return Markup(visible(str(value)))  # noqa: S704 - for a terminal


def text_lines(package: str, macro: str, *given: object) -> Iterator[str]:
    """What a macro of the package's `texts.jinja` makes of these."""
    text = str(
        getattr(_macros(package), macro)(*given)
    )  # no Markup, which no encoder of answers takes
    return (
        line.rstrip(f" {NO_LINE}") for line in text.split("\n")[:-1] if line != NO_LINE
    )


explanation, object_lines, incident_lines, action_lines, account_lines = (
    partial(text_lines, HERE, macro)
    for macro in ("explanation", "object", "incidents", "action", "account")
)
"""Of an Explanation; an ObjectView; incidents and the time; a number and an Action; an AccountList."""


def impact(one: Incident) -> str:
    """What waits, how it grows, and what comes of it."""
    return next(text_lines(HERE, "impact", one))


def worth_telling(causes: Sequence[Cause]) -> list[str]:
    """Lines; one for all with evidence against them only. Beside a proven cause the possible ones explain no more."""
    proven = any(one.state is CauseState.PROVEN for one in causes)
    told = [one for one in causes if not (proven and one.state is CauseState.POSSIBLE)]
    against = "; ".join(
        f"{one.text} ({one.fact.removeprefix(AGAINST)})"
        for one in told
        if AGAINST in one.fact
    )
    return list(
        dict.fromkeys(
            f"less likely: {against}" if AGAINST in one.fact else str(one)
            for one in told
        )
    )


def _by_key(
    found: answers.Explanation | answers.ObjectView,
) -> Mapping[Key, answers.Condition]:
    if isinstance(found, answers.Explanation):
        return {
            (one.condition, found.address, found.queue, one.client): one
            for one in found.conditions
        }
    return {
        (one.condition, one.address, one.queue, one.client): one
        for one in found.conditions
    }


def _labelled(advice: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Acts by number; how to check them, and what not to do."""
    labels = {"Check: ": "check", "Avoid: ": "avoid", "Do not ": "do not"}
    number = count(1)
    for text in advice:
        told = next((start for start in labels if text.startswith(start)), "")
        yield (
            (labels[told], text.removeprefix(told))
            if told
            else ("do", f"{next(number)}. {text}")
        )


def _facts(found: answers.ObjectView) -> list[tuple[str, str]]:
    """Names, all as long as the longest, and values."""
    facts = {
        name_text(one.name): str(one) for one in found.facts if one.value is not None
    }
    width = max(map(len, facts), default=0)
    return [(name.ljust(width), text) for name, text in facts.items()]


def _figures(found: answers.Explanation) -> list[str]:
    numbers = dict(found.numbers)
    oldest = (
        numbers.pop(name, None)
        for name in ("oldest_message", "oldest_earliest", "oldest_latest")
    )
    if not numbers.get("ready"):
        numbers.pop("drain", None)  # nothing drains
    shown = {name_text(name): formatted(name, value) for name, value in numbers.items()}
    shown |= (
        {"age of the oldest message": text}
        if (text := age(found.stamp, *oldest))
        else {}
    )
    rates = {"in": found.rate_in, "out": found.rate_out}
    shown |= {
        name: f"{number_text(rate)}/s"
        for name, rate in rates.items()
        if rate is not None
    }
    return [f"{name} {text}" for name, text in shown.items()]


def event_line(event: Event) -> str:
    """One line: when, what, on what."""
    return next(text_lines(HERE, "event", event))
