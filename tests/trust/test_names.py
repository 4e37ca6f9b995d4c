"""The name of a broker moves to another address: connections that work are kept, and it is followed when they end."""

import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from e2e.agent import Agent, Scrape, entry
from e2e.test_hang import console, up
from penstock_demo.broker import Broker
from rig.proxy import Proxy
from trust import named

pytestmark = pytest.mark.broker

NAME = "broker.test"


def test_a_name_that_moves(artemis: Broker, tmp_path: Path) -> None:
    def polls(scrape: Scrape, *, ok: bool) -> float:
        return sum(
            n
            for labels, n in scrape.find("penstock_polls_total")
            if (labels["result"] == "ok") is ok
        )

    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 {NAME}\n")
    program = [sys.executable, str(named.__file__), str(hosts)]
    with ExitStack() as old_address:
        old = old_address.enter_context(Proxy(console(artemis)))
        with Proxy(console(artemis), host="127.0.0.2", port=old.port) as new:
            url = (
                urlsplit(artemis.jolokia_url)
                ._replace(netloc=f"{NAME}:{old.port}")
                .geturl()
            )
            with Agent(
                tmp_path / "agent", program=program, brokers=[entry(artemis, url=url)]
            ) as agent:
                first = agent.until(up, {artemis.name: 1})
                hosts.write_text(f"127.0.0.2 {NAME}\n")
                for _ in range(3):
                    before = agent.next_poll(artemis.name)
                assert up(before) == {artemis.name: 1}
                # A poll that did not end in time took its connection with it.
                assert new.connections <= polls(before, ok=False) - polls(
                    first, ok=False
                )
                old_address.close()
                after = agent.until(
                    lambda scrape: polls(scrape, ok=True) > polls(before, ok=True),
                    expected=True,
                )
                assert polls(after, ok=False) - polls(before, ok=False) <= 1
                assert new.connections > 0
                assert up(after) == {artemis.name: 1}
