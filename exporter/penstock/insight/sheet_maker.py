"""Sheets of the account: the parts that are the same for every kind of broker, and the arithmetic of amounts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from penstock.account.fates import Bounds
from penstock.core.catalogues import read_toml
from penstock.core.table import Positions, Table
from penstock.insight.answers import AccountList, AccountSheet, Amount, NotKnown
from penstock.insight.broker_view import BrokerView, NotFound, json_number
from penstock.insight.formatting import amount_text
from penstock.model import QueueRow
from penstock.series.labels import HIDDEN

MAX_SHEETS = 200
"""Sheets of one answer."""

REASONS = read_toml("penstock.insight", "reasons.toml")
"""Why an amount is no exact number: those of fates by their names."""
EITHER_OF: Sequence[tuple[str, str]] = REASONS["either_of"]
"""Fates that the broker counts as one."""

Amounts = dict[str, Amount]
"""Messages by source, by state or by fate."""
Reasons = dict[str, str]
"""Why amounts are not exact, by their names."""
PossibleLosses = Mapping[tuple[str, str], float | None]
"""Messages that may be lost, at most, by fate and by the reason why that is not known; None: no most is known."""


class SheetMessages(NamedTuple):
    """The messages of a sheet.

    Attributes:
        arrived: by source.
        content: that are there now, by state.
        left: by fate.
        reasons: why amounts are not exact, by their names.
    """

    arrived: Amounts
    content: Amounts
    left: Amounts
    reasons: Reasons


class SheetMaker:
    """Makes the sheets of one broker's account.

    Attributes:
        shown: positions of the queues that have sheets.
    """

    def __init__(self, view: BrokerView, queues: Table[QueueRow]) -> None:
        self._view = view
        self._snapshot = view.snapshot
        self._judgement = view.state.judgement
        self._queues = queues
        self._rows = queues.index.rows
        series = view.state.queues.grouping.member
        count = min(len(queues), len(series))
        is_shown = series[:count] != HIDDEN
        self.shown: list[int] = np.flatnonzero(is_shown).tolist()

    def named(self, name: str) -> list[int]:
        """Positions of the shown queues that have this name, or are of the address with this name."""
        return [
            queue
            for queue in self.shown
            if name in (self._rows[queue].name, self._rows[queue].address)
        ]

    def missing(self, kind: str, name: str, others: Iterable[str] = ()) -> NotFound:
        """The error for a name that no queue and no address has. others: further names that there are."""
        names: list[str] = []
        for queue in self.shown:
            row = self._rows[queue]
            names += [row.name, row.address]
        names += others
        return self._view.missing(kind, name, names, "addresses and queues")

    def listed(
        self,
        sheets: list[AccountSheet],
        total: int,
        unknown: Sequence[NotKnown] = (),
    ) -> AccountList:
        """The answer with these sheets.

        Args:
            sheets: at most `MAX_SHEETS`.
            total: how many sheets there are.
            unknown: what else may be lost.
        """
        return AccountList(
            self._view.policy.broker,
            round(self._snapshot.stamp, 3),
            sheets,
            total,
            list(unknown),
        )

    def _sheet(
        self, address: str, messages: SheetMessages, total: str, since: float = np.nan
    ) -> AccountSheet:
        """A sheet of an address, without what only a queue has.

        Args:
            address: its name.
            messages: all that came to it, with their whereabouts.
            total: the arithmetic.
            since: when the account began, by the broker's clock; NaN where that is not known.
        """
        begun = self._begun(since)
        return AccountSheet(
            broker=self._view.policy.broker,
            address=address,
            queue="",
            since=begun,
            came=messages.arrived,
            there=messages.content,
            left=messages.left,
            lost_by={},
            delivering={},
            buffered={},
            given_back=None,
            unexplained=0,
            reasons=messages.reasons,
            sums=total,
        )

    def _begun(self, since: float) -> float | None:
        """The begin of an account by the agent's clock. since: by the broker's clock."""
        if np.isnan(since):
            return None
        return round(float(since - self._view.state.clock.applied), 3)

    def _consumers_of(self, queue: int) -> Positions:
        """Positions of the consumers of the queue in the snapshot."""
        key = self._queues.index.keys[queue]
        return np.flatnonzero(self._snapshot.consumer_queue == key)

    def _buffered(self, queue: int) -> Amounts:
        """Messages of the queue that each client has got and not acknowledged, by client."""
        consumers = self._snapshot.consumers
        if consumers is None:
            return {}
        positions = self._consumers_of(queue)
        buffered = np.nan_to_num(consumers["buffered"][positions])
        by_client = Counter[str]()
        for row, messages in zip(
            consumers.index.rows[positions], buffered, strict=True
        ):
            by_client[row.client] += messages
        return {
            client: json_number(messages)
            for client, messages in sorted(by_client.items())
            if messages
        }


# --- amounts


def amount(low: float, high: float) -> Amount:
    """A number where both bounds agree, else both; None where nothing is known."""
    least = json_number(low)
    most = json_number(high)
    if least is None or np.isnan(high):
        return None
    if most is None and least == 0:
        return None
    return least if least == most else (least, most)


def amount_at(bounds: Bounds, row: int) -> Amount:
    """The amount of one row of these columns."""
    low, high = bounds
    return amount(float(low[row]), float(high[row]))


def exact(value: Amount) -> bool:
    """Whether the amount is known exactly."""
    return isinstance(value, int | float)


def sum_of_exact(amounts: Iterable[Amount]) -> int | float:
    """The sum of those amounts that are known exactly."""
    return sum(value for value in amounts if isinstance(value, int | float))


def why_inexact(name: str, value: Amount, why: str) -> Reasons:
    """The reason `why`, by `name`; empty where the amount is an exact number."""
    return {} if exact(value) else {name: why}


def together_by_reason(places: Iterable[PossibleLosses]) -> list[NotKnown]:
    """Sum up, over all places, the messages that may have the same fate for the same reason.

    Args:
        places: of each queue or address what may be lost there.
    """
    place_count = Counter[tuple[str, str]]()
    most = dict[tuple[str, str], float | None]()
    for place in places:
        for key, messages in place.items():
            place_count[key] += 1
            before = most.get(key, 0.0)
            if before is None or messages is None:
                most[key] = None
            else:
                most[key] = before + messages
    return [
        NotKnown(
            fate,
            place_count[fate, reason],
            None if messages is None else json_number(messages),
            reason,
        )
        for (fate, reason), messages in sorted(most.items())
    ]


# --- the arithmetic of a sheet in words


def sums(
    arrived: Amounts,
    content: Amounts,
    left: Amounts,
    gap: Amount,
) -> str:
    """The arithmetic of a queue's sheet, as "5 added = 2 ready + 3 acknowledged".

    Args:
        arrived: messages by source.
        content: that are there now, by state.
        left: by fate.
        gap: messages that nothing explains.
    """
    unexplained: Amounts = {"unexplained": gap} if gap else {}
    parts = [terms(content), terms(together(left)), terms(unexplained)]
    right = " + ".join(part for part in parts if part)
    return f"{terms(arrived) or '0'} = {right or '0'}"


def terms(amounts: Amounts) -> str:
    """The amounts that are not 0 with their names, as a sum."""
    return " + ".join(
        f"{amount_text(value)} {name.replace('_', ' ')}"
        for name, value in amounts.items()
        if value != 0
    )


def together(left: Amounts) -> Amounts:
    """The amounts, with two fates in one term where the broker counts both as one and does not show which it was."""
    merged = dict(left)
    for fate, other_fate in EITHER_OF:
        bounds = left.get(fate)
        other_bounds = left.get(other_fate)
        if not isinstance(bounds, tuple) or not isinstance(other_bounds, tuple):
            continue
        least = bounds[0]
        other_most = other_bounds[1]
        if other_most is not None:
            merged[fate] = 0
            merged[other_fate] = 0
            merged[f"{fate} or {other_fate}"] = least + other_most
    return merged
