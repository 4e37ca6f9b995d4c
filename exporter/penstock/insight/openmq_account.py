"""The account of an OpenMQ broker as sheets: of queues and subscriptions, and of topics before their subscriptions."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from penstock.account.fates import Bounds
from penstock.account.openmq import lost, queue_fates, topic_fates
from penstock.account.openmq_books import LEFT, REFUSED, DestinationBooks
from penstock.core.table import Table
from penstock.insight.account import MAX_SHEETS, amount, exact, sums
from penstock.insight.answers import AccountList, AccountSheet, Amount
from penstock.insight.explain import BrokerView, NotFound, json_number, near
from penstock.model import QueueKind, QueueRow, Snapshot
from penstock.observation.facts import JUDGED
from penstock.series.labels import HIDDEN

SOURCES = "others discarded messages at the same time, and the dead message queue counts only their sum"
SHORT_LIVED = "clients that no poll saw may have settled them"
REASONS: Mapping[str, str] = {
    "removed": "the limit also removes what a client holds and acknowledges later, which has no counter",
    "rolled_back": SHORT_LIVED,
    "purged": SHORT_LIVED,
    "dead_lettered": SOURCES,
    "expired": SOURCES,
    "rejected": "some were larger than MaxBytesPerMsg or had expired when they came, or were not",
    "too_large": "some were refused at the limit or had expired when they came, or were not",
    "unwanted": "a producer went, or producers could not be read, and what was sent then is not known",
    "acknowledged": "some may have left for the other reasons",
    "in_doubt": "transactions do not say of which destination they received, or could not be read",
    "unheld": "some may be of transactions, which do not say of which destination they received or could not be read",
}
THERE = ("scheduled", "delivering", "uncommitted")
OVERFLOW = "dead letters lost as it was full; or consumers, a purge or acknowledges of removed messages took them"
AGAIN = "a subscription has no counter of what came: a message that is delivered again counts again"
OF_TOPIC = "by all that had a message, or it left with the last subscription that still had it"


def openmq_account_list(view: BrokerView, queues: Table[QueueRow], name: str) -> AccountList:
    """As `account.account_list`."""
    sheets = OpenmqSheets(view, queues)
    rows, topics = queues.index.rows, sheets.topics
    names = [text for i in sheets.shown for text in (rows[i].name, rows[i].address)] + list(topics)
    if name and name not in names:
        raise NotFound(
            f"broker {view.policy.broker} has no address or queue {name!r}", near(name, names, "addresses and queues")
        )
    losing = [i for i in sheets.shown if sheets.lost[i] > 0 and rows[i].kind in JUDGED]
    of_queues = [i for i in sheets.shown if name in (rows[i].name, rows[i].address)] if name else losing
    of_topics = [i for topic, i in topics.items() if (name == topic if name else sheets.topics_lost[i] > 0)]
    made = [sheets.of_topic(i) for i in of_topics[:MAX_SHEETS]] + [sheets.of_queue(i) for i in of_queues[:MAX_SHEETS]]
    made.sort(key=lambda sheet: (sheet.address, sheet.queue))
    total = len(of_queues) + len(of_topics)
    return AccountList(view.policy.broker, round(view.snapshot.stamp, 3), made[:MAX_SHEETS], total)


class OpenmqSheets:
    """Makes the sheets of one poll."""

    def __init__(self, view: BrokerView, queues: Table[QueueRow]) -> None:
        self._view, self._queues, self._account = view, queues, view.state.judgement.openmq_account
        self._fates, self._topic_fates = queue_fates(self._account, queues), topic_fates(self._account)
        self.lost, self.topics_lost = lost(self._fates), lost(self._topic_fates)
        topics = enumerate(self._account.topics.index)
        self.topics: dict[str, int] = {row.name: i for i, row in topics if not row.name.startswith("mq.")}
        member = view.state.queues.grouping.member
        self.shown: list[int] = [i for i in range(len(queues)) if i < len(member) and member[i] != HIDDEN]

    def of_queue(self, i: int) -> AccountSheet:
        row, books = self._queues.index.rows[i], self._account.queues
        numbers = {name: float(np.nan_to_num(self._queues[name][i])) for name in ("messages", *THERE, "removed")}
        content, subscription = numbers["messages"], row.kind is QueueKind.SUBSCRIPTION
        ready = content - numbers["scheduled"] - numbers["delivering"]
        names = THERE[:2] if subscription else THERE
        there: dict[str, Amount] = {"ready": json_number(ready)}
        there |= {name: json_number(numbers[name]) for name in names}
        if subscription:
            left: dict[str, Amount] = {"acknowledged": json_number(numbers["removed"])}
            came: dict[str, Amount] = {"added": json_number(numbers["removed"] + content)}
            sheet = self._sheet(None, -1, row.address, came, there, left, {"added": AGAIN})
        else:
            left, reasons = amounts(self._fates, i, ("acknowledged", *LEFT, *REFUSED))
            if row.kind is QueueKind.DEAD_LETTER and "removed" in reasons:
                reasons["removed"] = OVERFLOW
            if books.unseen[i]:
                unseen = f"{books.unseen[i]:,.0f} of them settled by clients that no poll saw"
                reasons["acknowledged"] = "; ".join((*filter(None, [reasons.get("acknowledged")]), unseen))
            sheet = self._sheet(books, i, row.address, came_to(books, i), there, left, reasons)
        by_client = buffered(self._view.snapshot, self._queues, i)
        delivering = self._in_delivery(i, by_client)
        unsure = {name: REASONS[name] for name, value in delivering.items() if not exact(value)}
        return replace(sheet, queue=row.name, buffered=by_client, delivering=delivering, reasons=sheet.reasons | unsure)

    def of_topic(self, i: int) -> AccountSheet:
        books = self._account.topics
        left, reasons = amounts(
            self._topic_fates, i, ("acknowledged", "removed", "dead_lettered", *REFUSED, "unwanted")
        )
        came = came_to(books, i)
        if left["unwanted"] != 0:
            came["unwanted"] = left["unwanted"]  # which the topic does not count
        there: dict[str, Amount] = {"there": json_number(books.content[i])}
        name, reasons = books.index.rows[i].name, {"acknowledged": OF_TOPIC, **reasons}
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
        since, gap = (np.nan, 0) if books is None else (books.since[i], json_number(books.unexplained[i]))
        begun = None if np.isnan(since) else round(float(since - self._view.state.clock.applied), 3)
        return AccountSheet(
            self._view.policy.broker, address, "", begun, came, there, left, {}, {}, {}, None, gap, reasons,
            sums(came, there, left, gap),
        )  # fmt: skip

    def _in_delivery(self, i: int, by_client: Mapping[str, Amount]) -> dict[str, Amount]:
        state, addresses = self._view.state.judgement.openmq, self._view.snapshot.addresses
        if state.queues.index is not self._queues.index:
            return {}
        held = sum(one for one in by_client.values() if isinstance(one, int | float))
        prepared, alone = state.prepared, float(state.queues.with_nobody[i])
        # Of what other queues may have at most, and topics, which do not say what their consumers have of it.
        others = np.maximum(np.delete(state.queues.unheld, i, axis=1).max(axis=0), 0.0).sum()
        others += np.inf if addresses is None else np.nansum(addresses["delivering"][addresses["topic"] > 0])
        high = min(alone, prepared.in_doubt)
        low = min(float(np.fmax(prepared.abandoned - others, 0.0)), high)
        found: dict[str, Amount] = {"buffered": held, "unheld": amount(alone - high, alone - low)}
        if alone > 0 and prepared.received != prepared.in_doubt:  # others are open, or it is not known
            found["unheld"] = None
        if high > 0 or (alone > 0 and np.isnan(prepared.received)):
            found["in_doubt"] = None if np.isnan(prepared.received) else amount(low, high)
        if state.queues.stale[i] > 0:
            found["removed_while_held"] = json_number(state.queues.stale[i])
        return found if any(value != 0 for value in found.values()) else {}


def buffered(snapshot: Snapshot, queues: Table[QueueRow], i: int) -> dict[str, Amount]:
    """By client: what was sent to it and it has not acknowledged."""
    consumers, by_client = snapshot.consumers, Counter[str]()
    if consumers is not None:
        for at in np.flatnonzero(snapshot.consumer_queue == queues.index.keys[i]).tolist():
            by_client[consumers.index.rows[at].client] += np.nan_to_num(consumers["buffered"][at])
    return {client: json_number(number) for client, number in sorted(by_client.items()) if number}


def amounts(fates: Mapping[str, Bounds], i: int, names: tuple[str, ...]) -> tuple[dict[str, Amount], dict[str, str]]:
    """Those fates of a row, and why some of them are not exact."""
    left = {name: amount(*(float(bound[i]) for bound in fates[name])) for name in names}
    return left, {name: REASONS[name] for name, value in left.items() if not exact(value)}


def came_to(books: DestinationBooks, i: int) -> dict[str, Amount]:
    came: dict[str, Amount] = {"at_start": json_number(books.opening[i]), "added": json_number(books.came[i])}
    return came | ({"restarts": json_number(books.adjusted[i])} if books.adjusted[i] else {})
