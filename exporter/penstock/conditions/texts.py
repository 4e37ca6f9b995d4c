"""The words of conditions out of `texts.toml`: rules stand in code, sentences beside it."""

import tomllib
from importlib.resources import files
from typing import Any

from penstock.conditions.condition import Alert

_TEXTS = tomllib.loads(files("penstock.conditions").joinpath("texts.toml").read_text(encoding="utf-8"))


def texts(name: str) -> dict[str, Any]:
    """Arguments of the condition of this name: title, when, quiet_on, causes, action, alert, as far as given."""
    found = _TEXTS[name]
    return {**found, "alert": Alert(**found["alert"])} if "alert" in found else found
