"""The demo's broker with its faults, an agent that has judged them, and a directory with all that the docs name."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from e2e.agent import Agent
from penstock_demo.run import Scenario

RECORDINGS = Path(__file__).parents[1] / "recordings"
JUDGED = {"stalled", "open_transaction"}


@dataclass(frozen=True, slots=True)
class Desk:
    """Where an operator sits: `folder` with penstock.yaml and the rest, and the agent at `url`."""

    folder: Path
    agent: Agent

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.agent.port}"


@pytest.fixture(scope="package")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    with Scenario() as scenario:
        said = yaml.safe_load(scenario.config_yaml(interval="1s")) | {
            "judgement": {"cold": "3s"}
        }
        with Agent(tmp_path_factory.mktemp("agent") / "it", **said) as agent:
            (folder / "penstock.yaml").write_text(yaml.safe_dump(said))
            (folder / "values.yaml").write_text("severities: {critical: page}\n")
            (folder / "web.yml").write_text(
                "http_server_config: {headers: {X-Frame-Options: deny}}\n"
            )
            for place in (
                "etc/penstock",
                ".local/share/bash-completion/completions",
                ".config/fish/completions",
            ):
                (folder / place).mkdir(parents=True)
            agent.until(
                lambda scrape: (
                    {labels["cause"] for labels, _ in scrape.find("mq_queue_unhealthy")}
                    >= JUDGED
                ),
                expected=True,
                timeout=60,
            )
            yield Desk(folder, agent)
