"""Scenarios that live beside each other on one broker: a poll of many queues takes hardly longer than that of one."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from conditions.scenarios import Setup, together
from conditions.world import Consumer, Live, Queue, World
from penstock.conditions.condition import Severity


class QueueOfItsOwn(Queue):
    """A queue whose clients read no other one."""

    def join(self, client: str = "app", **options: Any) -> Consumer:
        return super().join(f"{client} of {self.name}", **options)


class Town(World):
    """Each scenario on the queue of its name; `live` lets all of them happen. options: those of a world."""

    def __init__(self, scenarios: Mapping[str, Setup], **options: Any) -> None:
        super().__init__(**options)
        self.alarms_of: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """Scenario → condition that warned → seconds from the begin to when it last did."""
        lives = []
        for self._scenario, setup in scenarios.items():
            lives.append(setup(self))
        self.live = together(*lives)

    def queue(self, name: str = "q", **options: Any) -> Queue:
        made = super().queue(
            self._scenario if name == "q" else f"{self._scenario}: {name}", **options
        )
        own = QueueOfItsOwn(self, made.name, made.ring, made.said, made.address)
        self.queues[made.name] = own
        return own

    def look(self, live: Live = lambda _: None) -> None:
        super().look(live)
        for condition in self.conditions:
            if condition.severity is not Severity.INFO:
                self.alarms_of[condition.queue][condition.name] = self.seconds
