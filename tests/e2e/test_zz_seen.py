"""What all scrapes of the run showed together, against the catalogue."""

from pathlib import Path

import pytest

from e2e.agent import FAMILIES_SEEN
from penstock.exposition.catalogue import CATALOGUE

pytestmark = pytest.mark.broker

NOT_OF_ARTEMIS: dict[str, str] = {}
"""Families that no Artemis fills in these tests, and why."""


def test_families_seen(request: pytest.FixtureRequest) -> None:
    here = Path(__file__).parent
    chosen = {item.path for item in request.session.items if item.path.parent == here}
    if chosen != set(here.glob("test_*.py")):
        pytest.skip("judges all end-to-end tests together; run the folder")
    ours = {name for name in FAMILIES_SEEN if name.startswith(("mq_", "penstock_"))}
    assert ours == {family.name for family in CATALOGUE} - NOT_OF_ARTEMIS.keys()
