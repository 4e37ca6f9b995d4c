"""The shipped sidecar configuration beside a real broker on loopback: named as its pod, probed as in the pod."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
import yaml

from e2e.agent import Agent
from penstock_demo.broker import Broker

DEPLOY = Path(__file__).parents[2] / "deploy" / "sidecar"


@pytest.fixture
def sidecar(
    artemis: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Agent]:
    shipped = (DEPLOY / "penstock.yaml").read_text()
    configuration = yaml.safe_load(
        shipped.replace(":8161/", f":{urlsplit(artemis.jolokia_url).port}/")
    )
    monkeypatch.setenv("BROKER_HOST", urlsplit(artemis.jolokia_url).hostname or "")
    configuration |= {
        "interval": "3s",
        "timeout": "2900ms",
    }  # a broker's first answer takes a second
    monkeypatch.setenv("POD_NAME", "ex-aao-ss-0")
    monkeypatch.setenv("PENSTOCK_PASSWORD", artemis.accounts["exporter"].password)
    assert configuration["brokers"][0]["username"] == "exporter"
    with Agent(
        tmp_path, options=["--web.probe-listen-address", "127.0.0.1:0"], **configuration
    ) as agent:
        yield agent


def test_a_sidecar_is_named_as_its_pod_and_answers_its_probes(sidecar: Agent) -> None:
    patch = yaml.safe_load((DEPLOY / "statefulset-patch.yaml").read_text())
    container = patch["spec"]["template"]["spec"]["containers"][0]
    path = container["livenessProbe"]["httpGet"]["path"]
    assert sidecar.request(path)[0] == 200
    probed = re.search(r"serving probes on (\S+?:\d+)", sidecar.log.read_text())
    assert probed
    with urlopen(f"http://{probed[1]}{path}", timeout=5) as answer:
        assert answer.status == 200
    scrape = sidecar.until(
        lambda scrape: scrape.find("mq_up", broker="ex-aao-ss-0"),
        [({"broker": "ex-aao-ss-0"}, 1.0)],
    )
    assert scrape.names("broker") == {"ex-aao-ss-0"}
