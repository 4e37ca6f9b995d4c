"""What the clients counted, against what an agent says became of it."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from account.live.situations import Situation
from account.live.stage import Counts, Sheet
from penstock.account.fates import ADDRESS_FATES, QUEUE_FATES
from penstock.conditions.catalogue import CONDITIONS

LOSSES = frozenset({
    "evicted", "dropped", "rejected", "unwanted", "unrouted", "duplicate", "expired", "dead_lettered", "killed",
    "purged", "in_doubt", "unheld", "missing", "lost_at_restart",
})  # fmt: skip
"""What no healthy situation may have, and no fault but its own."""
STANDS_FOR: Mapping[str, tuple[str, ...]] = {
    "dead_lettered": ("killed",), "purged": ("killed",), "moved": (), "in_doubt": ("unheld",),
    "uncommitted": ("uncommitted_or_diverted",), "rolled_back": ("uncommitted_or_diverted",), "given_back": (),
}  # fmt: skip
"""By a name of a truth, what stands for it in a version that does not tell it yet; nothing: it is not compared."""
SPLIT = frozenset({"dead_lettered", "purged", "moved"})
BY_TARGETS = SPLIT | {"acknowledged", "given_back"}
"""Known by what came to other addresses meanwhile."""
EXACT = "exact"
BOUNDS = "in bounds"
UNKNOWN = "unknown"
SHORT = "short"
WRONG = "WRONG"
"""short: exact but for what came and went between the last poll of a broker and its death."""
ODD = 10
"""Messages: a burst just then is more than the mean of the run."""

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
            f"{row.what} {row.truth:g}/{row.told}"
            for row in self.rows
            if row.truth or row.verdict == WRONG
        )
        notes = [
            *self.wrong,
            *self.conditions,
            *(f"not told: {name}" for name in self.untold),
        ]
        verdict = "right" if self.right else "WRONG"
        return f"| {self.situation.name} | {told} | {self.unexplained:g} | {verdict} | {'; '.join(notes)} |"


@dataclass(frozen=True)
class Lawful:
    """
    What is lawful beside the exact truth.

    cut: the agent or the broker was killed: bounds and unknowns of addresses, and of what only another address shows.
    unsure: the broker was killed: by place,
    so many messages may have been done or not. unseen: share of the run between its last poll and its death: so much
    of all is missing, as no counter outlives the broker.
    """

    cut: bool = False
    unsure: Mapping[str, float] = field(default_factory=dict)
    unseen: float = 0.0


def compared(
    situation: Situation, counts: Counts, sheets: Sequence[Sheet], lawful: Lawful
) -> Result:
    result = Result(situation)
    by_queue = {sheet["queue"]: sheet for sheet in sheets}
    known = {name for sheet in sheets for name in numbers_of(sheet)} | {
        *QUEUE_FATES,
        *ADDRESS_FATES,
        "given_back",
    }
    for queue, truth in expected(situation).items():
        sheet = by_queue.get(queue)
        if sheet is None:
            result.wrong.append(f"no account of {queue or 'the address'}")
            continue
        place = queue or situation.name
        values = {name: value_of(text, place, counts) for name, text in truth.items()}
        if queue:
            result.unexplained += abs(bounds(sheet["unexplained"])[0])
            complete(values, sheet, known, result)
            if not lawful.unseen and stays(situation):
                values.setdefault("given_back", 0.0)
        Comparison(result, queue, sheet, known, lawful).run(values)
        if "evicted" in values and not lawful.unseen:
            compare_culprits(result, place, counts, sheet)
    return result


def stays(situation: Situation) -> bool:
    """Whether no consumer goes before it has settled what it was given."""
    return not any(
        {"life_ms", "limit", "hold"} & one.keys() or one["role"] == "ring"
        for one in situation.clients
    )


def expected(situation: Situation) -> dict[str, dict[str, str]]:
    """The truth by queue, the address under ""; what does not stand there is 0."""
    found: dict[str, dict[str, str]] = {"": dict(situation.truth.get("", {}))}
    for queue in situation.of_queues:
        found[queue] = {
            "came": "sent",
            "acknowledged": "settled",
            **situation.truth.get(queue, {}),
        }
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
    parts = [
        part
        for name, part in sheet.items()
        if isinstance(part, dict) and name not in {"lost_by", "reasons"}
    ]
    inner = sheet.get("buffered") or {}
    return {
        name: value
        for part in parts
        for name, value in part.items()
        if part is not inner
    }


def complete(
    values: dict[str, float], sheet: Sheet, known: set[str], result: Result
) -> None:
    """With what is there; moved messages are acknowledged ones to a version that does not tell them apart."""
    left = {name for name in values if name in sheet["left"] or name in SPLIT}
    values.setdefault("there", values["came"] - sum(values[name] for name in left))
    if "moved" in values and "moved" not in known:
        values["acknowledged"] += values.pop("moved")
        result.untold.append("moved")


@dataclass(frozen=True)
class Comparison:
    """Of one sheet: of a queue, or of the address where `queue` is empty."""

    result: Result
    queue: str
    sheet: Sheet
    known: set[str]
    lawful: Lawful

    def run(self, values: Mapping[str, float]) -> None:
        told = numbers_of(self.sheet)
        if self.queue:
            told |= {name: summed(self.sheet[name]) for name in ("came", "there")}
            told["given_back"] = self.sheet["given_back"]
        for name, truth in values.items():
            names = [one for one in (name, *STANDS_FOR.get(name, ())) if one in told]
            if names:
                self._judge(
                    name,
                    truth,
                    told[names[0]],
                    values["came"] if name == "there" else truth,
                )
            elif truth and name in STANDS_FOR and name not in self.known:
                self.result.untold.append(name)
            elif truth:
                self._wrong(f"nothing of {name}, {truth:g} by the clients")
        mine = {
            *values,
            *(other for name in values for other in STANDS_FOR.get(name, ())),
        }
        for name in LOSSES - mine:
            if bounds(told.get(name, 0))[0] > self._unsure:
                self._wrong(f"{name} {shown(told[name])}, none by the clients")

    @property
    def _unsure(self) -> float:
        return self.lawful.unsure.get(self.queue or self.result.situation.name, 0.0)

    def _judge(self, name: str, truth: float, value: object, traffic: float) -> None:
        situation = self.result.situation
        (low, high) = bounds(value)
        lawful = self.lawful.cut and (
            not self.queue or self.lawful.unseen > 0 or name in BY_TARGETS
        )
        unseen = (
            self._unsure
            + math.ceil(traffic * self.lawful.unseen)
            + (ODD if self.lawful.unseen else 0)
        )
        if low == high == truth:
            verdict = EXACT
        elif low <= truth <= high:
            allowed = (
                *situation.unknown,
                *(situation.wide if value is not None else ()),
            )
            # Beside senders that name no address what a consumer settled as it went may have been moved by an operator.
            in_hand = (
                name in {"acknowledged", "moved"} and high - low <= situation.in_hand
            )
            lawful = lawful or name in allowed or in_hand or not truth
            verdict = (BOUNDS if value is not None else UNKNOWN) if lawful else WRONG
        else:
            more = (
                unseen if name == "there" else self._unsure
            )  # what was acknowledged just then comes once more
            verdict = (
                SHORT
                if self.lawful.unseen and low - more <= truth <= high + unseen
                else WRONG
            )
        what = (
            f"{self.queue} {name}"
            if self.queue and self.queue != situation.name
            else name
        )
        self.result.rows.append(Row(what, truth, shown(value), verdict))
        if verdict == WRONG:
            self._wrong(f"{name} {truth:g} by the clients, told {shown(value)}")

    def _wrong(self, text: str) -> None:
        self.result.wrong.append(f"{self.queue or 'address'}: {text}")


def compare_culprits(result: Result, queue: str, counts: Counts, sheet: Sheet) -> None:
    told = {name: bounds(value) for name, value in sheet["lost_by"].items()}
    unnamed = told.get("(not known)", (0.0, 0.0))[1]
    for (place, what), truth in counts.items():
        name = what.removeprefix("evicted:")
        if place != queue or name == what:
            continue
        low, high = told.get(name, (0.0, 0.0))
        inside = low <= truth <= high + (0 if name == "arrivals" else unnamed)
        said = shown([low, high])
        result.rows.append(
            Row(
                name,
                truth,
                said,
                EXACT if low == high == truth else BOUNDS if inside else WRONG,
            )
        )
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
    low, high = (
        (sum(ends) for ends in zip(*map(bounds, amounts.values()), strict=True))
        if amounts
        else (0.0, 0.0)
    )
    return [low, high]


def shown(value: object) -> str:
    low, high = bounds(value)
    if value is None:
        return "unknown"
    return f"{low:g}" if low == high else f"{low:g}..{high:g}"


def conditions(
    result: Result, raised: Sequence[Mapping[str, str]], seconds: float
) -> None:
    """
    Into the result: conditions that must not have been raised, and those that are missing.

    seconds: how long it was played; 0: none is missed.
    """
    situation = result.situation
    places = {situation.name, *situation.of_queues}
    mine = {
        one["condition"]: one["severity"]
        for one in raised
        if places & {one.get("queue"), one.get("address")}
    }
    lawful = {*situation.raises, *situation.also}
    mine |= {
        name: severity for name, severity in of_broker(raised).items() if name in lawful
    }
    result.conditions += [name for name in sorted(mine) if name in lawful]
    result.wrong += [
        f"{severity} {name}"
        for name, severity in sorted(mine.items())
        if name not in lawful
    ]
    due = [
        name
        for name, after in situation.raises.items()
        if name in CONDITIONS and seconds >= after
    ]
    result.wrong += [f"no {name}" for name in due if name not in mine]


def of_broker(raised: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Severities of conditions on no queue, no address: what it is about is in their texts."""
    return {
        one["condition"]: one["severity"]
        for one in raised
        if not one.get("queue") and not one.get("address")
    }


def as_metrics(
    sheets: Iterator[Sheet], scrape_rows: Mapping[tuple[str, str, str], float]
) -> list[str]:
    """Where mq_account_messages_total does not say the least amount of the sheets."""
    wrong = []
    for sheet in sheets:
        for name, value in sheet["left"].items():
            low = bounds(value)[0]
            metric = scrape_rows.get((sheet["address"], sheet["queue"], name))
            if metric is not None and metric != low:
                wrong.append(
                    f"{sheet['address']} {sheet['queue']} {name}: metric {metric:g}, sheet {low:g}"
                )
    return wrong
