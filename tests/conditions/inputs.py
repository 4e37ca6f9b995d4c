"""What the rules of a made-up poll read, with some of its numbers as a test wants them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from conditions.world import Judged
from penstock.core.table import Table
from penstock.observation.poll import RuleInputs
from penstock.rule_engine import judgement


@contextmanager
def kept_inputs() -> Iterator[list[RuleInputs]]:
    """What rules are given meanwhile, poll by poll."""
    kept: list[RuleInputs] = []
    make = judgement.rule_inputs

    def making(*args: Any) -> RuleInputs:
        kept.append(make(*args))
        return kept[-1]

    with patch.object(judgement, "rule_inputs", making):
        yield kept


def inputs_after(
    world: Judged, polls: int, said: Callable[[int], Mapping[str, Any]]
) -> RuleInputs:
    """What the rules read at the last of so many polls.

    said: what `world.poll` is given, by the number of the poll.
    """
    with kept_inputs() as kept:
        for number in range(polls):
            world.poll(**said(number))
    return kept[-1]


def changed(poll: RuleInputs, **values: Any) -> RuleInputs:
    """The same poll with other values; `a__b=1` is b of a. Nothing that was worked out of the old ones is left."""
    result = poll
    for path, value in values.items():
        result = with_value(result, path.split("__"), value)
    return replace(result, _results={})


def with_value(thing: Any, path: list[str], value: Any) -> Any:
    """A copy of the thing with this value at the path, which may lead through tables and mappings."""
    if isinstance(thing, Table):
        return replace(thing, columns=with_value(thing.columns, path, value))
    first, *rest = path
    if isinstance(thing, Mapping):
        return {
            **thing,
            first: with_value(thing[first], rest, value) if rest else value,
        }
    new = with_value(getattr(thing, first), rest, value) if rest else value
    return replace(thing, **{first: new})


def column(*values: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(values, np.float64)


def mask(*values: bool) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.array(values, np.bool_)


def positions(*values: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, np.int64)
