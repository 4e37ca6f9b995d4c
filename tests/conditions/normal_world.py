"""Queues of which it is known what is normal: four weeks of history before the first poll, and then poll by poll."""

from collections.abc import Mapping

import numpy as np

from conditions.things import Numbers
from conditions.world import START, Judged
from penstock.core.table import Column
from penstock.learned.normal import Profile
from penstock.learned.profile import by_broker
from penstock.settings.calendar import HOURS, Calendar
from penstock_trends.normal import profile_of

WEEKS = 4
BEFORE = np.arange(Calendar().hour(START) - WEEKS * HOURS, Calendar().hour(START))
FREE = {"queue": "q", "T": 0, "N": 1, "C": 1}


def steady(rate: float) -> dict[str, Column]:
    """As the history has it: so many messages a second come and go."""
    came = np.full(len(BEFORE), 3600.0 * rate)
    zero = np.zeros(len(BEFORE))
    return {
        "inflow": came,
        "outflow": came,
        "expired": zero,
        "killed": zero,
        "peak": came / 12,
        "backlog": zero,
    }


def last(weeks: int, columns: Mapping[str, Column]) -> dict[str, Column]:
    """Of so many weeks, before which nothing is known."""
    return {
        name: np.where(BEFORE[-1] + 1 - weeks * HOURS <= BEFORE, of, np.nan)
        for name, of in columns.items()
    }


def history(**queues: Mapping[str, Column]) -> Profile:
    return by_broker(
        ("b", (name, name), profile_of(BEFORE, columns))
        for name, columns in queues.items()
    )["b"]


def knowing(step: float = 15.0, **queues: Mapping[str, Column]) -> Judged:
    judged = Judged(step=step)
    judged.state = type(judged.state)(
        judgement=judged.state.judgement.with_profile(history(**queues))
    )
    return judged


class Flow:
    """One queue "q" by rates a second: what comes, expires, is killed; the rest is settled unless it is held."""

    def __init__(self, judged: Judged) -> None:
        self.judged = judged
        self.added = self.settled = self.expired = self.killed = 1000.0
        self.depth = 0.0

    def run(
        self, seconds: float, rate: float, *, expires: float = 0.0, dies: float = 0.0, settles: float = np.inf,
        **others: Numbers,
    ) -> "Flow":  # fmt: skip
        """others: further queues, as they are at all polls."""
        step = self.judged.step
        for _ in range(round(seconds / step)):
            came = round(rate * step)
            gone = round(came * expires)
            dead = round(came * dies)
            left = min(self.depth + came - gone - dead, settles * step)
            self.added = self.added + came
            self.expired = self.expired + gone
            self.killed = self.killed + dead
            self.settled = self.settled + left
            self.depth = self.depth + came - gone - dead - left
            said = {
                "A": self.added,
                "K": self.settled,
                "E": self.expired,
                "X": self.killed,
                "M": self.depth,
            }
            consumer = {
                **FREE,
                "T": self.depth,
                "N": self.settled + self.depth,
                "C": self.settled,
            }
            self.judged.poll(
                {"q": {**said, "D": self.depth}, **others}, {"c": consumer}
            )
        return self
