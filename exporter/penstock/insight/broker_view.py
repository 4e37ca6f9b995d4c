"""All that is known of a broker after a poll, and the error for a name that it does not have."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType

from penstock.assessment.assess import State, Tables
from penstock.conditions.condition import ActiveCondition
from penstock.core.errors import Hinted
from penstock.core.table import Index, Table
from penstock.incidents.incidents import Incidents
from penstock.insight.answers import Number
from penstock.model import BrokerKind, Role, Snapshot
from penstock.settings.policy import Policy

NEAR = 2000
"""Names among which similar ones are looked for."""
MOST_SUGGESTED = 3
MOST_LISTED = 10
"""Names in a hint: similar ones, and where none is similar."""


class NotFound(Hinted):
    """There is no such broker, queue or client; `hint` says what there is."""


@dataclass(frozen=True, slots=True)
class BrokerView:
    """All that is known of a broker after a poll."""

    state: State
    tables: Tables
    snapshot: Snapshot
    policy: Policy
    interval: float
    stale: float | UnsetType = UNSET
    """When the broker was read last, where it cannot be read now."""

    @property
    def kind(self) -> BrokerKind:
        """The kind of the broker; Artemis while the broker itself has not been read."""
        broker = self.snapshot.broker
        return BrokerKind.ARTEMIS if broker is None else broker.kind

    @property
    def node_id(self) -> str:
        """The node id that the broker serves; empty where it is passive or has none."""
        broker = self.snapshot.broker
        if broker is None or broker.role is Role.PASSIVE:
            return ""
        return broker.node_id

    @property
    def conditions(self) -> tuple[ActiveCondition, ...]:
        """The active conditions of the broker and of all that is on it."""
        return self.state.judgement.conditions

    @property
    def incidents(self) -> Incidents:
        """The incidents of the broker."""
        return self.state.judgement.incidents

    def table(self, name: str) -> Table[Any]:
        """The table of this name; one without rows where it could not be made."""
        return self.tables.get(name, Table(Index.empty()))

    def missing(
        self, kind: str, name: str, names: Sequence[str] | None, plural: str = ""
    ) -> NotFound:
        """The error for a name that the broker does not have.

        Args:
            kind: what the name is of, as "queue".
            name: the name that was asked for.
            names: the names that there are; None where they could not be read.
            plural: of `kind`, where it is not made by an s.
        """
        broker = self.policy.broker
        things = plural or f"{kind}s"
        if names is None:
            return NotFound(
                f"the {things} of broker {broker} could not be read",
                "see penstock check",
            )
        return NotFound(
            f"broker {broker} has no {kind} {name!r}",
            near(name, names, things),
        )


def near(name: str, names: Sequence[str], things: str) -> str:
    """A hint with similar names, or with the first of all where none is similar.

    Among many names it compares only those that contain the first letters.

    Args:
        name: the name that was asked for.
        names: the names that there are.
        things: what they name, in the plural.
    """
    candidates = sorted(set(names))
    if len(candidates) > NEAR:
        part = name.casefold()[:3]
        sharing_part = [text for text in candidates if part in text.casefold()]
        candidates = sharing_part[:NEAR]
    similar = difflib.get_close_matches(name, candidates, MOST_SUGGESTED, 0.5)
    if similar:
        return f"did you mean {' or '.join(similar)}?"
    if not candidates:
        return f"there are no {things}"
    first_names = ", ".join(candidates[:MOST_LISTED])
    more = ", …" if len(candidates) > MOST_LISTED else ""
    return f"{things}: {first_names}{more}"


def json_number(value: float) -> Number | None:
    """The number as JSON shows it, to three digits; None where it is not known."""
    if not np.isfinite(value):
        return None
    if float(value).is_integer():
        return int(value)
    return round(float(value), 3)
