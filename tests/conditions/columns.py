"""Which columns a rule reads: it is given a poll that notes each column that is taken out of it."""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np

from penstock.conditions.condition import Raised
from penstock.core.table import Index, Table
from penstock.observation.poll import RuleInputs

Read = set[str]
"""Paths such as `found__consumer__held`, as `conditions.inputs.changed` takes them."""


@dataclass(frozen=True)
class Noting:
    """Stands for a part of the inputs of a rule. What a method of the part itself reads is not noted."""

    part: Any
    path: tuple[str, ...]
    read: Read

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.part, name)
        path = (*self.path, name)
        if isinstance(value, np.ndarray):
            self.read.add("__".join(path))
            return value
        if is_dataclass(value) and not isinstance(value, type | Index | Table):
            return Noting(value, path, self.read)
        return value


def columns_read(rule: Callable[[RuleInputs], Any], poll: RuleInputs) -> Read:
    """The columns that the rule reads of this poll; fewer where it ends early."""
    read: Read = set()
    noting: Any = Noting(poll, (), read)
    rule(noting)
    return read


def mask_of(result: Any) -> list[bool]:
    """Of a rule, or of a part of one."""
    mask = result.mask if isinstance(result, Raised) else result
    found: list[bool] = np.asarray(mask).tolist()
    return found
