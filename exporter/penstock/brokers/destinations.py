"""The names of destinations, where a queue and a topic may have the same name."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DestinationNames:
    """A topic that shares its name with a queue gets another."""

    queues: frozenset[str] = frozenset()
    both: frozenset[str] = frozenset()

    @classmethod
    def of(cls, destinations: Iterable[tuple[str, str]]) -> "DestinationNames":
        """The names of these destinations, each a type (q or t) and a name."""
        queues: set[str] = set()
        topics: set[str] = set()
        for kind, name in destinations:
            if kind == "q":
                queues.add(name)
            elif kind == "t":
                topics.add(name)
        return cls(frozenset(queues), frozenset(queues & topics))

    def address(self, kind: str | None, name: str | None) -> str:
        """The name of the address of a destination."""
        name = name or ""
        if kind != "q" and name in self.both:
            return f"{name} (topic)"
        return name
