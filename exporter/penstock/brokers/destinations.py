"""What destinations are called, where queues and topics have names of their own."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DestinationNames:
    """A topic that shares its name with a queue gets another."""

    queues: frozenset[str] = frozenset()
    both: frozenset[str] = frozenset()

    @classmethod
    def of(cls, destinations: Iterable[tuple[str, str]]) -> "DestinationNames":
        """Of types (q or t) and names."""
        destinations = set(destinations)
        queues = frozenset(name for kind, name in destinations if kind == "q")
        return cls(
            queues, queues & {name for kind, name in destinations if kind == "t"}
        )

    def address(self, kind: str | None, name: str | None) -> str:
        name = name or ""
        return f"{name} (topic)" if kind != "q" and name in self.both else name
