"""
The Alertmanager example on the real thing: who gets what, and what is inhibited.

Run by `make test-alertmanager`, which builds amtool and alertmanager with Go; not part of `make test`.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from penstock_demo.ports import LOOPBACK, free_port
from penstock_demo.process import Process

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "alerts" / "alertmanager.yaml"
QUEUE = {
    "job": "penstock",
    "instance": "agent:19771",
    "broker": "b1",
    "address": "orders",
    "queue": "orders",
}
_opener = build_opener(ProxyHandler({}))


def tool(name: str) -> str:
    found = shutil.which(name, path=ROOT / ".tools") or shutil.which(name)
    assert found, f"{name} is missing: make test-alertmanager builds it"
    return found


def test_amtool_takes_it() -> None:
    subprocess.run([tool("amtool"), "check-config", CONFIG], check=True)


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ({"alertname": "PenstockClientStalled", "severity": "critical"}, "pager"),
        ({"alertname": "PenstockClientStalled", "severity": "warning"}, "operations"),
        ({"alertname": "PenstockBrokerDown", "severity": "critical"}, "pager"),
        ({"alertname": "PenstockSeriesDropped", "severity": "info"}, "office-hours"),
        ({"alertname": "SomethingElse", "severity": "critical"}, "operations"),
    ],
)
def test_routes(labels: Mapping[str, str], receiver: str) -> None:
    command = [
        tool("amtool"),
        "config",
        "routes",
        "test",
        f"--config.file={CONFIG}",
        f"--verify.receivers={receiver}",
    ]
    subprocess.run(
        [*command, *(f"{name}={value}" for name, value in labels.items())], check=True
    )


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("alertmanager")
    port = free_port()
    options = [
        f"--config.file={CONFIG}",
        f"--storage.path={folder}",
        f"--web.listen-address={LOOPBACK}:{port}",
    ]
    process = Process(
        "alertmanager",
        [tool("alertmanager"), *options, "--cluster.listen-address="],
        folder / "log",
    )
    process.start("Listening on", timeout=30)
    yield f"http://{LOOPBACK}:{port}/api/v2/alerts"
    process.stop()


def alert(name: str, severity: str, **labels: str) -> dict[str, dict[str, str]]:
    return {"labels": {"alertname": name, "severity": severity, **labels}}


DOWN = alert(
    "PenstockBrokerDown",
    "critical",
    job="penstock",
    instance="agent:19771",
    broker="b1",
)


@pytest.mark.parametrize(
    ("firing", "inhibited"),
    [
        (
            [alert("PenstockNoConsumer", s, **QUEUE) for s in ("critical", "warning")],
            ["PenstockNoConsumer warning"],
        ),
        (
            [DOWN, alert("PenstockHoarding", "warning", **QUEUE)],
            ["PenstockHoarding warning"],
        ),
        ([DOWN, alert("PenstockHoarding", "warning", **{**QUEUE, "broker": "b2"})], []),
        (
            [
                alert("PenstockClientStalled", "warning", **QUEUE, client="billing"),
                alert(
                    "PenstockAddressNearFull",
                    "warning",
                    **{k: v for k, v in QUEUE.items() if k != "queue"},
                ),
            ],
            ["PenstockAddressNearFull warning"],
        ),
        (
            [
                alert(
                    "PenstockDiskNearFull",
                    "critical",
                    job="penstock",
                    instance="agent:19771",
                    broker="b1",
                ),
                alert("PenstockProducersBlocked", "critical", **QUEUE),
            ],
            ["PenstockProducersBlocked critical"],
        ),
        (
            [
                alert("PenstockAgentAbsent", "critical"),
                alert("PenstockAgentDown", "critical", instance="agent:19771"),
            ],
            ["PenstockAgentDown critical"],
        ),
    ],
)
def test_inhibition(
    alertmanager: str, firing: Sequence[object], inhibited: Sequence[str]
) -> None:
    def told() -> list[str]:
        with _opener.open(alertmanager, timeout=5) as answer:
            alerts = json.load(answer)
        assert len(alerts) == len(firing)
        return sorted(
            f"{a['labels']['alertname']} {a['labels']['severity']}"
            for a in alerts
            if a["status"]["inhibitedBy"]
        )

    send(alertmanager, firing)
    try:
        deadline = (
            time.monotonic() + 45
        )  # a group waits half a minute before it is looked at
        while told() != list(inhibited) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert told() == list(inhibited)
    finally:
        resolved = [{**one, "endsAt": "2020-01-01T00:00:00Z"} for one in firing]  # type: ignore[dict-item]
        send(alertmanager, resolved)
        time.sleep(1)


def send(url: str, alerts: Sequence[object]) -> None:
    request = Request(  # noqa: S310 - loopback
        url, json.dumps(alerts).encode(), {"Content-Type": "application/json"}
    )
    _opener.open(request, timeout=5).close()
