"""The query that docs/keda.md scales by, on a real Prometheus."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cli.conftest import Desk
from cli.documented import ROOT
from rig.prometheus import Prometheus
from rig.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.prometheus]
(EXAMPLE,) = re.findall(
    r"```yaml\n(.*?)```", (ROOT / "docs/keda.md").read_text(), re.DOTALL
)


@pytest.fixture(scope="module")
def prometheus(
    desk: Desk, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    with Prometheus(
        tmp_path_factory.mktemp("prometheus"), f"127.0.0.1:{desk.agent.port}"
    ) as running:
        yield running


def trigger() -> dict[str, Any]:
    (found,) = yaml.safe_load(EXAMPLE)["spec"]["triggers"]
    metadata: dict[str, Any] = found["metadata"]
    return metadata


def values(prometheus: Prometheus, queue: str) -> list[float]:
    """What Prometheus answers of the queue; KEDA takes the one there is."""
    found = prometheus.query(trigger()["query"].replace('"orders"', f'"{queue}"'))
    return [value for _, value in found]


def test_a_queue_that_flows_needs_no_more_consumers(prometheus: Prometheus) -> None:
    target = float(trigger()["threshold"])
    eventually(
        lambda: [drain < target for drain in values(prometheus, "orders")], [True]
    )


def test_a_queue_that_only_grows_needs_more(prometheus: Prometheus) -> None:
    eventually(lambda: values(prometheus, "stock.updates"), [300.0])


def test_a_queue_that_is_not_there_says_nothing(prometheus: Prometheus) -> None:
    assert values(prometheus, "nowhere") == []
    assert trigger()["ignoreNullValues"] == "false"
