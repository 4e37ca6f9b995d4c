"""
2,000 queues of one dead application, on a real Prometheus with the shipped rules and a real Alertmanager.

Run by `make test-storm`. One incident gives one page that counts them; where each queue has a root of its own, all
groups of rules together take less than three seconds of a processor to evaluate.
"""

import http.server
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest
import yaml

from alertbench.bench import scaled
from assets.alertmanager_check import tool
from incidents.test_rolled_up import dead_application
from penstock.assets.rule_files import ALERTMANAGER, rule_files
from penstock.exposition.body import Exposition
from penstock.exposition.render import BrokerBlocks
from penstock.exposition.syntax import Format
from penstock_demo.ports import LOOPBACK, free_port
from penstock_demo.process import Process
from rig.prometheus import Prometheus

STOPPED = 2_000
QUEUES = 10_000
CPU_SECONDS = 3.0
"""Of all groups together, beside other work on the machine; 7 to 9 were what one took before."""

Page = dict[str, Any]


@contextmanager
def served(body: bytes, pages: list[Page]) -> Iterator[int]:
    """The text at any path, and what Alertmanager posts."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            posted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            pages.append({"path": self.path, **posted})
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def alertmanager(folder: Path, receiver: int) -> Iterator[str]:
    """With the shipped routes and inhibition, its receivers here; a group waits for two seconds."""
    config = yaml.safe_load(rule_files()[ALERTMANAGER])
    config["route"]["group_wait"] = "2s"
    for one in config["receivers"]:
        one["webhook_configs"] = [
            {"url": f"http://{LOOPBACK}:{receiver}/{one['name']}"}
        ]
    folder.mkdir()
    (folder / "config.yaml").write_text(json.dumps(config))
    port = free_port()
    options = [
        f"--config.file={folder / 'config.yaml'}",
        f"--storage.path={folder}",
        "--cluster.listen-address=",
    ]
    listen = f"--web.listen-address={LOOPBACK}:{port}"
    process = Process(
        "alertmanager", [tool("alertmanager"), *options, listen], folder / "log"
    )
    process.start("Listening on", timeout=30)
    yield f"{LOOPBACK}:{port}"
    process.stop()


def body_of(tables: Any) -> bytes:
    blocks = BrokerBlocks()
    blocks.update(tables)
    exposition = Exposition(
        lambda _: (
            b'penstock_build_info{version="1"} 1\nmq_up{broker="b"} 1\npenstock_broker_expected{broker="b"} 1\n'
        )
    )
    exposition.set_broker("b", blocks)
    return b"".join(exposition.chunks(Format.TEXT, gzip=False))


@pytest.mark.prometheus
def test_one_dead_application_is_one_page_that_counts_its_queues(
    tmp_path: Path,
) -> None:
    tables = dead_application(STOPPED).tables
    pages: list[Page] = []
    with ExitStack() as stack:
        port = stack.enter_context(served(body_of(tables), pages))
        manager = stack.enter_context(alertmanager(tmp_path / "alertmanager", port))
        prometheus = stack.enter_context(
            Prometheus(
                tmp_path / "prometheus",
                f"{LOOPBACK}:{port}",
                rules=scaled(tmp_path),
                alertmanagers=[manager],
            )
        )
        prometheus.wait_for('ALERTS{alertstate="firing"}', timeout=90)
        time.sleep(30)
        firing = {
            one["alertname"]
            for one, _ in prometheus.query('ALERTS{alertstate="firing"}')
        }
    assert firing == {"PenstockIncident"}
    (page,) = pages
    (alert,) = page["alerts"]
    assert (page["path"], alert["labels"]["kind"], alert["labels"]["object"]) == (
        "/pager",
        "no_consumer",
        "billing",
    )
    assert re.search(
        rf"\b{STOPPED} conditions and clients", alert["annotations"]["description"]
    )


@pytest.mark.prometheus
def test_thousands_of_roots_cost_seconds_at_most(tmp_path: Path) -> None:
    """Alerts of 2,000 of 10,000 queues, each its own root: what no incident says."""
    lines = []
    for n in range(QUEUES):
        labels = f'broker="b",address="q{n}",queue="q{n}"'
        lines += [
            f"mq_queue_{name}{{{labels}}} {n}"
            for name in ("messages", "ready_messages", "consumers")
        ]
        if n < STOPPED:
            lines.append(f'mq_queue_unhealthy{{{labels},cause="no_consumer"}} 2')
    lines += [
        'mq_up{broker="b"} 1',
        'penstock_build_info{version="1"} 1',
        'penstock_broker_expected{broker="b"} 1',
    ]
    lines.append('mq_broker_info{broker="b",node_id="n",role="active"} 1\n')
    with ExitStack() as stack:
        port = stack.enter_context(
            served("\n".join(sorted(lines)).encode() + b"\n", [])
        )
        prometheus = stack.enter_context(
            Prometheus(
                tmp_path / "prometheus",
                f"{LOOPBACK}:{port}",
                rules=scaled(tmp_path),
                scrape_interval="15s",
                scrape_timeout="10s",  # its rules take both cores
            )
        )
        firing = 'count(ALERTS{alertstate="firing",alertname="PenstockNoConsumer"})'
        prometheus.wait_for(
            firing, lambda found: bool(found) and found[0][1] == STOPPED, timeout=90
        )
        before = used(prometheus)
        time.sleep(30)
        cpu, rounds = (
            now - then for now, then in zip(used(prometheus), before, strict=True)
        )
    print(f"{cpu / rounds:.2f} s of a processor for each evaluation of all groups")  # noqa: T201 - the figure of the run
    assert cpu / rounds < CPU_SECONDS


def used(prometheus: Prometheus) -> tuple[float, float]:
    """CPU of the whole server, in seconds, and how often it has evaluated the group with the 2,000 alerts."""
    with build_opener(ProxyHandler({})).open(
        f"{prometheus.url}/metrics", timeout=20
    ) as answer:
        text = answer.read().decode()
    cpu = re.findall(r"(?m)^process_cpu_seconds_total (\S+)$", text)
    scheduled, missed = (
        re.findall(
            rf'(?m)^prometheus_rule_group_{name}_total\{{[^}}]*penstock-queues"\}} (\S+)$',
            text,
        )
        for name in ("iterations", "iterations_missed")
    )
    return float(cpu[0]), float(scheduled[0]) - float(missed[0])
