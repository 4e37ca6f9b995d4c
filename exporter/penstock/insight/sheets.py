"""The sheets of a broker's account, by its kind; those of OpenMQ are made here: of queues and subscriptions, and of
topics before their subscriptions.
"""

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from penstock.account.fates import Bounds
from penstock.account.openmq import possibly_lost, queue_fates, topic_fates
from penstock.account.openmq_books import (
    LEFT,
    REFUSED,
    UNACKNOWLEDGED,
    UNTRACED,
    DestinationBooks,
)
from penstock.account.openmq_books import REASONS as BOOKED
from penstock.core.table import Table
from penstock.insight.account import (
    MAX_SHEETS,
    REASONS,
    SheetMaker,
    account_list,
    amount,
    exact,
    sums,
)
from penstock.insight.answers import AccountList, AccountSheet, Amount
from penstock.insight.explain import BrokerView, NotFound, json_number
from penstock.insight.sum_check import READY, content_that_adds_up
from penstock.model import QueueKind, QueueRow
from penstock.observation.facts import JUDGED

WHY: Mapping[str, str] = REASONS["openmq"]
FATES: Mapping[str, str] = REASONS["openmq_fates"]
THERE = ("scheduled", "delivering", "uncommitted")


def sheets(view: BrokerView, name: str) -> AccountList:
    """Of the queues and addresses of this name; of all with losses when empty. NotFound: there is none."""
    account = view.state.judgement.openmq_account
    queues = view.snapshot.queues
    if queues is not None and account.watched and account.queues.index is queues.index:
        return openmq_account_list(view, queues, name)
    return account_list(view, name)


def sheets_of(view: BrokerView, address: str, queue: str) -> list[AccountSheet]:
    """Of one queue, and of its address; empty where there is no account."""
    try:
        found = [
            one
            for name in dict.fromkeys((queue, address))
            for one in sheets(view, name).rows
        ]
    except NotFound:
        return []
    ours = [one for one in found if one.address == address]
    return [one for one in ours if one.queue == queue][:1] + [
        one for one in ours if not one.queue
    ][:1]


def openmq_account_list(
    view: BrokerView, queues: Table[QueueRow], name: str
) -> AccountList:
    """As `account.account_list`."""
    sheets = OpenmqSheets(view, queues)
    if name:
        of_queues = sheets.named(name)
        of_topics = [i for topic, i in sheets.topics.items() if name == topic]
        if not of_queues and not of_topics:
            raise sheets.missing("address or queue", name, sheets.topics)
    else:
        rows = queues.index.rows
        of_queues = [
            i for i in sheets.shown if sheets.may_lose[i] and rows[i].kind in JUDGED
        ]
        of_topics = [i for i in sheets.topics.values() if sheets.topics_may_lose[i]]
    made = [sheets.of_topic(i) for i in of_topics[:MAX_SHEETS]] + [
        sheets.of_queue(i) for i in of_queues[:MAX_SHEETS]
    ]
    made.sort(key=lambda sheet: (sheet.address, sheet.queue))
    return sheets.listed(made[:MAX_SHEETS], len(of_queues) + len(of_topics))


class OpenmqSheets(SheetMaker):
    def __init__(self, view: BrokerView, queues: Table[QueueRow]) -> None:
        super().__init__(view, queues)
        self._account = view.state.judgement.openmq_account
        self._fates, self._topic_fates = (
            queue_fates(self._account, queues),
            topic_fates(self._account),
        )
        self.may_lose = possibly_lost(self._fates)
        self.topics_may_lose = possibly_lost(self._topic_fates)
        topics = enumerate(self._account.topics.index)
        self.topics: dict[str, int] = {
            row.name: i for i, row in topics if not row.name.startswith("mq.")
        }

    def of_queue(self, i: int) -> AccountSheet:
        row = self._queues.index.rows[i]
        books = self._account.queues
        numbers = {
            name: float(np.nan_to_num(self._queues[name][i]))
            for name in ("messages", *THERE, "removed")
        }
        content = numbers["messages"]
        subscription = row.kind is QueueKind.SUBSCRIPTION
        ready = content - numbers["scheduled"] - numbers["delivering"]
        names = THERE[:2] if subscription else THERE
        there: dict[str, Amount] = {"ready": json_number(ready)}
        there |= {name: json_number(numbers[name]) for name in names}
        if subscription:
            left: dict[str, Amount] = {"acknowledged": json_number(numbers["removed"])}
            came: dict[str, Amount] = {
                "added": json_number(numbers["removed"] + content)
            }
            sheet = self._sheet(
                None, -1, row.address, came, there, left, {"added": WHY["again"]}
            )
        else:
            left, reasons = amounts(
                self._fates, i, ("acknowledged", *LEFT, UNACKNOWLEDGED, *REFUSED)
            )
            if row.kind is QueueKind.DEAD_LETTER and "removed" in reasons:
                reasons["removed"] = WHY["overflow"]
            reasons |= why_left(books, i)
            sheet = self._sheet(
                books, i, row.address, came_to(books, i), there, left, reasons
            )
        by_client = self._buffered(i)
        delivering = self._in_delivery(i, by_client)
        unsure = {
            name: FATES[name] for name, value in delivering.items() if not exact(value)
        }
        return replace(
            sheet,
            queue=row.name,
            buffered=by_client,
            delivering=delivering,
            reasons=sheet.reasons | unsure,
        )

    def of_topic(self, i: int) -> AccountSheet:
        books = self._account.topics
        left, reasons = amounts(
            self._topic_fates,
            i,
            ("acknowledged", "removed", "dead_lettered", *REFUSED, "unwanted"),
        )
        came = came_to(books, i)
        if left["unwanted"] != 0:
            came["unwanted"] = left["unwanted"]  # which the topic does not count
        there: dict[str, Amount] = {"there": json_number(books.content[i])}
        name = books.index.rows[i].name
        reasons = {"acknowledged": WHY["of_topic"], **reasons}
        reasons |= why_left(books, i)
        return self._sheet(books, i, name, came, there, left, reasons)

    def _sheet(
        self,
        books: DestinationBooks | None,
        i: int,
        address: str,
        came: dict[str, Amount],
        there: dict[str, Amount],
        left: dict[str, Amount],
        reasons: dict[str, str],
    ) -> AccountSheet:
        """books: that know since when it is, and what is unexplained."""
        since, gap = (
            (np.nan, 0)
            if books is None
            else (books.since[i], json_number(books.unexplained[i]))
        )
        believed, why_not_ready = content_that_adds_up(came, there, left)
        if why_not_ready:
            reasons = {**reasons, READY: why_not_ready}
        terms = left if books is None else one_term_for_all_unsure(books, i, left)
        return AccountSheet(
            self._view.policy.broker, address, "", self._begun(since), came, believed, left, {}, {}, {}, None, gap,
            reasons, sums(came, believed, terms, gap),
        )  # fmt: skip

    def _in_delivery(
        self, i: int, by_client: Mapping[str, Amount]
    ) -> dict[str, Amount]:
        state = self._view.state.judgement.openmq
        addresses = self._view.snapshot.addresses
        if state.queues.index is not self._queues.index:
            return {}
        held = sum(one for one in by_client.values() if isinstance(one, int | float))
        prepared = state.prepared
        alone = float(state.queues.with_nobody[i])
        # Of what other queues may have at most, and topics, which do not say what their consumers have of it.
        others = np.maximum(
            np.delete(state.queues.unheld, i, axis=1).max(axis=0), 0.0
        ).sum()
        others += (
            np.inf
            if addresses is None
            else np.nansum(addresses["delivering"][addresses["topic"] > 0])
        )
        high = min(alone, prepared.in_doubt)
        low = min(float(np.fmax(prepared.abandoned - others, 0.0)), high)
        found: dict[str, Amount] = {
            "buffered": held,
            "unheld": amount(alone - high, alone - low),
        }
        if (
            alone > 0 and prepared.received != prepared.in_doubt
        ):  # others are open, or it is not known
            found["unheld"] = None
        if high > 0 or (alone > 0 and np.isnan(prepared.received)):
            found["in_doubt"] = (
                None if np.isnan(prepared.received) else amount(low, high)
            )
        if state.queues.stale[i] > 0:
            found["removed_while_held"] = json_number(state.queues.stale[i])
        return found if any(value != 0 for value in found.values()) else {}


def amounts(
    fates: Mapping[str, Bounds], i: int, names: tuple[str, ...]
) -> tuple[dict[str, Amount], dict[str, str]]:
    """Those fates of a row, and why some of them are not exact."""
    left = {name: amount(*(float(bound[i]) for bound in fates[name])) for name in names}
    return left, {name: FATES[name] for name, value in left.items() if not exact(value)}


def why_left(books: DestinationBooks, i: int) -> dict[str, str]:
    """Why it is not known how messages left, where that has a reason other than those of each fate."""
    if not is_untraced(books, i):
        return {}
    why = WHY["unset"] if books.undecided[i] > 0 else WHY["untraced"]
    return {"acknowledged": why, "expired": why}


def is_untraced(books: DestinationBooks, i: int) -> bool:
    """Whether messages left that expired or were acknowledged, and no number shows which."""
    return bool(books.more[BOOKED.index(UNTRACED)][i] > 0 or books.undecided[i] > 0)


def one_term_for_all_unsure(
    books: DestinationBooks, i: int, left: Mapping[str, Amount]
) -> Mapping[str, Amount]:
    """With the fates of which only bounds are known in one term, whose number is known: OpenMQ counts them as one.

    "0 to 5 acknowledged" and "0 to 5 expired" become "5 acknowledged or expired".
    """
    expired = ("expired",)
    untraced = is_untraced(books, i)
    of_what_left = (
        "acknowledged",
        *LEFT,
        UNACKNOWLEDGED,
        *(expired if untraced else ()),
    )
    of_what_never_was_in_it = tuple(
        name for name in REFUSED if not (untraced and name in expired)
    )
    terms = with_one_term(left, of_what_left, float(books.gone[i]))
    return with_one_term(
        terms, of_what_never_was_in_it, float(books.apart[i] + books.seen_once[i])
    )


def with_one_term(
    left: Mapping[str, Amount], counted_as_one: tuple[str, ...], total: float
) -> Mapping[str, Amount]:
    """`left` with those of these fates in one term that have bounds. total: messages of all of them."""
    unsure = [name for name in counted_as_one if isinstance(left.get(name), tuple)]
    if len(unsure) < 2:
        return left
    known = sum(
        value
        for name in counted_as_one
        if isinstance(value := left.get(name), int | float)
    )
    *others, last = (name.replace("_", " ") for name in unsure)
    text = f"{', '.join(others)} or {last}"
    return {
        **{name: value for name, value in left.items() if name not in unsure},
        text: json_number(total - known),
    }


def came_to(books: DestinationBooks, i: int) -> dict[str, Amount]:
    came: dict[str, Amount] = {
        "at_start": json_number(books.opening[i]),
        "added": json_number(books.came[i]),
    }
    return came | (
        {"restarts": json_number(books.adjusted[i])} if books.adjusted[i] else {}
    )
