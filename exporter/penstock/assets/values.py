"""What an operator sets of the alerts: a file of values for `penstock alerts write`, and presets by what reads it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from msgspec import Meta, Struct, structs

from penstock.assets.thresholds import BROKERS_OWN, THRESHOLDS, Thresholds
from penstock.core.errors import PenstockError
from penstock.series.labels import OTHER

Preset = Literal["prometheus", "kube-prometheus-stack", "openshift", "mimir"]
Label = Annotated[str, Meta(pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")]
Url = Annotated[str, Meta(pattern="^https?://[^ ]+$")]
OF_SCRAPES = (
    "job", "instance", "namespace", "pod", "container", "endpoint", "service", "node",
    "prometheus", "prometheus_replica", "replica",
)  # fmt: skip
"""Labels that say who scraped whom. They change with a pod, and differ between two agents on one broker."""


class AlertValues(Struct, frozen=True, forbid_unknown_fields=True):
    """
    preset: what reads the rules. identity: labels that distinguish brokers of one name. disabled: alerts to leave out.
    severities: what to call warning, critical and info. labels: more of each alert. The rest: where links lead.
    """

    preset: Preset = "prometheus"
    identity: tuple[Label, ...] = ("cluster", "namespace")
    thresholds: Thresholds = THRESHOLDS
    disabled: frozenset[str] = frozenset()
    severities: dict[Literal["critical", "warning", "info"], str] = {}
    labels: dict[Label, str] = {}
    runbooks_url: Url = "https://penstock.example/runbooks"
    grafana_url: Url = "https://grafana.example"
    agent_url: Url = "https://penstock.example"

    @property
    def scraped(self) -> str:
        """The labels of scrapes that are no identity, as a list of PromQL."""
        return ", ".join(name for name in OF_SCRAPES if name not in self.identity)

    def names(self) -> Mapping[str, str]:
        """What replaces ${NAME} in rules."""
        across = "".join(f"{name}, " for name in self.identity)
        places = {"scraped": self.scraped, "across": across, "agent": f"{across}job, instance"}
        numbers = {name: str(value) for name, value in structs.asdict(self.thresholds).items()}
        return numbers | places | {"brokers_own": BROKERS_OWN, "other": OTHER}


DEFAULT = AlertValues()


def read_values(file: Path) -> AlertValues:
    """PenstockError says what in it is wrong."""
    try:
        return msgspec.convert(yaml.safe_load(file.read_text(encoding="utf-8")) or {}, AlertValues)
    except (OSError, ValueError, yaml.YAMLError, msgspec.ValidationError) as error:
        reason = re.sub(r"\s+", " ", str(error)).replace("$.", "")
        raise PenstockError(f"cannot use the values of {file}: {reason}") from None


def filled(text: str, names: Mapping[str, str]) -> str:
    """With names in place of ${NAME}."""
    return re.sub(r"\$\{(\w+)\}", lambda found: names[found[1]], text)
