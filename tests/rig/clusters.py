"""Artemis brokers that belong together: a cluster of two, with a bridge to a broker that is mirrored to another."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock_demo.artemis import ArtemisBroker
from penstock_demo.ports import LOOPBACK, free_port

PASSWORD = "of-this-cluster"  # of brokers on the loopback, for the length of a test


@dataclass(frozen=True)
class Estate:
    """c1 and c2 are a cluster; `out` of c1 is bridged to `in` of m1, and all of m1 is mirrored to m2."""

    c1: ArtemisBroker
    c2: ArtemisBroker
    m1: ArtemisBroker
    m2: ArtemisBroker

    @property
    def brokers(self) -> list[ArtemisBroker]:
        return [self.c1, self.c2, self.m1, self.m2]


@contextmanager
def estate(folder: Path) -> Iterator[Estate]:
    """All four, started."""
    ports = {name: free_port() for name in ("c1", "c2", "m1", "m2")}

    def create(name: str, edit: Callable[[str], str], *arguments: str) -> ArtemisBroker:
        return ArtemisBroker.create(
            folder / name,
            name=name,
            port=ports[name],
            users=["link"],
            create_args=arguments,
            edit=edit,
        )

    def clustered(
        name: str, peer: str, more: Callable[[str], str] = str
    ) -> ArtemisBroker:
        login = ("--cluster-user", "cluster", "--cluster-password", PASSWORD)
        where = ("--clustered", "--static-cluster", f"tcp://{LOOPBACK}:{ports[peer]}")
        return create(name, lambda xml: redistributing(more(xml)), *where, *login)

    with ExitStack() as stack:
        m2 = create("m2", str)
        m1 = create("m1", lambda xml: mirrored(xml, ports["m2"], m2))
        c2 = clustered("c2", "c1")
        c1 = clustered("c1", "c2", lambda xml: bridged(xml, ports["m1"], m1))
        for broker in (m2, m1, c2, c1):
            stack.callback(broker.kill)
            broker.start(timeout=240)
        yield Estate(c1, c2, m1, m2)


def redistributing(xml: str) -> str:
    """At once, where a queue has no consumer."""
    return re.sub(
        r'(<address-setting match="#">)',
        r"\1<redistribution-delay>0</redistribution-delay>",
        xml,
        count=1,
    )


def bridged(xml: str, port: int, to: ArtemisBroker) -> str:
    connector = f'<connector name="to-m1">tcp://{LOOPBACK}:{port}</connector>'
    bridge = f"""<bridges><bridge name="to-m1"><queue-name>out</queue-name><forwarding-address>in</forwarding-address>
        <retry-interval>500</retry-interval><reconnect-attempts>-1</reconnect-attempts>
        <static-connectors><connector-ref>to-m1</connector-ref></static-connectors>
        <user>link</user><password>{to.accounts["link"].password}</password></bridge></bridges>"""
    xml = xml.replace("<connectors>", f"<connectors>{connector}", 1).replace(
        "<addresses>", bridge + "<addresses>", 1
    )
    return xml.replace(
        "<addresses>",
        '<addresses><address name="out"><anycast><queue name="out"/></anycast></address>',
        1,
    )


def mirrored(xml: str, port: int, to: ArtemisBroker) -> str:
    login = f'user="link" password="{to.accounts["link"].password}"'
    mirror = f"""<broker-connections><amqp-connection uri="tcp://{LOOPBACK}:{port}" name="dr" {login}
        retry-interval="500" reconnect-attempts="-1"><mirror/></amqp-connection></broker-connections>"""
    return xml.replace("<addresses>", mirror + "<addresses>", 1)
