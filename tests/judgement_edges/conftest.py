"""The commands set up the log of the process; what other tests read of it must not depend on that."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("penstock")
    handlers, levels = root.handlers[:], (root.level, own.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])
