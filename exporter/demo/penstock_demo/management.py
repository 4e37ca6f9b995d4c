"""Changes an Artemis broker through Jolokia, for the demo and the tests. Blocking; the exporter never uses this."""

import base64
import http.client
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from penstock_demo.errors import DemoError

_DOMAIN = "org.apache.activemq.artemis"
_ALL_ROWS = '{"field":"","operation":"","value":"","searchFilters":[]}'
_ATTEMPTS = 5
_BATCH = 200  # queues created per request
_TEXT = "java.lang.String"


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the broker."""

    user: str
    password: str = field(repr=False)


def quoted(name: str) -> str:
    """A name as JMX quotes it inside an object name."""
    return '"' + re.sub(r'(["\\*?])', r"\\\1", name).replace("\n", "\\n") + '"'


class Management:
    """Operations of one broker, called `broker`, behind the Jolokia at `url`."""

    def __init__(
        self,
        url: str,
        broker: str,
        account: Account,
        *,
        origin: str,
        timeout: float = 30,
    ) -> None:
        self.broker = f"{_DOMAIN}:broker={quoted(broker)}"
        self._url = urlsplit(url)
        self._timeout = timeout
        login = base64.b64encode(f"{account.user}:{account.password}".encode()).decode()
        self._headers = {
            "Authorization": f"Basic {login}",
            "Origin": origin,
            "Content-Type": "application/json",
        }

    def post(self, requests: list[dict[str, Any]]) -> list[Any]:
        """The values of a bulk request, in order; a DemoError with the broker's text when one of them failed."""
        connection = http.client.HTTPConnection(
            self._url.hostname or "", self._url.port, timeout=self._timeout
        )
        try:
            connection.request(
                "POST", self._url.path, json.dumps(requests), self._headers
            )
            answer = connection.getresponse()
            body = answer.read()
        except OSError as error:
            raise DemoError(f"no answer from {self._url.geturl()}: {error}") from None
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise DemoError(f"{self._url.geturl()} answered HTTP {answer.status}")
        return [_value(one) for one in _answers(json.loads(body))]

    def read(self, mbean: str, attribute: str) -> Any:
        """One attribute."""
        return self.post([{"type": "read", "mbean": mbean, "attribute": attribute}])[0]

    def call(self, mbean: str, operation: str, *arguments: Any) -> Any:
        """One operation, named with its signature."""
        return self.post([_exec(mbean, operation, *arguments)])[0]

    def rows(self, listing: str) -> list[dict[str, Any]]:
        """All rows of a listing: `listConsumers`, `listQueues`, `listAddresses`, `listConnections`."""
        for attempt in range(_ATTEMPTS):
            try:
                text = self.call(
                    self.broker,
                    f"{listing}(java.lang.String,int,int)",
                    _ALL_ROWS,
                    1,
                    1_000_000,
                )
            except DemoError as error:  # a queue or session that goes meanwhile fails the whole listing
                if "NullPointerException" not in str(error) or attempt == _ATTEMPTS - 1:
                    raise
            else:
                break
        rows: list[dict[str, Any]] = json.loads(text)["data"]
        return rows

    def address_mbean(self, address: str) -> str:
        """The object name of an address."""
        return f"{self.broker},component=addresses,address={quoted(address)}"

    def queue_mbean(
        self, queue: str, *, address: str = "", routing_type: str = "anycast"
    ) -> str:
        """The object name of a queue; without `address` it has the queue's name."""
        owner = self.address_mbean(address or queue)
        return f"{owner},subcomponent=queues,routing-type={quoted(routing_type)},queue={quoted(queue)}"

    def queue(
        self,
        queue: str,
        attribute: str,
        *,
        address: str = "",
        routing_type: str = "anycast",
    ) -> Any:
        """One attribute of a queue, for instance `MessageCount`."""
        return self.read(
            self.queue_mbean(queue, address=address, routing_type=routing_type),
            attribute,
        )

    def create_queue(
        self,
        queue: str,
        *,
        address: str = "",
        routing_type: str = "anycast",
        **options: Any,
    ) -> None:
        """Create a durable queue and its address; options as `ring_size=10`, `last_value=True`, `durable=False`."""
        self.create_queues(
            [queue], address=address, routing_type=routing_type, **options
        )

    def create_queues(
        self,
        queues: Iterable[str],
        *,
        address: str = "",
        routing_type: str = "anycast",
        **options: Any,
    ) -> None:
        """Create many queues alike, each on an address of its name unless `address` is given."""
        common = {
            "routing-type": routing_type.upper(),
            "durable": True,
            "auto-create-address": True,
        }
        common |= _dashed(options)
        calls = [
            _exec(
                self.broker,
                "createQueue(java.lang.String)",
                _json({"name": q, "address": address or q} | common),
            )
            for q in queues
        ]
        for begin in range(0, len(calls), _BATCH):
            self.post(calls[begin : begin + _BATCH])

    def update_queue(self, queue: str, **options: Any) -> None:
        """Change options of a queue while it lives: `ring_size=5`."""
        self.call(
            self.broker,
            "updateQueue(java.lang.String)",
            _json({"name": queue} | _dashed(options)),
        )

    def destroy_queue(self, queue: str, *, remove_consumers: bool = True) -> None:
        """Delete a queue; its consumers are closed unless said otherwise, its address stays when others use it."""
        operation = "destroyQueue(java.lang.String,boolean,boolean)"
        self.call(self.broker, operation, queue, remove_consumers, True)

    def pause_queue(self, queue: str, **where: str) -> None:
        """Hold back its messages; `where`: address, routing_type."""
        self.call(self.queue_mbean(queue, **where), "pause()")

    def resume_queue(self, queue: str, **where: str) -> None:
        """Undo pause_queue."""
        self.call(self.queue_mbean(queue, **where), "resume()")

    def pause_address(self, address: str) -> None:
        """Hold back the messages of all its queues."""
        self.call(self.address_mbean(address), "pause()")

    def resume_address(self, address: str) -> None:
        """Undo pause_address."""
        self.call(self.address_mbean(address), "resume()")

    def purge(self, queue: str, **where: str) -> int:
        """Remove all messages that are not in delivery; how many."""
        return int(self.call(self.queue_mbean(queue, **where), "removeAllMessages()"))

    def add_settings(self, match: str, **settings: Any) -> None:
        """Address settings by their JSON names: `maxSizeBytes=200000, pageSizeBytes=100000`."""
        self.call(
            self.broker,
            "addAddressSettings(java.lang.String,java.lang.String)",
            match,
            _json(settings),
        )

    def create_bridge(
        self, name: str, queue: str, url: str, account: Account, *, target: str = ""
    ) -> None:
        """Moves what comes to a queue to the address `target` of the broker at `url`, as this account."""
        self.call(
            self.broker,
            "addConnector(java.lang.String,java.lang.String)",
            f"of-{name}",
            url,
        )
        bridge = {
            "name": name,
            "queue_name": queue,
            "forwarding_address": target or queue,
            "static_connectors": [f"of-{name}"],
            "user": account.user,
            "password": account.password,
            "reconnect_attempts": -1,
            "initial_connect_attempts": -1,
        }
        self.call(self.broker, "createBridge(java.lang.String)", _json(_dashed(bridge)))

    def create_divert(self, name: str, source: str, target: str) -> None:
        """Copy what is sent to `source` to `target`."""
        operation = (
            f"createDivert({_TEXT},{_TEXT},{_TEXT},{_TEXT},boolean,{_TEXT},{_TEXT})"
        )
        self.call(self.broker, operation, name, name, source, target, False, None, None)

    def close_connections(self, queue: str) -> None:
        """Cut the connections of all consumers of an address, as an operator would."""
        self.call(
            self.broker, "closeConsumerConnectionsForAddress(java.lang.String)", queue
        )


def _exec(mbean: str, operation: str, *arguments: Any) -> dict[str, Any]:
    return {
        "type": "exec",
        "mbean": mbean,
        "operation": operation,
        "arguments": list(arguments),
    }


def _answers(parsed: Any) -> list[Any]:
    return parsed if isinstance(parsed, list) else [parsed]


def _value(answer: Mapping[str, Any]) -> Any:
    if answer["status"] != http.HTTPStatus.OK:
        raise DemoError(f"the broker refused: {answer.get('error', answer['status'])}")
    return answer.get("value")


def _dashed(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "-"): value for name, value in options.items()}


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value)
