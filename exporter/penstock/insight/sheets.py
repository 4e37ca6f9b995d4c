"""The sheets of a broker's account, by its kind; those of OpenMQ are made here: of queues and subscriptions, and of
topics before their subscriptions.
"""

from collections.abc import Mapping, Sequence

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
from penstock.insight.account import account_list
from penstock.insight.answers import AccountList, AccountSheet
from penstock.insight.broker_view import BrokerView, NotFound, json_number
from penstock.insight.sheet_maker import (
    MAX_SHEETS,
    REASONS,
    Amounts,
    Reasons,
    SheetMaker,
    SheetMessages,
    amount,
    amount_at,
    exact,
    sum_of_exact,
    sums,
)
from penstock.insight.sum_check import READY, content_that_adds_up
from penstock.model import QueueKind, QueueRow
from penstock.observation.facts import JUDGED

WHY: Mapping[str, str] = REASONS["openmq"]
FATES: Mapping[str, str] = REASONS["openmq_fates"]
THERE = ("scheduled", "delivering", "uncommitted")
"""States of messages in a queue beside `READY`."""
FATES_IN_QUEUE = ("acknowledged", *LEFT, UNACKNOWLEDGED, *REFUSED)
FATES_IN_TOPIC = ("acknowledged", "removed", "dead_lettered", *REFUSED, "unwanted")


def sheets(view: BrokerView, name: str) -> AccountList:
    """The sheets of the queues and addresses of this name; of all with losses where it is empty.

    Raises NotFound where the broker has no account, or nothing of this name.
    """
    account = view.state.judgement.openmq_account
    queues = view.snapshot.queues
    if queues is not None and account.watched and account.queues.index is queues.index:
        return openmq_account_list(view, queues, name)
    return account_list(view, name)


def sheets_of(view: BrokerView, address: str, queue: str) -> list[AccountSheet]:
    """The sheet of one queue, and that of its address; empty where there is no account."""
    try:
        by_queue_name = sheets(view, queue).rows
        by_address_name = sheets(view, address).rows if address != queue else []
    except NotFound:
        return []
    of_address = [
        sheet
        for sheet in (*by_queue_name, *by_address_name)
        if sheet.address == address
    ]
    of_queue = [sheet for sheet in of_address if sheet.queue == queue]
    before_queues = [sheet for sheet in of_address if not sheet.queue]
    return of_queue[:1] + before_queues[:1]


def openmq_account_list(
    view: BrokerView, queues: Table[QueueRow], name: str
) -> AccountList:
    """The sheets of an OpenMQ broker, as `account.account_list`."""
    maker = OpenmqSheets(view, queues)
    if name:
        chosen_queues = maker.named(name)
        chosen_topics = [i for topic, i in maker.topics.items() if topic == name]
        if not chosen_queues and not chosen_topics:
            raise maker.missing("address or queue", name, maker.topics)
    else:
        chosen_queues = maker.losing_queues()
        chosen_topics = maker.losing_topics()
    rows = [maker.of_topic(topic) for topic in chosen_topics[:MAX_SHEETS]]
    rows += [maker.of_queue(queue) for queue in chosen_queues[:MAX_SHEETS]]
    rows.sort(key=lambda sheet: (sheet.address, sheet.queue))
    total = len(chosen_queues) + len(chosen_topics)
    return maker.listed(rows[:MAX_SHEETS], total)


class OpenmqSheets(SheetMaker):
    """Makes the sheets of an OpenMQ broker.

    Attributes:
        topics: positions of the topics in their books, by name.
    """

    def __init__(self, view: BrokerView, queues: Table[QueueRow]) -> None:
        super().__init__(view, queues)
        self._account = view.state.judgement.openmq_account
        self._fates = queue_fates(self._account, queues)
        self._topic_fates = topic_fates(self._account)
        self._may_lose = possibly_lost(self._fates)
        self._topic_may_lose = possibly_lost(self._topic_fates)
        self.topics: dict[str, int] = {
            row.name: i
            for i, row in enumerate(self._account.topics.index)
            if not row.name.startswith("mq.")
        }

    def losing_queues(self) -> list[int]:
        """Positions of the queues that lost messages, or may have."""
        return [
            queue
            for queue in self.shown
            if self._may_lose[queue] and self._rows[queue].kind in JUDGED
        ]

    def losing_topics(self) -> list[int]:
        """Positions of the topics that lost messages, or may have."""
        return [topic for topic in self.topics.values() if self._topic_may_lose[topic]]

    def of_queue(self, queue: int) -> AccountSheet:
        """The sheet of a queue or a subscription. queue: its position."""
        row = self._rows[queue]
        sheet = (
            self._sheet_of_subscription(queue)
            if row.kind is QueueKind.SUBSCRIPTION
            else self._sheet_of_queue(queue)
        )
        buffered = self._buffered(queue)
        delivering = self._in_delivery(queue, buffered)
        return replace(
            sheet,
            queue=row.name,
            buffered=buffered,
            delivering=delivering,
            reasons=sheet.reasons | why_not_exact(delivering),
        )

    def _sheet_of_subscription(self, queue: int) -> AccountSheet:
        """The sheet of a subscription, which has no books: the broker counts the messages that left it."""
        removed = self._number("removed", queue)
        messages = checked(
            SheetMessages(
                arrived={
                    "added": json_number(removed + self._number("messages", queue))
                },
                content=self._content(queue, THERE[:2]),
                left={"acknowledged": json_number(removed)},
                reasons={"added": WHY["again"]},
            )
        )
        total = sums(messages.arrived, messages.content, messages.left, 0)
        return self._sheet(self._rows[queue].address, messages, total)

    def _sheet_of_queue(self, queue: int) -> AccountSheet:
        """The sheet of a queue by its books."""
        books = self._account.queues
        row = self._rows[queue]
        left = amounts(self._fates, queue, FATES_IN_QUEUE)
        reasons = why_not_exact(left)
        if row.kind is QueueKind.DEAD_LETTER and "removed" in reasons:
            reasons["removed"] = WHY["overflow"]
        reasons |= why_left(books, queue)
        content = self._content(queue, THERE)
        messages = SheetMessages(arrived_at(books, queue), content, left, reasons)
        return self._booked_sheet(row.address, books, queue, messages)

    def _content(self, queue: int, states: tuple[str, ...]) -> Amounts:
        """The messages in the queue: the ready ones, and those in these states."""
        messages = self._number("messages", queue)
        scheduled = self._number("scheduled", queue)
        delivering = self._number("delivering", queue)
        content: Amounts = {READY: json_number(messages - scheduled - delivering)}
        for state in states:
            content[state] = json_number(self._number(state, queue))
        return content

    def _number(self, name: str, queue: int) -> float:
        """A number of the queue at the last poll; 0 where it is not known."""
        number = self._queues[name][queue]
        return float(np.nan_to_num(number))

    def of_topic(self, topic: int) -> AccountSheet:
        """The sheet of a topic before its subscriptions. topic: its position in the books."""
        books = self._account.topics
        left = amounts(self._topic_fates, topic, FATES_IN_TOPIC)
        arrived = arrived_at(books, topic)
        if left["unwanted"] != 0:
            # The topic does not count these among the messages that came.
            arrived["unwanted"] = left["unwanted"]
        messages_there = json_number(books.content[topic])
        content: Amounts = {"there": messages_there}
        reasons = {
            "acknowledged": WHY["of_topic"],
            **why_not_exact(left),
            **why_left(books, topic),
        }
        messages = SheetMessages(arrived, content, left, reasons)
        return self._booked_sheet(books.index.rows[topic].name, books, topic, messages)

    def _booked_sheet(
        self, address: str, books: DestinationBooks, row: int, messages: SheetMessages
    ) -> AccountSheet:
        """The sheet of a destination that has books. row: its position in them."""
        messages = checked(messages)
        unexplained = json_number(books.unexplained[row])
        left = one_term_for_all_unsure(books, row, messages.left)
        total = sums(messages.arrived, messages.content, left, unexplained)
        sheet = self._sheet(address, messages, total, books.since[row])
        return replace(sheet, unexplained=unexplained)

    # --- messages in delivery

    def _in_delivery(self, queue: int, by_client: Amounts) -> Amounts:
        """The messages in delivery, by state; empty where there are none.

        Args:
            queue: its position.
            by_client: messages that each client buffers.
        """
        numbers = self._judgement.openmq.queues
        if numbers.index is not self._queues.index:
            return {}
        by_state: Amounts = {"buffered": sum_of_exact(by_client.values())}
        by_state |= self._of_no_consumer(queue)
        removed = numbers.stale[queue]
        if removed > 0:
            by_state["removed_while_held"] = json_number(removed)
        is_empty = all(messages == 0 for messages in by_state.values())
        return {} if is_empty else by_state

    def _of_no_consumer(self, queue: int) -> Amounts:
        """The messages in delivery that no consumer buffers: `in_doubt` in prepared transactions, else `unheld`."""
        prepared = self._judgement.openmq.prepared
        total = float(self._judgement.openmq.queues.with_nobody[queue])
        most_in_doubt = min(total, prepared.in_doubt)
        # Messages of transactions without a client, less those that may be on other queues.
        abandoned_here = prepared.abandoned - self._most_unheld_elsewhere(queue)
        least_abandoned = float(np.fmax(abandoned_here, 0.0))
        least_in_doubt = min(least_abandoned, most_in_doubt)
        is_unread = np.isnan(prepared.received)
        # A transaction that is still open, or may be, has messages that count as unheld, too.
        is_hidden = total > 0 and prepared.received != prepared.in_doubt
        unheld = amount(total - most_in_doubt, total - least_in_doubt)
        by_state: Amounts = {"unheld": None if is_hidden else unheld}
        if most_in_doubt > 0 or (total > 0 and is_unread):
            in_doubt = amount(least_in_doubt, most_in_doubt)
            by_state["in_doubt"] = None if is_unread else in_doubt
        return by_state

    def _most_unheld_elsewhere(self, queue: int) -> float:
        """Messages in delivery that no consumer holds on other queues, at most.

        Topics count with all that they have in delivery: they do not say how much of it their consumers hold. Infinite
        where the addresses were not read.
        """
        unheld = self._judgement.openmq.queues.unheld
        of_other_queues = np.delete(unheld, queue, axis=1).max(axis=0)
        on_queues = np.maximum(of_other_queues, 0.0).sum()
        addresses = self._snapshot.addresses
        if addresses is None:
            return np.inf
        is_topic = addresses["topic"] > 0
        on_topics = np.nansum(addresses["delivering"][is_topic])
        return float(on_queues + on_topics)


def checked(messages: SheetMessages) -> SheetMessages:
    """The messages, without the number of ready ones where the sum of all does not close."""
    arrived, content, left, reasons = messages
    believed, why_not_ready = content_that_adds_up(arrived, content, left)
    if why_not_ready:
        reasons = {**reasons, READY: why_not_ready}
    return SheetMessages(arrived, believed, left, reasons)


def amounts(fates: Mapping[str, Bounds], row: int, names: tuple[str, ...]) -> Amounts:
    """The messages of a row with each of these fates."""
    return {name: amount_at(fates[name], row) for name in names}


def why_not_exact(messages: Amounts) -> Reasons:
    """The reasons why amounts are not exact, by fate or state."""
    inexact = [name for name, value in messages.items() if not exact(value)]
    return {name: FATES[name] for name in inexact}


def why_left(books: DestinationBooks, row: int) -> Reasons:
    """Why it is not known how messages left, where that has a reason other than those of each fate."""
    if not is_untraced(books, row):
        return {}
    is_unset = books.undecided[row] > 0
    why = WHY["unset"] if is_unset else WHY["untraced"]
    return {"acknowledged": why, "expired": why}


def is_untraced(books: DestinationBooks, row: int) -> bool:
    """Whether messages left that expired or were acknowledged, and no number shows which."""
    untraced = books.more[BOOKED.index(UNTRACED)]
    undecided = books.undecided
    if untraced[row] > 0:
        return True
    return bool(undecided[row] > 0)


def one_term_for_all_unsure(
    books: DestinationBooks, row: int, left: Amounts
) -> Amounts:
    """The messages that left, with those fates in one term that have bounds, as OpenMQ has one counter for them.

    "0 to 5 acknowledged" and "0 to 5 expired" become "5 acknowledged or expired". There are two counters: for messages
    that were in the destination, and for those that never were.
    """
    fates_after_entry = ["acknowledged", *LEFT, UNACKNOWLEDGED]
    fates_before_entry = list(REFUSED)
    if is_untraced(books, row):
        fates_after_entry.append("expired")
        fates_before_entry.remove("expired")
    entered = float(books.gone[row])
    never_entered = float(books.apart[row] + books.seen_once[row])
    terms = with_one_term(left, fates_after_entry, entered)
    return with_one_term(terms, fates_before_entry, never_entered)


def with_one_term(left: Amounts, counted_as_one: list[str], total: float) -> Amounts:
    """`left` with those of the fates `counted_as_one` in one term that have bounds.

    Args:
        left: messages by fate.
        counted_as_one: fates that the broker counts as one.
        total: messages with one of these fates.
    """
    unsure = [fate for fate in counted_as_one if isinstance(left.get(fate), tuple)]
    if len(unsure) < 2:
        return left
    exact_sum = sum_of_exact(left.get(fate) for fate in counted_as_one)
    terms = {fate: messages for fate, messages in left.items() if fate not in unsure}
    terms[alternatives(unsure)] = json_number(total - exact_sum)
    return terms


def alternatives(fates: Sequence[str]) -> str:
    """The fates as "acknowledged, removed or expired"."""
    names = [fate.replace("_", " ") for fate in fates]
    first_names = ", ".join(names[:-1])
    return f"{first_names} or {names[-1]}"


def arrived_at(books: DestinationBooks, row: int) -> Amounts:
    """Messages that came to the destination, by source. row: its position in the books."""
    by_source: Amounts = {
        "at_start": json_number(books.opening[row]),
        "added": json_number(books.came[row]),
    }
    if books.adjusted[row]:
        by_source["restarts"] = json_number(books.adjusted[row])
    return by_source
