"""Brokers that all tests of a run share: started when wanted, side by side, ended together."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from penstock_demo.artemis import VERSION, ArtemisBroker
from penstock_demo.broker import Broker
from rig.embedded import embedded_broker


def _artemis(version: str) -> Callable[[Path], Broker]:
    name = f"v{version}"
    return lambda folder: ArtemisBroker.create(
        folder,
        version=version,
        name=name,
        users=["billing", "orders"],
        read_only_user="exporter",
    )


SHARED: Mapping[str, Callable[[Path], Broker]] = {
    "artemis": _artemis(VERSION),
    "artemis_2_28": _artemis("2.28.0"),
    "artemis_2_21": _artemis("2.21.0"),
    "artemis_newest": embedded_broker,
}
"""How each shared broker is created, by the name of its fixture."""


class Fleet:
    """The shared brokers of one test run."""

    def __init__(self) -> None:
        self._folder = ""  # made with the first broker
        self._workers = ThreadPoolExecutor(2, "fleet")
        self._brokers: dict[str, Future[Broker]] = {}
        self._started: list[Broker] = []
        self._lock = threading.Lock()

    def want(self, name: str) -> Future[Broker]:
        """Begin to start a broker of SHARED, unless that was done."""
        with self._lock:
            self._folder = self._folder or tempfile.mkdtemp(prefix="penstock-rig-")
            if name not in self._brokers:
                self._brokers[name] = self._workers.submit(self._start, name)
            return self._brokers[name]

    def get(self, name: str) -> Broker:
        """A broker of SHARED, ready."""
        return self.want(name).result()

    def close(self) -> None:
        """End all."""
        self._workers.shutdown(cancel_futures=True)
        for broker in self._started:
            broker.kill()
        if self._folder:
            shutil.rmtree(self._folder)

    def _start(self, name: str) -> Broker:
        broker = SHARED[name](Path(self._folder) / name)
        self._started.append(broker)
        broker.start()
        return broker
