"""Polls of a broker whose consumers name a connection and whose sessions may send, for the rules of causes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from conditions.things import Numbers
from conditions.world import START, Judged
from penstock.causes.verdict import CauseState, Verdict
from penstock.model import Snapshot
from penstock.settings.constants import Constants

POLLS = 12
COLD = Constants(cold=60.0)
MIB = 2.0**20
State = Mapping[str, CauseState]
HAS_ROOM = {
    "memory_used_bytes": 1.0,
    "memory_limit_bytes": 100.0,
    "disk_used_ratio": 0.1,
    "disk_limit_ratio": 0.9,
}
"""What a broker says of itself that is not full."""

proven = CauseState.PROVEN
possible = CauseState.POSSIBLE
excluded = CauseState.EXCLUDED


@dataclass
class Beside(Judged):
    """A broker that shows all that the rules ask for. purges: whether the queues have purge-on-no-consumers; None: not
    read.
    """

    constants: Constants = COLD
    purges: bool | None = False
    read: Snapshot | None = None
    """What the last poll read."""

    def __post_init__(self) -> None:
        self.about = HAS_ROOM | self.about
        super().__post_init__()

    def snapshot(
        self,
        queues: Mapping[str, Numbers],
        consumers: Mapping[str, Numbers],
        addresses: Mapping[str, Numbers],
    ) -> Snapshot:
        by_itself = {"purge_on_no_consumers": self.purges, "auto_delete": self.purges}
        queues = {
            name: by_itself | {"groups": 0.0} | dict(said)
            for name, said in queues.items()
        }
        self.read = super().snapshot(queues, consumers, addresses)
        return self.read


Said = Callable[[int, float], dict[str, Any]]
"""What is said at a poll, by its number and the broker's clock: keywords of `poll`."""


def verdicts(
    condition: str, said: Said, *, polls: int = POLLS, **options: Any
) -> Mapping[str, Verdict]:
    """What is known of the causes of the one that is active after these polls."""
    world = Beside(**options)
    for i in range(polls):
        world.poll(**said(i, START + (i + 1) * world.step))
    found = [one for one in world.conditions if one.name == condition]
    assert found, f"{condition} is not active: {world.names}"
    return found[0].verdicts


def states(found: Mapping[str, Verdict]) -> dict[CauseState, set[str]]:
    return {
        state: {name for name, one in found.items() if one.state is state}
        for state in CauseState
    }
