"""
A recording of a real Artemis 2.44.0, 138 polls in 250 s, with what its clients counted: rings, a leak, crash loops,
messages that expire on arrival, XA, anonymous producers, a bridge. Read in the order addresses, producers, consumers,
queues.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import model
from penstock.core.table import Index, Table

FILE = Path(__file__).with_name("polls.jsonl.gz")
QUEUE_COLUMNS = (
    "added", "messages", "acknowledged", "expired", "killed", "delivering", "scheduled", "consumers",
)  # fmt: skip
CONSUMER_COLUMNS = ("buffered", "delivered", "acknowledged", "awaiting_commit")
NON_DESTRUCTIVE = frozenset({"g.nd"})


class Recorded:
    """truth: what the clients counted in the end, as `g.ring0.sent`."""

    def __init__(self) -> None:
        with gzip.open(FILE, "rt") as lines:
            head = json.loads(next(lines))
            self.polls: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self.queues: Mapping[str, dict[str, Any]] = head["queues"]
        self.truth: Mapping[str, int] = head["clients"]
        self._ids = {name: said["id"] for name, said in self.queues.items()}
        addresses = sorted({said["address"] for said in self.queues.values()})
        self._address_keys = {address: key for key, address in enumerate(addresses)}
        self._of_queues: Index[model.QueueRow] = Index.empty()
        self._of_addresses: Index[model.AddressRow] = Index.empty()
        self._of_consumers: Index[model.ConsumerRow] = Index.empty()
        self._of_producers: Index[model.ProducerRow] = Index.empty()

    def snapshots(self, every: int = 1) -> Iterator[model.Snapshot]:
        """Each `every`th poll, and the last five, by which all is quiet."""
        chosen = sorted(
            {
                *range(0, len(self.polls), every),
                *range(len(self.polls) - 5, len(self.polls)),
            }
        )
        for number in chosen:
            yield self.snapshot(self.polls[number])

    def snapshot(self, poll: dict[str, Any]) -> model.Snapshot:
        stamp = poll["t"] / 1000 if poll["t"] > 1e11 else poll["t"]
        broker = model.Broker(
            model.BrokerKind.ARTEMIS,
            "2.44.0",
            "",
            "node",
            model.Role.ACTIVE,
            clock=stamp,
            uptime=stamp - 1_795_320_000,
        )
        said = sorted(poll["q"], key=lambda q: self._ids[q[0]])
        numbers = dict(
            zip(QUEUE_COLUMNS, zip(*(q[1:] for q in said), strict=True), strict=True)
        )
        keys = [self._ids[q[0]] for q in said]
        queues = self._table(
            "_of_queues", keys, [self._queue(q[0]) for q in said], numbers
        )
        rings = [self.queues[row.name]["ring"] for row in queues.index]
        queues = Table(queues.index, {
            **queues.columns,
            "ring_limit": np.array([ring if ring >= 0 else np.nan for ring in rings]),
            "last_value": np.array([float(self.queues[row.name]["last_value"]) for row in queues.index]),
        })  # fmt: skip
        places = sorted(poll["a"])
        keys = [self._address_keys[a[0]] for a in places]
        addresses = self._table("_of_addresses", keys, [model.AddressRow(a[0], "page") for a in places], {
            "messages_added": [a[1] for a in places], "messages_unrouted": [a[2] for a in places],
            "paging": [a[3] for a in places], "non_destructive": [a[0] in NON_DESTRUCTIVE for a in places],
        })  # fmt: skip
        takers = sorted(poll["c"])
        consumers = self._table("_of_consumers", [c[0] for c in takers], [
            model.ConsumerRow(str(c[0]), c[1], c[1], c[2], f"s{c[0]}", "CORE", "u", "h", "") for c in takers
        ], {name: [c[3 + i] for c in takers] for i, name in enumerate(CONSUMER_COLUMNS)})  # fmt: skip
        senders = sorted(poll["p"])
        producers = self._table("_of_producers", [p[0] for p in senders], [
            model.ProducerRow(str(p[0]), "(anonymous)" if p[1] == "ANONYMOUS" else p[1], "app", f"s{p[0]}")
            for p in senders
        ], {"produced": [p[2] for p in senders]})  # fmt: skip
        part = model.Collector(poll["took"] / 4, stamp)
        return model.Snapshot(
            stamp=stamp,
            broker=broker,
            observation=model.Observation(model.Process.of(broker)),
            addresses=addresses,
            producers=producers,
            consumers=consumers,
            queues=queues,
            consumer_queue=np.array(
                [self._ids.get(row.queue, -1) for row in consumers.index], np.int64
            ),
            consumer_connection=np.full(len(consumers), -1, np.int64),
            collectors=dict.fromkeys(
                ("addresses", "connections", "consumers", "queues"), part
            ),
        )

    def _queue(self, name: str) -> model.QueueRow:
        said = self.queues[name]
        return model.QueueRow(
            name, said["address"], said["routing_type"], said["durable"], False, said["filter"],
            model.QueueKind.USER, model.RingSource.NONE, "", "",
        )  # fmt: skip

    def _table(
        self, of: str, keys: list[int], rows: list[Any], columns: Mapping[str, Any]
    ) -> Table[Any]:
        index, order = getattr(self, of).advance(
            np.array(keys, np.int64), lambda new: [rows[i] for i in new]
        )
        setattr(self, of, index)
        return Table(
            index,
            {
                name: np.array(values, np.float64)[order]
                for name, values in columns.items()
            },
        )
