"""Which columns a rule reads: it is given a poll that notes each column that is taken out of it."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from penstock.conditions.condition import Raised
from penstock.core.table import Index
from penstock.core.windows import Window
from penstock.observation.poll import RuleInputs

Read = set[Any]
"""Paths such as `found.consumer.held`, and rules whose result is taken as it is."""
DERIVED = {
    "found.consumer.place": "found.consumer.queue",
    "found.consumer.unplaced": "found.consumer.queue",
}
"""Columns that say the same as another one."""


@dataclass(frozen=True)
class Noting:
    """Stands for a part of the inputs of a rule. What its methods and properties read is noted as well."""

    part: Any
    path: tuple[str, ...]
    read: Read

    def __getattr__(self, name: str) -> Any:
        own = inspect.getattr_static(type(self.part), name, None)
        if name == "of" and isinstance(self.part, RuleInputs):
            return self._result_of
        if isinstance(own, property):
            assert own.fget is not None
            return own.fget(self)
        if isinstance(own, FunctionType):
            return MethodType(own, self)
        return self._noted(name, getattr(self.part, name))

    def __getitem__(self, name: str) -> Any:
        """Of a table or a mapping."""
        return self._noted(name, self.part[name])

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self.part else default

    def items(self) -> Any:
        self._note()
        return self.part.items()

    def __contains__(self, name: object) -> bool:
        return name in self.part

    def __iter__(self) -> Iterator[Any]:
        return iter(self.part)

    def __len__(self) -> int:
        return len(self.part)

    def __bool__(self) -> bool:
        return bool(self.part)

    def _noted(self, name: str, value: Any) -> Any:
        below = Noting(value, (*self.path, name), self.read)
        if isinstance(value, np.ndarray | Window) or inspect.isfunction(value):
            below._note()
            return value
        if isinstance(value, Mapping) or (
            is_dataclass(value) and not isinstance(value, type | Index)
        ):
            return below
        return value

    def _note(self) -> None:
        path = ".".join(self.path)
        self.read.add(DERIVED.get(path, path))

    def _result_of(self, function: Callable[[Any], Any]) -> Any:
        """What another rule says is read as one thing: that rule has pairs of its own."""
        result = self.part.of(function)
        if not isinstance(result, Raised):
            return function(self)
        self.read.add(function)
        return result


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
