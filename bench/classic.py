"""What a poll of many queues costs an ActiveMQ Classic: CPU of its process, as the kernel counts it.

`make bench-classic` prints a JSON object: CPU seconds of a poll, and of one that reads the settings, too (each minute).
"""

import argparse
import asyncio
import base64
import json
import os
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median

from flowbench.observer import Stepped
from penstock.brokers.classic.reader import ClassicReader
from penstock.brokers.engine import ReaderOptions
from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport
from penstock_demo.classic import ClassicBroker
from rig.classic import Clients

BAR = 0.5
"""CPU seconds of the broker that a poll of 10,000 queues may take."""
AT_ONCE = 500


def cpu(pid: int) -> float:
    """Seconds that a process has used, in user and kernel mode."""
    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def make_queues(broker: ClassicBroker, count: int) -> None:
    login = base64.b64encode(
        f"{broker.admin.user}:{broker.admin.password}".encode()
    ).decode()
    headers = {
        "Origin": broker.origin,
        "Authorization": f"Basic {login}",
        "Content-Type": "application/json",
    }
    mbean = f"org.apache.activemq:type=Broker,brokerName={broker.name}"
    operation = "addQueue"
    for first in range(0, count, AT_ONCE):
        calls = [
            {
                "type": "exec",
                "mbean": mbean,
                "operation": operation,
                "arguments": [f"queue.{i:05}"],
            }
            for i in range(first, min(first + AT_ONCE, count))
        ]
        body = json.dumps(calls).encode()
        request = urllib.request.Request(broker.jolokia_url, body, headers)  # noqa: S310 - loopback
        with urllib.request.urlopen(request):  # noqa: S310 - loopback
            pass


async def polled(
    broker: ClassicBroker, polls: int
) -> tuple[list[float], list[float], int]:
    """CPU seconds of the broker for each poll without and with settings, and how many queues were read."""
    account = broker.admin
    target = JolokiaTarget(
        broker.jolokia_url, account.user, lambda: account.password, origin=broker.origin
    )
    transport = Stepped(JolokiaTransport(target))
    few = list[float]()
    whole = list[float]()
    queues = 0
    reader = ClassicReader(transport, ReaderOptions(name="c1"))
    for _ in range(polls):
        began = cpu(broker.pid)
        snapshot = await reader.poll(60)
        (whole if "settings" in snapshot.collectors else few).append(
            cpu(broker.pid) - began
        )
        queues = 0 if snapshot.queues is None else len(snapshot.queues)
        await asyncio.sleep(1)
        transport.step += 14  # a poll each 15 s
    await reader.close()
    return few, whole, queues


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.classic")
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--polls", type=int, default=24)
    parser.add_argument(
        "--advisories",
        type=int,
        default=0,
        help="queues that had a client, whose topics the broker keeps",
    )
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-classic-") as folder:
        broker = ClassicBroker.create(
            Path(folder) / "c1", heap_mb=1024, read_only=False, quick=False
        )
        broker.start()
        try:
            make_queues(broker, wanted.queues)
            used = [("visit", f"queue.{i:05}", 0) for i in range(wanted.advisories)]
            if used:
                with Clients(broker, [(*used[0][:2], 0), *used[1:]]):
                    time.sleep(2)
            few, whole, queues = asyncio.run(polled(broker, wanted.polls))
        finally:
            broker.kill()
    # The first polls are those of a JVM that is not warm.
    found = {
        "queues": queues,
        "cpu_s": round(median(few[3:]), 3),
        "cpu_s_with_settings": round(median(whole[1:]), 3),
    }
    a_minute = (3 * found["cpu_s"] + found["cpu_s_with_settings"]) / 60
    print(
        json.dumps(found | {"share_of_a_core_at_15_s": round(a_minute, 4), "bar": BAR})
    )
    return int(found["cpu_s"] > BAR)


if __name__ == "__main__":
    sys.exit(main())
