"""The agent's side of the history: a writer where the configuration asks for one. Without it pyarrow is not loaded."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from penstock.config import History
from penstock.errors import ConfigError
from penstock.flow.judge.judge import Judgement
from penstock.model import Snapshot

if TYPE_CHECKING:
    from penstock.history.writer import HistoryWriter

SPOOL = "spool"
PUBLISHED = "history"


class Past:
    """Hands polls to the history's writer; does nothing where there is none."""

    def __init__(self) -> None:
        self._config = History()
        self._writer: HistoryWriter | None = None

    def apply(self, config: History, storage: Path | None) -> None:
        """
        Write as `config` says from now on. Raises ConfigError and goes on as before.

        storage: the directory of the spool; None = nothing may be kept, and no history is written.
        """
        if config == self._config:
            return
        opened = open_writer(config, storage) if config.enabled and storage is not None else None
        self.stop()
        self._config, self._writer = config, opened
        if opened is not None:
            opened.start()

    def offer(self, broker: str, interval: float) -> Callable[[Snapshot, Judgement], None]:
        """What to call with each poll of a broker."""

        def offered(snapshot: Snapshot, judgement: Judgement) -> None:
            writer = self._writer
            if writer is not None:
                writer.offer_poll(broker, interval, snapshot, judgement.conditions, evicted(snapshot, judgement))

        return offered

    def numbers(self) -> Mapping[str, float]:
        return {} if self._writer is None else self._writer.numbers()

    def stop(self) -> None:
        """Publish what there is; may take some seconds."""
        if self._writer is not None:
            self._writer.stop()
            self._writer = None


def evicted(snapshot: Snapshot, judgement: Judgement) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Per queue what its ring threw away since the broker's start; empty where this poll was not judged."""
    measures = judgement.measures
    judged = snapshot.queues is not None and measures.index is snapshot.queues.index
    return measures.columns.get("evicted", np.empty(0)) if judged else np.empty(0)


def open_writer(config: History, storage: Path) -> "HistoryWriter":
    try:
        from penstock.history.compact import Keep  # noqa: PLC0415 - the core is installed without pyarrow
        from penstock.history.writer import HistoryWriter, Settings  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(f"history needs {error.name}, please: pip install 'penstock[history]'") from None
    settings = Settings(
        spool=storage / SPOOL,
        url=config.url or str(storage / PUBLISHED),
        publish=config.publish,
        spool_bytes=config.max_spool,
        keep=Keep(config.keep / 86400, config.max_size),
        agent=config.agent,
    )
    return HistoryWriter(settings)
