"""What rules and dashboards use and the catalogue lacks yet; an entry must go when its family comes."""

from collections.abc import Mapping

PENDING: Mapping[str, frozenset[str]] = {}
"""Labels beside those of the target, by name."""

PENDING_CAUSES = frozenset({"orphaned"})
"""Causes that alerts name and no condition has yet."""
