"""`penstock init` on the oldest Artemis that shows everything, and on an OpenMQ: `make test-init`."""

from pathlib import Path

import pytest

from penstock_demo.openmq import OpenMQBroker
from penstock_demo.openmq import fetch as fetch_openmq
from setup.test_init_live import set_up, set_up_and_undone

pytestmark = pytest.mark.broker


def test_the_oldest_artemis(tmp_path: Path) -> None:
    set_up("2.28.0", tmp_path)


def test_an_openmq_with_the_agent_that_init_set_up(tmp_path: Path) -> None:
    broker = OpenMQBroker.create(tmp_path / "o1")
    broker.agent_options.unlink()  # init makes it, where the broker's command names it
    config = broker.agent_options.with_name("penstock.yaml")
    init = (
        "init",
        str(fetch_openmq()),
        "--config.file",
        str(config),
        "--url",
        broker.jolokia_url,
        "--yes",
    )
    set_up_and_undone(
        broker, config, init, "penstock", config.parent / "openmq.password"
    )
    assert not broker.agent_options.exists()
