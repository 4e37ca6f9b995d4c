"""
The API of a running agent is what its OpenAPI description says, whatever it is asked: answers by their schema, what is
not allowed refused with a status that is described.

`make fuzz` runs the same for longer (PENSTOCK_FUZZ: examples of each path).
"""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.agent import Agent, entry
from e2e.test_hang import up
from penstock.server.api import openapi
from penstock_demo.broker import Broker
from trust.test_fuzz import fuzzed

pytestmark = pytest.mark.broker

CASES = [
    (path, mode)
    for path, about in openapi()["paths"].items()
    for mode in ("positive", "negative")
    if about["get"]["parameters"]
    or mode == "positive"  # without parameters nothing can be wrong
]
"""Path, and what schemathesis sends: what the description allows, or what it does not. It takes a second to import."""


@pytest.fixture(scope="module")
def described(
    artemis: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    import schemathesis  # noqa: PLC0415 - only where a broker is

    artemis.manage.create_queue("described")
    with Agent(tmp_path_factory.mktemp("described"), brokers=[entry(artemis)]) as agent:
        agent.until(up, {artemis.name: 1})
        yield schemathesis.openapi.from_url(
            f"http://127.0.0.1:{agent.port}/api/v1/openapi.json"
        )
        assert "Traceback" not in agent.log.read_text()


@pytest.mark.parametrize(("path", "mode"), CASES)
@given(data=st.data())
@fuzzed
def test_as_described(
    described: Any, path: str, mode: str, data: st.DataObject
) -> None:
    from schemathesis import GenerationMode  # noqa: PLC0415 - only where a broker is
    from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: PLC0415

    case = data.draw(
        described[path]["GET"].as_strategy(generation_mode=GenerationMode(mode))
    )
    # The description cannot say that a parameter needs another
    needs = (
        path.endswith("/recent")
        and "address" in case.query
        and not case.query.get("queue")
    )
    case.call_and_validate(excluded_checks=[positive_data_acceptance] * needs)
