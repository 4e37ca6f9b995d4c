"""
Failovers of a pair, replicated or with a shared store, one after the other: `make failovers` prints a line of JSON.

At each the live broker is killed under load and comes back, first behind the other, then active. Each has to be told
once; a client's totals must not fall; what came by mq_queue_messages_added_total, summed as Prometheus does, is what
was sent; the sum over both of what rests is true all the time; nothing is unhealthy.
"""

import json
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from e2e.agent import Agent, entry
from penstock_demo.artemis import ArtemisBroker, ha_pair
from penstock_demo.errors import DemoError
from rig.drivers import AmqpConsumer, AmqpProducer
from rig.waiting import eventually

Series = tuple[str, str, str]
"""Family, broker, queue or client."""
ADDED = "mq_queue_messages_added_total"
RESTS = 70
"""Messages that are never read."""


class Watched:
    """All that /metrics says of the pair's counters, scraped all the time."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._last: dict[Series, float] = {}
        self.increase: Counter[Series] = Counter()
        self.falls: Counter[Series] = Counter()
        self.scrapes = 0
        self.rests: Counter[str] = Counter()
        """How often the sum of what rests was shown as what."""
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._scrape()

    def _run(self) -> None:
        while not self._ending.wait(0.2):
            self._scrape()

    def _scrape(self) -> None:
        self.scrapes += 1
        self.rests[rests(self._agent)] += 1
        for family, labels, value in self._agent.scrape().samples:
            if family.endswith("_total") and "queue" in labels:
                self._take(
                    (family, labels["broker"], labels.get("client", labels["queue"])),
                    value,
                )

    def _take(self, series: Series, value: float) -> None:
        before = self._last.get(series, value if series[0] != ADDED else 0.0)
        self._last[series] = value
        if value < before:
            self.falls[series] += 1
        self.increase[series] += int(value - before if value >= before else value)


def events(agent: Agent) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(
        agent.request("/api/v1/events?limit=1000")[1]
    )["events"]
    return found


def rests(agent: Agent) -> str:
    """Messages of the address, over both brokers; empty where nothing is shown."""
    facts = json.loads(agent.request("/api/v1/address?address=rests")[1]).get(
        "facts", ()
    )
    return next(
        (
            f"{one['value']} {one.get('most', '')}".strip()
            for one in facts
            if one["name"] == "messages"
        ),
        "",
    )


def in_sync(backup: ArtemisBroker) -> bool:
    try:
        return backup.manage.read(backup.manage.broker, "ReplicaSync") is True
    except DemoError:
        return False


def load(agent: Agent, broker: ArtemisBroker, messages: int) -> None:
    """Sent and read while the agent looks on."""
    agent.until(
        lambda scrape: bool(scrape.find(ADDED, broker=broker.name, queue="q")),
        expected=True,
        timeout=60,
    )
    with AmqpConsumer(broker.endpoint(), "q", client_id="reader") as reader:
        agent.next_poll(broker.name, timeout=60)
        with AmqpProducer(broker.endpoint(), "q") as producer:
            producer.send(messages)
        eventually(lambda: reader.counts.received, messages, timeout=60)
        time.sleep(1)
        agent.next_poll(broker.name, timeout=60)


def run(count: int, folder: Path, *, replicated: bool) -> dict[str, object]:
    live, backup = ha_pair(folder / "pair", replicated=replicated)
    sent = 0
    began = time.monotonic()
    with ExitStack() as stack:
        for broker in (live, backup):
            stack.callback(broker.kill)
            broker.start()
        for queue in ("q", "rests"):
            live.manage.create_queue(queue)
        both = [entry(live), entry(backup)]
        agent = stack.enter_context(
            Agent(folder / "agent", brokers=both, interval="2s", timeout="1800ms")
        )
        agent.until(lambda scrape: len(scrape.find("mq_broker_info")), 2, timeout=90)
        with AmqpProducer(live.endpoint(), "rests") as producer:
            producer.send(RESTS)
        eventually(lambda: rests(agent), str(RESTS), timeout=30)
        watched = stack.enter_context(Watched(agent))
        time.sleep(2)
        for number in range(count):
            load(agent, live, 10 + number)
            if replicated:
                eventually(lambda: in_sync(backup), expected=True, timeout=60)
            live.kill()
            backup.wait_until_active(timeout=90)
            load(agent, backup, 20 + number)
            live.start()
            live.wait_until_active(timeout=90)
            agent.until(
                lambda scrape: [
                    labels["role"]
                    for labels, _ in scrape.find("mq_broker_info", broker="backup")
                ],
                ["passive"],
                timeout=60,
            )
            sent += 30 + 2 * number
        load(agent, live, 5)
        told = events(agent)
    roles = Counter(
        f"{one['broker']} {one['detail']}" for one in told if one["change"] == "role"
    )
    took_over = Counter(one["broker"] for one in told if one["change"] == "failover")
    conditions = Counter(
        one["condition"] for one in told if one["change"] == "condition_on"
    )
    added = {name: sum(n for one, n in watched.increase.items() if one[0] == ADDED and one[2] == name)
             for name in ("q", "rests")}  # fmt: skip
    falls = {
        " ".join(one): n
        for one, n in watched.falls.items()
        if one[0].startswith("mq_client_")
    }
    true_of_rests = {"no_consumer"}
    return {
        "failovers": count,
        "pair": "replicated" if replicated else "shared store",
        "sum_of_what_rests": dict(watched.rests),
        "roles": dict(roles),
        "took_over": dict(took_over),
        "restarts": dict(
            Counter(one["broker"] for one in told if one["change"] == "broker_restart")
        ),
        "false_conditions": {
            name: n for name, n in conditions.items() if name not in true_of_rests
        },
        "client_totals_fell": falls,
        "added": added,
        "sent": {"q": sent + 5, "rests": RESTS},
        "scrapes": watched.scrapes,
        "seconds": round(time.monotonic() - began),
        "ok": roles["backup passive to active"]
        == roles["backup active to passive"]
        == count
        and took_over == {"backup": count, "live": count}
        and not falls
        and watched.rests.keys() - {""}
        == {str(RESTS)}  # not known while neither serves
        and not conditions.keys() - true_of_rests
        and added == {"q": sent + 5, "rests": RESTS},
    }


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="penstock-failovers-") as folder:
        result = run(
            int(sys.argv[1]), Path(folder), replicated="shared" not in sys.argv
        )
    print(json.dumps(result))  # noqa: T201 - the result
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
