"""The real Prometheus and promtool, Debian's package unpacked into the cache (no root needed)."""

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from penstock_demo.cache import cache_dir, locked
from penstock_demo.errors import DemoError
from penstock_demo.ports import LOOPBACK, free_port
from penstock_demo.process import Process

_TEXT_ONLY = b"\r\nAccept: text/plain;version=0.0.4\r\n"


def tool(name: str) -> Path:
    """Path of `prometheus` or `promtool`: of the cache, else installed, else fetched from Debian."""
    home = cache_dir() / f"prometheus-{platform.machine()}"
    if not home.is_dir():
        if installed := shutil.which(name):
            return Path(installed)
        with locked(home):
            if not home.is_dir():
                _fetch(home)
    return home / "usr" / "bin" / name


def check_metrics(exposition: str) -> list[str]:
    """What `promtool check metrics` finds in a text exposition; no finding, no line. It fails at broken syntax."""
    done = subprocess.run(
        [tool("promtool"), "check", "metrics"],
        input=exposition,
        check=False,
        capture_output=True,
        text=True,
    )
    return [
        *done.stderr.splitlines(),
        *([] if done.returncode in (0, 3) else [f"promtool: exit {done.returncode}"]),
    ]


def text_only(request: bytes) -> bytes:
    """
    Changes a scrape's Accept header to the text format, as `alter` of a Proxy.

    Prometheus before 2.49 has no setting for it and always asks for OpenMetrics first.
    """
    return re.sub(rb"\r\nAccept: [^\r]*\r\n", _TEXT_ONLY, request, count=1)


class Prometheus:
    """
    A Prometheus that scrapes one target `HOST:PORT` each second, for job `penstock`; a context manager.

    rules: rule files, evaluated each second. alertmanagers: `HOST:PORT` of those that are sent what fires.
    options: more of the program's.
    """

    def __init__(
        self,
        directory: Path,
        target: str,
        *,
        metrics_path: str = "/metrics",
        rules: Sequence[Path] = (),
        alertmanagers: Sequence[str] = (),
        options: Sequence[str] = (),
        **scrape: Any,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        config = {
            "global": {
                "scrape_interval": "1s",
                "scrape_timeout": "1s",
                "evaluation_interval": "1s",
            },
            "rule_files": [str(file.absolute()) for file in rules],
            "alerting": {
                "alertmanagers": [
                    {"static_configs": [{"targets": list(alertmanagers)}]}
                ]
            },
            "scrape_configs": [
                {
                    "job_name": "penstock",
                    "metrics_path": metrics_path,
                    "static_configs": [{"targets": [target]}],
                    **scrape,
                }
            ],
        }
        file = directory / "prometheus.yml"
        file.write_text(json.dumps(config))  # JSON is YAML
        port = free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        storage = f"--storage.tsdb.path={directory / 'data'}"
        listen = f"--web.listen-address={LOOPBACK}:{port}"
        command = [
            str(tool("prometheus")),
            f"--config.file={file}",
            storage,
            listen,
            *options,
        ]
        self._process = Process("prometheus", command, directory / "prometheus.log")
        self._opener = build_opener(ProxyHandler({}))

    def __enter__(self) -> Self:
        self._process.start("Server is ready to receive web requests", timeout=30)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def api(self, path: str, **parameters: str) -> Any:
        """The `data` of an API answer: `api("query", query="up")`, `api("targets")`, `api("metadata")`."""
        with self._opener.open(
            f"{self.url}/api/v1/{path}?{urlencode(parameters)}", timeout=10
        ) as answer:
            return json.load(answer)["data"]

    def query(self, promql: str) -> list[tuple[dict[str, str], float]]:
        """An instant query: labels and value of each series."""
        result = self.api("query", query=promql)["result"]
        return [(series["metric"], float(series["value"][1])) for series in result]

    def wait_for(
        self,
        promql: str,
        holds: Callable[[list[tuple[dict[str, str], float]]], bool] = bool,
        *,
        timeout: float = 20,
    ) -> list[tuple[dict[str, str], float]]:
        """The first result of a query that `holds`; fails with the last one and the scrape's error when none does."""
        deadline = time.monotonic() + timeout
        while not holds(result := self.query(promql)):
            if time.monotonic() > deadline:
                errors = [
                    target["lastError"]
                    for target in self.api("targets")["activeTargets"]
                ]
                raise AssertionError(f"{promql}: {result}; scrape errors {errors}")
            time.sleep(0.2)
        return result


def _fetch(home: Path) -> None:
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise DemoError(
                f"{program} is missing: install prometheus and promtool yourself, they are taken from PATH"
            )
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        if not _download(scratch):
            if os.geteuid() == 0:  # a fresh machine has no package lists
                subprocess.run(
                    ["apt-get", "-qq", "update"], check=False, capture_output=True
                )
            if not _download(scratch):
                raise DemoError(
                    "apt-get cannot download the package prometheus; run: sudo apt-get update"
                )
        (package,) = Path(scratch).glob("prometheus_*.deb")
        subprocess.run(["dpkg", "-x", package, f"{scratch}/x"], check=True)
        Path(f"{scratch}/x").rename(home)


def _download(folder: str) -> bool:
    # As root apt wants to become _apt, which may not write here.
    command = [
        "apt-get",
        "-q",
        "-o",
        "APT::Sandbox::User=root",
        "download",
        "prometheus",
    ]
    return (
        subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode
        == 0
    )
