"""Jolokia's proxied requests: which brokers open connections for an account that may only read, and which do not."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock.cli.jolokia_proxy import proxy_notes
from penstock.config import load
from penstock_demo.broker import Broker
from penstock_demo.management import Account
from penstock_demo.openmq import OpenMQBroker
from rig.day_and_night import versions
from rig.proxied import opens_connection

pytestmark = pytest.mark.broker


def notes_of(
    folder: Path, url: str, account: Account, kind: str = "artemis"
) -> list[str]:
    """What `check` says about the proxy of this broker."""
    file = folder / "penstock.yaml"
    broker = {
        "name": "b",
        "kind": kind,
        "url": url,
        "username": account.user,
        "password": account.password,
    }
    file.write_text(json.dumps({"interval": "60s", "brokers": [broker]}))
    return list(asyncio.run(proxy_notes(load(file).brokers[0], timeout=60)))


def test_an_artemis_with_jolokia_2_opens_them_as_it_comes(
    artemis: Broker, tmp_path: Path
) -> None:
    """Why `penstock init` changes artemis.profile; that it helps: setup/test_init_live.py."""
    assert opens_connection(artemis.jolokia_url, artemis.accounts["exporter"])
    (note,) = notes_of(tmp_path, artemis.jolokia_url, artemis.accounts["exporter"])
    assert note.startswith("Jolokia's proxy is switched on")
    said = CliRunner().invoke(
        main, ["check", "--config.file", str(tmp_path / "penstock.yaml")]
    )
    assert f"note      {note}" in said.output


@pytest.mark.nightly  # a broker of its own version
def test_the_jvm_agent_opens_them_as_it_comes(
    artemis_newest: Broker, tmp_path: Path
) -> None:
    assert opens_connection(artemis_newest.jolokia_url, artemis_newest.admin)
    (note,) = notes_of(tmp_path, artemis_newest.jolokia_url, artemis_newest.admin)
    assert note.startswith("Jolokia's proxy is switched on")


@pytest.mark.parametrize("name", versions("artemis_2_28", "artemis_2_21"))
def test_an_artemis_with_jolokia_1_refuses_them(
    request: pytest.FixtureRequest, name: str, tmp_path: Path
) -> None:
    broker: Broker = request.getfixturevalue(name)
    assert not opens_connection(broker.jolokia_url, broker.accounts["exporter"])
    assert notes_of(tmp_path, broker.jolokia_url, broker.accounts["exporter"]) == []


def test_the_jvm_agent_with_the_options_of_the_documentation_opens_none(
    openmq: OpenMQBroker, tmp_path: Path
) -> None:
    assert not opens_connection(openmq.jolokia_url, openmq.reader)
    assert notes_of(tmp_path, openmq.jolokia_url, openmq.reader, kind="openmq") == []
