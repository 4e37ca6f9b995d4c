"""What all scrapes of the run showed together, against the catalogue."""

from pathlib import Path

import pytest

from e2e.agent import FAMILIES_SEEN
from penstock.exposition.catalogue import CATALOGUE

pytestmark = pytest.mark.broker

NOT_SEEN = {
    "mq_client_unhealthy_consumers": "needs a client without progress for the five minutes of a first patience",
    "mq_client_notice": "the same",
}
"""Families that these tests do not see, and why; every other one they do."""


def test_families_seen(request: pytest.FixtureRequest) -> None:
    here = Path(__file__).parent
    chosen = {item.path for item in request.session.items if item.path.parent == here}
    if chosen != set(here.glob("test_*.py")):
        pytest.skip("judges all end-to-end tests together; run the folder")
    ours = {name for name in FAMILIES_SEEN if name.startswith(("mq_", "penstock_"))}
    expected = {family.name for family in CATALOGUE} - NOT_SEEN.keys()
    assert (sorted(ours - expected), sorted(expected - ours)) == ([], [])
