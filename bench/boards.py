"""
`make bench-boards`: what each dashboard's first screen asks of a real Prometheus that holds hours of 10,000 queues.

Every family that a dashboard asks for is served with times of the past, so that Prometheus takes hours in minutes; then
no more is scraped, and what the queries of a board cost is the processor time of the whole server. Ends with 1 where a
board's answers are above 2 MB or its queries above one second. The last line is JSON.
"""

import http.server
import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import click
import numpy as np
from bench.harness import facts, print_table

from assets.boards import DOCUMENTS, panels, substituted
from assets.promql import selectors
from penstock.exposition.catalogue import CATALOGUE
from penstock_demo.ports import LOOPBACK
from rig.prometheus import Prometheus

SCREEN = 20
"""Units of a dashboard's grid in a window of 1440 by 900 pixels."""
MOST_MB = 2.0
MOST_SECONDS = 1.0
STEP = 120
PARTS = 8
"""Seconds between two polls: a rate looks at four polls, whatever they are. Targets that the data is spread over."""
LONG = (
    "--storage.tsdb.min-block-duration=12h",
    "--storage.tsdb.max-block-duration=24h",
)
"""Half of the first is how old a sample may be."""
GIVE_UP = 1800
"""Seconds in which Prometheus must have taken the data."""
CLIENTS = 2
UNHEALTHY = 50
CONSUMERS = 300
"""Of each queue; one queue in so many; of a broker, as the agent shows only the worst."""

_VALUES: Mapping[str, tuple[str, ...]] = {
    "cause": ("no_consumer",),
    "fate": ("acknowledged", "expired"),
    "reason": ("ring",),
    "bound": ("low", "high"),
    "horizon": ("24h",),
    "collector": ("queues", "consumers"),
    "result": ("ok",),
    "role": ("active",),
    "kind": ("queue",),
}
"""Label → its values, of those that number no things."""
_OF_BROKERS = "mq_incident_members", "mq_incident_victims", "mq_config_finding"
_ABSENT = (
    "mq_account_unexplained_messages",
    "mq_queue_in_doubt_messages",
    "mq_queue_messages_lost_by_consumer_total",
    "mq_queue_ring_oversize_since_timestamp_seconds",
)
"""Of what has nothing to tell; as rare as conditions are."""
OF_OTHER_KINDS = "mq_queue_messages_removed_total", "mq_broker_resource_state"
"""What an Artemis does not say."""


def series(queues: int) -> Iterator[str]:
    """The names, with labels, of all that dashboards ask for."""
    exprs = [
        target["expr"]
        for one in DOCUMENTS.values()
        for panel in first_screen(one)
        for target in panel["targets"]
    ]
    exprs += [found[1] for one in DOCUMENTS.values() for _, found in lists(one)]
    names = {str(one.name) for expr in exprs for one, _ in selectors(substituted(expr))}
    for family in CATALOGUE:
        if family.name in names and family.name not in OF_OTHER_KINDS:
            for labels in _labelled(family.name, family.label_names, queues):
                inside = ",".join(f'{name}="{value}"' for name, value in labels.items())
                yield f"{family.name}{{{inside}}}"
    yield from ("process_cpu_seconds_total", "process_resident_memory_bytes")


def _labelled(
    name: str, labels: tuple[str, ...], queues: int
) -> Iterator[dict[str, str]]:
    """Labels of each series of a family."""
    rare = "unhealthy" in name or "notice" in name or name in _ABSENT
    if "consumer" in labels or "connection" in labels:
        number = CONSUMERS
        each = 1
    elif "address" in labels or name in _OF_BROKERS:
        number = queues
        each = CLIENTS if "client" in labels else 1
    else:
        number = 1
        each = 1
    for n in range(0, number, UNHEALTHY if rare or name in _OF_BROKERS else 1):
        own = {
            "broker": "b1",
            "address": f"area.orders.{n:05d}",
            "queue": f"area.orders.{n:05d}",
            "object": f"area.orders.{n:05d}",
        }
        for m in range(each):
            own |= {
                "client": f"application-{n % 500}-{m}",
                "consumer": str(n),
                "connection": f"{n:08x}",
            }
            several = [
                label for label in labels if label not in own and label in _VALUES
            ]
            chosen = {label: own.get(label, "x") for label in labels}
            for value in _VALUES[several[0]] if several else ("",):
                yield (
                    chosen
                    | {label: _VALUES[label][0] for label in several}
                    | ({several[0]: value} if several else {})
                )


class Part:
    """A share of the series, and its text at each poll, or at so many at once: counters rise by 1 to 9 a second, gauges
    go up and down.
    """

    def __init__(
        self, names: Sequence[str], stamps: Iterable[int], at_once: int = 1
    ) -> None:
        self.names = [name.encode() for name in names]
        self._slope = np.random.default_rng(1).integers(1, 10, len(names))
        self._counts = np.array(["_total" in name for name in names])
        self._stamps = iter(stamps)
        self._at_once = at_once
        self._next = b""
        self.last = 0
        """The time of the last sample so far."""
        self.over = threading.Event()

    def text(self) -> bytes:
        """The next one; nothing after the last. Kept until it is taken: who gave up finds it made."""
        if not self._next:
            self._next = b"".join(map(self._made, islice(self._stamps, self._at_once)))
        if not self._next:
            self.over.set()
        return self._next

    def gauges(self, stamp: int) -> Any:
        """Their values, one for each series, at a time."""
        return 50 * self._slope + stamp // 60 * self._slope % 97

    def _made(self, stamp: int) -> bytes:
        self.last = stamp
        values = np.where(
            self._counts, self._slope * (stamp % 10**7), self.gauges(stamp)
        )
        tail = b" %d\n" % (stamp * 1000)
        return b"".join(
            b"%b %d%b" % (name, value, tail)
            for name, value in zip(self.names, values.tolist(), strict=True)
        )

    def taken(self) -> None:
        """The last text was read to its end."""
        self._next = b""


@contextmanager
def served(parts: Sequence[Part]) -> Iterator[int]:
    """Each part by its number, in the parameter `part`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            part = parts[int(self.path.rpartition("=")[2])]
            body = part.text()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)  # fails when Prometheus has given up; it asks again
            part.taken()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def scraped(port: int, parts: int, every: str = "4s") -> dict[str, Any]:
    """Of the configuration of a Prometheus that takes what is `served`."""
    targets = [
        {"targets": [f"{LOOPBACK}:{port}"], "labels": {"__param_part": str(n)}}
        for n in range(parts)
    ]
    return {
        "scrape_interval": every,
        "scrape_timeout": every,
        "static_configs": targets,
    }


def wait_until_taken(parts: Iterable[Part]) -> None:
    deadline = time.monotonic() + GIVE_UP
    if not all(part.over.wait(max(0.0, deadline - time.monotonic())) for part in parts):
        raise click.ClickException(
            "Prometheus took the data too slowly; try again with the machine at rest"
        )


def first_screen(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The panels that are seen when the board is opened."""
    yield from (panel for panel in panels(document) if panel["gridPos"]["y"] < SCREEN)


def lists(document: Mapping[str, Any]) -> Iterator[tuple[str, re.Match[str]]]:
    """Variables that are filled from Prometheus: name, and selector and label of their query."""
    for one in document["templating"]["list"]:
        if one["type"] == "query":
            found = re.fullmatch(r"label_values\((.*),(\w+)\)", one["definition"])
            assert found, one["definition"]
            yield one["name"], found


def queries(
    document: Mapping[str, Any], end: int
) -> Iterator[tuple[str, str, dict[str, str]]]:
    """What a browser asks when a board is opened: title, path of the API and parameters."""
    hours = 168 if document["time"]["from"] == "now-7d" else 3
    chosen = {
        "broker": "b1",
        "address": "area.orders.00007",
        "queue": "area.orders.00007",
    }
    single = {
        one["name"] for one in document["templating"]["list"] if not one.get("multi")
    }
    values = {name: value for name, value in chosen.items() if name in single}
    for name, found in lists(document):
        match = {"match[]": substituted(found[1], values)}
        yield (
            f"list of {name}",
            f"label/{found[2]}/values",
            match | {"start": str(end - hours * 3600), "end": str(end)},
        )
    for panel in first_screen(document):
        step = max(15, hours * 3600 // panel["maxDataPoints"])
        for target in panel["targets"]:
            expr = (
                target["expr"]
                .replace("$__rate_interval", f"{max(4 * STEP, step)}s")
                .replace("$__interval", f"{step}s")
            )
            query = {
                "query": substituted(expr.replace("$__range", f"{hours}h"), values)
            }
            if target["instant"]:
                yield panel["title"], "query", query | {"time": str(end)}
            else:
                times = {
                    "start": str(end - hours * 3600),
                    "end": str(end),
                    "step": str(step),
                }
                yield panel["title"], "query_range", query | times


def cpu(pid: int) -> float:
    """Seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@click.command()
@click.option("--queues", default=10_000, show_default=True)
@click.option(
    "--hours",
    default=3.0,
    show_default=True,
    help="of data; boards ask for no more at first but capacity's 7 days",
)
@click.option("--details", is_flag=True, help="each query above a tenth of the budget")
def main(*, queues: int, hours: float, details: bool) -> None:
    names = sorted(series(queues))
    end = int(time.time()) // STEP * STEP
    stamps = range(end - int(hours * 3600), end + 1, STEP)
    parts = [Part(names[n::PARTS], stamps) for n in range(PARTS)]
    with (
        tempfile.TemporaryDirectory() as folder,
        served(parts) as port,
        Prometheus(
            Path(folder) / "prometheus", "", options=LONG, **scraped(port, len(parts))
        ) as prometheus,
    ):
        wait_until_taken(parts)
        found = {
            uid: cost(prometheus, document, end, details=details)
            for uid, document in DOCUMENTS.items()
        }
    above = [
        uid
        for uid, (mb, seconds) in found.items()
        if mb > MOST_MB or seconds > MOST_SECONDS
    ]
    rows = {
        uid: [f"{mb:.2f}", f"{seconds:.2f}"] for uid, (mb, seconds) in found.items()
    }
    print_table(rows, [f"first screen, {len(names)} series", "MB", "CPU s"])
    print(
        json.dumps(
            {
                "bench": "boards",
                "series": len(names),
                "boards": found,
                "above": above,
                **facts(),
            }
        )
    )
    if above:
        raise SystemExit(1)


def cost(
    prometheus: Prometheus, document: Mapping[str, Any], end: int, *, details: bool
) -> tuple[float, float]:
    """MB of answers and seconds of the server for a board: the least of three, as it collects its garbage at some."""
    tries = []
    for _ in range(3):
        megabytes = seconds = 0.0
        for title, path, parameters in queries(document, end):
            began = time.monotonic()
            before = cpu(prometheus.pid)
            opener = build_opener(ProxyHandler({}))
            with opener.open(
                f"{prometheus.url}/api/v1/{path}?{urlencode(parameters)}", timeout=120
            ) as answer:
                got = len(answer.read()) / 1e6
            spent = cpu(prometheus.pid) - before
            megabytes = megabytes + got
            seconds = seconds + spent
            if details and (got > MOST_MB / 10 or spent > MOST_SECONDS / 10):
                took = time.monotonic() - began
                print(
                    f"{document['uid']}: {title}: {got:.2f} MB, {spent:.2f} s ({took:.1f} s): "
                    f"{parameters.get('query', path)}"
                )
        tries.append((round(megabytes, 2), round(seconds, 2)))
    return min(tries, key=lambda one: one[1])


if __name__ == "__main__":
    main()
