"""A role on a real Artemis with the rights that docs/artemis.md names one by one and no more: the agent works whole."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from e2e.agent import Agent, entry
from e2e.test_hang import up
from penstock.cli import main
from penstock_demo.artemis import ArtemisBroker
from rig.drivers import AmqpHolder, AmqpProducer
from trust.rights import role_access

pytestmark = pytest.mark.broker

DOCS = Path(__file__).parents[2] / "docs" / "artemis.md"


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[ArtemisBroker]:
    broker = ArtemisBroker.create(
        tmp_path / "broker", name="strict", read_only_user="exporter"
    )
    etc = broker.directory / "etc"
    rights = etc / "management.xml"
    pattern = r'<match domain="org\.apache\.activemq\.artemis">.*?</match>'
    rights.write_text(
        re.sub(
            pattern,
            lambda _: role_access(),
            rights.read_text(),
            count=1,
            flags=re.DOTALL,
        )
    )
    log = etc / "log4j2.properties"
    log.write_text(
        re.sub(r"(logger\.audit\w*\.level *= *)OFF", r"\1INFO", log.read_text())
    )
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def test_the_documentation_names_them() -> None:
    assert role_access() in DOCS.read_text()


def test_they_are_enough(strict: ArtemisBroker, tmp_path: Path) -> None:
    strict.manage.create_queue("ring", ring_size=3)
    with (
        AmqpProducer(strict.endpoint(), "q") as producer,
        AmqpHolder(strict.endpoint(), "q", credit=1),
    ):
        producer.send(3)
        with Agent(tmp_path / "agent", brokers=[entry(strict)]) as agent:
            agent.until(up, {"strict": 1})
            scrape = agent.next_poll("strict")
            collectors = {
                labels["collector"]: value
                for labels, value in scrape.find("penstock_collector_success")
            }
            assert set(collectors) >= {
                "broker",
                "consumers",
                "addresses",
                "sizes",
                "roles",
                "queues",
                "settings",
            }
            assert set(collectors) >= {"connections", "links"}
            assert set(collectors.values()) == {1.0}
            assert scrape.value("penstock_polls_total", result="ok") > 0
            assert scrape.value("penstock_polls_total", result="failed") == 0
            assert scrape.value("mq_queue_messages", queue="q") == 3
            assert not scrape.find("mq_config_finding", rule="management_guard_off")
            checked = CliRunner().invoke(
                main, ["check", "--config.file", str(agent.file)]
            )
            assert checked.exit_code == 0, checked.output
            assert "refused" not in checked.output
    denied = [line for line in refusals(strict) if "FirstMessageAge" not in line]
    assert denied == []


def refusals(broker: ArtemisBroker) -> list[str]:
    """What the broker says that it refused; one attribute is tried on purpose: it must be refused."""
    logs = [
        path.read_text(errors="replace")
        for path in (broker.directory / "log").glob("*.log")
    ]
    words = re.compile(
        r"not authorized|denied|AMQ601264|failed authentication|does not have permission",
        re.IGNORECASE,
    )
    return [line for text in logs for line in text.splitlines() if words.search(line)]
