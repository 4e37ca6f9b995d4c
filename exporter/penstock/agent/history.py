"""The agent's side of the history: a writer where the configuration asks for one. Without it pyarrow is not loaded."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from penstock.config import History
from penstock.core.errors import ConfigError, how_to_install
from penstock.core.safe_files import make_directory
from penstock.core.table import Column
from penstock.model import Snapshot
from penstock.rule_engine.judgement import Judgement

if TYPE_CHECKING:
    from penstock.history.ranges import HistoryReader
    from penstock.history.writer import HistoryWriter

log = logging.getLogger(__name__)

SPOOL = "spool"
PUBLISHED = "history"


class HistorySink:
    """Hands polls to the history's writer; does nothing where there is none."""

    def __init__(self) -> None:
        self._config = History()
        self._writer: HistoryWriter | None = None
        self._before: HistoryWriter | None = None
        """The writer before this one; it may still be publishing."""

    def plan(self, config: History, storage: Path | None) -> Callable[[], None]:
        """The step to writing so. Raises ConfigError; nothing has changed before it. storage: None: nothing is kept."""
        config = config.model_copy(
            update={"trends": None}
        )  # where trends are read from concerns no writer
        if config == self._config:
            return partial(self._switch, config, self._writer)
        if not config.enabled or storage is None:
            return partial(self._switch, config, None)
        try:
            return partial(self._switch, config, open_writer(config, storage))
        except ConfigError as error:
            raise ConfigError(config.mask(str(error))) from None

    def _switch(self, config: History, writer: "HistoryWriter | None") -> None:
        """The writer before publishes what it has, beside; the new one begins after it."""
        if writer is not self._writer:
            self._before = self._writer or self._before
            if writer is not None:
                writer.start(after=self._before)
            elif self._writer is not None:
                self._writer.end()
        self._config = config
        self._writer = writer

    def offer(
        self, broker: str, interval: float
    ) -> Callable[[Snapshot, Judgement], None]:

        def offered(snapshot: Snapshot, judgement: Judgement) -> None:
            if (writer := self._writer) is not None:
                writer.offer_poll(
                    broker, interval, snapshot, judgement, evicted(snapshot, judgement)
                )

        return offered

    def reader(self) -> "HistoryReader | None":
        """Return a reader of the published history; None where none is written."""
        return None if self._writer is None else self._writer.reader

    def numbers(self) -> Mapping[str, float]:
        return {} if self._writer is None else self._writer.numbers()

    def stop(self) -> None:
        """Publish what there is; may take some seconds."""
        for writer in (self._before, self._writer):
            if writer is not None:
                writer.stop()
        self._config = History()
        self._writer = None
        self._before = None


def take_over(place: Path, storage: Path) -> None:
    """Publish what a worker process of an earlier agent left, with the agent's own, under the same names."""
    for segment in sorted((place / SPOOL).glob("[!_]*/")):
        try:
            make_directory(storage / SPOOL)
            segment.rename(storage / SPOOL / f"{place.name}-{segment.name}")
        except OSError as error:
            log.warning(
                "%s cannot be taken over, and is not in the history yet: %s",
                segment,
                error.strerror,
            )


def evicted(snapshot: Snapshot, judgement: Judgement) -> Column:
    """Per queue what its ring threw away since the broker's start; empty where this poll was not judged."""
    judged = (
        snapshot.queues is not None
        and judgement.measures.index is snapshot.queues.index
    )
    return (
        judgement.measures.columns.get("evicted", np.empty(0))
        if judged
        else np.empty(0)
    )


def open_writer(config: History, storage: Path) -> "HistoryWriter":
    try:
        from penstock.history.compact import Keep  # noqa: PLC0415 - the core is installed without pyarrow
        from penstock.history.writer import HistoryWriter, WriterSettings  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ConfigError(f"history {how_to_install('pyarrow')}") from None
    settings = WriterSettings(
        spool=storage / SPOOL,
        url=config.url or str(storage / PUBLISHED),
        publish=config.publish,
        spool_bytes=config.max_spool,
        keep=Keep(config.keep / 86400, config.max_size),
        agent=config.agent,
    )
    return HistoryWriter(settings)
