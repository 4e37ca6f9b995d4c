"""Polls of a broker whose consumers name a connection and whose sessions may send, for the rules of causes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conditions.world import START, Judged, Numbers
from penstock.causes.verdict import CauseState, Verdict
from penstock.core.table import Index, Table
from penstock.model import ProducerRow, Snapshot
from penstock.settings.constants import Constants

POLLS = 12
COLD = Constants(cold=60.0)
MIB = 2.0**20
State = Mapping[str, CauseState]

proven, possible, excluded = CauseState.PROVEN, CauseState.POSSIBLE, CauseState.EXCLUDED


@dataclass
class Beside(Judged):
    """Consumers may say `connection`, a number. producers: `address`, `session` and `produced` by id."""

    constants: Constants = COLD
    producers: dict[str, dict[str, Any]] | None = field(default_factory=dict)

    def snapshot(
        self, queues: Mapping[str, Numbers], consumers: Mapping[str, Numbers], addresses: Mapping[str, Numbers]
    ) -> Snapshot:
        found = super().snapshot(queues, consumers, addresses)
        assert found.consumers is not None
        connection = [int(consumers[row.id].get("connection", -1)) for row in found.consumers.index]
        said = self.producers or {}
        rows = [ProducerRow(name, str(one["address"]), "app", str(one["session"])) for name, one in said.items()]
        produced = np.array([float(one["produced"]) for one in said.values()])
        producers = None if self.producers is None else Table(Index.of(rows), {"produced": produced})
        return replace(found, consumer_connection=np.array(connection, np.int64), producers=producers)


Said = Callable[[int, float], dict[str, Any]]
"""What is said at a poll, by its number and the broker's clock: keywords of `poll`."""


def verdicts(condition: str, said: Said, *, polls: int = POLLS, **options: Any) -> Mapping[str, Verdict]:
    """What is known of the causes of the one that is active after these polls."""
    world = Beside(**options)
    for i in range(polls):
        world.poll(**said(i, START + (i + 1) * world.step))
    found = [one for one in world.conditions if one.name == condition]
    assert found, f"{condition} is not active: {world.names}"
    return found[0].verdicts


def states(found: Mapping[str, Verdict]) -> dict[CauseState, set[str]]:
    return {state: {name for name, one in found.items() if one.state is state} for state in CauseState}
