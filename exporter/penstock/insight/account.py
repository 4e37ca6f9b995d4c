"""The account of an Artemis broker as sheets: of queues, of addresses before their queues, and of clients."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from penstock.account.account import MessageAccount
from penstock.account.address_books import Missing
from penstock.account.fates import (
    QUEUE_FATES,
    UNCOMMITTED,
    Bounds,
    FateOutcome,
    address_fates,
    kept_elsewhere,
    outcome_of,
    polled_fates,
    queue_fates,
)
from penstock.account.ring_losses import Loss
from penstock.core.table import Column, Table
from penstock.insight.answers import AccountList, AccountSheet, Amount
from penstock.insight.broker_view import BrokerView, NotFound, json_number
from penstock.insight.formatting import amount_text
from penstock.insight.sheet_maker import (
    MAX_SHEETS,
    REASONS,
    Amounts,
    PossibleLosses,
    Reasons,
    SheetMaker,
    SheetMessages,
    amount,
    amount_at,
    exact,
    sum_of_exact,
    sums,
    together_by_reason,
    why_inexact,
)
from penstock.insight.sum_check import READY, content_that_adds_up
from penstock.model import ANONYMOUS, QueueRow
from penstock.observation.facts import JUDGED
from penstock.series.labels import HIDDEN

NO_ACCOUNT = "broker {} has no account: it is made of polls of an active broker with queues and consumers"

WHY: Mapping[str, str] = REASONS["artemis"]
FATES: Mapping[str, str] = REASONS["artemis_fates"]
UNNAMED = "(not known)"
"""Clients that made a ring evict and are not known by name."""
WHY_IN_DELIVERY = {
    "by_link": ("beyond", "unheld"),
    "unheld": ("beyond", "unheld"),
    "in_doubt": ("uncounted", "committing"),
}
"""By state of messages in delivery: why nothing is known of their number, and why only bounds are."""
BOOKED_FATES = ("dropped", "rejected", "unwanted", "rolled_back", "missing")
"""Fates of messages that an address routed and none of its queues got."""


def account_list(view: BrokerView, name: str) -> AccountList:
    """The sheets of the queues and addresses of this name; of all with losses where it is empty.

    Raises NotFound where the broker has no account, or nothing of this name.
    """
    account = view.state.judgement.account
    queues = view.snapshot.queues
    if queues is None or not account.watched or account.books.index is not queues.index:
        raise NotFound(
            NO_ACCOUNT.format(view.policy.broker), "see penstock check, and poll again"
        )
    sheets = Sheets(view, account, queues)
    return sheets.of_name(name) if name else sheets.of_all_losses()


class Delivery(NamedTuple):
    """Messages of a queue that are in delivery, by state; and those that consumers buffer, by client."""

    by_state: Amounts
    buffered: Amounts


class ClientNumbers(NamedTuple):
    """Messages of a client's consumers on all queues. acknowledged: also uncommitted."""

    delivered: float
    acknowledged: float
    buffered: float
    uncommitted: float

    @property
    def committed(self) -> float:
        """Messages that are acknowledged and committed."""
        return self.acknowledged - self.uncommitted

    @property
    def returned(self) -> float:
        """Messages that were delivered and are neither acknowledged nor buffered."""
        not_acknowledged = self.delivered - self.acknowledged
        return max(0.0, not_acknowledged - self.buffered)


class Sheets(SheetMaker):
    """Makes the sheets of an Artemis broker; `queue` is always the position of a queue."""

    def __init__(
        self, view: BrokerView, account: MessageAccount, queues: Table[QueueRow]
    ) -> None:
        super().__init__(view, queues)
        self._account = account
        self._books = account.books
        self._address_books = account.address_books
        self._returns = account.returns
        self._fates: dict[str, Bounds] = queue_fates(account, queues)
        self._polled = polled_fates(account, queues)
        self._late = account.late
        self._compared = account.address_books.index is queues.index
        if self._compared:
            self._fates |= address_fates(account)
        self._kept = kept_elsewhere(account, queues, view.snapshot.addresses)
        self._bare = account.bare
        self._shown_bare = self._positions_of_shown_bare()

    def _positions_of_shown_bare(self) -> list[int]:
        """Positions, among the bare addresses, of those without a queue that have a series."""
        series_of = self._view.state.addresses.grouping
        members = np.append(series_of.member, HIDDEN)
        series = members[series_of.source.positions(self._bare.index.keys)]
        positions: list[int] = np.flatnonzero(
            self._bare.bare & (series != HIDDEN)
        ).tolist()
        return positions

    # --- which sheets

    def of_name(self, name: str) -> AccountList:
        """The sheets of the queues and addresses of this name, else of the client. NotFound: there is none."""
        queues = self.named(name)
        bare_addresses = self.bare_named(name)
        if not queues and not bare_addresses:
            client = self.of_client(name)
            if client is None:
                kind = "address, queue or client"
                raise self.missing(kind, name, self.bare_names)
            return self.listed([client], 1)
        sheets = self.of_rows(self.addresses(queues), queues)
        sheets += [self.of_bare_address(bare) for bare in bare_addresses]
        return self.listed(sheets[:MAX_SHEETS], len(sheets))

    def addresses(self, queues: Sequence[int]) -> list[int]:
        """The first queue of each address of these queues; empty where addresses could not be compared."""
        if not self._compared:
            return []
        first_queues: dict[str, int] = {}
        for queue in reversed(queues):
            first_queues[self._rows[queue].address] = queue
        return list(first_queues.values())

    def of_rows(
        self, addresses: Sequence[int], queues: Sequence[int]
    ) -> list[AccountSheet]:
        """At most `MAX_SHEETS` sheets, by address; each address before its queues.

        Args:
            addresses: positions of one queue of each address.
            queues: positions of the queues.
        """
        chosen = [(self._rows[queue].address, 0, queue) for queue in addresses]
        chosen += [(self._rows[queue].address, 1, queue) for queue in queues]
        chosen.sort()
        return [
            self.of_queue(queue) if is_queue else self.of_address(queue)
            for _, is_queue, queue in chosen[:MAX_SHEETS]
        ]

    def bare_named(self, name: str) -> list[int]:
        """Positions of the addresses without a queue that have this name: one or none."""
        rows = self._bare.index.rows
        return [bare for bare in self._shown_bare if rows[bare].name == name]

    @property
    def bare_names(self) -> list[str]:
        """The names of the shown addresses without a queue."""
        return [self._bare.index.rows[bare].name for bare in self._shown_bare]

    # --- losses

    def of_all_losses(self) -> AccountList:
        """Sheets of all queues and addresses that lost messages, or may have; and what is not known of the others."""
        queues = [queue for queue in self.shown if self._rows[queue].kind in JUDGED]
        losing = [queue for queue in queues if self._loses(queue, self._queue_fates)]
        addresses = self.addresses(queues)
        losing_addresses = self._losing_addresses(addresses)
        losing_bare = [
            bare for bare in self._shown_bare if self._bare.unrouted[bare] > 0
        ]
        sheets = self.of_rows(losing_addresses, losing)
        sheets += [self.of_bare_address(bare) for bare in losing_bare]
        total = len(losing_addresses) + len(losing) + len(losing_bare)
        possible_losses = [
            *self._possible_losses_of_queues(set(queues) - set(losing)),
            *self._possible_losses_of_addresses(set(addresses) - set(losing_addresses)),
            *self._possible_losses_of_bare(losing_bare),
        ]
        if not self._compared:
            possible_losses.append({("missing", WHY["not_read"]): None})
        unknown = together_by_reason(possible_losses)
        return self.listed(sheets[:MAX_SHEETS], total, unknown)

    def _losing_addresses(self, addresses: Sequence[int]) -> list[int]:
        """Those of the addresses that lost messages or have undecided ones."""
        undecided = self._undecided()
        return [
            queue
            for queue in addresses
            if self._loses(queue, self._address_fates) or undecided[queue] > 0
        ]

    def _possible_losses_of_queues(self, queues: set[int]) -> Iterator[PossibleLosses]:
        fates = self._queue_fates
        return (self._not_known(queue, fates, self._why_lost) for queue in queues)

    def _possible_losses_of_addresses(
        self, addresses: set[int]
    ) -> Iterator[PossibleLosses]:
        fates = self._address_fates
        return (self._not_known(queue, fates, self._why) for queue in addresses)

    def _possible_losses_of_bare(
        self, losing: Sequence[int]
    ) -> Iterator[PossibleLosses]:
        """The possible losses of the addresses without a queue that are not known to lose messages."""
        return (
            self._routed_elsewhere(bare)
            for bare in self._shown_bare
            if bare not in losing
        )

    @property
    def _queue_fates(self) -> list[str]:
        """Fates in a queue that are not what messages are for."""
        return [
            fate for fate in QUEUE_FATES if outcome_of(fate) is not FateOutcome.HANDLED
        ]

    @property
    def _address_fates(self) -> list[str]:
        """Fates before any queue that are not what messages are for."""
        return [
            fate
            for fate in self._fates
            if fate not in QUEUE_FATES and outcome_of(fate) is not FateOutcome.HANDLED
        ]

    def _loses(self, queue: int, fates: Sequence[str]) -> bool:
        """Whether messages of a queue, or of its address, are lost, or it is not known what became of them."""
        for fate in fates:
            least = self._fates[fate][0]
            if least[queue] > 0 and not self._is_kept(fate, queue):
                return True
        return False

    def _is_kept(self, fate: str, queue: int) -> bool:
        """Whether messages of this fate are in the queue of another address."""
        if outcome_of(fate) is not FateOutcome.KEPT_OR_LOST:
            return False
        return bool(self._kept[fate][queue])

    def _undecided(self) -> Column:
        """(queues,) Messages of the queue's address that reached no queue so far, at least: uncommitted or lost."""
        rollbacks = self._account.rollbacks
        if rollbacks.index is not self._queues.index:
            return np.zeros(len(self._queues))
        return rollbacks.unsettled

    def _not_known(
        self, queue: int, fates: Sequence[str], why: Callable[[str, int], str]
    ) -> PossibleLosses:
        """The losses of one queue, or of its address, that are possible and not known.

        Args:
            queue: its position.
            fates: fates that are losses.
            why: the reason why the number of messages of a fate is not known.
        """
        possible: dict[tuple[str, str], float | None] = {}
        for fate in fates:
            low, high = self._bounds(fate, queue)
            if low != high and not self._is_kept(fate, queue):
                most = high if np.isfinite(high) else None
                possible[fate, why(fate, queue)] = most
        return possible

    def _why_lost(self, fate: str, queue: int) -> str:
        """Why it is not known how many messages of the queue had this fate."""
        return self._why_left(fate, queue, {fate: self._amount(fate, queue)})

    def _routed_elsewhere(self, bare: int) -> PossibleLosses:
        """Messages to an address without a queue that count as routed and no wildcard can have got."""
        routed = float(self._bare.routed[bare])
        if not routed or self._bare.to_wildcard[bare]:
            return {}
        return {("missing", self._why_missing(bare)): routed}

    def _why_missing(self, bare: int) -> str:
        """Why messages that were routed by an address without a queue may be lost."""
        if self._bare.diverted[bare]:
            return WHY["diverted"]
        return WHY["no_queue"]

    # --- addresses without a queue

    def of_bare_address(self, bare: int) -> AccountSheet:
        """The sheet of an address without a queue. bare: its position among these."""
        books = self._bare
        unrouted = json_number(books.unrouted[bare])
        routed = json_number(books.routed[bare])
        left: Amounts = {"unrouted": unrouted}
        reasons: Reasons = {}
        if books.to_wildcard[bare]:
            reasons["routed"] = WHY["wildcard"]
        elif routed:
            left["missing"] = (0, routed)
            reasons["missing"] = self._why_missing(bare)
        arrived: Amounts = {"routed": routed, "unrouted": unrouted}
        messages = SheetMessages(arrived, {}, left, reasons)
        to_others = f"{amount_text(routed)} routed, to queues of other addresses"
        total = f"{to_others} + {amount_text(unrouted)} to no queue"
        name = books.index.rows[bare].name
        return self._sheet(name, messages, total, books.since[bare])

    # --- queues

    def of_queue(self, queue: int) -> AccountSheet:
        """The sheet of one queue."""
        row = self._rows[queue]
        arrived = self._arrived_at(queue)
        left = self._left(queue, self._fates)
        left_at_polls = self._left(queue, self._polled)
        content, why_not_ready = self._believed_content(queue, arrived, left_at_polls)
        unexplained = json_number(self._books.unexplained[queue])
        delivery = self._delivery(queue)
        lost_by = dict(self._lost_by(queue)) if "evicted" in left else {}
        reasons = self._reasons(queue, left, delivery, lost_by) | why_not_ready
        sheet = self._sheet(
            row.address,
            SheetMessages(arrived, content, left, reasons),
            sums(arrived, content, left_at_polls, unexplained),
            self._books.since[queue],
        )
        return replace(
            sheet,
            queue=row.name,
            lost_by=lost_by,
            delivering=delivery.by_state,
            buffered=delivery.buffered,
            given_back=self._given_back(queue),
            unexplained=unexplained,
        )

    def _left(self, queue: int, fates: Mapping[str, Bounds]) -> Amounts:
        """Messages that left the queue, by fate. fates: of the messages of all queues."""
        return {fate: amount_at(fates[fate], queue) for fate in self._fates_in(queue)}

    def _fates_in(self, queue: int) -> list[str]:
        """The fates that messages of the queue can have."""
        fates = ["acknowledged", "moved", "expired", "dead_lettered", "purged"]
        if not np.isnan(self._queues["ring_limit"][queue]):
            fates.append("evicted")
        if self._queues["last_value"][queue] > 0:
            fates.append("replaced")
        if self._books.partly[queue] > 0:
            fates.append("lost_at_restart")
        return fates

    def _arrived_at(self, queue: int) -> Amounts:
        """Messages that came to the queue, by source."""
        # The messages that were lost at a restart have a fate of their own.
        adjusted = self._books.adjusted[queue]
        by_restarts = adjusted + self._books.lost_at_restart[queue]
        by_source: Amounts = {
            "at_start": json_number(self._books.opening[queue]),
            "added": json_number(self._books.added[queue]),
            "expired_on_arrival": self._expired_on_arrival(queue),
            "restarts": json_number(by_restarts),
        }
        always = ("at_start", "added")
        return {
            source: messages
            for source, messages in by_source.items()
            if source in always or messages != 0
        }

    def _expired_on_arrival(self, queue: int) -> Amount:
        """Messages that expired before they were added."""
        return amount(self._books.on_arrival[queue], self._late[queue])

    def _given_back(self, queue: int) -> Amount:
        """Messages that consumers took and gave back."""
        returns = self._returns
        return amount(returns.given_back[queue], returns.most[queue])

    def _content(self, queue: int) -> Amounts:
        """The messages in the queue by state, all of one row of the broker: they sum up to the content."""
        content = self._books.content[queue]
        if self._judgement.keeps[queue]:
            return {"kept": json_number(content)}
        scheduled = number_or_zero(self._queues["scheduled"][queue])
        delivering = number_or_zero(self._queues["delivering"][queue])
        return {
            READY: json_number(content - scheduled - delivering),
            "scheduled": json_number(scheduled),
            "delivering": json_number(delivering),
        }

    def _believed_content(
        self, queue: int, arrived: Amounts, left: Amounts
    ) -> tuple[Amounts, Reasons]:
        """The messages in the queue by state, and why the number of ready ones is not known, where it is not.

        Args:
            queue: its position.
            arrived: messages by source.
            left: messages by fate, without those that no poll saw.
        """
        content, why_not_ready = content_that_adds_up(
            arrived, self._content(queue), left
        )
        reasons = {READY: why_not_ready} if why_not_ready else {}
        messages = self._queues["messages"][queue]
        if READY in content and np.isnan(messages):
            content = {**content, READY: None}
            reasons = {READY: WHY["uncounted_content"]}
        return content, reasons

    def _delivery(self, queue: int) -> Delivery:
        """The messages in delivery; read before the queue, so that their sum may differ from the queue's own number."""
        consumers = self._snapshot.consumers
        delivering = self._queues["delivering"][queue]
        if consumers is None or number_or_zero(delivering) == 0:
            return Delivery({}, {})
        buffered = self._buffered(queue)
        awaiting_commit = consumers["awaiting_commit"][self._consumers_of(queue)]
        uncommitted = np.nan_to_num(awaiting_commit).sum()
        delivered = self._account.in_doubt
        low, high = delivered.bounds
        by_state: Amounts = {
            "buffered": sum_of_exact(buffered.values()),
            "uncommitted": json_number(uncommitted),
            "in_doubt": amount(low[queue], high[queue]),
            "by_link": amount(*delivered.links[:, queue]),
            "unheld": amount(*delivered.rest[:, queue]),
        }
        return Delivery(by_state, buffered)

    def _lost_by(self, queue: int) -> Iterator[tuple[str, Amount]]:
        """What made the ring evict messages, with their number: arrivals, and clients that went or rolled back."""
        losses = self._account.ring_losses
        evicted = float(self._books.lost[queue])
        if losses.index is not self._queues.index:
            return
        if np.isnan(evicted) or evicted == 0:
            return
        by_clients = Loss(
            least=float(losses.least[queue]),
            most=min(float(losses.most[queue]), evicted),
        )
        least_by_arrivals = evicted - by_clients.most
        most_by_arrivals = evicted - by_clients.least
        yield "arrivals", amount(least_by_arrivals, most_by_arrivals)
        key = int(self._queues.index.keys[queue])
        by_client = losses.by_client.get(key, {})
        for client, loss in sorted(by_client.items()):
            if loss.most:
                most = min(loss.most, evicted)
                yield client, amount(loss.least, most)
        named_least = sum(loss.least for loss in by_client.values())
        named_most = sum(loss.most for loss in by_client.values())
        if named_most < by_clients.most:
            yield UNNAMED, amount(0.0, by_clients.most - named_least)

    # --- why an amount of a queue is not exact

    def _reasons(
        self,
        queue: int,
        left: Amounts,
        delivery: Delivery,
        lost_by: Amounts,
    ) -> Reasons:
        """Why amounts of the queue's sheet are not exact, by their names.

        Args:
            queue: its position.
            left: messages by fate.
            delivery: messages in delivery.
            lost_by: messages that the ring evicted, by what made it do so.
        """
        given_back = self._given_back(queue)
        unexplained = json_number(self._books.unexplained[queue])
        return {
            **self._why_inexact_fates(queue, left),
            **why_inexact("given_back", given_back, self._why_given_back(queue)),
            **self._why_late(queue, left),
            **why_inexact("unexplained", unexplained, "three polls are needed"),
            **why_inexact_delivery(delivery.by_state),
            **why_inexact_culprits(lost_by),
        }

    def _why_inexact_fates(self, queue: int, left: Amounts) -> Reasons:
        """The reasons by fate."""
        return {
            fate: self._why_left(fate, queue, left)
            for fate, value in left.items()
            if not exact(value)
        }

    def _why_left(self, fate: str, queue: int, left: Amounts) -> str:
        """Why it is not known how many messages had this fate. left: messages by fate."""
        if self._books.partly[queue] > 0:
            return WHY["unpolled"]
        placeless = self._account.dead_letters.placeless[queue]
        if fate in {"dead_lettered", "purged"} and placeless:
            return WHY["placeless"]
        if fate in FATES:
            return FATES[fate]
        is_eviction_unknown = left.get("evicted", 0) is None
        if is_eviction_unknown and self._judgement.keeps[queue]:
            return WHY["keeps_ring"]
        if "evicted" in left and "replaced" in left:
            return WHY["either"]
        has_expired = self._books.expired[queue] != 0
        return WHY["late"] if has_expired else WHY["once"]

    def _why_given_back(self, queue: int) -> str:
        if self._returns.paged[queue] > 0:
            return WHY["paged"]
        return WHY["unattempted"]

    def _why_late(self, queue: int, left: Amounts) -> Reasons:
        """The reason why it is not known how many messages expired on arrival; empty where it is."""
        is_limited = "evicted" in left or "replaced" in left
        why = WHY["late"] if is_limited else WHY["once"]
        return why_inexact("expired_on_arrival", self._expired_on_arrival(queue), why)

    # --- addresses before their queues

    def of_address(self, queue: int) -> AccountSheet:
        """The sheet of an address before its queues. queue: the position of one of them."""
        books = self._address_books
        open_messages = {UNCOMMITTED: self._amount(UNCOMMITTED, queue)}
        left = {fate: self._amount(fate, queue) for fate in self._fates_before(queue)}
        if "rejected" in left and self._may_refuse_uncounted(queue):
            left["rejected"] = None
        arrived: Amounts = {
            "routed": json_number(books.routed_in_all[queue]),
            "unrouted": json_number(books.unrouted[queue]),
        }
        reasons = {
            fate: self._why(fate, queue)
            for fate, value in {**left, **open_messages}.items()
            if not exact(value)
        }
        missing = amount(*self._reached_no_queue(queue))
        is_read = arrived["routed"] is not None
        why_routed = WHY["busy"] if is_read else WHY["not_read"]
        reasons |= why_inexact("routed", missing, why_routed)
        return self._sheet(
            self._rows[queue].address,
            SheetMessages(arrived, open_messages, left, reasons),
            self._routed_sum(queue),
            self._books.since[queue],
        )

    def _routed_sum(self, queue: int) -> str:
        """The arithmetic of the address: the messages that it routed, to its queues and to none."""
        routed = float(self._address_books.routed_in_all[queue])
        least, most = self._reached_no_queue(queue)
        # Messages that were open before the books began may come later, so that more come than were routed since.
        least_to_queues = max(routed - most, 0.0)
        most_to_queues = max(routed - least, 0.0)
        all_routed = amount_text(json_number(routed))
        to_queues = amount_text(amount(least_to_queues, most_to_queues))
        to_none = amount_text(amount(least, most))
        return (
            f"{all_routed} routed = {to_queues} to its queues + {to_none} to no queue"
        )

    def _fates_before(self, queue: int) -> list[str]:
        """The fates that messages of the address can have before they are in a queue."""
        books = self._address_books
        fates = []
        if books.policy[queue] == Missing.DROPPED:
            fates.append("dropped")
        if books.policy[queue] == Missing.REJECTED:
            fates.append("rejected")
        if books.unfiltered[queue] == 0:
            fates.append("unwanted")
        return [*fates, "unrouted", "rolled_back", "missing", "duplicate"]

    def _may_refuse_uncounted(self, queue: int) -> bool:
        """Whether the address was full, and no counter shows that it refused a client."""
        books = self._address_books
        rejected = books.rejected[queue]
        full = books.full[queue]
        return bool(rejected == 0 and full > 0)

    def _reached_no_queue(self, queue: int) -> tuple[float, float]:
        """Messages that the address routed since the books began and no queue got, at least and at most."""
        books = self._address_books
        least = number_or_zero(books.least[queue])
        earlier = books.earlier[queue]
        if not earlier > 0:
            return least, float(books.most[queue])
        # The books began anew: the messages that were missing before are known only by their fates.
        booked = 0.0
        for fate in BOOKED_FATES:
            booked += self._bounds(fate, queue)[0]
        booked_of_routed = number_or_zero(booked - books.refused[queue])
        routed = number_or_zero(books.routed_in_all[queue])
        least = max(least, booked_of_routed)
        return least, max(least, routed)

    def _why(self, fate: str, queue: int) -> str:
        """Why it is not known how many messages of the address had this fate."""
        books = self._address_books
        if np.isnan(books.routed0[queue]):
            return WHY["not_read"]
        if fate == "duplicate":
            is_anonymous = self._account.duplicates.anonymous
            return WHY["anonymous"] if is_anonymous else WHY["unlisted"]
        if fate == "rejected" and self._may_refuse_uncounted(queue):
            return WHY["unseen_refusal"]
        if books.partly[queue] > 0:
            return WHY["partly"]
        return FATES.get(fate, WHY["busy"])

    def _bounds(self, fate: str, queue: int) -> tuple[float, float]:
        """Messages of the queue, or of its address, that had this fate: at least and at most."""
        low, high = self._fates[fate]
        least = float(low[queue])
        most = float(high[queue])
        return least, most

    def _amount(self, fate: str, queue: int) -> Amount:
        """Messages of the queue, or of its address, that had this fate."""
        return amount_at(self._fates[fate], queue)

    # --- clients

    def of_client(self, client: str) -> AccountSheet | None:
        """The sheet of a client, of all its consumers and producers since the agent knows it; None: there is none."""
        clients = self._view.table("client")
        rows = [i for i, row in enumerate(clients.index) if row.client == client]
        sent = self._sent_by(client)
        if not rows and not sent:
            return None
        numbers = self._numbers_of_client(rows)
        queues = self._positions_of({clients.index.rows[row].queue for row in rows})
        arrived: Amounts = {"delivered": json_number(numbers.delivered)}
        content: Amounts = {
            "buffered": json_number(numbers.buffered),
            "uncommitted": json_number(numbers.uncommitted),
        }
        left = self._left_by_client(numbers, queues)
        reasons: Reasons = {}
        if not all(exact(value) for value in left.values()):
            reasons = dict.fromkeys(left, WHY["rolled_back"])
        if ANONYMOUS in sent:
            sent[ANONYMOUS] = None
            reasons[ANONYMOUS] = WHY["anonymous"]
        sheet = self._sheet(
            "",
            SheetMessages(arrived, content, left, reasons),
            sums(arrived, content, left, 0),
        )
        return replace(
            sheet,
            lost_by=self._lost_by_client(client, queues),
            given_back=left["given_back"],
            client=client,
            sent=sent,
        )

    def _positions_of(self, names: set[str]) -> list[int]:
        """Positions of the queues with these names."""
        return [i for i, row in enumerate(self._queues.index) if row.name in names]

    def _sent_by(self, client: str) -> Amounts:
        """Messages that the client sent, by address."""
        producers = self._view.table("producer")
        return {
            row.address: json_number(producers["produced"][i])
            for i, row in enumerate(producers.index)
            if row.client == client
        }

    def _numbers_of_client(self, rows: Sequence[int]) -> ClientNumbers:
        """The numbers of these rows of the table of clients together."""
        clients = self._view.table("client")

        def total(name: str) -> float:
            return float(np.nansum(clients[name][rows]))

        return ClientNumbers(
            delivered=total("delivered"),
            acknowledged=total("acknowledged"),
            buffered=total("buffered"),
            uncommitted=total("uncommitted"),
        )

    def _left_by_client(self, numbers: ClientNumbers, queues: Sequence[int]) -> Amounts:
        """Messages that the client acknowledged or gave back. queues: that it consumes from.

        A message that it acknowledged and rolled back counts as acknowledged.
        """
        committed = numbers.committed
        returned = numbers.returned
        rolled_back = float(self._returns.most[queues].sum())
        least_returned = 0.0 if rolled_back else returned
        most_returned = returned + min(rolled_back, committed)
        return {
            "acknowledged": amount(max(0.0, committed - rolled_back), committed),
            "given_back": amount(least_returned, most_returned),
        }

    def _lost_by_client(self, client: str, queues: Sequence[int]) -> Amounts:
        """Messages that rings evicted because of the client, by queue."""
        lost: Amounts = {}
        for queue in queues:
            by_culprit = dict(self._lost_by(queue))
            lost[self._rows[queue].name] = by_culprit.get(client, 0)
        return {name: messages for name, messages in lost.items() if messages != 0}


def number_or_zero(value: float) -> float:
    """The number; 0 where it is not known."""
    return float(np.nan_to_num(value))


def why_inexact_delivery(by_state: Amounts) -> Reasons:
    """The reasons why numbers of messages in delivery are not exact, by state."""
    reasons: Reasons = {}
    for state, (why_unknown, why_bounds) in WHY_IN_DELIVERY.items():
        messages = by_state.get(state, 0)
        why = WHY[why_unknown] if messages is None else WHY[why_bounds]
        reasons |= why_inexact(state, messages, why)
    return reasons


def why_inexact_culprits(lost_by: Amounts) -> Reasons:
    """The reason why it is not known what made a ring evict messages; empty where it is."""
    if all(exact(value) for value in lost_by.values()):
        return {}
    return {"lost_by": WHY["untold"]}
