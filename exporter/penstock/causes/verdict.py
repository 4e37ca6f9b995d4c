"""What is known of a cause, and the fact that shows it."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property, partial
from typing import Any, NamedTuple


class CauseState(StrEnum):
    """What is known of a cause: what the broker shows proves it, leaves it open, or cannot be with it."""

    PROVEN = "proven"
    POSSIBLE = "possible"
    EXCLUDED = "excluded"


class Verdict(NamedTuple):
    """On one cause. fact: what shows it; of one that is possible what is missing, and when it will be known. likely:
    more speaks for it than for others that are possible.
    """

    state: CauseState
    fact: str = ""
    likely: bool = False


AGAINST = "against it: "
"""Begins the fact of a cause that is possible, where all that is known speaks against it."""
Verdicts = Mapping[str, Verdict]
"""By cause; one that is not here is possible."""


class OnDemand(Verdicts):
    """Verdicts that are worked out when they are first looked at, as most of a poll never are."""

    def __init__(self, decide: Callable[..., Verdicts], *of: Any) -> None:
        self._decide, self._of = decide, of

    @cached_property
    def _known(self) -> Verdicts:
        return self._decide(*self._of)

    def __getitem__(self, cause: str) -> Verdict:
        return self._known[cause]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


proven, possible, excluded = (partial(Verdict, state) for state in CauseState)


def judged(may_be: object, sure: object, said: str, otherwise: str) -> Verdict:
    """Excluded where it may not be, else possible, and proven where it is sure."""
    return (proven if sure else possible)(said) if may_be else excluded(otherwise)
