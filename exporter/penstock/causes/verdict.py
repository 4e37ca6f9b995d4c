"""What is known of a cause, and the fact that shows it."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property, partial
from typing import NamedTuple, ParamSpec

from penstock.causes.evidence import UNKNOWN, Claim, lacks_of

P = ParamSpec("P")


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
Rivals = Mapping[str, tuple[str, ...]]
"""By cause the causes that would show the same numbers."""


class OnDemand(Verdicts):
    """Verdicts that are worked out when they are first looked at, as most of a poll never are."""

    def __init__(
        self, decide: Callable[P, Verdicts], *of: P.args, **named: P.kwargs
    ) -> None:
        self._decide = partial(decide, *of, **named)

    @cached_property
    def _known(self) -> Verdicts:
        return self._decide()

    def __getitem__(self, cause: str) -> Verdict:
        return self._known[cause]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


proven, possible, excluded = (partial(Verdict, state) for state in CauseState)


def concluded(
    fact: str,
    *,
    excluded_by: Claim = UNKNOWN,
    proof: Claim = UNKNOWN,
    otherwise: str = "",
    likely: bool = False,
) -> Verdict:
    """The verdict on a cause. Only a claim that is known excludes or proves; else the cause is possible, and the fact
    says what was not read.

    fact: what speaks for it. otherwise: what excludes it. likely: as in `Verdict`.
    """
    if excluded_by.is_so:
        return excluded(otherwise)
    if proof.is_so:
        return proven(fact)
    said = [fact, *lacks_of(excluded_by, proof)]
    return possible("; ".join(filter(None, said)), likely)


def held_to_rivals(
    verdicts: Verdicts, rivals: Rivals, texts: Mapping[str, str]
) -> Verdicts:
    """The verdicts, of which one stays proven only where each of its rivals is excluded by a number that was read.

    texts: what each cause of the condition is, in words.
    """
    held = dict(verdicts)
    for cause, verdict in verdicts.items():
        if verdict.state is not CauseState.PROVEN:
            continue
        open_rivals = [
            rival for rival in rivals.get(cause, ()) if not is_excluded(verdicts, rival)
        ]
        if open_rivals:
            also = " or ".join(texts[rival] for rival in open_rivals)
            held[cause] = possible(
                f"{verdict.fact}; it may as well be {also}", likely=verdict.likely
            )
    return held


def is_excluded(verdicts: Verdicts, cause: str) -> bool:
    return cause in verdicts and verdicts[cause].state is CauseState.EXCLUDED
