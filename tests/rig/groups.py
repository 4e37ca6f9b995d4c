"""Which tests run in one process, as they share a broker, an agent or a Spark session; and in which order."""

from collections.abc import Iterator

import pytest
from xdist.scheduler import LoadScopeScheduling

from rig.fleet import SHARED

GROUPS = (
    "tests/e2e/",
    "tests/trends/",
    "tests/flowbench/",
    "tests/assets/test_on_prometheus.py",
    "tests/cli/",
    "tests/rig/",
    "tests/trust/",
    "tests/history/test_import.py",
    "tests/demo/",
)
"""How the node ids of their tests begin. The longest come first, so that no process is left with one at the end."""
_NEEDS = {
    **dict.fromkeys((*SHARED, "openmq", "own_artemis", "artemis_pair"), "broker"),
    "spark": "spark",
}
"""Fixture → marker of the tests that use it."""


def group_of(test: str) -> str:
    """The group of a test by its node id, "" for one that runs by itself."""
    return next((group for group in GROUPS if test.startswith(group)), "")


def arrange(items: list[pytest.Item]) -> None:
    """Mark each test by what it needs, and put the groups first."""
    for item in items:
        for fixture in _NEEDS.keys() & set(named(item)):
            item.add_marker(_NEEDS[fixture])
    items.sort(
        key=lambda item: (
            GROUPS.index(group) if (group := group_of(item.nodeid)) else len(GROUPS)
        )
    )


def named(item: pytest.Item) -> Iterator[str]:
    """The fixtures that a test names, also those of brokers by a parameter (`request.getfixturevalue`)."""
    fixtures = getattr(item, "fixturenames", ())
    yield from fixtures
    call = getattr(item, "callspec", None)
    if call and "request" in fixtures:
        yield from (value for value in call.params.values() if isinstance(value, str))


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """A group goes to one process as a whole, in the order of collection; all other tests one by one."""

    # `--dist loadgroup` does not: xdist 3.8 writes groups into node ids where pytest 9.2 no longer reads them.

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid) or nodeid
