"""
The rules once more, in plain Python: dicts and lists, one queue after the other, as the specification words them.

Patience is one number here (`Constants(factor=0)`): how it is learned is tested by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import isnan, nan
from typing import Any

from penstock.settings.constants import Constants

Numbers = Mapping[str, Any]
PATIENT = ("stalled", "open_transaction", "no_consumer", "not_dispatching")
Thing = tuple[str, str]
"""Condition, and the queue's name or the consumer's id."""


@dataclass
class Debounce:
    holds: list[bool] = field(default_factory=list)
    on: bool = False
    since: float = nan
    begin: float = nan
    left: tuple[float, float] = (nan, nan)
    """Its last beginning and end."""

    def poll(self, holds: bool, begin: float, now: float, ripe: bool) -> None:
        """ripe: it may come; the rule may have agreed before."""
        if holds and not (self.holds and self.holds[-1]):
            self.begin = begin
        self.holds = [*self.holds[-1:], holds]
        if not self.on and self.holds == [True, True] and ripe:
            self.on = True
            self.since = self.begin
            if now - self.left[1] <= 60:
                self.since = min(self.since, self.left[0])
        elif self.on and self.holds == [False, False]:
            self.on = False
            self.left = (self.since, now)


@dataclass
class Past:
    """Of one queue: polls at which it was known, as (stamp, changes)."""

    polls: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    absent: float = nan
    ready: float = nan
    still: float = nan
    had: bool = False
    balance: float = nan
    evicted: float = nan
    set_back: bool = False
    """An operator set a counter back."""


class Reference:
    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.stamps: list[float] = []
        self.recent: list[float] = []
        """Of the window, as `stamps` are of the trend's."""
        self.interval = nan
        self.queues: dict[str, Numbers] = {}
        self.consumers: dict[str, Numbers] = {}
        self.past: dict[str, Past] = {}
        self.unlisted: dict[str, Past] = {}
        """Of queues that a listing lacked: what was evicted goes on where they come back."""
        self.holder: dict[str, dict[str, float]] = {}
        self.standing: dict[Thing, Debounce] = {}

    def poll(
        self,
        now: float,
        queues: Mapping[str, Numbers],
        consumers: Mapping[str, Numbers],
    ) -> dict[Thing, float]:
        """What stands now, with its beginning."""
        if self.stamps:
            step = now - self.stamps[-1]
            self.interval = (
                step if isnan(self.interval) else 0.7 * self.interval + 0.3 * step
            )
        # What the longest window left behind is forgotten, also when a gap makes the window longer afterwards.
        longest = 300.0 if isnan(self.interval) else max(300.0, 9 * self.interval)
        self.stamps = [
            *(stamp for stamp in self.stamps if stamp >= now - longest - 1e-6),
            now,
        ]
        window = 60.0 if isnan(self.interval) else max(60.0, 6 * self.interval)
        self.recent = [
            *(stamp for stamp in self.recent if stamp >= now - window - 1e-6),
            now,
        ]
        told: dict[Thing, tuple[bool, float]] = {}
        known = {name: self._is_known(name, queue) for name, queue in queues.items()}
        changes = {
            name: self._consumer_changes(name, one, known)
            for name, one in consumers.items()
        }
        self.holder = {
            name: self._hold(name, one, changes[name], now)
            for name, one in consumers.items()
        }
        for name, one in consumers.items():
            mark = self.holder[name]["mark"]
            late = not isnan(mark) and now - mark >= self._nearly
            told["stalled", name] = late and one["W"] == 0, mark
            told["open_transaction", name] = late and one["W"] > 0, mark
        self.unlisted |= self.past
        self.past = {name: self.past.get(name) or self._back(name) for name in queues}
        for name, queue in queues.items():
            mine = {key: one for key, one in consumers.items() if one["queue"] == name}
            told |= self._queue(name, queue, mine, changes, now, known=known[name])
        self.queues = dict(queues)
        self.consumers = dict(consumers)
        self.standing = {thing: self.standing.get(thing, Debounce()) for thing in told}
        for thing, (holds, begin) in told.items():
            ripe = thing[0] not in PATIENT or now - begin >= self.constants.cold
            self.standing[thing].poll(holds, begin, now, ripe)
        return {
            thing: standing.since
            for thing, standing in self.standing.items()
            if standing.on
        }

    @property
    def _nearly(self) -> float:
        """One poll before the patience is over the rules agree that it will be."""
        return self.constants.cold - (0 if isnan(self.interval) else self.interval)

    # --- consumers

    def _is_known(self, name: str, queue: Numbers) -> bool:
        before = self.queues.get(name)
        return before is not None and all(
            queue[counter] >= before[counter] for counter in "AKEX"
        )

    def _is_set_back(self, name: str, queue: Numbers) -> bool:
        before = self.queues.get(name)
        if before is None or not any(
            queue[counter] < before[counter] for counter in "AKEX"
        ):
            return False
        anew = all(
            queue[counter] < before[counter] or not before[counter]
            for counter in "AKEX"
        )
        return (
            not anew
            or queue["A"] - queue["K"] - queue["E"] - queue["X"] - queue["M"] < -3
        )

    def _consumer_changes(
        self, name: str, one: Numbers, known: Mapping[str, bool]
    ) -> dict[str, float]:
        before = self.consumers.get(name)
        if before is None:
            if not known.get(one["queue"], False):
                return {"N": 0.0, "C": 0.0, "W": 0.0}
            before = {"N": 0.0, "C": 0.0, "W": 0.0}
        fell = {counter: one[counter] < before[counter] for counter in "NC"}
        changes = {
            counter: one[counter] - (0 if fell[counter] else before[counter])
            for counter in "NC"
        }
        return {**changes, "W": one["W"] - before["W"]}

    def _hold(
        self, name: str, one: Numbers, change: Mapping[str, float], now: float
    ) -> dict[str, float]:
        before = self.holder.get(
            name, {"seen": now, "z": nan, "hold": nan, "mark": nan}
        )
        z = before["z"]
        if change["C"] - change["W"] > 0:
            z = now if one["W"] > 0 or isnan(one["L"]) else min(one["L"], now)
        hold = before["hold"]
        if one["T"] + one["W"] <= 0:
            hold = nan
        elif isnan(hold):
            times = [time for time in (one["L"], one["Ld"]) if not isnan(time)]
            hold = min(max(times), now) if times else now
        mark = nan if isnan(hold) else hold if isnan(z) else max(z, hold)
        return {"seen": before["seen"], "z": z, "hold": hold, "mark": mark}

    # --- queues

    def _queue(
        self,
        name: str,
        queue: Numbers,
        mine: Mapping[str, Numbers],
        changes: Mapping[str, Mapping[str, float]],
        now: float,
        *,
        known: bool,
    ) -> dict[Thing, tuple[bool, float]]:
        past = self.past[name]
        before = self.queues[name] if known else queue
        d = {counter: queue[counter] - before[counter] for counter in "AKEX"}
        left, delivered, uncommitted = (
            sum(changes[key][what] for key in mine) for what in "CNW"
        )
        d |= {
            "N": delivered,
            "ret": left - d["K"] - d["E"] - d["X"] - uncommitted,
            "M": queue["M"] - queue["S"],
        }
        if not known:
            had = past.had
            set_back = past.set_back or self._is_set_back(name, queue)
            past = self.past[name] = replace(
                self._back(name), had=had, set_back=set_back
            )
        else:
            past.polls = [
                *(one for one in past.polls if one[0] >= self.stamps[0]),
                (now, d),
            ]
        ready = max(0, queue["M"] - queue["D"] - queue["S"])
        past.had = past.had or (isnan(past.absent) if known else queue["K"] > 0)
        past.absent = _since(not mine and not d["K"] > 0, past.absent, now)
        past.ready = _since(ready > 0, past.ready, now)
        then = self.stamps[-2] if len(self.stamps) > 1 else now
        past.still = _since(
            known and not d["K"] > 0 and not delivered > 0, past.still, then
        )
        self._evicted(past, queue)
        return {
            ("no_consumer", name): self._no_consumer(past, now),
            ("not_dispatching", name): self._not_dispatching(past, queue, mine, d, now),
            ("redelivery_loop", name): self._redelivery(past, queue, mine, now),
            ("falling_behind", name): self._falling_behind(past, queue, now),
        }

    def _no_consumer(self, past: Past, now: float) -> tuple[bool, float]:
        begin = (
            max(past.absent, past.ready) if not isnan(past.absent + past.ready) else nan
        )
        grows = sum(d["A"] for _, d in self._window(past, 300.0)) > 0
        return now - begin >= self._nearly and (past.had or grows), begin

    def _not_dispatching(
        self,
        past: Past,
        queue: Numbers,
        mine: Mapping[str, Numbers],
        d: Mapping[str, float],
        now: float,
    ) -> tuple[bool, float]:
        cold = self._nearly
        begin = (
            max(past.still, past.ready) if not isnan(past.still + past.ready) else nan
        )
        free = [
            key
            for key in mine
            if isnan(self.holder[key]["hold"])
            and now - self.holder[key]["seen"] >= cold
        ]
        if queue.get("exclusive") and any(
            one["T"] + one["W"] > 0 for one in mine.values()
        ):
            free = []
        wanted = d["A"] > 0 or any(not mine[key].get("filter") for key in free)
        let_go = any(one["C"] - one["W"] > 0 for one in mine.values())
        counts = self._counts(queue, mine) or not let_go
        return bool(free) and wanted and counts and now - begin >= cold, begin

    @staticmethod
    def _counts(queue: Numbers, mine: Mapping[str, Numbers]) -> bool:
        """Something shows that letting go of a message settles it."""
        return bool(
            queue["K"] > 0
            or queue["Att"] > 0
            or any(one["N"] > queue["A"] for one in mine.values())
        )

    def _redelivery(
        self, past: Past, queue: Numbers, mine: Mapping[str, Numbers], now: float
    ) -> tuple[bool, float]:
        seconds = max(60.0, 6 * self.interval) if not isnan(self.interval) else 60.0
        stamps = self.recent
        polls = [(stamp, d) for stamp, d in past.polls if stamp >= stamps[0]]
        balance = [dict(polls).get(stamp, {"ret": 0.0, "N": 0.0}) for stamp in stamps]
        ret = [d["ret"] for d in balance]
        half = len(ret) // 2
        holds = (
            self._covered(polls, 30.0, 3)
            and sum(ret) - max(ret) >= 3 + 4 * max(0, -min(ret))
            and sum(ret[:half]) > 0
            and sum(ret[half:]) > 0
            and sum(one > 0 for one in ret) >= 3
            and sum(d["N"] for d in balance) > 0
            and self._counts(queue, mine)
        )
        return holds, now - seconds

    def _falling_behind(
        self, past: Past, queue: Numbers, now: float
    ) -> tuple[bool, float]:
        seconds = max(300.0, 9 * self.interval) if not isnan(self.interval) else 300.0
        polls = dict(self._window(past, seconds))
        stamps = self._stamps(seconds)
        since = now - (stamps[-1] - stamps[0])
        if "ring" in queue or not self._covered([*polls.items()], seconds, 8):
            return False, since
        half = len(stamps) // 2
        first, second = (
            [polls[s]["M"] for s in part if s in polls]
            for part in (stamps[:half], stamps[half:])
        )
        settled = [
            sum(polls[s]["K"] for s in part if s in polls)
            for part in (stamps[:half], stamps[half:])
        ]
        means = []
        size, more = divmod(len(stamps), 4)
        at = 0
        for quarter in range(4):
            end = at + size + (quarter < more)
            depths = [polls[s]["M"] for s in stamps[at:end] if s in polls]
            if not depths:
                return False, since
            means.append(sum(depths) / len(depths))
            at = end
        added = sum(d["A"] for d in polls.values())
        least = 0.1 * (means[-1] - means[0])
        turned = stamps[-1] in polls and polls[stamps[-1]]["M"] < means[-1]
        holds = (
            min(settled) > 0
            and all(
                later > earlier and later - earlier >= least
                for earlier, later in pairwise(means)
            )
            and not turned
            and min(second) > max(first)
            and means[-1] - means[0] >= max(10, 0.1 * added)
        )
        return holds, since

    def _window(
        self, past: Past, seconds: float
    ) -> list[tuple[float, dict[str, float]]]:
        first = self._stamps(seconds)[0]
        return [(stamp, d) for stamp, d in past.polls if stamp >= first]

    def _stamps(self, seconds: float) -> list[float]:
        return [
            stamp for stamp in self.stamps if stamp >= self.stamps[-1] - seconds - 1e-6
        ]

    def _covered(
        self, polls: list[tuple[float, dict[str, float]]], seconds: float, least: int
    ) -> bool:
        if not polls or isnan(self.interval):
            return False
        long_enough = self.stamps[-1] - polls[0][0] >= seconds - 1.5 * self.interval
        return long_enough and len(polls) >= max(least, 0.6 * seconds / self.interval)

    def _back(self, name: str) -> Past:
        """What is known of a queue of this name that was listed before."""
        before = self.unlisted.get(name, Past())
        return Past(
            balance=before.balance, evicted=before.evicted, set_back=before.set_back
        )

    def _evicted(self, past: Past, queue: Numbers) -> None:
        if "ring" not in queue:
            return
        balance = queue["A"] - queue["K"] - queue["E"] - queue["X"] - queue["M"]
        before = past.balance
        past.balance = balance
        if not isnan(before):
            past.evicted = max(
                0.0 if isnan(past.evicted) else past.evicted, min(before, balance)
            )


def _since(holds: bool, before: float, now: float) -> float:
    return nan if not holds else now if isnan(before) else before
