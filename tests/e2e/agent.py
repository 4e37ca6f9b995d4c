"""The real agent as a child process, and what a scrape of it says."""

import http.client
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from penstock_demo.broker import Broker
from penstock_demo.process import Process
from rig.waiting import PATIENCE

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
FAMILIES_SEEN: set[str] = set()
"""The families of every scrape of this test run."""

PENSTOCK = Path(sys.executable).with_name("penstock")
_LISTENS = re.compile(r"serving /metrics on [\d.]+:(\d+)")
_TYPE = re.compile(r"^# TYPE (\S+) ", re.MULTILINE)
_POLLS = re.compile(r"^penstock_polls_total.*$", re.MULTILINE)
_TICK = 0.1


@dataclass(frozen=True, slots=True)
class Scrape:
    """The samples of one body; label arguments select those that have these labels, whatever else they have."""

    samples: Sequence[tuple[str, Mapping[str, str], float]]

    def find(self, name: str, **labels: str) -> list[tuple[Mapping[str, str], float]]:
        """Labels and value of the series of a family."""
        return [
            (have, value)
            for family, have, value in self.samples
            if family == name and _has(have, labels)
        ]

    def value(self, name: str, **labels: str) -> float:
        """The value of the one series there is."""
        found = self.find(name, **labels)
        assert len(found) == 1, f"{name} {labels}: {found}"
        return found[0][1]

    def numbers(
        self, prefix: str, wanted: Iterable[str], **labels: str
    ) -> dict[str, float]:
        """Values of the families `prefix` + one of `wanted`, by the latter; an absent one is left out."""
        found = {one: self.find(prefix + one, **labels) for one in wanted}
        assert all(len(series) <= 1 for series in found.values()), found
        return {one: series[0][1] for one, series in found.items() if series}

    def names(self, label: str, prefix: str = "mq_") -> set[str]:
        """All values of a label in the families that begin with `prefix`."""
        return {
            have[label]
            for family, have, _ in self.samples
            if family.startswith(prefix) and label in have
        }


def _has(have: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(have.get(name) == value for name, value in labels.items())


class Agent(Process):
    """
    `penstock run` in `folder`, on a free port unless given; a context manager. `configuration` as in the file.

    program: what is run in place of `penstock`; options: further ones of `run`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        log_level: str = "info",
        port: int = 0,
        program: Sequence[str] = (str(PENSTOCK),),
        options: Sequence[str] = (),
        **configuration: Any,
    ) -> None:
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        self.file = folder / "penstock.yaml"
        self.port = port
        self.configure(**configuration)
        address = f"127.0.0.1:{port}"
        said = [
            "--config.file",
            str(self.file),
            "--web.listen-address",
            address,
            "--web.enable-lifecycle",
        ]
        said += ["--log.level", log_level, *options]
        in_work = ["env", "-C", str(self.work), f"TMPDIR={self.work}"]
        super().__init__(
            "penstock", [*in_work, *program, "run", *said], folder / "agent.log"
        )

    def configure(self, **configuration: Any) -> None:
        """Write the configuration; the agent is not told."""
        self.file.write_text(
            json.dumps({"interval": "1s", "timeout": "900ms", **configuration})
        )  # JSON is YAML

    def __enter__(self) -> Self:
        self.run()
        return self

    def run(self) -> None:
        """Start it, once more when it has ended, and learn its port."""
        self.start("serving /metrics on", timeout=PATIENCE)
        self.port = int(_LISTENS.findall(self.log.read_text())[-1])

    def __exit__(self, *_: object) -> None:
        self.stop()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def terminate(self, *, timeout: float) -> int | None:
        """SIGTERM; the exit code, with which it ended in time."""
        self.signal(signal.SIGTERM)
        assert self._child is not None
        return self._child.wait(timeout)

    def request(
        self, path: str, *, method: str = "GET", accept: str = "text/plain"
    ) -> tuple[int, str]:
        """HTTP status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, headers={"Accept": accept})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def body(self, accept: str = "text/plain") -> str:
        """The body of /metrics."""
        status, text = self.request("/metrics", accept=accept)
        assert status == 200
        if accept != OPENMETRICS:
            FAMILIES_SEEN.update(_TYPE.findall(text))
        return text

    def scrape(self, accept: str = "text/plain") -> Scrape:
        return parsed(self.body(accept), accept)

    def fresh(
        self, broker: str, *, accept: str = "text/plain", timeout: float = PATIENCE
    ) -> Scrape:
        """The first scrape whose data of `broker` was read after this call."""
        called = time.time()
        stamp = f"penstock_poll_timestamp_seconds{{broker={json.dumps(broker)}}} "
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            found = re.search(
                f"^{re.escape(stamp)}(.*)$", body := self.body(accept), re.MULTILINE
            )
            if found and float(found[1]) >= called:
                return parsed(body, accept)
            time.sleep(_TICK)
        raise AssertionError(
            f"{broker} was not polled within {timeout} s: {self.tail()}"
        )

    def next_poll(self, broker: str, *, timeout: float = PATIENCE) -> Scrape:
        """The scrape after one more try to poll `broker`, failed or skipped ones too."""

        def count(scrape: Scrape) -> float:
            return sum(
                value for _, value in scrape.find("penstock_polls_total", broker=broker)
            )

        before = count(self.scrape())
        return self.until(
            lambda scrape: count(scrape) > before, expected=True, timeout=timeout
        )

    def until(
        self,
        get: Callable[[Scrape], object],
        expected: object,
        *,
        timeout: float = PATIENCE,
    ) -> Scrape:
        """The first scrape of which `get` gives `expected`; fails with the last answer."""
        deadline = time.monotonic() + timeout
        read = None
        while True:
            body = self.body()
            if (polls := _POLLS.findall(body)) != read:
                scrape = parsed(body)
                read = polls
                if (last := get(scrape)) == expected:
                    return scrape
            assert time.monotonic() < deadline, (
                f"{last} is not {expected}; {self.tail(5)}"
            )
            time.sleep(_TICK)


def parsed(body: str, accept: str = "text/plain") -> Scrape:
    """A body as prometheus_client's own parser reads it."""
    parse = parse_openmetrics if accept == OPENMETRICS else parse_text
    families = parse(body)
    return Scrape(
        [
            (sample.name, sample.labels, float(sample.value))
            for family in families
            for sample in family.samples
        ]
    )


def entry(
    broker: Broker, *, name: str = "", user: str = "", **more: Any
) -> dict[str, Any]:
    """The configuration of a broker; `user` is the read-only one where there is one."""
    account = (
        broker.accounts[user] if user else broker.accounts.get("exporter", broker.admin)
    )
    return {
        "name": name or broker.name,
        "kind": "artemis",
        "url": broker.jolokia_url,
        "username": account.user,
        "password": account.password,
        "origin": broker.origin,
        **more,
    }
