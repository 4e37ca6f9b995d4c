"""Queues and clients that come and go while they are polled."""

import itertools
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

import pytest

from e2e.conftest import Observer
from penstock_demo.errors import DemoError
from rig.drivers import AmqpHolder, ClientError, StompConsumer

pytestmark = pytest.mark.broker

SECONDS = 10
LAGGING = ("mq_connection_", "mq_client_produced", "mq_address_producers")
"""Connections and producers are not read at every poll of a busy broker."""


class Churn:
    """Makes and destroys things until it ends; `gone` has the name and time of each that is no more."""

    def __init__(self, observer: Observer, prefix: str) -> None:
        self.broker = observer.broker
        self.prefix = prefix
        self.gone: dict[str, float] = {}
        self.ending = threading.Event()
        self.errors: list[Exception] = []
        self._numbers = itertools.count()
        broker = self.broker
        broker.manage.create_queue(prefix)
        self._threads = [
            threading.Thread(target=self._repeat, args=(work,))
            for work in (self._queue, self._clients)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        for thread in self._threads:
            thread.join()
        assert not self.errors

    def _repeat(self, work: Callable[[str], None]) -> None:
        try:
            while not self.ending.is_set():
                work(f"{self.prefix}.{next(self._numbers)}")
        except (DemoError, ClientError) as error:
            self.errors.append(error)

    def _queue(self, name: str) -> None:
        names = [f"{name}.{letter}" for letter in "abcde"]
        self.broker.manage.create_queues(names)
        time.sleep(0.1)
        for one in names:
            self.broker.manage.destroy_queue(one)
            self.gone[one] = time.time()

    def _clients(self, name: str) -> None:
        endpoint = self.broker.endpoint()
        with (
            AmqpHolder(endpoint, self.prefix, credit=0, client_id=f"{name}.amqp"),
            StompConsumer(endpoint, self.prefix, client_id=f"{name}.stomp"),
        ):
            time.sleep(0.05)
        with suppress(ClientError):
            AmqpHolder(endpoint, self.prefix, credit=0, client_id=f"{name}.cut").drop()


TOO_BUSY = "no answer within"
"""What a poll says on a machine that is busy with other things; churn says something else."""


def test_churn(observer: Observer, unique: Callable[[str], str]) -> None:
    prefix = unique("churn")
    name = re.compile(rf'="({re.escape(prefix)}\.\d+\.[a-e])"')
    stamp = re.compile(r"^penstock_poll_timestamp_seconds\S* (.*)$", re.MULTILINE)
    observer.fresh()
    said_before = len(observer.agent.log.read_text())
    seen: set[str] = set()
    with Churn(observer, prefix) as churn:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            body = observer.agent.body()
            read = float(stamp.findall(body)[0])
            lines = [line for line in body.splitlines() if not line.startswith(LAGGING)]
            shown = set(name.findall("\n".join(lines)))
            assert not [one for one in shown if churn.gone.get(one, read) < read]
            seen |= shown
            time.sleep(0.2)
    assert seen, "no poll met a thing that came and went"
    after = observer.fresh()
    log = observer.agent.log.read_text()[said_before:].splitlines()
    bad = [line for line in log if "poll failed" in line or "poll partial" in line]
    assert [line for line in bad if TOO_BUSY not in line] == []
    left = {
        one
        for one in after.names("queue") | after.names("address")
        if one.startswith(f"{prefix}.")
    }
    assert left == set()
    observer.until(
        lambda scrape: [
            one for one in scrape.names("client") if one.startswith(prefix)
        ],
        [],
    )
    assert after.value("mq_queue_consumers", queue=prefix) == 0
