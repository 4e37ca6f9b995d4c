"""The actions of `catalogue.toml`, and those that fit a condition."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from penstock.causes.verdict import CauseState, Verdict
from penstock.conditions.wording import RAISE_LIMIT
from penstock.core.catalogues import read_toml


@dataclass(frozen=True, slots=True)
class CallTemplate:
    """An operation of Artemis' management. on: broker, address, queue or dead_letters (the dead-letter queue)."""

    on: str
    operation: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTemplate:
    """As `catalogue.toml` has it. Empty causes, brokers and protocols: of any.

    proof: only while one of these causes is proven. spoiled: not while one of these is, or is likely. decided: not
    while one of these is possible. done: not where one of these names is known. alerts: those of no condition that it
    helps with.
    """

    name: str
    do: str
    effect: str
    check: str
    never: str = ""
    calls: tuple[CallTemplate, ...] = ()
    command: str = ""
    conditions: frozenset[str] = frozenset()
    alerts: frozenset[str] = frozenset()
    causes: frozenset[str] = frozenset()
    proof: frozenset[str] = frozenset()
    spoiled: frozenset[str] = frozenset()
    decided: frozenset[str] = frozenset()
    done: frozenset[str] = frozenset()
    brokers: frozenset[str] = frozenset()
    protocols: frozenset[str] = frozenset()

    def fits(
        self,
        condition: str,
        verdicts: Mapping[str, Verdict],
        possible_causes: Collection[str],
        kind: str,
        protocol: str,
    ) -> bool:
        """possible_causes: those of the condition. protocol: of its client, empty where there is none."""
        causes = self.causes & frozenset(possible_causes)
        by_state = {
            state: {
                name
                for name, cause_verdict in verdicts.items()
                if cause_verdict.state is state
            }
            for state in CauseState
        }
        likely = {name for name, verdict in verdicts.items() if verdict.likely}
        return (
            condition in self.conditions
            and (not self.brokers or kind in self.brokers)
            and (not self.protocols or not protocol or protocol in self.protocols)
            and (
                not self.proof or not self.proof.isdisjoint(by_state[CauseState.PROVEN])
            )
            and self.spoiled.isdisjoint(by_state[CauseState.PROVEN] | likely)
            and self.decided.isdisjoint(by_state[CauseState.POSSIBLE])
            and (
                not self.causes
                or not possible_causes
                or bool(causes - by_state[CauseState.EXCLUDED])
            )
        )


MAY_HANG = {
    "if_it_hangs": "If it hangs",
    "last_if_it_hangs": "if it hangs",
    "unless_it_hangs": "If it does not hang: ",
}
"""Words for a client of which it is not known whether it hangs."""
SOMETIMES = (
    dict.fromkeys(("at_risk", "others", "stay", "freed", "killed"), "")
    | MAY_HANG
    | {"to_fall": "buffered"}
)
"""What names say where nothing else is known."""
_READ = read_toml("penstock.actions")["action"]
_FULL = [one | {"do": one["do"].replace("{raise_limit}", RAISE_LIMIT)} for one in _READ]
ACTIONS = msgspec.convert(_FULL, tuple[ActionTemplate, ...])
