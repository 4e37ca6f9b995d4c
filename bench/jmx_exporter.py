"""
The Prometheus JMX exporter's agent in a broker's JVM, held as near as it can be to what Penstock reads.

Version 1.0.1, the newest on Maven Central, knows no list of attributes to include: those of each object that are not
wanted are excluded, by the object's exact name. Its YAML reader takes 3 MiB: of a broker for which that is too little
only the dearest attributes are excluded, and then none.
"""

import json
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.demo.cache import cache_dir, locked, maven
from penstock.demo.management import Management
from penstock.sources.artemis.requests import ADDRESS_ATTRIBUTES, DOMAIN, QUEUE_ATTRIBUTES, SIZE_ATTRIBUTES, quote

JMX_EXPORTER = "io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1"
CONFIG_BYTES = 3 * 2**20
OF_QUEUES = {*QUEUE_ATTRIBUTES, *SIZE_ATTRIBUTES, "Paused"}
OF_ADDRESSES = set(ADDRESS_ATTRIBUTES)
DEAREST = {"FirstMessageAsJSON", "FirstMessageAge", "FirstMessageTimestamp"}
"""Each of them looks into the queue."""
NOTHING = "includeObjectNames: ['none:*']\n"

_ADDRESS = f'{DOMAIN}<broker="([^"]*)", component=addresses, address="([^"]*)"'
_QUEUE = f'{_ADDRESS}, subcomponent=queues, routing-type="([^"]*)", queue="([^"]*)"'
# Without `cache` it matches each name and attribute anew at each scrape, which is two thirds of its work.
_RULES = (
    "rules:",
    f"- pattern: '{_QUEUE}><>(.*):'",
    "  name: artemis_$5",
    "  labels: {broker: $1, address: $2, queue: $4}",
    "  cache: true",
    f"- pattern: '{_ADDRESS}><>(.*):'",
    "  name: artemis_address_$3",
    "  labels: {broker: $1, address: $2}",
    "  cache: true",
)


@dataclass(frozen=True, slots=True)
class Exporter:
    """One whose agent is in a JVM. config: the file that it reads again when it has changed."""

    port: int
    config: Path

    @property
    def option(self) -> str:
        """Of the JVM."""
        self.config.write_text(NOTHING, encoding="utf-8")
        return f"-javaagent:{_jar()}=127.0.0.1:{self.port}:{self.config}"

    def show(self, broker: str, queues: Sequence[str], manage: Management) -> None:
        """Read these queues and their addresses from now on; the broker must have them."""
        queue, address = manage.queue_mbean(queues[0]), manage.address_mbean(queues[0])
        self.config.write_text(
            config(broker, queues, attributes(manage, queue), attributes(manage, address)), encoding="utf-8"
        )

    def scrape(self) -> int:
        """One scrape; how many samples of queues and addresses came."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=240) as answer:
            body: bytes = answer.read()
        return body.count(b"\nartemis_")


def attributes(manage: Management, mbean: str) -> set[str]:
    """Names of all attributes of an MBean."""
    return set(manage.post([{"type": "read", "mbean": mbean, "config": {"ignoreErrors": "true"}}])[0])


def config(broker: str, queues: Sequence[str], of_queue: set[str], of_address: set[str]) -> str:
    """of_queue, of_address: all attributes that they have."""
    attempts = [
        {"queue": of_queue - OF_QUEUES, "address": of_address - OF_ADDRESSES},
        {"queue": of_queue & DEAREST},
        {},
    ]
    texts = (_text(broker, queues, excluded) for excluded in attempts)
    return next(text for text in texts if len(text) <= CONFIG_BYTES)


def _text(broker: str, queues: Iterable[str], excluded: Mapping[str, set[str]]) -> str:
    lines = [
        "lowercaseOutputName: true",
        "includeObjectNames:",
        f"- '{DOMAIN}:broker={quote(broker)},component=addresses,*'",
    ]
    if excluded:
        lines.append("excludeObjectNameAttributes:")
    for queue in queues:
        address = f"{DOMAIN}:broker={quote(broker)},component=addresses,address={quote(queue)}"
        names = {
            "address": address,
            "queue": f'{address},subcomponent=queues,routing-type="anycast",queue={quote(queue)}',
        }
        lines += [f" '{names[kind]}': {json.dumps(sorted(these))}" for kind, these in excluded.items()]
    return "\n".join([*lines, *_RULES]) + "\n"


def _jar() -> Path:
    name, version = JMX_EXPORTER.split(":")[1:]
    jar = cache_dir() / "dl" / f"{name}-{version}.jar"
    with locked(jar):
        if not jar.exists():
            maven("copy", f"-Dartifact={JMX_EXPORTER}", f"-DoutputDirectory={jar.parent}")
    return jar
