"""What an operator sets of the alerts: a file of values for `penstock alerts write`, and presets by what reads it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from msgspec import Meta, Struct, structs

from penstock.assets.thresholds import BROKERS_OWN, THRESHOLDS, Thresholds
from penstock.core.errors import ConfigError
from penstock.exposition.catalogue import TABLES
from penstock.series.labels import OTHER

Preset = Literal["prometheus", "kube-prometheus-stack", "openshift", "mimir"]
Label = Annotated[str, Meta(pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")]
URL = r"^https?://[^\s{}#]+$"
"""Of links in annotations. Without braces, as Prometheus would take `{{` for a template; without a fragment."""
Url = Annotated[str, Meta(pattern=URL)]
LabelValue = Annotated[
    str, Meta(pattern="^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$")
]
"""Of an object of Kubernetes."""


class AlertValues(Struct, frozen=True, forbid_unknown_fields=True):
    """
    preset: what reads the rules. release: of the Helm release whose Prometheus selects them, a label of the object.
    identity: labels that distinguish brokers of one name. disabled: alerts to leave out. severities: what to call
    warning, critical and info. labels: more of each alert. The rest: where links lead.
    """

    preset: Preset = "prometheus"
    release: LabelValue = ""
    identity: tuple[Label, ...] = ("cluster", "namespace")
    thresholds: Thresholds = THRESHOLDS
    disabled: frozenset[str] = frozenset()
    severities: dict[Literal["critical", "warning", "info"], str] = {}
    labels: dict[Label, str] = {}
    runbooks_url: Url = "https://penstock.example/runbooks"
    grafana_url: Url = "https://grafana.example"
    agent_url: Url = "https://penstock.example"

    def labels_of(self, *labels: str) -> str:
        """
        A list of PromQL: these labels of Penstock's own, and those of the identity.

        Rules aggregate `by` it. Each scrape adds labels of its own, as many as the operator maps (of pods, services,
        nodes); they differ between two agents on one broker, and change when a new pod takes over.
        """
        return ", ".join([*self.identity, *labels])

    def names(self) -> Mapping[str, str]:
        """What replaces ${NAME} in rules."""
        of_tables = {
            f"labels.{table}": self.labels_of(*labels)
            for table, labels in TABLES.items()
        }
        across = "".join(f"{name}, " for name in self.identity)
        places = {
            "identity": self.labels_of(),
            "across": across,
            "agent": self.labels_of("job", "instance"),
        }
        numbers = {
            name: str(value) for name, value in structs.asdict(self.thresholds).items()
        }
        return {
            **of_tables,
            **places,
            **numbers,
            "brokers_own": BROKERS_OWN,
            "other": OTHER,
        }


DEFAULT = AlertValues()


def read_values(file: Path) -> AlertValues:
    """ConfigError says what in it is wrong."""
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8-sig"))
        return msgspec.convert({} if document is None else document, AlertValues)
    except (OSError, ValueError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise ConfigError(
            f"cannot use the values of {file}: {_reason(error)}"
        ) from None


def with_options(values: AlertValues, options: Mapping[str, str | None]) -> AlertValues:
    """The values with options in place of those of their names. ConfigError says which option is wrong."""
    for name, text in options.items():
        if text is None:
            continue
        option = f"--{name.replace('_', '-')} {text!r}"
        try:
            checked = msgspec.convert({name: text}, AlertValues)
        except msgspec.ValidationError as error:
            hint = (
                ": give an address such as https://grafana.example/?orgId=2"
                if name.endswith("_url")
                else ""
            )
            raise ConfigError(f"cannot use {option}{hint}: {_reason(error)}") from None
        values = structs.replace(values, **{name: getattr(checked, name)})
    return values


def _reason(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error)).replace("$.", "")


def filled(text: str, names: Mapping[str, str]) -> str:
    """With names in place of ${NAME}."""
    return re.sub(r"\$\{([\w.]+)\}", lambda found: names[found[1]], text)
