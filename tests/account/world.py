"""A broker of plain numbers whose producers are polled, too, and what the account says of it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conditions.things import Numbers, Things
from conditions.world import ADDRESS_TEXTS, Judged
from penstock.account.account import MessageAccount
from penstock.account.fates import address_fates, queue_fates
from penstock.agent.checkpoint import Checkpoint, checkpoint_of, restore
from penstock.assessment.assess import State
from penstock.core.table import Table
from penstock.insight.account import account_list
from penstock.insight.answers import AccountList, AccountSheet, Amount
from penstock.insight.explain import BrokerView
from penstock.model import Collector, LeftOut, ProducerRow, Snapshot, TransactionRow

BLANK = {"K": 0.0, "E": 0.0, "X": 0.0, "D": 0.0, "S": 0.0}


def queue(a: float, m: float, **said: Any) -> dict[str, Any]:
    """A row of a queue: A and M, all else 0 unless said."""
    return {**BLANK, "A": float(a), "M": float(m), **said}


@dataclass
class Broker(Judged):
    step: float = 2.0
    producers: dict[str, dict[str, Any]] | None = None
    """Not read, but where `see` is given senders."""
    last: Snapshot | None = None
    uncounted: bool = False
    """Its version shows no numbers of consumers."""
    _senders: Things = field(default_factory=Things)
    _listed: Things = field(default_factory=Things)
    _prepared: Things = field(default_factory=Things)

    def see(
        self,
        queues: Mapping[str, Numbers],
        addresses: Mapping[str, Numbers] | None = None,
        consumers: Mapping[str, Numbers] | None = None,
        senders: Mapping[str, tuple[str, float]] | None = None,
        *,
        polls: int = 1,
        unlisted: Collection[str] = (),
        left_out: Sequence[LeftOut] = (),
        late: Sequence[str] = (),
        prepared: Sequence[str] | None = (),
    ) -> "Broker":
        """
        The same at so many polls, read one after the other in 50 ms.

        addresses: without R it is what came to the queue of that name. senders: address and number of messages sent,
        by the id of the producer; None: not read. unlisted: addresses that are not listed. left_out, late: as in
        `Observation`, late by the names of queues. prepared: Xids; None: the account may not list them.
        """
        for _ in range(polls):
            self.now = self.now + self.step
            self.uptime = self.uptime + self.step
            routed = {
                name: {"messages_added": said["A"], "messages_unrouted": 0.0}
                for name, said in queues.items()
            }
            places = {
                name: {**routed.get(name, {}), **said}
                for name, said in {**routed, **(addresses or {})}.items()
            }
            snapshot = self.snapshot(queues, consumers or {}, places)
            listed = (
                {
                    row.name: row
                    for row in snapshot.addresses.index
                    if row.name not in unlisted
                }
                if snapshot.addresses
                else {}
            )
            numbers = {
                name: {
                    k: v
                    for k, v in places.get(name, {}).items()
                    if k not in ADDRESS_TEXTS
                }
                for name in listed
            }
            snapshot = replace(
                snapshot, addresses=self._listed.table(listed, numbers, {})
            )
            if self.uncounted and snapshot.consumers is not None:
                snapshot = replace(
                    snapshot, consumers=Table(snapshot.consumers.index, {})
                )
            if senders is not None:
                rows = {
                    name: ProducerRow(name, address, "app", "s" + name)
                    for name, (address, _) in senders.items()
                }
                numbers = {
                    name: {"produced": sent} for name, (_, sent) in senders.items()
                }
                snapshot = replace(
                    snapshot, producers=self._senders.table(rows, numbers, {})
                )
            order = ("consumers", "addresses", "queues", "sizes", "connections")
            parts = {
                name: Collector(0.01, snapshot.stamp + 0.01 * n)
                for n, name in enumerate(order)
            }
            assert snapshot.queues is not None
            keys = [
                key
                for key, row in zip(
                    snapshot.queues.index.keys, snapshot.queues.index, strict=True
                )
                if row.name in late
            ]
            observed = replace(
                snapshot.observation,
                left_out=tuple(left_out),
                late={"queues": np.array(keys)} if keys else {},
            )
            if prepared is None:
                parts["transactions"] = Collector(0.01, snapshot.stamp, "status 403")
            else:
                parts["transactions"] = Collector(0.01, snapshot.stamp)
                xids = {xid: TransactionRow(xid, "", "") for xid in prepared}
                snapshot = replace(
                    snapshot,
                    transactions=self._prepared.table(
                        xids, {xid: {} for xid in xids}, {}
                    ),
                )
            self.last = replace(snapshot, collectors=parts, observation=observed)
            self.judge(self.last)
        return self

    def made_again(self, queue: str) -> None:
        """The next queue of this name is another one: the broker gives it an id of its own."""
        self._queues.forget(queue)

    def restart(self, seconds: float = 10.0) -> None:
        """Of the broker. Queues keep their keys, addresses do not."""
        self.now = self.now + seconds
        self.uptime = 0.0
        self._listed = self._listed.again()

    def restart_agent(self, checkpoint: Checkpoint | None = None) -> None:
        """It knows what its state file says, or this one."""
        assert self.last is not None
        checkpoint = checkpoint or checkpoint_of(self.state, self.last, self.policy)
        assert checkpoint is not None
        self.state = restore(checkpoint, State(), self.last, self.policy)

    # --- what it says

    @property
    def account(self) -> MessageAccount:
        return self.state.judgement.account

    def at(self, name: str) -> int:
        return [row.name for row in self.account.books.index].index(name)

    def fate(self, fate: str, name: str = "q") -> tuple[float, float]:
        """At least and at most."""
        assert self.last is not None
        assert self.last.queues is not None
        found = queue_fates(self.account, self.last.queues) | address_fates(
            self.account
        )
        low, high = found[fate]
        return float(low[self.at(name)]), float(high[self.at(name)])

    def sheets(self, name: str) -> AccountList:
        assert self.last is not None
        return account_list(
            BrokerView(self.state, self.tables, self.last, self.policy, self.step), name
        )

    def sheet(self, name: str = "q", *, address: bool = False) -> AccountSheet:
        (found,) = [
            one for one in self.sheets(name).rows if (one.queue == "") is address
        ]
        return found

    def left(self, fate: str, name: str = "q") -> Amount:
        return self.sheet(name).left[fate]

    def shown(self) -> dict[tuple[str, str], float]:
        """mq_account_messages_total by queue, or "" and its address, and fate."""
        table = self.tables["account"]
        return {
            (row.queue or f"({row.address})", row.fate): float(value)
            for row, value in zip(table.index, table["messages"], strict=True)
            if value == value  # noqa: PLR0124 - NaN is not shown
        }
