"""The agent's metrics about itself: its build, its configuration, its process."""

import platform
from collections.abc import Mapping
from typing import Final

import numpy as np
from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.process_collector import ProcessCollector

from penstock.exposition.catalogue import AGENT
from penstock.exposition.render import sample_lines
from penstock.exposition.syntax import END, Format, header, label_texts


class SelfMetrics:
    """
    Renders the families of the catalogue's table `agent`, and `registry`.

    registry: of its own, with `process_*`; who needs a metric that is no broker's registers it here.
    """

    def __init__(self, version: str, revision: str = "") -> None:
        self.version: Final = version
        self.revision: Final = revision
        self.pythonversion: Final = platform.python_version()
        self.registry: Final = CollectorRegistry()
        # Process-wide, there is no finer switch: `_created` series double the cost of a counter and say little.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        ProcessCollector(registry=self.registry)
        self._values: dict[str, float] = {"build_info": 1.0}

    def config_loaded(self, *, success: bool, timestamp: float) -> None:
        """Note that the configuration was (re)loaded, or could not be, at `timestamp`, in seconds since 1970."""
        values = {**self._values, "config_last_reload_successful": float(success)}
        if success:
            values["config_last_reload_success_timestamp"] = timestamp
        self._values = values

    def state_saved(self, *, success: bool) -> None:
        """Note that the state file was written, or could not be."""
        self._values = {**self._values, "state_save_success": float(success)}

    def discovered(self, brokers: int, failures: int) -> None:
        """Note how many brokers are watched, and how often in all a source of them could not be read."""
        self._values = {**self._values, "brokers": float(brokers), "discovery_failures": float(failures)}

    def history_written(self, numbers: Mapping[str, float]) -> None:
        """Note how the history goes; columns of the table `agent`, NaN = not shown."""
        kept = {name: value for name, value in self._values.items() if not name.startswith("history_")}
        self._values = kept | {name: value for name, value in numbers.items() if not np.isnan(value)}

    def render(self, form: Format) -> bytes:
        """All families, as whole lines without the end mark."""
        values = self._values
        own = []
        for family in AGENT:
            if family.column in values:
                labels = np.array(label_texts(family.label_names, [self]), np.object_)
                own.append(
                    header(family, form) + sample_lines(family.name, labels, np.array([values[family.column]]))[0]
                )
        return b"".join(own) + self._registered(form)

    def _registered(self, form: Format) -> bytes:
        if form is Format.TEXT:
            return generate_latest(self.registry)
        text: bytes = generate_openmetrics(self.registry)  # type: ignore[no-untyped-call]
        return text.removesuffix(END[form])
