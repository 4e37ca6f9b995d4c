"""Conditions in sentences: the rule with the constants in force, the action with the numbers of one that is active."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from penstock.causes.verdict import AGAINST, CauseState, possible
from penstock.conditions.condition import ActiveCondition, Condition
from penstock.core.catalogues import read_toml
from penstock.core.formatting import duration, number_text
from penstock.settings.constants import Constants

SECONDS = frozenset(
    {
        "proof",
        "persistent",
        "window",
        "trend",
        "event",
        "rejoin",
        "verdicts",
        "after_restart",
        "cold",
    }
)
"""Constants that are durations."""

NAMES = read_toml("penstock.conditions", "names.toml")
RAISE_LIMIT: str = NAMES["raise_limit"]
DURATIONS = frozenset(NAMES["units"]["seconds"].split())
"""Numbers of the evidence that the texts have as a duration, in seconds."""
KNOBS: Mapping[str, str] = NAMES["knobs"]
"""What sets the window, by protocol."""

DEAD_LETTERS = ". They are in mq.sys.dmq, which keeps the newest 1,000 by default: read them there before it overflows"
GONE = ". They are gone for good: UseDMQ is off"
USUAL = "; the longest pause at this hour was {usual_pause} in {weeks:,.0f} weeks, {missing:,.0f} messages are missing"
EVER = "; the longest pause since it is known was {usual_pause}, and this hour is not known yet"


@dataclass(frozen=True, slots=True)
class Cause:
    """What may be behind a condition. name: empty where it is in words only. fact: what decides it, or is missing."""

    name: str
    state: CauseState
    text: str
    fact: str = ""

    def __str__(self) -> str:
        return f"{self.state}: {self.text}" + (f" ({self.fact})" if self.fact else "")


def causes(condition: Condition, one: ActiveCondition) -> list[Cause]:
    """Those that are proven first, then those that are likely; of those that are possible last what speaks against."""
    if one.why:
        return [Cause("", CauseState.PROVEN, one.why)]
    unknown = possible()
    states = [*CauseState]
    known = [
        (name, one.verdicts.get(name, unknown), text)
        for name, text in condition.causes.items()
    ]
    known.sort(
        key=lambda one: (
            states.index(one[1].state),
            not one[1].likely,
            one[1].fact.startswith(AGAINST),
        )
    )
    return [
        Cause(name, verdict.state, text, verdict.fact) for name, verdict, text in known
    ]


def rule(condition: Condition, constants: Constants) -> str:
    """When it is raised."""
    return condition.when.format_map(constant_texts(constants))


def constant_texts(constants: Constants) -> Mapping[str, str]:
    return {
        name: duration(value) if name in SECONDS else number_text(value)
        for name, value in asdict(constants).items()
    }


def action(condition: Condition, evidence: Mapping[str, float]) -> str:
    """One sentence with the numbers that it rests on."""
    numbers: dict[str, object] = {
        name: duration(one) if name in DURATIONS else one
        for name, one in evidence.items()
    }
    numbers["at_risk_text"] = (
        f" and loses {lost:.0f} of the ring"
        if (lost := evidence.get("at_risk", 0.0)) > 0
        else ""
    )
    numbers["leak_text"] = leak(evidence)
    numbers["attempts_text"] = attempts(evidence)
    numbers["returned_text"] = returned(evidence)
    numbers["removed_text"] = {None: "", 0.0: GONE}.get(
        evidence.get("dead_letters"), DEAD_LETTERS
    )
    numbers["pause_text"] = (USUAL if evidence.get("weeks") else EVER).format_map(
        NumbersToTell(numbers)
    )
    return condition.action.format_map(NumbersToTell(numbers))


def attempts(evidence: Mapping[str, float]) -> str:
    """What ends the deliveries of a message that fails each time, where that was read."""
    most = evidence.get("max_delivery_attempts")
    if most is None:
        return "; see whether max-delivery-attempts is set, it was not read"
    if most < 0:
        return "; max-delivery-attempts is -1: no message ever goes to the dead letters"
    return f"; after {most:.0f} deliveries a message goes to the dead letters (max-delivery-attempts)"


def returned(evidence: Mapping[str, float]) -> str:
    """How many deliveries came back; empty where that was not counted: none is no reason."""
    back = evidence.get("returned", 0.0)
    if not back > 0:
        return ""
    deliveries, settled = (
        number_text(evidence.get(name, 0.0)) for name in ("delivered", "settled")
    )
    return f": {number_text(back)} of {deliveries} deliveries came back, {settled} were settled"


def leak(evidence: Mapping[str, float]) -> str:
    """What a client leaks, or may leak."""
    held, leaked, one_in = (
        evidence.get(name, 0.0) for name in ("held", "leaked", "one_in")
    )
    one_in = float(f"{one_in:.2g}")
    share = f"1 of {one_in:.0f} messages" if one_in else "a few messages"
    if leaked > 0:
        return f": it leaks {share}, and {leaked:.0f} were left when there was nothing to process"
    slow = f" or is 1/{one_in:.0f} too slow" if one_in else " or is slightly too slow"
    return f": it leaks {share},{slow}, and buffers {held:.0f}, ever more. What stays in a lull has leaked"


class NumbersToTell(dict[str, object]):
    """Numbers by name; what the broker did not give has a word for it."""

    def __missing__(self, key: str) -> "_Unknown":
        return _Unknown()


class _Unknown:
    """A number that the broker did not give."""

    def __format__(self, spec: str) -> str:
        return "an unknown number of"
