"""The thresholds of the alerts, as `thresholds.toml` has them."""

import re
from typing import Annotated, Any, Final

from msgspec import Meta, defstruct

from penstock.core.catalogues import read_toml

Duration = Annotated[str, Meta(pattern=r"^([0-9]+(ms|[smhdwy]))+$")]
"""As Prometheus writes it."""
_DEFAULTS: Final = read_toml("penstock.assets", "thresholds.toml")
_DURATIONS: Final = re.compile(r"keep_\w+|\w+_(for|window)")
_TYPES: Final = {
    name: Duration if _DURATIONS.fullmatch(name) else type(value)
    for name, value in _DEFAULTS.items()
}
Thresholds: Any = defstruct(
    "Thresholds",
    [(name, _TYPES[name], _DEFAULTS[name]) for name in _DEFAULTS],
    frozen=True,
    forbid_unknown_fields=True,
)
THRESHOLDS: Final = Thresholds()

BROKERS_OWN = "activemq[.].*|ActiveMQ[.]Advisory[.].*|mq[.].*|[$].*"
"""Addresses to which brokers send notices of their own, whether or not anybody listens: a regular expression."""
