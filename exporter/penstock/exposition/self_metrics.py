"""The agent's metrics about itself: its build, its configuration, its process."""

import platform
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.openmetrics.exposition import (
    generate_latest as generate_openmetrics,
)
from prometheus_client.process_collector import ProcessCollector

from penstock.core import build
from penstock.exposition.catalogue import AGENT
from penstock.exposition.render import sample_lines
from penstock.exposition.syntax import END, Format, header, label_text, label_texts

LABELS: Final = "broker_labels"
"""Column of the family that shows what operators say of brokers."""
EXPECTED: Final = "broker_expected"
"""Column of the family that shows which brokers all agents of this configuration are to watch."""


class SelfMetrics:
    """Renders the families of the catalogue's table `agent`, and its own `registry` with `process_*`. Only the event
    loop's thread notes anything here. asked: more of the table, by column, NaN = not shown; called once per body.
    """

    def __init__(
        self,
        version: str,
        revision: str = "",
        asked: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self.version: Final = version
        self.revision: Final = revision or build.revision()
        self.pythonversion: Final = platform.python_version()
        self.registry: Final = CollectorRegistry()
        # Process-wide, there is no finer switch: `_created` series double the cost of a counter and say little.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        ProcessCollector(registry=self.registry)
        self._asked = asked
        self._labelled: Mapping[str, list[bytes]] = {}
        """Column → the texts of the labels of its series, each 1."""
        self._config_is_loaded = False
        self._values: dict[str, float] = {
            "build_info": 1.0,
            "config_reload_failures": 0.0,
        }

    def config_loaded(self, timestamp: float) -> None:
        """Note that the configuration was (re)loaded at `timestamp`, in seconds since 1970."""
        self._config_is_loaded = True
        self._note(
            config_last_reload_successful=1.0,
            config_last_reload_success_timestamp=timestamp,
        )

    def config_refused(self) -> None:
        """Note that a reload of the configuration failed."""
        self._config_is_loaded = False
        failures = self._values["config_reload_failures"] + 1
        self._note(config_last_reload_successful=0.0, config_reload_failures=failures)

    def files_looked_at(self, *, usable: bool) -> None:
        """Note whether all files that the configuration names can be used as they are now."""
        self._note(
            config_last_reload_successful=float(self._config_is_loaded and usable)
        )

    def files_refused(self) -> None:
        """Note that a file that the configuration names has changed and cannot be used."""
        self._note(config_reload_failures=self._values["config_reload_failures"] + 1)

    def state_saved(self, *, success: bool) -> None:
        """Note that the state database was written, or could not be."""
        self._note(state_save_success=float(success))

    def watched(
        self, brokers: Mapping[str, Mapping[str, str]], expected: Iterable[str]
    ) -> None:
        """Note which brokers are watched: their labels by their names; and those that all shards are to watch."""
        self._note(brokers=float(len(brokers)))
        named = [
            {"broker": name} | {f"label_{key}": text for key, text in labels.items()}
            for name, labels in brokers.items()
            if labels
        ]
        self._labelled = {
            LABELS: [label_text(one) for one in named],
            EXPECTED: [label_text({"broker": name}) for name in expected],
        }

    def _note(self, **values: float) -> None:
        self._values = {**self._values, **values}

    def render(self, form: Format) -> bytes:
        """All families, as whole lines without the end mark."""
        values = {**self._values, **self._asked()}
        own = []
        for family in AGENT:
            if family.column in {LABELS, EXPECTED}:
                texts = self._labelled.get(family.column, [])
                numbers = np.ones(len(texts))
            else:
                texts = label_texts(family.label_names, [self])
                numbers = np.array([values.get(family.column, np.nan)])
            lines, samples = sample_lines(
                family.name, np.array(texts, np.object_), numbers
            )
            if samples:
                own.append(header(family, form) + lines)
        if form is Format.TEXT:
            return b"".join(own) + generate_latest(self.registry)
        registered: bytes = generate_openmetrics(self.registry)  # type: ignore[no-untyped-call]
        return b"".join(own) + registered.removesuffix(END[form])
