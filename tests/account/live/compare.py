"""What the clients counted, against what an agent says became of it."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from account.live.situations import Situation
from account.live.stage import Counts, Sheet
from penstock.account.fates import ADDRESS_FATES, QUEUE_FATES
from penstock.conditions.catalogue import CONDITIONS

LOSSES = ("evicted", "dropped", "rejected", "unwanted", "unrouted", "duplicate", "expired", "dead_lettered", "killed",
          "purged", "in_doubt", "unheld")  # fmt: skip
"""What no healthy situation may have, and no fault but its own."""
UNTIL_SPLIT: Mapping[str, tuple[str, ...]] = {
    "dead_lettered": ("killed",), "purged": ("killed",), "moved": (), "in_doubt": ("unheld",),
    "uncommitted": ("uncommitted_or_diverted",), "rolled_back": ("uncommitted_or_diverted",), "given_back": (),
}  # fmt: skip
"""By a name of a truth, what stands for it in a version that does not tell it yet; nothing: it is not compared."""
EXACT, BOUNDS, UNKNOWN, WRONG = "exact", "in bounds", "unknown", "WRONG"

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Row:
    """One number of one place: the truth, what is told, and the verdict."""

    what: str
    truth: float
    told: str
    verdict: str


@dataclass
class Result:
    situation: Situation
    rows: list[Row] = field(default_factory=list)
    unexplained: float = 0.0
    wrong: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)
    """Truths that this version has no word for."""
    conditions: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        return not self.wrong and not self.unexplained

    def line(self) -> str:
        told = "; ".join(
            f"{row.what} {row.truth:g}/{row.told}" for row in self.rows if row.truth or row.verdict == WRONG
        )
        notes = [*self.wrong, *self.conditions, *(f"not told: {name}" for name in self.untold)]
        verdict = "right" if self.right else "WRONG"
        return f"| {self.situation.name} | {told} | {self.unexplained:g} | {verdict} | {'; '.join(notes)} |"


def compared(
    situation: Situation, counts: Counts, sheets: Sequence[Sheet], *, cut: bool, slack: Mapping[str, float]
) -> Result:
    """
    cut: the agent or the broker was killed, so that bounds and unknowns of the address are lawful. slack: by place, so
    many messages may have been done or not, as the broker was killed meanwhile.
    """
    result = Result(situation)
    by_queue = {sheet["queue"]: sheet for sheet in sheets}
    told_names = {name for sheet in sheets for name in numbers_of(sheet)} | {*QUEUE_FATES, *ADDRESS_FATES}
    for queue, truth in expected(situation).items():
        sheet = by_queue.get(queue)
        if sheet is None:
            result.wrong.append(f"no account of {queue or 'the address'}")
            continue
        place = queue or situation.name
        some = slack.get(place, 0.0)
        values = {name: value_of(text, place, counts) for name, text in truth.items()}
        result.unexplained += abs(bounds(sheet["unexplained"])[0]) if queue else 0.0
        _compare(result, queue, values, sheet, told_names, some, cut)
        if queue and "evicted" in values:
            _compare_culprits(result, place, counts, sheet, some)
    return result


def expected(situation: Situation) -> dict[str, dict[str, str]]:
    """The truth by queue, the address under ""; what does not stand there is 0."""
    found: dict[str, dict[str, str]] = {"": dict(situation.truth.get("", {}))}
    for queue in situation.of_queues:
        found[queue] = {"came": "sent", "acknowledged": "settled", **situation.truth.get(queue, {})}
    return found


def value_of(text: str, place: str, counts: Counts) -> float:
    """Of an expression."""
    total = 0.0
    for sign, word in re.findall(r"([+-]?)\s*([\w.@:]+)", text):
        where, _, what = word.rpartition("@")
        total += (-1 if sign == "-" else 1) * counts.get((where or place, what), 0)
    return total


def numbers_of(sheet: Sheet) -> dict[str, object]:
    """All amounts of a sheet by name, but those by client."""
    parts = [part for name, part in sheet.items() if isinstance(part, dict) and name not in {"lost_by", "reasons"}]
    inner = sheet.get("buffered") or {}
    return {name: value for part in parts for name, value in part.items() if part is not inner}


def _compare(
    result: Result, queue: str, values: dict[str, float], sheet: Sheet, known: set[str], slack: float, cut: bool
) -> None:
    told, situation = numbers_of(sheet), result.situation
    if queue:
        left = [name for name in values if name in sheet["left"] or (name in UNTIL_SPLIT and name in QUEUE_FATES)]
        values.setdefault("there", values["came"] - sum(values[name] for name in {*left, "acknowledged"}))
        told = {**told, "came": summed(sheet["came"]), "there": summed(sheet["there"])}
        if "moved" in values and "moved" not in known:
            values["acknowledged"] += values.pop("moved")
            values["there"] = values["came"] - values["acknowledged"]
            result.untold.append("moved")
        for early in ("dead_lettered", "purged"):
            if early in values and early not in known:
                values["there"] = values["came"] - values["acknowledged"] - values[early]
    for name, truth in values.items():
        names = [name] if name in told else [other for other in UNTIL_SPLIT.get(name, ()) if other in told]
        if not names:
            if truth and name not in known and name in UNTIL_SPLIT:
                result.untold.append(name)
            elif truth:
                result.wrong.append(f"{queue or 'address'}: nothing of {name}, {truth:g} by the clients")
            continue
        _judge(result, queue, name, truth, told[names[0]], slack, lawful=cut and (not queue or slack > 0))
    mine = {*values, *(other for name in values for other in UNTIL_SPLIT.get(name, ()))}
    for name, value in told.items():
        if name in LOSSES and name not in mine and bounds(value)[0] > slack:
            result.wrong.append(f"{queue or 'address'}: {name} {shown(value)}, none by the clients")
    if situation.healthy and queue and sheet["lost_by"] and "evicted" not in values:
        result.wrong.append(f"{queue}: lost by {sheet['lost_by']}")


def _judge(result: Result, queue: str, name: str, truth: float, value: object, slack: float, *, lawful: bool) -> None:
    low, high = bounds(value)
    verdict = EXACT if low == high == truth else UNKNOWN if value is None else BOUNDS
    if not low - slack <= truth <= high + slack or (verdict == UNKNOWN and truth and not lawful and name not in result.situation.unknown) or (verdict == BOUNDS and not lawful and name not in result.situation.wide):
        verdict = WRONG
    what = f"{queue} {name}" if queue and queue != result.situation.name else name
    result.rows.append(Row(what, truth, shown(value), verdict))
    if verdict == WRONG:
        result.wrong.append(f"{what}: {truth:g} by the clients, told {shown(value)}")


def _compare_culprits(result: Result, queue: str, counts: Counts, sheet: Sheet, slack: float) -> None:
    told = {name: bounds(value) for name, value in sheet["lost_by"].items()}
    unnamed = told.get("(not known)", (0.0, 0.0))[1]
    for (place, what), truth in counts.items():
        name = what.removeprefix("evicted:")
        if place != queue or name == what:
            continue
        low, high = told.get(name, (0.0, 0.0))
        inside = low - slack <= truth <= high + slack + (0 if name == "arrivals" else unnamed)
        said = shown([low, high])
        result.rows.append(Row(name, truth, said, EXACT if low == high == truth else BOUNDS if inside else WRONG))
        if not inside:
            result.wrong.append(f"by {name}: {truth:g}, told {said}")


def bounds(value: object) -> Bounds:
    """At least and at most."""
    if value is None:
        return 0.0, math.inf
    if isinstance(value, list | tuple):
        return float(value[0]), math.inf if value[1] is None else float(value[1])
    return float(value), float(value)  # type: ignore[arg-type]


def summed(amounts: Mapping[str, object]) -> list[float]:
    low, high = (sum(ends) for ends in zip(*map(bounds, amounts.values()), strict=True)) if amounts else (0.0, 0.0)
    return [low, high]


def shown(value: object) -> str:
    low, high = bounds(value)
    if value is None:
        return "unknown"
    return f"{low:g}" if low == high else f"{low:g}..{high:g}"


def conditions(result: Result, raised: Sequence[Mapping[str, str]]) -> None:
    """Into the result: conditions that must not have been raised, and those that are missing."""
    situation = result.situation
    places = {situation.name, *situation.of_queues}
    mine = {one["condition"]: one["severity"] for one in raised if places & {one.get("queue"), one.get("address")}}
    lawful = {*situation.raises, *situation.also}
    for name, severity in sorted(mine.items()):
        if name not in lawful:
            result.wrong.append(f"{severity} {name}")
        else:
            result.conditions.append(name)
    result.wrong += [f"no {name}" for name in situation.raises if name in CONDITIONS and name not in mine]


def as_metrics(sheets: Iterator[Sheet], scrape_rows: Mapping[tuple[str, str, str], float]) -> list[str]:
    """Where mq_account_messages_total does not say the least amount of the sheets."""
    wrong = []
    for sheet in sheets:
        for name, value in sheet["left"].items():
            low, metric = bounds(value)[0], scrape_rows.get((sheet["address"], sheet["queue"], name))
            if metric is not None and metric != low:
                wrong.append(f"{sheet['address']} {sheet['queue']} {name}: metric {metric:g}, sheet {low:g}")
    return wrong
