"""What `/metrics` shows of one broker, and until when."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.agent import tables as own
from penstock.agent.assessor import Assessor, PollResult, Result
from penstock.agent.tables import SERIES, SeriesBudget
from penstock.assessment.assess import Tables
from penstock.exposition.render import BrokerBlocks
from penstock.insight.events import Event
from penstock.series.last_good import keep_seconds


@dataclass(slots=True)
class Publisher:
    """`publish` and `withdraw` run where the assessor does; `fresh_until` is read in between, `blocks` at any time."""

    assessor: Assessor
    on_change: Callable[[Iterable[Event]], None] = lambda _: None
    """Called where `publish` runs, with what changed at a poll."""
    record: Callable[[Sequence[Event]], None] = lambda _: None
    """Called there with the same before the poll is shown: what is shown must not be lost."""
    blocks: BrokerBlocks = field(default_factory=BrokerBlocks)
    budget: SeriesBudget = field(default_factory=SeriesBudget)
    fresh_until: float = np.inf
    """When what is shown becomes too old, by the monotonic clock; inf while nothing is."""

    def publish(self, poll: PollResult, polls: Mapping[Result, int]) -> None:
        """Render after a poll; what it could not read is shown only while it is fresh enough. polls: so far."""
        failed = poll.result is Result.FAILED
        if failed and time.monotonic() > self.fresh_until:
            self.assessor.forget()
        changed = list(self.assessor.changes(poll))
        self.record(changed)
        try:
            self.blocks.update(self._shown(poll, polls), self.assessor.policy.limits.label_length)
        finally:
            self.on_change(changed)
        if self.assessor.view is None:
            self.fresh_until = np.inf
        elif not failed or np.isinf(self.fresh_until):
            self.fresh_until = time.monotonic() - poll.seconds + keep_seconds(self.assessor.interval)

    def withdraw(self, poll: PollResult, polls: Mapping[Result, int]) -> None:
        """Show only that the broker is down. poll: the last one."""
        self.fresh_until = np.inf
        self.assessor.forget()
        self.publish(replace(poll, result=Result.FAILED), polls)

    def _shown(self, poll: PollResult, polls: Mapping[Result, int]) -> Tables:
        """The tables of the assessment and those of the agent; how many samples there are is counted last."""
        broker, snapshot = self.assessor.name, self.assessor.snapshot
        left_out = () if snapshot is None else snapshot.observation.left_out
        tables = {
            **self.assessor.tables,
            "collector": own.collector_table(broker, self.assessor.collectors),
            "poll": own.poll_table(broker, polls),
        }
        numbers = {
            "up": float(poll.result is not Result.FAILED),
            "poll_duration": round(poll.seconds, 6),
            "poll_timestamp": np.nan if snapshot is None else round(snapshot.stamp, 3),
            "series_dropped": 0.0,
            "rows_dropped": float(sum(one.count for one in left_out if one.what != SERIES)),
            "series": 0.0,
        }
        tables["broker"] = own.with_poll(tables, broker, numbers)
        tables = self.budget.fitted(tables, self.assessor.policy)
        self.assessor.series_left_out = self.budget.left_out
        numbers["series_dropped"] = float(own.series_of_hidden(self.assessor.hidden()) + self.budget.dropped)
        numbers["series"] = float(own.series(tables))
        tables["broker"] = own.with_poll(tables, broker, numbers)
        return tables
