"""jmxquery, which operators of OpenMQ ask with: a new Java process a call; its answer in the form of Jolokia's."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from jmxquery import JMXConnection, JMXQuery

from penstock.transports.jmx import PORT_MAPPER_SECONDS, JmxTarget, service_url
from penstock.transports.transport import Request

LONGEST = 100_000
"""Characters of the queries of one call: an argument of a command may not be much longer."""


async def ask(
    target: JmxTarget, java: str, requests: Sequence[Request], timeout: float
) -> list[dict[str, Any]]:
    """The attributes that `requests` name, of each: MBean → attribute → value."""
    logging.getLogger("jmxquery").setLevel(
        logging.CRITICAL + 1
    )  # it logs its command line, the password in it
    url = await service_url(target.url, PORT_MAPPER_SECONDS)
    found: list[dict[str, Any]] = []
    for batch in batches(requests):
        found += await asyncio.to_thread(_run, target, java, url, batch, timeout)
    return found


def _run(
    target: JmxTarget, java: str, url: str, requests: Sequence[Request], timeout: float
) -> Iterator[dict[str, Any]]:
    queries = [
        JMXQuery(f"{request['mbean']}/{attribute}", metric_name=str(number))
        for number, request in enumerate(requests)
        for attribute in request["attribute"]
    ]
    found: list[dict[str, Any]] = [{} for _ in requests]
    password = target.password() if target.password else ""
    for row in JMXConnection(url, target.username, password, java).query(
        queries, timeout=timeout
    ):
        found[int(row.metric_name)].setdefault(row.mBeanName, {})[row.attribute] = (
            row.value
        )
    return iter(found)


def batches(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """Requests in as few calls as a command line allows."""
    batch: list[Request] = []
    length = 0
    for request in requests:
        own = sum(
            len(request["mbean"]) + len(attribute) + 16
            for attribute in request["attribute"]
        )
        if batch and length + own > LONGEST:
            yield batch
            batch = []
            length = 0
        batch.append(request)
        length += own
    if batch:
        yield batch
