"""All of the answers that do harm, against one agent: `make test-trust`."""

from pathlib import Path

import pytest

from penstock_demo.broker import Broker
from trust.bombs import BOMBS
from trust.test_bombs import defused

pytestmark = pytest.mark.broker


def test_all(artemis: Broker, tmp_path: Path) -> None:
    print(defused(artemis, tmp_path, BOMBS))  # noqa: T201 - the memory that each cost, for the docs
