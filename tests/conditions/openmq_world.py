"""The same as `world` for an OpenMQ broker: what it shows otherwise, and what it shows alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from conditions.things import Numbers
from conditions.world import Judged
from penstock.core.table import Column, Index, Keys, Table
from penstock.model import (
    AcknowledgeMode,
    AddressRow,
    BrokerKind,
    ProducerRow,
    QueueKind,
    Snapshot,
    TransactionRow,
)
from penstock.settings.constants import Constants


@dataclass
class OpenmqJudged(Judged):
    """
    Polls of OpenMQ. K of a queue is what left it, C of a consumer N - T unless it is said. Consumers may say
    `connection`, `flow_paused`, `waiting`, `mode`; addresses `policy`. transactions: numbers with `connection` by id;
    producers: `address` and `connection` by id.
    """

    default_settings: ClassVar[Numbers] = {}
    transactions: dict[str, Numbers] = field(default_factory=dict)
    _ids: dict[str, int] = field(default_factory=dict)
    _address_rows: Index[AddressRow] = field(default_factory=Index.empty)

    def snapshot(
        self,
        queues: Mapping[str, Numbers],
        consumers: Mapping[str, Numbers],
        addresses: Mapping[str, Numbers],
    ) -> Snapshot:
        consumers = {
            name: {
                "C": said.get("N", 0) - said.get("T", 0),
                "acknowledge_mode": AcknowledgeMode.AUTO,
                **said,
            }
            for name, said in consumers.items()
        }
        policies = {
            name: str(said.get("policy", "reject_newest"))
            for name, said in addresses.items()
        }
        numbers = {
            name: {k: v for k, v in said.items() if k != "policy"}
            for name, said in addresses.items()
        }
        found = super().snapshot(queues, consumers, numbers)
        assert found.queues is not None
        assert found.consumers is not None
        assert found.addresses is not None
        assert found.broker is not None
        columns = dict(found.queues.columns)
        columns["removed"] = columns.pop("acknowledged")
        rows = [
            AddressRow(row.name, policies.get(row.name, "reject_newest"))
            for row in found.addresses.index
        ]
        transactions, of = self._linked(
            [TransactionRow(name, "app", "u") for name in self.transactions],
            self.transactions,
        )
        making = [
            ProducerRow(name, str(said["address"]), "app", "")
            for name, said in (self.producers or {}).items()
        ]
        producers, producing = self._linked(making, self.producers or {})
        return replace(
            found,
            broker=replace(
                found.broker, kind=BrokerKind.OPENMQ, version="6.5.1", clock=np.nan
            ),
            queues=Table(found.queues.index, columns),
            addresses=Table(
                self._address_index(found.addresses.index.keys, rows),
                found.addresses.columns,
            ),
            transactions=transactions,
            producers=producers,
            producer_connection=producing,
            transaction_connection=of,
        )

    def _address_index(self, keys: Keys, rows: list[AddressRow]) -> Index[AddressRow]:
        """An address keeps its key from poll to poll, also where a poll lacks it."""
        at = self._address_rows.positions(keys).tolist()
        changed = [
            i
            for i, p in enumerate(at)
            if p >= 0 and self._address_rows.rows[p] != rows[i]
        ]
        self._address_rows, _ = self._address_rows.advance(
            keys, lambda new: [rows[i] for i in new], changed=keys[changed]
        )
        return self._address_rows

    def _linked(
        self, rows: list[Any], numbers: Mapping[str, Mapping[str, Any]]
    ) -> tuple[Table[Any], Any]:
        names = {name for said in numbers.values() for name in said} - {
            "address",
            "connection",
        }
        columns: dict[str, Column] = {
            name: np.array(
                [said.get(name, np.nan) for said in numbers.values()], np.float64
            )
            for name in names
        }
        keys = np.array(
            [self._ids.setdefault(row.id, len(self._ids)) for row in rows], np.int64
        )
        index, order = (
            Index[Any].empty().advance(keys, lambda new: [rows[i] for i in new])
        )
        connection = self._connected.keys_of(numbers, numbers)
        return Table(
            index, {name: column[order] for name, column in columns.items()}
        ), connection[order]


COLD = Constants(cold=60.0)


def openmq_polls(
    judged: OpenmqJudged, count: int, said: Callable[[int], dict[str, Any]]
) -> OpenmqJudged:
    """`said`: keyword arguments of `poll` by its number."""
    for i in range(count):
        judged.poll(**said(i))
    return judged


def openmq(**options: Any) -> OpenmqJudged:
    return OpenmqJudged(constants=COLD, **options)


def subscription(**said: Any) -> dict[str, Any]:
    kind = {"kind": QueueKind.SUBSCRIPTION, "address": "t", "routing_type": "multicast"}
    return {"A": np.nan, "K": np.nan, **kind, **said}


def losing(
    policy: str, limit: float, kind: QueueKind = QueueKind.USER, polls: int = 8
) -> OpenmqJudged:
    """30 come a poll, a consumer takes 10, the limit removes 20 unread."""
    world = openmq()
    return openmq_polls(world, polls, lambda i: {
        "queues": {"q": {"A": 1000 + 30 * i, "K": 500 + 30 * i, "M": 500, "D": 10, "kind": kind}},
        "consumers": {"c": {"N": 110 + 10 * i, "T": 10, "L": world.now + 10}},
        "addresses": {"q": {"limit_messages": limit, "producers": 1, "policy": policy}},
    })  # fmt: skip
