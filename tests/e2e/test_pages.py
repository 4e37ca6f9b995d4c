"""Pages of two rows on a real broker, consumers that come and go between them: totals are the clients' own logs."""

from pathlib import Path

import pytest

from penstock_demo.broker import Broker
from trust.crowd import right, watched

pytestmark = pytest.mark.broker


async def test_totals_are_the_clients_own_logs(artemis: Broker, tmp_path: Path) -> None:
    found = await watched(
        artemis, tmp_path / "agent", 40, 24, interval=1.0, page_rows=2
    )
    assert right(found), found
    assert not found["conditions"]
