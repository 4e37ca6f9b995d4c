"""The account as sheets: of a queue, and of an address before its queues."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.account.account import MessageAccount
from penstock.account.address_books import Missing
from penstock.account.fates import ADDRESS_FATES, LOSSES, UNCOMMITTED, Bounds, address_fates, polled_fates, queue_fates
from penstock.account.reading import ANONYMOUS
from penstock.core.table import Index, Table
from penstock.insight.answers import AccountList, AccountSheet, Amount
from penstock.insight.explain import BrokerView, NotFound, json_number, near
from penstock.insight.formatting import amount_text as text
from penstock.model import QueueRow
from penstock.observation.facts import JUDGED
from penstock.series.labels import HIDDEN

MAX_SHEETS = 200
"""Sheets of one answer."""
NO_ACCOUNT = "broker {} has no account: it is made of polls of an active broker with queues and consumers"

REASONS: Mapping[str, str] = {
    "dropped": "messages of transactions that are open or were rolled back cannot be distinguished from it",
    "rejected": "a full address may refuse a client before its message is counted",
    "unwanted": "messages of transactions that are open or were rolled back cannot be distinguished from it",
    **dict.fromkeys(
        ("rolled_back", UNCOMMITTED),
        "the broker counts as routed what was sent in transactions that are open or were rolled back, and what an"
        " exclusive divert took, alike; not a loss",
    ),
    **dict.fromkeys(
        ("acknowledged", "moved"),
        "as many came to other addresses from none that is listed: an operator may have moved them, or clients that"
        " came and went between two polls acknowledged them",
    ),
    **dict.fromkeys(
        ("dead_lettered", "purged"),
        "others may have sent to the dead-letter address, or another of its queues was purged, at the same time",
    ),
}
EITHER_OF = (
    ("acknowledged", "moved"),
    ("acknowledged", "given_back"),
    ("dead_lettered", "purged"),
    ("evicted", "replaced"),
)
"""Fates that the broker counts as one."""
PLACELESS = "no dead-letter address with a queue is set: what ends at max-delivery-attempts is gone like what is purged"
PARTLY = "a queue of the address came or went, or the broker restarted, and what was missing then is not known"
UNPOLLED = "the broker restarted, or a counter was set back: what came and left after the poll before is not known"
UNNAMED = "(not known)"
"""Clients that made a ring evict and are not known by name."""
BUSY = "messages came between the reads of the two counters"
UNSENT = {
    True: "producers that name an address with each message (STOMP, MQTT, anonymous) show no number for any",
    False: "not all that reaches the address was sent by a producer that is listed now",
}
UNSEEN_REFUSAL = "the address was full, and clients may have been refused without a counter"
LATE = "what expired before it was added cannot be distinguished from what the queue evicted or replaced"
UNHELD = "consumers are read before their queues, and messages came or went in between"
BEYOND = "the queue has consumers beyond the budget: what they have cannot be distinguished from it"
UNCOUNTED = "listPreparedTransactions is not granted to the account, failed, or was read once only"
COMMITTING = "a client that is connected has prepared transactions, too"
PAGED = "the broker attempts no acknowledgement of messages in page files"
UNATTEMPTED = "the broker counts none of AMQP, OpenWire and killed clients, and what no poll saw is not known"
ROLLED_BACK = "what a client acknowledges and rolls back counts as acknowledged by its consumer"
ONCE = "it counts when two polls have seen it"
EITHER = "in a ring of last values evicted and replaced messages cannot be distinguished"
NOT_READ = "the address could not be read"
KEEPS_RING = "the queue keeps what is acknowledged (non-destructive), and counts what is delivered twice"


def account_list(view: BrokerView, name: str) -> AccountList:
    """Sheets of the queues and addresses of this name; of all with losses when empty. NotFound: there is none."""
    account, queues = view.state.judgement.account, view.snapshot.queues
    if queues is None or not account.watched or account.books.index is not queues.index:
        raise NotFound(NO_ACCOUNT.format(view.policy.broker), "see penstock check, and poll again")
    sheets = Sheets(view, account, queues)
    rows = sheets.shown
    if name:
        found = [i for i in rows if name in (queues.index.rows[i].name, queues.index.rows[i].address)]
        if not found and (client := sheets.of_client(name)):
            return AccountList(view.policy.broker, round(view.snapshot.stamp, 3), [client], 1)
        if not found:
            names = [name for i in rows for name in (queues.index.rows[i].name, queues.index.rows[i].address)]
            raise NotFound(
                f"broker {view.policy.broker} has no address, queue or client {name!r}",
                near(name, names, "addresses and queues"),
            )
        chosen = sheets.addresses(found), found
    else:
        rows = [i for i in rows if queues.index.rows[i].kind in JUDGED]
        lossy = [i for i in sheets.addresses(rows) if sheets.loses(i, ADDRESS_FATES)]
        chosen = lossy, [i for i in rows if sheets.loses(i, ("evicted",))]
    made = [(i, True) for i in chosen[0]] + [(i, False) for i in chosen[1]]
    made.sort(key=lambda one: (queues.index.rows[one[0]].address, not one[1]))
    return AccountList(
        view.policy.broker,
        round(view.snapshot.stamp, 3),
        [sheets.of_address(i) if whole else sheets.of_queue(i) for i, whole in made[:MAX_SHEETS]],
        len(made),
    )


class Sheets:
    """Makes the sheets of one poll."""

    def __init__(self, view: BrokerView, account: MessageAccount, queues: Table[QueueRow]) -> None:
        self._view, self._account, self._queues = view, account, queues
        self._fates: dict[str, Bounds] = queue_fates(account, queues)
        self._polled, self._late = polled_fates(account, queues), account.late
        self._compared = account.address_books.index is queues.index
        if self._compared:
            self._fates |= address_fates(account)
        member = view.state.queues.grouping.member
        self.shown: list[int] = [i for i in range(len(queues)) if i < len(member) and member[i] != HIDDEN]

    def addresses(self, rows: Sequence[int]) -> list[int]:
        """One queue of each address."""
        if not self._compared:
            return []
        return list({self._queues.index.rows[i].address: i for i in reversed(rows)}.values())

    def loses(self, i: int, names: Sequence[str]) -> bool:
        return any(self._fates[name][0][i] > 0 for name in names if name in LOSSES)

    def of_queue(self, i: int) -> AccountSheet:
        books, row = self._account.books, self._queues.index.rows[i]
        names = ["acknowledged", "moved", "expired", "dead_lettered", "purged"]
        names += ["evicted"] if not np.isnan(self._queues["ring_limit"][i]) else []
        names += ["replaced"] if self._queues["last_value"][i] > 0 else []
        left = {name: amount(*self._bounds(name, i)) for name in names}
        polled = {name: amount(*map(float, (self._polled[name][0][i], self._polled[name][1][i]))) for name in names}
        came: dict[str, Amount] = {"at_start": json_number(books.opening[i]), "added": json_number(books.added[i])}
        arrived_late = amount(float(books.on_arrival[i]), float(self._late[i]))
        further = {"expired_on_arrival": arrived_late, "restarts": json_number(books.adjusted[i])}
        came |= {name: value for name, value in further.items() if value != 0}
        there, unexplained = self._there(i), json_number(books.unexplained[i])
        delivering, buffered = self._delivering(i)
        lost_by = dict(self._lost_by(i)) if "evicted" in left else {}
        reasons = {name: self._why_left(name, i, left) for name in left if not exact(left[name])}
        returns = self._account.returns
        given_back = amount(float(returns.given_back[i]), float(returns.most[i]))
        if not exact(given_back):
            reasons["given_back"] = PAGED if returns.paged[i] > 0 else UNATTEMPTED
        if not exact(arrived_late):
            reasons["expired_on_arrival"] = LATE if "evicted" in left or "replaced" in left else ONCE
        reasons |= {"unexplained": "three polls are needed"} if unexplained is None else {}
        unsure = [name for name in ("by_link", "unheld") if not exact(delivering.get(name, 0))]
        reasons |= {name: BEYOND if delivering[name] is None else UNHELD for name in unsure}
        if not exact(in_doubt := delivering.get("in_doubt", 0)):
            reasons["in_doubt"] = UNCOUNTED if in_doubt is None else COMMITTING
        if not all(map(exact, lost_by.values())):
            reasons["lost_by"] = "messages came, or one went that was not listed, as a consumer went or rolled back"
        return AccountSheet(
            self._view.policy.broker, row.address, row.name, self._since(i), came, there, left, lost_by,
            delivering, buffered, given_back, unexplained, reasons, sums(came, there, polled, unexplained),
        )  # fmt: skip

    def _why_left(self, name: str, i: int, left: Mapping[str, Amount]) -> str:
        if self._account.books.partly[i] > 0:
            return UNPOLLED
        if name in {"dead_lettered", "purged"} and self._account.dead_letters.placeless[i]:
            return PLACELESS
        if name in REASONS:
            return REASONS[name]
        if left.get("evicted", 0) is None and self._view.state.judgement.keeps[i]:
            return KEEPS_RING
        if "evicted" in left and "replaced" in left:
            return EITHER
        return LATE if self._account.books.expired[i] else ONCE

    def of_address(self, i: int) -> AccountSheet:
        of = self._account.address_books
        names = ["dropped"] if of.policy[i] == Missing.DROPPED else []
        names += ["rejected"] if of.policy[i] == Missing.REJECTED else []
        names += ["unwanted"] if of.unfiltered[i] == 0 else []
        names += ["unrouted", "rolled_back", "duplicate"]
        there = {UNCOMMITTED: amount(*self._bounds(UNCOMMITTED, i))}
        left = {name: amount(*self._bounds(name, i)) for name in names}
        if "rejected" in left and of.rejected[i] == 0 and of.full[i] > 0:
            left["rejected"] = None
        reasons = {name: self._why(name, i) for name, value in {**left, **there}.items() if not exact(value)}
        routed, least = of.routed[i] - of.routed0[i], float(np.nan_to_num(of.least[i]))
        came: dict[str, Amount] = {"routed": json_number(routed), "unrouted": json_number(of.unrouted[i])}
        missing, to_queues = amount(least, of.most[i]), amount(routed - of.most[i], routed - least)
        if not exact(missing):
            reasons["routed"] = BUSY if came["routed"] is not None else NOT_READ
        total = f"{text(came['routed'])} routed = {text(to_queues)} to its queues + {text(missing)} to none"
        return AccountSheet(
            self._view.policy.broker, self._queues.index.rows[i].address, "", self._since(i), came, there, left, {},
            {}, {}, None, 0, reasons, total,
        )  # fmt: skip

    def of_client(self, client: str) -> AccountSheet | None:
        """None: there is none of that name. Of all its consumers and producers since the agent knows the client."""
        none: Table[Any] = Table(Index.empty())
        takers, senders = (self._view.tables.get(name, none) for name in ("client", "producer"))
        at = [i for i, row in enumerate(takers.index) if row.client == client]
        sent: dict[str, Amount] = {
            row.address: json_number(senders["produced"][i])
            for i, row in enumerate(senders.index)
            if row.client == client
        }
        if not at and not sent:
            return None
        delivered, settled, buffered, uncommitted = (
            float(np.nansum(takers[name][at])) for name in ("delivered", "acknowledged", "buffered", "uncommitted")
        )
        settled, returned = settled - uncommitted, max(0.0, delivered - settled - buffered)
        of = {takers.index.rows[i].queue for i in at}
        queues = [i for i, row in enumerate(self._queues.index) if row.name in of]
        back = float(self._account.returns.most[queues].sum())
        there: dict[str, Amount] = {"buffered": json_number(buffered), "uncommitted": json_number(uncommitted)}
        left = {
            "acknowledged": amount(max(0.0, settled - back), settled),
            "given_back": amount(0.0 if back else returned, returned + min(back, settled)),
        }
        reasons = {} if all(map(exact, left.values())) else dict.fromkeys(left, ROLLED_BACK)
        if ANONYMOUS in sent:
            sent[ANONYMOUS], reasons[ANONYMOUS] = None, UNSENT[True]
        lost = {self._queues.index.rows[i].name: dict(self._lost_by(i)).get(client, 0) for i in queues}
        lost = {queue: value for queue, value in lost.items() if value != 0}
        came: dict[str, Amount] = {"delivered": json_number(delivered)}
        return AccountSheet(
            self._view.policy.broker, "", "", None, came, there, left, lost, {}, {}, left["given_back"], 0, reasons,
            sums(came, there, left, 0), client, sent,
        )  # fmt: skip

    def _why(self, name: str, i: int) -> str:
        of = self._account.address_books
        if np.isnan(of.routed0[i]):
            return NOT_READ
        if name == "duplicate":
            return UNSENT[self._account.duplicates.anonymous]
        if name == "rejected" and of.rejected[i] == 0 and of.full[i] > 0:
            return UNSEEN_REFUSAL
        return PARTLY if of.partly[i] > 0 else REASONS.get(name, BUSY)

    def _bounds(self, name: str, i: int) -> tuple[float, float]:
        low, high = self._fates[name]
        return float(low[i]), float(high[i])

    def _since(self, i: int) -> float | None:
        since = self._account.books.since[i] - self._view.state.clock.applied
        return None if np.isnan(since) else round(float(since), 3)

    def _there(self, i: int) -> dict[str, Amount]:
        """By one row of the broker: they sum up to the content."""
        books, queues = self._account.books, self._queues
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
        consumers, of = self._view.snapshot.consumers, self._account.in_doubt
        if consumers is None or not np.nan_to_num(self._queues["delivering"][i]):
            return {}, {}
        at = np.flatnonzero(self._view.snapshot.consumer_queue == self._queues.index.keys[i])
        by_client: dict[str, float] = {}
        for consumer in at.tolist():
            client = consumers.index.rows[consumer].client
            by_client[client] = by_client.get(client, 0.0) + float(np.nan_to_num(consumers["buffered"][consumer]))
        low, high = of.bounds
        by_state: dict[str, Amount] = {
            "buffered": json_number(sum(by_client.values())),
            "uncommitted": json_number(float(np.nan_to_num(consumers["awaiting_commit"][at]).sum())),
            "in_doubt": None if np.isnan(high[i]) else amount(float(low[i]), float(high[i])),
            "by_link": amount(*map(float, of.links[:, i])),
            "unheld": amount(*map(float, of.rest[:, i])),
        }
        return by_state, {client: json_number(n) for client, n in sorted(by_client.items()) if n}

    def _lost_by(self, i: int) -> Iterator[tuple[str, Amount]]:
        of, lost = self._account.ring_losses, self._account.books.lost[i]
        if of.index is not self._queues.index or np.isnan(lost) or not lost:
            return
        least, most = float(of.least[i]), min(float(of.most[i]), float(lost))
        yield "arrivals", amount(lost - most, lost - least)
        named = of.by_client.get(int(self._queues.index.keys[i]), {})
        for client, one in sorted(named.items()):
            if one.most:
                yield client, amount(one.least, min(one.most, lost))
        if sum(one.most for one in named.values()) < most:
            yield UNNAMED, amount(0.0, most - sum(one.least for one in named.values()))


def amount(low: float, high: float) -> Amount:
    """A number where both agree; None where nothing is known."""
    least, most = json_number(low), json_number(high)
    if least is None or np.isnan(high) or (most is None and least == 0):
        return None
    return least if least == most else (least, most)


def exact(value: Amount) -> bool:
    return isinstance(value, int | float)


def sums(came: Mapping[str, Amount], there: Mapping[str, Amount], left: Mapping[str, Amount], gap: Amount) -> str:
    """The arithmetic of a queue's sheet."""

    def terms(amounts: Mapping[str, Amount]) -> str:
        return " + ".join(f"{text(value)} {name.replace('_', ' ')}" for name, value in amounts.items() if value != 0)

    parts = terms(there), terms(together(left)), terms({"unexplained": gap} if gap else {})
    right = " + ".join(filter(None, parts))
    return f"{terms(came) or '0'} = {right or '0'}"


def together(left: Mapping[str, Amount]) -> dict[str, Amount]:
    """With fates that the broker counts as one in one term, where it is not known which of them it was."""
    found = dict(left)
    for name, other in EITHER_OF:
        low, high = left.get(name), left.get(other)
        if isinstance(low, tuple) and isinstance(high, tuple) and high[1] is not None:
            found |= {name: 0, other: 0, f"{name} or {other}": low[0] + high[1]}
    return found
