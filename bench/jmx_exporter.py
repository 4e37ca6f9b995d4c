"""
The Prometheus JMX exporter's agent in a broker's JVM, held as near as it can be to what Penstock reads.

Of its agents on Maven Central the newest, 1.0.1, knows no list of attributes to include, as later ones on GitHub do:
those of each object that are not wanted are excluded, by the object's exact name. Its YAML reader takes 3 MiB: of a
broker for which that is too little as many attributes are excluded as fit, the dearest first.
"""

import urllib.request
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.brokers.artemis.answers import (
    AddressAttributes,
    QueueAttributes,
    QueueSizes,
)
from penstock.brokers.artemis.requests import DOMAIN
from penstock.brokers.requests import attributes as asked_for
from penstock.brokers.requests import quote
from penstock_demo.cache import cache_dir, locked, maven
from penstock_demo.management import Management

JMX_EXPORTER = "io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1"
CONFIG_BYTES = 3 * 2**20
TEXTS = {"Name", "Address", "RoutingType", "Filter"}
"""Wanted by Penstock; an exporter has them from the object's name."""
WANTED = {
    "queue": {*asked_for(QueueAttributes), *asked_for(QueueSizes), "Paused"} - TEXTS,
    "address": {*asked_for(AddressAttributes)} - TEXTS,
}
DEAREST = ("FirstMessageAsJSON", "FirstMessageAge", "FirstMessageTimestamp")
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


@dataclass(slots=True)
class Exporter:
    """One whose agent is in a JVM. config: the file that it reads again when it has changed."""

    port: int
    config: Path
    queues: int = 0
    unwanted: int = 0
    """Attributes of a queue and its address that it reads though Penstock does not."""

    @property
    def option(self) -> str:
        """Of the JVM."""
        self.config.write_text(NOTHING, encoding="utf-8")
        return f"-javaagent:{_jar()}=127.0.0.1:{self.port}:{self.config}"

    def show(self, broker: str, queues: Sequence[str], manage: Management) -> None:
        """Read these queues and their addresses from now on; the broker must have them."""
        mbeans = {
            "queue": manage.queue_mbean(queues[0]),
            "address": manage.address_mbean(queues[0]),
        }
        all_unwanted = unwanted(
            {kind: attributes(manage, mbean) for kind, mbean in mbeans.items()}
        )
        text, excluded = config(broker, queues, all_unwanted)
        self.queues = len(queues)
        self.unwanted = len(all_unwanted) - excluded
        self.config.write_text(text, encoding="utf-8")

    def scrape(self) -> int:
        """One scrape; how many samples of queues and addresses came. An error when it did not read them all."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}/metrics", timeout=240
        ) as answer:
            body: bytes = answer.read()
        samples = body.count(b"\nartemis_")
        if b"\njmx_scrape_error 0.0" not in body or samples < self.queues:
            raise SystemExit(
                f"the exporter gave {samples} samples of {self.queues} queues; see the broker's log"
            )
        return samples


def attributes(manage: Management, mbean: str) -> set[str]:
    """Names of all attributes of an MBean."""
    return set(
        manage.post(
            [{"type": "read", "mbean": mbean, "config": {"ignoreErrors": "true"}}]
        )[0]
    )


def unwanted(found: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """Kinds of objects and attributes that Penstock does not read, of those that are found; the dearest first."""
    pairs = [
        (kind, name)
        for kind, names in found.items()
        for name in sorted(names - WANTED[kind])
    ]
    return sorted(pairs, key=lambda pair: pair[1] not in DEAREST)


def config(
    broker: str, queues: Sequence[str], excluded: Sequence[tuple[str, str]]
) -> tuple[str, int]:
    """The exporter's configuration, and how many of `excluded` it excludes: as many as fit."""
    fits = bisect_right(
        range(1, len(excluded) + 1),
        CONFIG_BYTES,
        key=lambda n: len(_text(broker, queues, excluded[:n])),
    )
    return _text(broker, queues, excluded[:fits]), fits


def _text(
    broker: str, queues: Iterable[str], excluded: Sequence[tuple[str, str]]
) -> str:
    lists = {
        kind: [f"a{number}" for number, pair in enumerate(excluded) if pair[0] == kind]
        for kind in WANTED
    }
    lines = [
        "lowercaseOutputName: true",
        f"includeObjectNames: ['{DOMAIN}:broker={quote(broker)},component=addresses,*']",
    ]
    if excluded:
        # Each name stands once, and an alias of it in each list: 4 characters in place of 20.
        lines.append(
            "names: ["
            + ", ".join(
                f"&a{number} {name}" for number, (_, name) in enumerate(excluded)
            )
            + "]"
        )
        lines.append("excludeObjectNameAttributes:")
    for queue in queues if excluded else ():
        address = f"{DOMAIN}:address={quote(queue)},broker={quote(broker)},component=addresses"
        names = {
            "address": address,
            "queue": f'{address},queue={quote(queue)},routing-type="anycast",subcomponent=queues',
        }
        lines += [
            f" '{names[kind]}': [*" + " ,*".join(aliases) + " ]"
            for kind, aliases in lists.items()
            if aliases
        ]
    return "\n".join([*lines, *_RULES]) + "\n"


def _jar() -> Path:
    name, version = JMX_EXPORTER.split(":")[1:]
    jar = cache_dir() / "dl" / f"{name}-{version}.jar"
    with locked(jar):
        if not jar.exists():
            maven(
                "copy", f"-Dartifact={JMX_EXPORTER}", f"-DoutputDirectory={jar.parent}"
            )
    return jar
