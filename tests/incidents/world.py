"""A broker in a few lines with producers, connections and links, and the incidents that are told of it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from conditions.things import Numbers, Things
from conditions.world import Judged
from penstock.core.table import Index, Table
from penstock.incidents.incident import Incident
from penstock.model import ConnectionRow, LinkRow, ProducerRow, Snapshot
from penstock.settings.constants import Constants

KIB = 2.0**10
MIB = 2.0**20
STEP = 5.0
FULL = {
    "policy": "block",
    "limit_percent": 117.0,
    "limit_bytes": 200 * KIB,
    "memory_bytes": 234 * KIB,
}
"""An address at its own limit."""


class Scene(Judged):
    """producers: `address`, `client`, `session` and `produced` by name; links: `queue` and `up` by name."""

    def __init__(self, **about: float) -> None:
        super().__init__(
            constants=Constants(cold=20.0, floor=10.0), step=STEP, about=about
        )
        self.queues: dict[str, dict[str, Any]] = {}
        self.consumers: dict[str, dict[str, Any]] = {}
        self.addresses: dict[str, dict[str, Any]] = {}
        self.producers: dict[str, dict[str, Any]] = {}
        self.links: dict[str, dict[str, Any]] = {}
        self.diverts: tuple[tuple[str, str], ...] = ()
        self._producers = Things()
        self._connections = Things()

    def snapshot(
        self,
        queues: Mapping[str, Numbers],
        consumers: Mapping[str, Numbers],
        addresses: Mapping[str, Numbers],
    ) -> Snapshot:
        found = super().snapshot(queues, consumers, addresses)
        rows = {
            n: ProducerRow(n, p["address"], p["client"], p.get("session", f"p{n}"))
            for n, p in self.producers.items()
        }
        produced = {
            n: {"produced": p.get("produced", 0.0)} for n, p in self.producers.items()
        }
        clients = sorted(
            {
                row.client
                for row in (
                    *rows.values(),
                    *(found.consumers.index if found.consumers else ()),
                )
            }
        )
        connections = {
            c: ConnectionRow(f"id-{c}", c, "CORE", "u", "h") for c in clients
        }
        connection_table = self._connections.table(
            connections, {c: {"sessions": 1.0} for c in clients}, {}
        )
        keys = {
            row.client: key
            for row, key in zip(
                connection_table.index, connection_table.index.keys, strict=True
            )
        }
        consumers_listed = found.consumers.index if found.consumers else ()
        links = [
            LinkRow(name, "bridge", said["queue"]) for name, said in self.links.items()
        ]
        numbers = {
            c: np.array([said.get(c, 1.0) for said in self.links.values()])
            for c in ("up", "pending", "started")
        }
        return replace(
            found,
            producers=self._producers.table(rows, produced, {}),
            connections=connection_table,
            consumer_connection=np.array(
                [keys[row.client] for row in consumers_listed], np.int64
            ),
            links=Table(Index.of(links), numbers),
            diverts=self.diverts,
        )

    def run(
        self, polls: int, live: Callable[["Scene"], object] = lambda _: None
    ) -> "Scene":
        for _ in range(polls):
            live(self)
            self.poll(self.queues, self.consumers, self.addresses)
        return self

    # --- what lives in it

    def reader(
        self,
        name: str,
        queue: str,
        client: str = "",
        *,
        waits: float = 0.0,
        **said: Any,
    ) -> None:
        """A consumer; all that it does is in its dict."""
        self.queues.setdefault(queue, {"A": waits, "K": 0.0, "M": waits, "D": 0.0})
        self.consumers[name] = {
            "queue": queue,
            "client": client or name,
            "N": 0.0,
            "C": 0.0,
            "T": 0.0,
            **said,
        }

    def works(self, *names: str, n: float = 50.0) -> "Scene":
        """So many come, are taken and are acknowledged."""
        for name in names:
            one = self.consumers[name]
            queue = self.queues[one["queue"]]
            queue["A"] += n
            queue["K"] += n
            one["N"] += n
            one["C"] += n
            one["L"] = one["Ld"] = self.now + self.step
        return self

    def holds(self, *names: str, n: float = 100.0, at: float | None = None) -> "Scene":
        """Takes so many and acknowledges none of them; its last acknowledgement was `at`."""
        for name in names:
            one = self.consumers[name]
            queue = self.queues[one["queue"]]
            if not one["T"]:
                one["T"], one["N"] = n, one["N"] + n
                queue["A"], queue["M"], queue["D"] = (
                    queue["A"] + n,
                    queue["M"] + n,
                    queue["D"] + n,
                )
                one["L"] = one["Ld"] = self.now if at is None else at
        return self

    def come(self, queue: str, n: float = 100.0) -> "Scene":
        """So many come to a queue and wait."""
        one = self.queues.setdefault(queue, {"A": 0.0, "K": 0.0, "M": 0.0, "D": 0.0})
        one["A"] += n
        one["M"] += n
        return self

    def sends(self, *names: str, n: float = 50.0) -> "Scene":
        for name in names:
            self.producers[name]["produced"] = (
                self.producers[name].get("produced", 0.0) + n
            )
        return self

    # --- what is told

    @property
    def incidents(self) -> tuple[Incident, ...]:
        return self.state.judgement.incidents.told

    @property
    def incident(self) -> Incident:
        (found,) = self.incidents
        return found

    @property
    def roots(self) -> list[tuple[str, str]]:
        return sorted((one.kind, one.object) for one in self.incidents)
