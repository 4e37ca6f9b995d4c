"""What is told of each situation beside what is true of it, by dimension."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from flowbench.advice import wrong_causes
from flowbench.generated.grammar import DIMENSIONS, Situation
from penstock.agent import Poller
from penstock.causes.verdict import CauseState
from penstock.conditions.catalogue import on
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.insight.actions import Actions

POLLS_MORE = 3
"""Within which a condition has to be told, beside its own time."""
SLACK = 10.0


@dataclass(slots=True)
class Seen:
    """Of one situation: when each condition came first, the worst severity, all that was ever wrong in it."""

    first: dict[str, float] = field(default_factory=dict)
    worst: dict[str, Severity] = field(default_factory=dict)
    causes: set[str] = field(default_factory=set)
    proven: set[str] = field(default_factory=set)
    advice: set[str] = field(default_factory=set)
    helps: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Watch:
    """Takes every poll. others: alarms of addresses that are of no situation."""

    situations: Mapping[str, Situation]
    seen: dict[str, Seen] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    began: float = field(default_factory=time.time)

    def take(self, poller: Poller) -> None:
        assessor = poller.assessor
        if assessor.view is None:
            return
        actions = Actions(assessor.view.snapshot, assessor.state)
        kind = assessor.view.kind.name
        for one in assessor.state.judgement.conditions:
            situation = self.situations.get(one.address.removesuffix(".reply"))
            if situation is not None:
                self._note(situation, one, actions, kind)
            elif one.severity is not Severity.INFO:
                self.others.add(f"{one.name} of {one.broker} {one.address}")

    def _note(
        self, situation: Situation, one: ActiveCondition, actions: Actions, kind: str
    ) -> None:
        seen = self.seen.setdefault(situation.name, Seen())
        truth = situation.truth
        seen.first.setdefault(one.name, time.time())
        seen.worst[one.name] = max(one.severity, seen.worst.get(one.name, one.severity))
        if one.name not in truth.need.split():
            return
        about = on(kind, one.name)
        causes = truth.causes_of(situation.client)
        true = causes & about.causes.keys()
        seen.causes |= {f"{one.name}: {what}" for what in wrong_causes(one, causes)}
        if not true:
            seen.causes.add(
                f"{one.name}: none of {', '.join(sorted(causes))} is a cause of it"
            )
        if any(
            one.verdicts[name].state is CauseState.PROVEN
            for name in true & one.verdicts.keys()
        ):
            seen.proven.add(one.name)
        offered = {action.name for action in actions.of(one, about)}
        helps = set(truth.helps.split())
        harmless = set(truth.harmless.split())
        seen.helps |= offered & helps
        if wrong := offered - helps - harmless:
            seen.advice.add(f"{one.name}: {', '.join(sorted(wrong))}")
        if not offered & helps:
            seen.advice.add(
                f"{one.name}: of {', '.join(sorted(offered)) or 'nothing'} none helps"
            )


@dataclass(frozen=True, slots=True)
class Outcome:
    """One situation; void: why it counts neither way. seconds: from the begin of the fault to its condition."""

    situation: Situation
    told: str
    seconds: float | None
    late: bool
    alarms: tuple[str, ...]
    causes: tuple[str, ...]
    proven: bool
    advice: tuple[str, ...]
    nothing: bool
    void: tuple[str, ...]

    @property
    def found(self) -> bool:
        """By its right name, in time."""
        return self.seconds is not None and not self.late

    def line(self) -> str:
        one = self.situation
        what = f"{one.client} {one.mode}, {one.queue}, {one.neighbours}, {one.rhythm}"
        what += ", history" if one.history else ""
        trouble = [
            *(["MISSED"] if not one.healthy and self.seconds is None else []),
            *(["late"] if self.late else []),
            *(f"FALSE {name}" for name in self.alarms),
            *(f"CAUSE {text}" for text in self.causes),
            *(f"ADVICE {text}" for text in self.advice),
            *(f"void: {text}" for text in self.void),
        ]
        return f"| {one.name} | {one.failure} | {what} | {self.told} | {'; '.join(trouble) or 'right'} |"


def outcome(
    one: Situation, seen: Seen, begin: float, bound: float, void: Iterable[str]
) -> Outcome:
    """bound: seconds from the begin within which it has to be told."""
    truth = one.truth
    need = truth.need.split()
    lawful = {*truth.need.split(), *truth.also.split()}
    if one.queue == "groups":  # who holds up its groups is not seen
        lawful |= {"not_dispatching"} if need else set()
    loud = {
        name for name, severity in seen.worst.items() if severity is not Severity.INFO
    }
    hits = [
        seen.first[name] - begin
        for name in need
        if name in seen.first and (name in loud or truth.notice)
    ]
    marks = {True: "", False: " (notice)"}
    told = [
        f"{name}{marks[name in loud]} {seen.first[name] - begin:.0f} s"
        for name in seen.first
    ]
    return Outcome(
        situation=one,
        told=", ".join(told) or "nothing",
        seconds=min(hits) if hits else None,
        late=bool(hits) and min(hits) > bound,
        alarms=tuple(sorted(loud - lawful)),
        causes=tuple(sorted(seen.causes)),
        proven=bool(seen.proven),
        advice=tuple(sorted(seen.advice)),
        nothing=not one.healthy and not seen.first,
        void=tuple(void),
    )


def bound_of(one: Situation, interval: float, cold: float) -> float:
    return one.truth.patience * cold + one.truth.seconds + POLLS_MORE * interval + SLACK


# --- tell


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Of those that count."""
    faults = [one for one in outcomes if not one.situation.healthy]
    found = [one for one in faults if one.seconds is not None]
    healthy = [one for one in outcomes if one.situation.healthy]
    return {
        "faults": len(faults),
        "right_condition": sum(one.found for one in faults),
        "late": sum(one.late for one in faults),
        "right_cause": sum(not one.causes for one in found),
        "proven_cause": sum(one.proven for one in found),
        "told_healthy": sum(one.nothing for one in faults),
        "wrong_advice": sum(bool(one.advice) for one in found),
        "alarms_beside": sum(bool(one.alarms) for one in faults),
        "healthy": len(healthy),
        "false_alarms": sum(bool(one.alarms) for one in healthy),
        "median_seconds": round(median(one.seconds or 0.0 for one in found), 1)
        if found
        else None,
    }


def by_dimension(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "| | of | right condition | right cause | proven | wrong advice | s, median | false alarms |"
    yield "|---|---|---|---|---|---|---|---|"
    for dimension in DIMENSIONS:
        values = sorted({str(getattr(one.situation, dimension)) for one in outcomes})
        for value in values:
            of = figures(
                [
                    one
                    for one in outcomes
                    if str(getattr(one.situation, dimension)) == value
                ]
            )
            seconds = (
                "-" if of["median_seconds"] is None else f"{of['median_seconds']:.0f}"
            )
            cells = [
                f"{dimension}: {value}", of["faults"], of["right_condition"], of["right_cause"], of["proven_cause"],
                of["wrong_advice"], seconds, f"{of['false_alarms'] + of['alarms_beside']}",
            ]  # fmt: skip
            yield f"| {' | '.join(str(cell) for cell in cells)} |"
