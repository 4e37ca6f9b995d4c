"""
jmxquery as a transport: attributes only, a new Java process for each call, the password in its command line.

What the operator must have allowed; the last resort where neither Jolokia nor the JMX helper may be used.
"""

import asyncio
import logging
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from penstock.core.errors import ConfigError, Refused, SourceError, Unreachable
from penstock.transports.java import find_java
from penstock.transports.jmx import PORT_MAPPER_SECONDS, JmxTarget, service_url
from penstock.transports.transport import Answer, Request

LONGEST = 100_000
"""Characters of the queries of one call: an argument of a command may not be much longer."""


class JmxQueryTransport:
    """Asks for attributes; a request to call an operation is answered by status 501."""

    def __init__(self, target: JmxTarget) -> None:
        try:
            import jmxquery  # noqa: PLC0415 - an extra: the other transports do without
        except ModuleNotFoundError as error:
            raise ConfigError("transport jmxquery needs jmxquery: install penstock[jmxquery]") from error
        # It logs its command line, the password in it.
        logging.getLogger("jmxquery").setLevel(logging.CRITICAL + 1)
        self._library: Any = jmxquery
        self._target = target
        self._java = find_java(target.java)

    async def begin_poll(self) -> None:
        """Nothing to prepare."""

    async def close(self) -> None:
        """Nothing is held between calls."""

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        """As `Transport.ask`."""
        deadline, began, wall = time.monotonic() + timeout, time.monotonic(), time.time()
        url = await service_url(self._target.url, min(PORT_MAPPER_SECONDS, timeout))
        reads = [request for request in requests if request["type"] == "read"]
        found: list[dict[str, dict[str, Any]]] = []
        for queries in batches(reads):
            found += await asyncio.to_thread(self._run, url, queries, deadline - time.monotonic())
        answers = iter(found)
        body = [response(request, next(answers) if request["type"] == "read" else None) for request in requests]
        seconds = time.monotonic() - began
        return Answer(msgspec.json.encode(body), wall + seconds / 2, seconds)

    def _run(self, url: str, requests: Sequence[Request], timeout: float) -> list[dict[str, dict[str, Any]]]:
        """For each request MBean → attribute → value."""
        if timeout <= 0:
            raise Unreachable(f"{self._target.url}: no time left for another call of jmxquery")
        # Its name for a metric comes back with each value and shows whose answer it is.
        queries = [
            self._library.JMXQuery(f"{request['mbean']}/{attribute}", metric_name=str(number))
            for number, request in enumerate(requests)
            for attribute in request["attribute"]
        ]
        password = self._target.password() if self._target.password else ""
        connection = self._library.JMXConnection(url, self._target.username, password, self._java)
        trouble: SourceError | None = None
        rows: list[Any] = []
        try:
            rows = connection.query(queries, timeout=timeout)
        except subprocess.CalledProcessError as error:
            trouble = self._error(error)
        except (ValueError, KeyError, AttributeError, OSError):
            # AttributeError: what the library does when its process is out of time.
            trouble = Unreachable(f"{self._target.url}: jmxquery gave no answer within {timeout:.1f} s")
        if trouble is not None:
            raise trouble  # out here: what was caught holds the command line with the password
        found: list[dict[str, dict[str, Any]]] = [{} for _ in requests]
        for row in rows:
            found[int(row.metric_name)].setdefault(row.mBeanName, {})[row.attribute] = value_of(row)
        return found

    def _error(self, error: subprocess.CalledProcessError) -> SourceError:
        said = b" ".join(part for part in (error.output, error.stderr) if part).decode(errors="replace")
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        text = next((line for line in lines if "Exception" in line), lines[0] if lines else "it said nothing")
        if "SecurityException" in said or "FailedLogin" in said or "AccessControl" in said:
            return Refused(f"{self._target.url}: jmxquery: the login of user {self._target.username!r} is refused")
        if "MQRMIClientSocketFactory" in said:
            return Unreachable(f"{self._target.url}: jmxquery: the broker runs with imq.hostname; use transport jmx")
        return Unreachable(f"{self._target.url}: jmxquery: {self._without_password(text)[:300]}")

    def _without_password(self, text: str) -> str:
        password = self._target.password() if self._target.password else ""
        return text.replace(password, "…") if password else text


def batches(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """Requests in as few calls as a command line allows."""
    batch: list[Request] = []
    length = 0
    for request in requests:
        own = sum(len(request["mbean"]) + len(attribute) + 16 for attribute in request["attribute"])
        if batch and length + own > LONGEST:
            yield batch
            batch, length = [], 0
        batch.append(request)
        length += own
    if batch:
        yield batch


def response(request: Request, found: dict[str, dict[str, Any]] | None) -> dict[str, Any]:
    """What Jolokia would have answered."""
    if found is None:
        return {"status": 501, "error": "jmxquery reads attributes only; use transport jolokia or jmx for this"}
    if not found:
        return {"status": 404, "error": f"no MBean {request['mbean']}"}
    return {"status": 200, "value": found if "*" in request["mbean"] else next(iter(found.values()))}


def value_of(row: Any) -> Any:
    """A value in its own type; a flag comes as a text."""
    return str(row.value).lower() == "true" if row.value_type == "Boolean" else row.value
