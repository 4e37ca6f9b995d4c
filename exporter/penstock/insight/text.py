"""What `explain`, `account` and the log of events say, as lines for a terminal; `texts.jinja` has the sentences."""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.account.fates import HANDLED, LOSSES, UNCOMMITTED
from penstock.core.formatting import duration, number_text
from penstock.core.visible import visible
from penstock.incidents.incident import Incident
from penstock.insight import answers
from penstock.insight.events import Change, Event
from penstock.insight.formatting import UNKNOWN, age, amount_text, counted, formatted, in_bytes, moment, name_text

NOTICE = {"info": "notice"}
"""What a severity is called, where it is not by its name."""
HERE = "penstock.insight"
NO_LINE = Markup("\0")


@cache
def _macros(package: str) -> Any:
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
        "counted": counted,
        "duration": duration,
        "facts": _facts,
        "figures": _figures,
        "formatted": formatted,
        "impact": impact,
        "messages": partial(counted, thing="message"),
        "moment": moment,
        "name_text": name_text,
        "number": number_text,
        "severity": severity_text,
        "size": in_bytes,
    }
    made.globals |= {"blank": "", "handled": (HANDLED, UNCOMMITTED), "losses": LOSSES, "unknown": UNKNOWN}
    return made.get_template("texts.jinja").module


def _shown(value: object) -> Markup:
    if isinstance(value, Markup):
        return value.removesuffix("\n") or NO_LINE
    return Markup(visible(str(value)))  # noqa: S704 - for a terminal


def text_lines(package: str, macro: str, *given: object) -> Iterator[str]:
    """What a macro of the package's `texts.jinja` makes of these."""
    text = getattr(_macros(package), macro)(*given)
    return (line.rstrip() for line in text.removesuffix("\n").split("\n") if line != NO_LINE)


def explanation(found: answers.Explanation) -> Iterator[str]:
    return text_lines(HERE, "explanation", found)


def object_lines(found: answers.ObjectView) -> Iterator[str]:
    """All about an object that is no queue, line by line."""
    return text_lines(HERE, "object", found)


def incident_lines(found: Sequence[Incident], now: float) -> Iterator[str]:
    """Of each: impact, who, cause, what to do, what changed."""
    return text_lines(HERE, "incidents", found, now) if found else iter(())


def action_lines(number: int, action: answers.Action) -> Iterator[str]:
    return text_lines(HERE, "action", number, action)


def account_lines(found: answers.AccountList) -> Iterator[str]:
    return text_lines(HERE, "account", found)


def severity_text(name: str) -> str:
    return NOTICE.get(name, name)


def impact(one: Incident) -> str:
    """What waits, how it grows, and what comes of it."""
    rate = f", {'+' * (one.rate > 0)}{number_text(one.rate)}/s" if one.rate else ""
    oldest = "" if one.oldest is None else f", the oldest for at least {duration(one.oldest)}"
    more = f" and {one.victim_count - len(one.victims)} more" if one.victim_count > len(one.victims) else ""
    victims = [f"Victims: {', '.join(one.victims)}{more}."] if one.victims else []
    return " ".join([f"{one.messages:,.0f} messages{rate}{oldest}.", *one.impact, *victims])


def _facts(found: answers.ObjectView) -> list[tuple[str, str]]:
    """Names, all as long as the longest, and values."""
    facts = {name_text(one.name): str(one) for one in found.facts if one.value is not None}
    width = max(map(len, facts), default=0)
    return [(name.ljust(width), text) for name, text in facts.items()]


def _figures(found: answers.Explanation) -> list[str]:
    numbers = dict(found.numbers)
    oldest = (numbers.pop(name, None) for name in ("oldest_message", "oldest_earliest", "oldest_latest"))
    if not numbers.get("ready"):
        numbers.pop("drain", None)  # nothing drains
    shown = {name_text(name): formatted(name, value) for name, value in numbers.items()}
    shown |= {"age of the oldest message": text} if (text := age(found.stamp, *oldest)) else {}
    rates = {"in": found.rate_in, "out": found.rate_out}
    shown |= {name: f"{number_text(rate)}/s" for name, rate in rates.items() if rate is not None}
    return [f"{name} {text}" for name, text in shown.items()]


def event_line(event: Event) -> str:
    """One line: when, what, on what."""
    at = moment(event.time, "%Y-%m-%d %H:%M:%S")
    where = " / ".join(name for name in (event.broker, event.queue, event.client) if name)
    if event.condition:
        what = {Change.CONDITION_ON: "raised", Change.CONDITION_OFF: "cleared"}.get(event.change, event.detail)
        since = ""
        if event.change is Change.CONDITION_ON and event.since is not None:
            since = f", since {moment(event.since, '%H:%M:%S')}"
        return f"{at}  {severity_text(event.severity):8}  {what:7}  {event.condition}  {where}{since}"
    return "  ".join(part for part in (at, event.change.replace("_", " "), where, event.detail) if part)
