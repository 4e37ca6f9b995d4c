"""Jolokia's proxied requests: which brokers open connections for an account that may only read, and which do not."""

import pytest

from penstock_demo.broker import Broker
from penstock_demo.openmq import OpenMQBroker
from rig.proxied import opens_connection

pytestmark = pytest.mark.broker


def test_an_artemis_with_jolokia_2_opens_them_as_it_comes(artemis: Broker) -> None:
    """Why `penstock init` changes artemis.profile; that it helps: setup/test_init_live.py."""
    assert opens_connection(artemis.jolokia_url, artemis.accounts["exporter"])


def test_the_jvm_agent_opens_them_as_it_comes(artemis_newest: Broker) -> None:
    assert opens_connection(artemis_newest.jolokia_url, artemis_newest.admin)


@pytest.mark.parametrize("name", ["artemis_2_28", "artemis_2_21"])
def test_an_artemis_with_jolokia_1_refuses_them(request: pytest.FixtureRequest, name: str) -> None:
    broker: Broker = request.getfixturevalue(name)
    assert not opens_connection(broker.jolokia_url, broker.accounts["exporter"])


def test_the_jvm_agent_with_the_options_of_the_documentation_opens_none(openmq: OpenMQBroker) -> None:
    assert not opens_connection(openmq.jolokia_url, openmq.reader)
