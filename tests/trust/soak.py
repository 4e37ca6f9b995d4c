"""
`make soak`: an agent with history watches a real Artemis and a real OpenMQ whose queues and clients come and go, while
faults come at random; what it holds must stay flat, each poll be counted, each snapshot be in the history.

The last line is JSON; exit code 1 when a bar is missed.
"""

import json
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from e2e.agent import Agent, entry
from penstock.history.listing import days
from penstock.history.store import Store
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.broker import Broker
from penstock_demo.openmq import OpenMQBroker
from rig.openmq import configured
from rig.proxy import Fault, Proxy
from rig.waiting import rhythm
from trust import watched
from trust.churn import HELD, SENTINEL, Churn, OpenMQChurn
from trust.inside import Inside, Sample, growth, inside, sample

INTERVAL = 5.0
RSS_MB = 5.0
"""Allowed growth after warm-up."""
RECOVERY = 2.0
"""Polls after the end of a fault until one has succeeded."""
SLACK = 2
"""Polls by which a count taken at two moments may differ from the time between them."""
RECORDING = Path(__file__).parents[1] / "recordings" / "artemis-2.44.0.jsonl.gz"
PAGES = [
    "/",
    "/config",
    "/-/ready",
    "/api/v1/brokers",
    "/api/v1/queues?limit=1000",
    "/api/v1/events?limit=1000",
]
PAGES += [
    "/api/v1/explain?broker=a1&queue=sentinel",
    "/api/v1/explain?broker=a1&queue=none",
    "/api/v1/queues?limit=x",
]
_POLLS = re.compile(
    r'^penstock_polls_total\{broker="(a1|o1)",result="(\w+)"\} (\S+)$', re.MULTILINE
)
_STAMP = re.compile(
    r'^penstock_poll_timestamp_seconds\{broker="(a1|o1)"\} (\S+)$', re.MULTILINE
)
_UP = re.compile(r'^mq_up\{broker="(a1|o1)".*\} (\S+)$', re.MULTILINE)
_SENTINEL = re.compile(
    rf'^mq_queue_messages\{{.*queue="{SENTINEL}".*\}} (\S+)$', re.MULTILINE
)


@dataclass(slots=True)
class Seen:
    """What the scrapes said."""

    polls: list[tuple[float, dict[str, Counter[str]]]] = field(default_factory=list)
    """At a moment (monotonic), by broker and result."""
    wrong: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    insides: list[Inside] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    recoveries: list[tuple[float, str]] = field(default_factory=list)
    """Intervals from the end of a fault to the first poll that succeeded, and which fault it was."""
    troubles: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Soak:
    """All that runs."""

    agent: Agent
    brokers: Mapping[str, Broker]
    proxies: Mapping[str, Proxy]
    configuration: dict[str, Any]
    dice: random.Random
    held: Path
    seen: Seen = field(default_factory=Seen)
    ending: threading.Event = field(default_factory=threading.Event)

    def scrape(self) -> str:
        """A body, and what is wrong in it."""
        body = self.agent.body()
        self.seen.wrong += [
            f"sentinel {value}"
            for value in _SENTINEL.findall(body)
            if float(value) != HELD
        ]
        return body

    def note_polls(self) -> None:
        found: dict[str, Counter[str]] = {name: Counter() for name in self.brokers}
        for broker, result, value in _POLLS.findall(self.scrape()):
            found[broker][result] = int(float(value))
        self.seen.polls.append((time.monotonic(), found))

    # --- faults

    def run_faults(self) -> None:
        """One after the other until the end, each with its recovery."""
        kinds: list[Callable[[], None]] = (
            [self.proxied] * 8 + [self.frozen] * 3 + [self.crash, self.busy, self.busy]
        )
        kinds += [self.reload, self.reload, self.refused_reload, self.someone_else]
        while not self.ending.wait(self.dice.uniform(8, 25)):
            try:
                self.dice.choice(kinds)()
            except Exception as error:  # noqa: BLE001 - told in the result
                self.seen.troubles.append(repr(error)[:300])

    def proxied(self) -> None:
        name = self.dice.choice(list(self.proxies))
        fault = self.dice.choice([*list(Fault)[1:], None])
        proxy = self.proxies[name]
        if fault is None:
            proxy.delay = self.dice.uniform(0.3, 2)
        else:
            proxy.fault = fault
        self.ending.wait(self.dice.uniform(2, 20))
        proxy.fault = Fault.NONE
        proxy.delay = 0.0
        self.ended(f"proxy {fault or 'delay'}", name)

    def frozen(self) -> None:
        name = self.dice.choice(list(self.brokers))
        self.brokers[name].pause()
        try:
            self.ending.wait(self.dice.uniform(2, 12))
        finally:
            self.brokers[name].resume()
        self.ended("SIGSTOP", name)

    def crash(self) -> None:
        name = self.dice.choice(list(self.brokers))
        self.brokers[name].kill()
        self.ending.wait(self.dice.uniform(0, 10))
        self.brokers[name].start(timeout=300)
        self.ended("SIGKILL and start", name)

    def busy(self) -> None:
        """Many scrapes and look-ups at once."""
        threads = [threading.Thread(target=self._asks, daemon=True) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.seen.faults["scrapes and look-ups"] += 1

    def _asks(self) -> None:
        for _ in range(10):
            status, _text = self.agent.request(
                self.dice.choice([*PAGES, "/metrics", "/metrics"])
            )
            if status not in (200, 400, 404, 503):
                self.seen.wrong.append(f"HTTP {status}")

    def reload(self) -> None:
        """Another rule; sometimes another constant, which each policy holds."""
        rule = {
            "match": {"queue": f"churn.{self.dice.randrange(1000)}"},
            "owner": f"team-{self.dice.randrange(100)}",
        }
        self._reload({**self.configuration, "rules": [rule]}, 200)

    def someone_else(self) -> None:
        """A broker more, and away again."""
        more = {
            "name": "r1",
            "kind": "artemis",
            "transport": "recording",
            "url": f"recording:{RECORDING}",
        }
        self._reload(
            {**self.configuration, "brokers": [*self.configuration["brokers"], more]},
            200,
        )
        self.ending.wait(self.dice.uniform(3, 15))
        self._reload(self.configuration, 200)

    def refused_reload(self) -> None:
        self._reload({**self.configuration, "rules": [{"nonsense": 1}]}, 500)

    def _reload(self, configuration: dict[str, Any], wanted: int) -> None:
        self.agent.configure(**configuration)
        status, text = self.agent.request("/-/reload", method="POST")
        if status != wanted:
            self.seen.wrong.append(f"reload: HTTP {status}: {text[:200]}")
        self.seen.faults[f"reload {wanted}"] += 1

    def ended(self, fault: str, broker: str) -> None:
        """Wait for a poll that began after now and succeeded."""
        ended = time.time()
        self.seen.faults[fault] += 1
        while not self.ending.is_set() and time.time() < ended + 20 * INTERVAL:
            body = self.scrape()
            up = dict(_UP.findall(body))
            stamps = dict(_STAMP.findall(body))
            if up.get(broker) == "1" and (stamp := float(stamps[broker])) >= ended:
                self.seen.recoveries.append(
                    ((stamp - ended) / INTERVAL, f"{fault} {broker}")
                )
                return
            self.ending.wait(0.5)
        if not self.ending.is_set():
            self.seen.wrong.append(f"no recovery from {fault} of {broker}")


@contextmanager
def running(folder: Path, seed: int) -> Iterator[Soak]:
    artemis = ArtemisBroker.create(folder / "a1", name="a1", read_only_user="exporter")
    openmq = OpenMQBroker.create(folder / "o1", name="o1", heap_mb=256)
    brokers: dict[str, Broker] = {"a1": artemis, "o1": openmq}
    with ExitStack() as stack:
        for broker in brokers.values():
            stack.callback(broker.kill)
            broker.start(timeout=300)
        proxies = {
            name: stack.enter_context(proxy_of(broker))
            for name, broker in brokers.items()
        }
        stack.enter_context(Churn(artemis, seed))
        stack.enter_context(OpenMQChurn(openmq, seed))
        entries = [
            entry(artemis, url=through(artemis, proxies["a1"])),
            configured(
                openmq, "jolokia", name="o1", url=through(openmq, proxies["o1"])
            ),
        ]
        configuration: dict[str, Any] = {
            "interval": f"{INTERVAL:g}s",
            "timeout": f"{INTERVAL - 0.5:g}s",
            "brokers": entries,
            "history": {"enabled": True, "publish": "30s"},
        }
        held = folder / "held.json"
        program = [sys.executable, str(watched.__file__), str(held)]
        agent = stack.enter_context(
            Agent(folder / "agent", program=program, **configuration)
        )
        yield Soak(agent, brokers, proxies, configuration, random.Random(seed), held)  # noqa: S311 - repeatable


def proxy_of(broker: Broker) -> Proxy:
    return Proxy((broker.host, port_of(broker)))


def port_of(broker: Broker) -> int:
    return int(broker.jolokia_url.split(":")[2].partition("/")[0])


def through(broker: Broker, proxy: Proxy) -> str:
    return broker.jolokia_url.replace(f":{port_of(broker)}/", f":{proxy.port}/")


def main(duration: float, seed: int) -> int:
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as scratch:
        with running(Path(scratch), seed) as soak:
            soaked(soak, duration)
            soak.note_polls()
            log = soak.agent.log
        result = told(
            soak.seen, duration, published(soak.agent.work / "data"), log.read_text()
        )
    say(json.dumps(result))
    return int(bool(result["missed"]))


def soaked(soak: Soak, duration: float) -> None:
    """Samples at a rhythm; a line a minute."""
    began = time.monotonic()
    faults = threading.Thread(target=soak.run_faults, name="faults", daemon=True)
    soak.note_polls()
    faults.start()
    for turn, _ in enumerate(rhythm(INTERVAL, soak.ending)):
        soak.seen.samples.append(sample(soak.agent.pid))
        soak.note_polls()
        if turn % 12 == 0:
            soak.seen.insides.append(inside(soak.agent.pid, soak.held))
            say(line(soak.seen, time.monotonic() - began))
        if time.monotonic() - began >= duration:
            break
    soak.ending.set()
    faults.join(400)


def line(seen: Seen, lasted: float) -> str:
    last = seen.samples[-1]
    held = seen.insides[-1]
    worst = max(seen.recoveries, default=(0.0, "none"))
    return (
        f"{lasted:6.0f} s  rss {last.rss_mb:.1f} MB  fds {last.descriptors}  threads {last.threads}  tasks {held.tasks}"
        f"  objects {held.objects}  blocks {held.blocks}  faults {sum(seen.faults.values())}"
        f"  worst recovery {worst[0]:.1f} ({worst[1]})  wrong {len(seen.wrong)}"
    )


def published(data: Path) -> Counter[str]:
    """Polls in the history, by broker."""
    found: Counter[str] = Counter()
    for day in days(Store(str(data / "history"))):
        found.update(day.polls)
    return found


def told(
    seen: Seen, duration: float, history: Counter[str], log: str
) -> dict[str, Any]:
    """All figures, and which bars are missed."""
    warm = [
        one
        for one in seen.samples
        if one.at - seen.samples[0].at >= min(duration / 6, 900)
    ]
    warm_insides = seen.insides[len(seen.insides) // 6 :]
    grown = {
        "rss_mb": growth([one.rss_mb for one in warm]),
        "descriptors": growth([one.descriptors for one in warm]),
        "threads": growth([one.threads for one in warm]),
        "children": growth([one.children for one in warm]),
        "tasks": growth([one.tasks for one in warm_insides]),
        "objects": growth([one.objects for one in warm_insides]),
        "blocks": growth([one.blocks for one in warm_insides]),
    }
    (first, before), (last, after) = seen.polls[0], seen.polls[-1]
    made = {name: after[name] - before[name] for name in after}
    due = (last - first) / INTERVAL
    snapshots = {
        name: counts["ok"] + counts["partial"] for name, counts in after.items()
    }
    worst = max(seen.recoveries, default=(0.0, "none"))
    bars = {
        "rss": grown["rss_mb"][1] - grown["rss_mb"][0] <= RSS_MB,
        "flat": all(
            grown[name][1] - grown[name][0] <= 1
            for name in ("threads", "children", "tasks")
        )
        and grown["descriptors"][1] - grown["descriptors"][0] <= 4
        and grown["objects"][1] <= 1.05 * grown["objects"][0],
        "every poll counted": all(
            abs(counts.total() - due) <= SLACK for counts in made.values()
        ),
        "counters rise": all(
            b[1][n] >= a[1][n] for a, b in pairwise(seen.polls) for n in a[1]
        ),
        "history complete": all(
            count <= history[name] <= count + SLACK for name, count in snapshots.items()
        ),
        "recovery": worst[0] <= RECOVERY,
        "nothing wrong": not seen.wrong,
        "no surprise": "unexpected" not in log
        and "Traceback" not in log
        and "please report" not in log,
    }
    return {
        "seconds": round(duration),
        "polls_due": round(due),
        "polls": {name: dict(counts) for name, counts in made.items()},
        "snapshots": snapshots,
        "history": dict(history),
        "faults": dict(seen.faults),
        "recovery_polls_max": round(worst[0], 2),
        "recovery_worst": worst[1],
        "grown": {
            name: [round(value, 1) for value in pair] for name, pair in grown.items()
        },
        "grown_kinds": more_of(warm_insides[0], warm_insides[-1]),
        "wrong": seen.wrong[:20],
        "troubles": seen.troubles[:20],
        "machine_load": os.getloadavg()[0],
        "missed": [name for name, kept in bars.items() if not kept],
    }


def more_of(before: Inside, after: Inside) -> dict[str, int]:
    """The kinds of objects of which there are most more."""
    more = Counter(
        {
            kind: count - before.kinds.get(kind, count)
            for kind, count in after.kinds.items()
        }
    )
    return {kind: count for kind, count in more.most_common(5) if count > 0}


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the result


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2])))
