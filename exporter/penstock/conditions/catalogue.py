"""All conditions, in the order of `catalogue.toml` and the documentation. A new one is a module and a section there."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from penstock.conditions.condition import DECLARED, Condition


def _of(name: str) -> Condition:
    """The one that the module of this name makes; it may import others."""
    module = vars(import_module(f"{__package__}.{name}"))
    return next(
        one
        for one in module.values()
        if isinstance(one, Condition) and one.name == name
    )


CONDITIONS: dict[str, Condition] = {name: _of(name) for name in DECLARED}
"""By name."""


@cache
def for_kind(kind: str) -> Mapping[str, Condition]:
    """Those of one kind of broker, each as it is there."""
    return {
        name: condition.on(kind)
        for name, condition in CONDITIONS.items()
        if condition.exists_on(kind)
    }


def on(kind: str, name: str) -> Condition:
    """As it is on a kind of broker, also where that kind does not have it."""
    return for_kind(kind).get(name, CONDITIONS[name])
