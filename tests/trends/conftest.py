"""One Spark session for all tests of the trends, and a small generated fleet."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.history.store import Store
from penstock_demo.history import Fleet, Truth, generate
from penstock_trends.session import spark_session
from rig.s3 import CREDENTIALS

FLEET = Fleet(brokers=2, queues=5, days=4, interval=300, gaps=0.5, stalls=3.0, seed=4)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    os.environ |= CREDENTIALS  # what its workers see is what it was started with
    session = spark_session("local[2]", {"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()
    for name in CREDENTIALS:
        del os.environ[name]


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Truth]:
    """Raw history of four days; not to be changed."""
    store = Store(str(tmp_path_factory.mktemp("fleet")))
    return store, generate(store, FLEET)


@pytest.fixture
def own_fleet(fleet: tuple[Store, Truth], tmp_path: Path) -> Store:
    """A copy to change."""
    own = Store(str(tmp_path / "history"))
    for entry in fleet[0].files():
        content = fleet[0].read_bytes(entry.path)
        assert content is not None
        own.write_bytes(entry.path, content)
    return own
