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
HAS_ROOM = {"memory_used_bytes": 1.0, "memory_limit_bytes": 100.0, "disk_used_ratio": 0.1, "disk_limit_ratio": 0.9}
"""What a broker says of itself that is not full."""

proven, possible, excluded = CauseState.PROVEN, CauseState.POSSIBLE, CauseState.EXCLUDED


@dataclass
class Beside(Judged):
    """A broker that shows all that the rules ask for. Consumers may say `connection`, a number. producers: `address`,
    `session` and `produced` by id. settings_age: seconds since the settings of addresses were read; None: they never
    were. purges: whether the queues have purge-on-no-consumers; None: not read.
    """

    constants: Constants = COLD
    producers: dict[str, dict[str, Any]] | None = field(default_factory=dict)
    settings_age: float | None = 0.0
    purges: bool | None = False
    read: Snapshot | None = None
    """What the last poll read."""

    def __post_init__(self) -> None:
        self.about = HAS_ROOM | self.about
        super().__post_init__()

    def snapshot(
        self, queues: Mapping[str, Numbers], consumers: Mapping[str, Numbers], addresses: Mapping[str, Numbers]
    ) -> Snapshot:
        by_itself = {"purge_on_no_consumers": self.purges, "auto_delete": self.purges}
        queues = {name: by_itself | {"groups": 0.0} | dict(said) for name, said in queues.items()}
        places = {str(said.get("address", name)) for name, said in queues.items()}
        addresses = {name: {"paused": 0.0, "paging": 0.0} | dict(addresses.get(name, {})) for name in places}
        found = super().snapshot(queues, consumers, addresses)
        assert found.addresses is not None
        age = np.nan if self.settings_age is None else self.settings_age
        stamps = {"settings_stamp": np.full(len(found.addresses), found.stamp - age)}
        found = replace(found, addresses=Table(found.addresses.index, stamps | dict(found.addresses.columns)))
        assert found.consumers is not None
        connection = [int(consumers[row.id].get("connection", -1)) for row in found.consumers.index]
        said = self.producers or {}
        rows = [ProducerRow(name, str(one["address"]), "app", str(one["session"])) for name, one in said.items()]
        produced = np.array([float(one["produced"]) for one in said.values()])
        producers = None if self.producers is None else Table(Index.of(rows), {"produced": produced})
        self.read = replace(found, consumer_connection=np.array(connection, np.int64), producers=producers)
        return self.read


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
