"""Made-up worlds of these tests have findings."""

import pytest

from conditions.world import Judged


@pytest.fixture(autouse=True)
def with_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judged, "WITH_FINDINGS", True)
