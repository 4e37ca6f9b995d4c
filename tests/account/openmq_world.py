"""Polls of an OpenMQ broker in plain numbers, read in the reader's order, and what its account says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conditions.openmq_world import COLD, OpenmqJudged, subscription
from penstock.agent.checkpoint import checkpoint_of, restore
from penstock.assessment.assess import State
from penstock.insight.answers import AccountSheet
from penstock.insight.explain import BrokerView
from penstock.insight.sheets import openmq_account_list
from penstock.model import QueueKind, Snapshot

DMQ = "mq.sys.dmq"
SETTINGS: Mapping[str, Any] = {
    "dead_letters": 1,
    "message_limit_bytes": 1e7,
    "limit_messages": 1000,
    "topic": 0,
}


@dataclass
class Openmq(OpenmqJudged):
    step: float = 2.0
    last: Snapshot | None = None
    acknowledged_at: float = 0.0

    def snapshot(self, *said: Any) -> Snapshot:
        self.last = super().snapshot(*said)
        return self.last

    def see(
        self,
        i: float = 0,
        o: float = 0,
        n: float = 0,
        *,
        h: float = 0,
        y: float = 0,
        dead: float = 0,
        consumers: Mapping[str, tuple[float, float]] | None = None,
        others: Mapping[str, Mapping[str, Any]] | None = None,
        polls: int = 1,
        delivering: float | None = None,
        idle: bool = False,
        carried: bool = False,
        filter_: str = "",
        **settings: Any,
    ) -> "Openmq":
        """
        Queue q with I, O, N, H and Y; dead: I of the dead message queue. consumers: r and p by id. others: further
        queues, those with `consumers` have one that has acknowledged nothing yet, and columns of topics. idle: no
        consumer acknowledges. carried: the depth of q is not read. filter_: of all consumers. settings: of q.
        """
        rows = {
            name: {
                "queue": "q",
                "client": name,
                "N": r + p,
                "T": p,
                "L": self.acknowledged_at if idle else self.now,
                "filter": filter_,
            }
            for name, (r, p) in (consumers or {}).items()
        }
        for name, said in (others or {}).items():
            if said.get("consumers"):
                rows[f"visitor of {name}"] = {
                    "queue": name,
                    "client": name,
                    "N": 0,
                    "T": 0,
                    "L": self.now,
                }
        self.acknowledged_at = self.acknowledged_at if idle else self.now
        held = (
            sum(p for _, p in (consumers or {}).values())
            if delivering is None
            else delivering
        )
        queues: dict[str, dict[str, Any]] = {
            "q": {
                "A": i,
                "K": o,
                "M": n,
                "D": held,
                "S": y,
                "uncommitted": h,
                "consumers": len(consumers or {}),
            }
            | ({"exact": 0.0} if carried else {}),
            DMQ: {
                "A": dead,
                "K": 0.0,
                "M": dead,
                "D": 0.0,
                "kind": QueueKind.DEAD_LETTER,
                "uncommitted": 0.0,
            },
            **{
                f"sub of {name}" if said.get("topic") else name: subscription(
                    address=name, M=0, D=0
                )
                if said.get("topic")
                else dict(said)
                for name, said in (others or {}).items()
            },
        }
        addresses = {
            "q": {**SETTINGS, **settings},
            DMQ: {**SETTINGS, "policy": "remove_oldest"},
            **{
                name: {**SETTINGS, **(said if said.get("topic") else {})}
                for name, said in (others or {}).items()
            },
        }
        for _ in range(polls):
            self.poll(queues, rows, addresses)
        return self

    def restart_agent(self) -> None:
        """It knows what its state file says."""
        assert self.last is not None
        checkpoint = checkpoint_of(self.state, self.last, self.policy)
        assert checkpoint is not None
        self.state = restore(checkpoint, State(), self.last, self.policy)

    def sheet(self, name: str = "q") -> AccountSheet:
        """The first of that name: of a topic its own."""
        assert self.last is not None
        assert self.last.queues is not None
        view = BrokerView(self.state, self.tables, self.last, self.policy, self.step)
        return openmq_account_list(view, self.last.queues, name).rows[0]

    def losses(self) -> list[AccountSheet]:
        """What `penstock account BROKER` lists."""
        assert self.last is not None
        assert self.last.queues is not None
        view = BrokerView(self.state, self.tables, self.last, self.policy, self.step)
        return openmq_account_list(view, self.last.queues, "").rows

    def left(self, name: str = "q") -> dict[str, Any]:
        """What is not 0."""
        return {
            fate: value for fate, value in self.sheet(name).left.items() if value != 0
        }


def openmq_broker() -> Openmq:
    return Openmq(constants=COLD)
