"""The account as sheets: of a queue, and of an address before its queues."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

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
from penstock.core.catalogues import read_toml
from penstock.core.table import Column, Table
from penstock.insight.answers import AccountList, AccountSheet, Amount, NotKnown
from penstock.insight.explain import BrokerView, NotFound, json_number
from penstock.insight.formatting import amount_text as text
from penstock.insight.sum_check import READY, content_that_adds_up
from penstock.model import ANONYMOUS, QueueRow
from penstock.observation.facts import JUDGED
from penstock.series.labels import HIDDEN

MAX_SHEETS = 200
"""Sheets of one answer."""
NO_ACCOUNT = "broker {} has no account: it is made of polls of an active broker with queues and consumers"

REASONS = read_toml("penstock.insight", "reasons.toml")
"""Why an amount is no exact number: those of fates by their names."""
WHY: Mapping[str, str] = REASONS["artemis"]
FATES: Mapping[str, str] = REASONS["artemis_fates"]
EITHER_OF: Sequence[tuple[str, str]] = REASONS["either_of"]
"""Fates that the broker counts as one."""
UNNAMED = "(not known)"
"""Clients that made a ring evict and are not known by name."""


def account_list(view: BrokerView, name: str) -> AccountList:
    """Sheets of the queues and addresses of this name; of all with losses when empty. NotFound: there is none."""
    account = view.state.judgement.account
    queues = view.snapshot.queues
    if queues is None or not account.watched or account.books.index is not queues.index:
        raise NotFound(
            NO_ACCOUNT.format(view.policy.broker), "see penstock check, and poll again"
        )
    sheets = Sheets(view, account, queues)
    if not name:
        return sheets.of_all_losses()
    found = sheets.named(name)
    bare = sheets.bare_named(name)
    if not found and not bare:
        client = sheets.of_client(name)
        if client is None:
            raise sheets.missing("address, queue or client", name, sheets.bare_names)
        return sheets.listed([client], 1)
    made = sheets.of_rows(sheets.addresses(found), found) + [
        sheets.of_bare_address(at) for at in bare
    ]
    return sheets.listed(made[:MAX_SHEETS], len(made))


class SheetMaker:
    """What sheets of all kinds of broker have in common. shown: positions of the queues that have sheets."""

    def __init__(self, view: BrokerView, queues: Table[QueueRow]) -> None:
        self._view = view
        self._queues = queues
        member = view.state.queues.grouping.member
        self.shown: list[int] = [
            i for i in range(len(queues)) if i < len(member) and member[i] != HIDDEN
        ]

    def named(self, name: str) -> list[int]:
        rows = self._queues.index.rows
        return [i for i in self.shown if name in (rows[i].name, rows[i].address)]

    def missing(self, what: str, name: str, others: Iterable[str] = ()) -> NotFound:
        rows = self._queues.index.rows
        names = [text for i in self.shown for text in (rows[i].name, rows[i].address)]
        return self._view.missing(what, name, [*names, *others], "addresses and queues")

    def listed(
        self, sheets: list[AccountSheet], total: int, unknown: Sequence[NotKnown] = ()
    ) -> AccountList:
        """total: how many sheets there are; unknown: what else may be lost."""
        return AccountList(
            self._view.policy.broker,
            round(self._view.snapshot.stamp, 3),
            sheets,
            total,
            list(unknown),
        )

    def _begun(self, since: float) -> float | None:
        """since: by the broker's clock."""
        return (
            None
            if np.isnan(since)
            else round(float(since - self._view.state.clock.applied), 3)
        )

    def _buffered(self, i: int) -> dict[str, Amount]:
        """By client: what was sent to it of the queue and it has not acknowledged."""
        consumers = self._view.snapshot.consumers
        by_client = Counter[str]()
        if consumers is not None:
            for at in np.flatnonzero(
                self._view.snapshot.consumer_queue == self._queues.index.keys[i]
            ).tolist():
                by_client[consumers.index.rows[at].client] += np.nan_to_num(
                    consumers["buffered"][at]
                )
        return {
            client: json_number(number)
            for client, number in sorted(by_client.items())
            if number
        }


class Sheets(SheetMaker):
    def __init__(
        self, view: BrokerView, account: MessageAccount, queues: Table[QueueRow]
    ) -> None:
        super().__init__(view, queues)
        self._account = account
        self._fates: dict[str, Bounds] = queue_fates(account, queues)
        self._polled = polled_fates(account, queues)
        self._late = account.late
        self._compared = account.address_books.index is queues.index
        if self._compared:
            self._fates |= address_fates(account)
        self._kept = kept_elsewhere(account, queues, view.snapshot.addresses)
        self._bare = account.bare
        of_addresses = view.state.addresses.grouping
        members = np.append(of_addresses.member, HIDDEN)[
            of_addresses.source.positions(self._bare.index.keys)
        ]
        self._shown_bare: list[int] = np.flatnonzero(
            self._bare.bare & (members != HIDDEN)
        ).tolist()

    def addresses(self, rows: Sequence[int]) -> list[int]:
        """One queue of each address."""
        if not self._compared:
            return []
        return list(
            {self._queues.index.rows[i].address: i for i in reversed(rows)}.values()
        )

    def of_rows(
        self, addresses: Sequence[int], queues: Sequence[int]
    ) -> list[AccountSheet]:
        """Sheets of these rows: of their addresses, and of the queues themselves; each address before its queues."""
        rows = self._queues.index.rows
        chosen = sorted(
            [(rows[i].address, 0, i) for i in addresses]
            + [(rows[i].address, 1, i) for i in queues]
        )
        return [
            self.of_queue(i) if is_queue else self.of_address(i)
            for _, is_queue, i in chosen[:MAX_SHEETS]
        ]

    def bare_named(self, name: str) -> list[int]:
        """Positions of the addresses without a queue that have this name: one or none."""
        return [at for at in self._shown_bare if self._bare.index.rows[at].name == name]

    @property
    def bare_names(self) -> list[str]:
        return [self._bare.index.rows[at].name for at in self._shown_bare]

    # --- what is lost

    def of_all_losses(self) -> AccountList:
        """Sheets of all queues and addresses that lost messages, or may have; and what is not known of the others."""
        rows = self._queues.index.rows
        queues = [i for i in self.shown if rows[i].kind in JUDGED]
        addresses = self.addresses(queues)
        open_at = self._undecided()
        losing = [i for i in queues if self._loses(i, self._queue_fates)]
        losing_addresses = [
            i
            for i in addresses
            if self._loses(i, self._address_fates) or open_at[i] > 0
        ]
        bare = [at for at in self._shown_bare if self._bare.unrouted[at] > 0]
        made = self.of_rows(losing_addresses, losing) + [
            self.of_bare_address(at) for at in bare
        ]
        others = [
            self._not_known(i, self._queue_fates, self._why_lost)
            for i in set(queues) - set(losing)
        ]
        others += [
            self._not_known(i, self._address_fates, self._why)
            for i in set(addresses) - set(losing_addresses)
        ]
        others += [
            self._routed_elsewhere(at) for at in self._shown_bare if at not in bare
        ]
        if not self._compared:
            others.append({("missing", WHY["not_read"]): None})
        total = len(losing_addresses) + len(losing) + len(bare)
        return self.listed(made[:MAX_SHEETS], total, together_by_reason(others))

    @property
    def _queue_fates(self) -> list[str]:
        return [
            fate for fate in QUEUE_FATES if outcome_of(fate) is not FateOutcome.HANDLED
        ]

    @property
    def _address_fates(self) -> list[str]:
        return [
            fate
            for fate in self._fates
            if fate not in QUEUE_FATES and outcome_of(fate) is not FateOutcome.HANDLED
        ]

    def _loses(self, i: int, fates: Sequence[str]) -> bool:
        """Whether messages of a queue, or of its address, are lost, or it is not known what became of them."""
        return any(
            self._fates[fate][0][i] > 0 and not self._is_kept(fate, i) for fate in fates
        )

    def _is_kept(self, fate: str, i: int) -> bool:
        """Whether messages of this fate are in the queue of another address."""
        return outcome_of(fate) is FateOutcome.KEPT_OR_LOST and bool(
            self._kept[fate][i]
        )

    def _undecided(self) -> Column:
        """Per queue, of its address: messages that reached no queue so far, at least: uncommitted or lost."""
        rollbacks = self._account.rollbacks
        if rollbacks.index is not self._queues.index:
            return np.zeros(len(self._queues))
        return rollbacks.unsettled

    def _not_known(
        self, i: int, fates: Sequence[str], why: Callable[[str, int], str]
    ) -> dict[tuple[str, str], float | None]:
        """How many messages may have had a fate that is a loss, by the fate and the reason; None: no most is known."""
        found: dict[tuple[str, str], float | None] = {}
        for fate in fates:
            low, high = self._bounds(fate, i)
            if low == high or self._is_kept(fate, i):
                continue
            found[fate, why(fate, i)] = high if np.isfinite(high) else None
        return found

    def _why_lost(self, fate: str, i: int) -> str:
        return self._why_left(fate, i, {fate: amount(*self._bounds(fate, i))})

    def _routed_elsewhere(self, at: int) -> dict[tuple[str, str], float | None]:
        """Of an address without a queue: what the broker counts as routed and no wildcard can have got."""
        routed = float(self._bare.routed[at])
        if not routed or self._bare.to_wildcard[at]:
            return {}
        return {
            (
                "missing",
                WHY["diverted" if self._bare.diverted[at] else "no_queue"],
            ): routed
        }

    def of_bare_address(self, at: int) -> AccountSheet:
        """Of an address without a queue."""
        bare = self._bare
        unrouted = json_number(bare.unrouted[at])
        routed = json_number(bare.routed[at])
        came: dict[str, Amount] = {"routed": routed, "unrouted": unrouted}
        left: dict[str, Amount] = {"unrouted": unrouted}
        reasons: dict[str, str] = {}
        if bare.to_wildcard[at]:
            reasons["routed"] = WHY["wildcard"]
        elif routed:
            left["missing"] = (0, routed)
            reasons["missing"] = WHY["diverted" if bare.diverted[at] else "no_queue"]
        total = f"{text(routed)} routed, to queues of other addresses + {text(unrouted)} to no queue"
        name = bare.index.rows[at].name
        return AccountSheet(
            self._view.policy.broker, name, "", self._begun(bare.since[at]), came, {}, left, {}, {}, {}, None, 0,
            reasons, total,
        )  # fmt: skip

    # --- queues and their addresses

    def of_queue(self, i: int) -> AccountSheet:
        books = self._account.books
        row = self._queues.index.rows[i]
        names = ["acknowledged", "moved", "expired", "dead_lettered", "purged"]
        names += ["evicted"] if not np.isnan(self._queues["ring_limit"][i]) else []
        names += ["replaced"] if self._queues["last_value"][i] > 0 else []
        names += ["lost_at_restart"] if books.partly[i] > 0 else []
        left = {name: amount(*self._bounds(name, i)) for name in names}
        polled = {
            name: amount(
                *map(float, (self._polled[name][0][i], self._polled[name][1][i]))
            )
            for name in names
        }
        came: dict[str, Amount] = {
            "at_start": json_number(books.opening[i]),
            "added": json_number(books.added[i]),
        }
        arrived_late = amount(float(books.on_arrival[i]), float(self._late[i]))
        # What was lost at a restart is a fate of its own.
        by_restarts = json_number(books.adjusted[i] + books.lost_at_restart[i])
        further = {"expired_on_arrival": arrived_late, "restarts": by_restarts}
        came |= {name: value for name, value in further.items() if value != 0}
        there = self._there(i)
        unexplained = json_number(books.unexplained[i])
        delivering, buffered = self._delivering(i)
        lost_by = dict(self._lost_by(i)) if "evicted" in left else {}
        reasons = {
            name: self._why_left(name, i, left)
            for name in left
            if not exact(left[name])
        }
        returns = self._account.returns
        given_back = amount(float(returns.given_back[i]), float(returns.most[i]))
        if not exact(given_back):
            reasons["given_back"] = (
                WHY["paged"] if returns.paged[i] > 0 else WHY["unattempted"]
            )
        if not exact(arrived_late):
            reasons["expired_on_arrival"] = (
                WHY["late"] if "evicted" in left or "replaced" in left else WHY["once"]
            )
        reasons |= (
            {"unexplained": "three polls are needed"} if unexplained is None else {}
        )
        unsure = [
            name for name in ("by_link", "unheld") if not exact(delivering.get(name, 0))
        ]
        reasons |= {
            name: WHY["beyond"] if delivering[name] is None else WHY["unheld"]
            for name in unsure
        }
        if not exact(in_doubt := delivering.get("in_doubt", 0)):
            reasons["in_doubt"] = (
                WHY["uncounted"] if in_doubt is None else WHY["committing"]
            )
        if not all(map(exact, lost_by.values())):
            reasons["lost_by"] = WHY["untold"]
        there, why_not_ready = content_that_adds_up(came, there, polled)
        if why_not_ready:
            reasons[READY] = why_not_ready
        if READY in there and np.isnan(self._queues["messages"][i]):
            there = {**there, READY: None}
            reasons[READY] = WHY["uncounted_content"]
        return AccountSheet(
            self._view.policy.broker, row.address, row.name, self._begun(books.since[i]), came, there, left, lost_by,
            delivering, buffered, given_back, unexplained, reasons, sums(came, there, polled, unexplained),
        )  # fmt: skip

    def _why_left(self, name: str, i: int, left: Mapping[str, Amount]) -> str:
        if self._account.books.partly[i] > 0:
            return WHY["unpolled"]
        if (
            name in {"dead_lettered", "purged"}
            and self._account.dead_letters.placeless[i]
        ):
            return WHY["placeless"]
        if name in FATES:
            return FATES[name]
        if left.get("evicted", 0) is None and self._view.state.judgement.keeps[i]:
            return WHY["keeps_ring"]
        if "evicted" in left and "replaced" in left:
            return WHY["either"]
        return WHY["late"] if self._account.books.expired[i] else WHY["once"]

    def of_address(self, i: int) -> AccountSheet:
        of = self._account.address_books
        names = ["dropped"] if of.policy[i] == Missing.DROPPED else []
        names += ["rejected"] if of.policy[i] == Missing.REJECTED else []
        names += ["unwanted"] if of.unfiltered[i] == 0 else []
        names += ["unrouted", "rolled_back", "missing", "duplicate"]
        there = {UNCOMMITTED: amount(*self._bounds(UNCOMMITTED, i))}
        left = {name: amount(*self._bounds(name, i)) for name in names}
        if "rejected" in left and of.rejected[i] == 0 and of.full[i] > 0:
            left["rejected"] = None
        reasons = {
            name: self._why(name, i)
            for name, value in {**left, **there}.items()
            if not exact(value)
        }
        routed = float(of.routed_in_all[i])
        least, most = self._reached_no_queue(i)
        came: dict[str, Amount] = {
            "routed": json_number(routed),
            "unrouted": json_number(of.unrouted[i]),
        }
        missing = amount(least, most)
        # What was open before it was compared may come later, so that more come than were routed since.
        to_queues = amount(max(routed - most, 0.0), max(routed - least, 0.0))
        if not exact(missing):
            reasons["routed"] = (
                WHY["busy"] if came["routed"] is not None else WHY["not_read"]
            )
        total = f"{text(came['routed'])} routed = {text(to_queues)} to its queues + {text(missing)} to no queue"
        return AccountSheet(
            self._view.policy.broker, self._queues.index.rows[i].address, "", self._begun(self._account.books.since[i]),
            came, there, left, {}, {}, {}, None, 0, reasons, total,
        )  # fmt: skip

    def _reached_no_queue(self, i: int) -> tuple[float, float]:
        """Of what the address routed since the books began, at least and at most so many."""
        of = self._account.address_books
        least = float(np.nan_to_num(of.least[i]))
        most = float(of.most[i])
        if not of.earlier[i] > 0:
            return least, most
        # What was missing before it was compared again is known only by its fates.
        booked = sum(
            self._bounds(fate, i)[0]
            for fate in ("dropped", "rejected", "unwanted", "rolled_back", "missing")
        )
        least = float(max(least, np.nan_to_num(booked - of.refused[i])))
        return least, max(least, float(np.nan_to_num(of.routed_in_all[i])))

    def of_client(self, client: str) -> AccountSheet | None:
        """None: there is none of that name. Of all its consumers and producers since the agent knows the client."""
        takers = self._view.table("client")
        senders = self._view.table("producer")
        at = [i for i, row in enumerate(takers.index) if row.client == client]
        sent: dict[str, Amount] = {
            row.address: json_number(senders["produced"][i])
            for i, row in enumerate(senders.index)
            if row.client == client
        }
        if not at and not sent:
            return None
        delivered, settled, buffered, uncommitted = (
            float(np.nansum(takers[name][at]))
            for name in ("delivered", "acknowledged", "buffered", "uncommitted")
        )
        settled, returned = (
            settled - uncommitted,
            max(0.0, delivered - settled - buffered),
        )
        of = {takers.index.rows[i].queue for i in at}
        queues = [i for i, row in enumerate(self._queues.index) if row.name in of]
        back = float(self._account.returns.most[queues].sum())
        there: dict[str, Amount] = {
            "buffered": json_number(buffered),
            "uncommitted": json_number(uncommitted),
        }
        left = {
            "acknowledged": amount(max(0.0, settled - back), settled),
            "given_back": amount(
                0.0 if back else returned, returned + min(back, settled)
            ),
        }
        reasons = (
            {}
            if all(map(exact, left.values()))
            else dict.fromkeys(left, WHY["rolled_back"])
        )
        if ANONYMOUS in sent:
            sent[ANONYMOUS], reasons[ANONYMOUS] = None, WHY["anonymous"]
        lost = {
            self._queues.index.rows[i].name: dict(self._lost_by(i)).get(client, 0)
            for i in queues
        }
        lost = {queue: value for queue, value in lost.items() if value != 0}
        came: dict[str, Amount] = {"delivered": json_number(delivered)}
        return AccountSheet(
            self._view.policy.broker, "", "", None, came, there, left, lost, {}, {}, left["given_back"], 0, reasons,
            sums(came, there, left, 0), client, sent,
        )  # fmt: skip

    def _why(self, name: str, i: int) -> str:
        of = self._account.address_books
        if np.isnan(of.routed0[i]):
            return WHY["not_read"]
        if name == "duplicate":
            return WHY[
                "anonymous" if self._account.duplicates.anonymous else "unlisted"
            ]
        if name == "rejected" and of.rejected[i] == 0 and of.full[i] > 0:
            return WHY["unseen_refusal"]
        return WHY["partly"] if of.partly[i] > 0 else FATES.get(name, WHY["busy"])

    def _bounds(self, name: str, i: int) -> tuple[float, float]:
        low, high = self._fates[name]
        return float(low[i]), float(high[i])

    def _there(self, i: int) -> dict[str, Amount]:
        """By one row of the broker: they sum up to the content."""
        books = self._account.books
        queues = self._queues
        scheduled = np.nan_to_num(queues["scheduled"][i])
        if self._view.state.judgement.keeps[i]:
            return {"kept": json_number(books.content[i])}
        delivering = np.nan_to_num(queues["delivering"][i])
        return {
            "ready": json_number(books.content[i] - scheduled - delivering),
            "scheduled": json_number(scheduled),
            "delivering": json_number(delivering),
        }

    def _delivering(self, i: int) -> tuple[dict[str, Amount], dict[str, Amount]]:
        """By state, and what is buffered by client; read before the queue, so that the sum may differ from its own."""
        consumers = self._view.snapshot.consumers
        of = self._account.in_doubt
        if consumers is None or not np.nan_to_num(self._queues["delivering"][i]):
            return {}, {}
        at = np.flatnonzero(
            self._view.snapshot.consumer_queue == self._queues.index.keys[i]
        )
        (low, high), by_client = of.bounds, self._buffered(i)
        by_state: dict[str, Amount] = {
            "buffered": sum(
                one for one in by_client.values() if isinstance(one, int | float)
            ),
            "uncommitted": json_number(
                float(np.nan_to_num(consumers["awaiting_commit"][at]).sum())
            ),
            "in_doubt": None
            if np.isnan(high[i])
            else amount(float(low[i]), float(high[i])),
            "by_link": amount(*map(float, of.links[:, i])),
            "unheld": amount(*map(float, of.rest[:, i])),
        }
        return by_state, by_client

    def _lost_by(self, i: int) -> Iterator[tuple[str, Amount]]:
        of = self._account.ring_losses
        lost = self._account.books.lost[i]
        if of.index is not self._queues.index or np.isnan(lost) or not lost:
            return
        least = float(of.least[i])
        most = min(float(of.most[i]), float(lost))
        yield "arrivals", amount(lost - most, lost - least)
        named = of.by_client.get(int(self._queues.index.keys[i]), {})
        for client, one in sorted(named.items()):
            if one.most:
                yield client, amount(one.least, min(one.most, lost))
        if sum(one.most for one in named.values()) < most:
            yield UNNAMED, amount(0.0, most - sum(one.least for one in named.values()))


def together_by_reason(
    found: Iterable[Mapping[tuple[str, str], float | None]],
) -> list[NotKnown]:
    """found: of each place, messages that may have had a fate, by the fate and the reason why that is not known."""
    places = Counter[tuple[str, str]]()
    most = dict[tuple[str, str], float | None]()
    for one in found:
        for key, number in one.items():
            before = most.get(key, 0.0)
            places[key] += 1
            most[key] = None if before is None or number is None else before + number
    return [
        NotKnown(
            fate,
            places[fate, reason],
            None if number is None else json_number(number),
            reason,
        )
        for (fate, reason), number in sorted(most.items())
    ]


def amount(low: float, high: float) -> Amount:
    """A number where both agree; None where nothing is known."""
    least = json_number(low)
    most = json_number(high)
    if least is None or np.isnan(high) or (most is None and least == 0):
        return None
    return least if least == most else (least, most)


def exact(value: Amount) -> bool:
    return isinstance(value, int | float)


def sums(
    came: Mapping[str, Amount],
    there: Mapping[str, Amount],
    left: Mapping[str, Amount],
    gap: Amount,
) -> str:
    """The arithmetic of a queue's sheet."""

    def terms(amounts: Mapping[str, Amount]) -> str:
        return " + ".join(
            f"{text(value)} {name.replace('_', ' ')}"
            for name, value in amounts.items()
            if value != 0
        )

    parts = (
        terms(there),
        terms(together(left)),
        terms({"unexplained": gap} if gap else {}),
    )
    right = " + ".join(filter(None, parts))
    return f"{terms(came) or '0'} = {right or '0'}"


def together(left: Mapping[str, Amount]) -> dict[str, Amount]:
    """With fates that the broker counts as one in one term, where it is not known which of them it was."""
    found = dict(left)
    for name, other in EITHER_OF:
        low = left.get(name)
        high = left.get(other)
        if isinstance(low, tuple) and isinstance(high, tuple) and high[1] is not None:
            found |= {name: 0, other: 0, f"{name} or {other}": low[0] + high[1]}
    return found
