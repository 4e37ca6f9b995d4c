"""The requests to Artemis: the only place where requests are made, all of them reads.

Names are those of org.apache.activemq.artemis.core.management, 2.21 to 2.56. Never asked: anything that touches
messages or locks a queue (FirstMessage*, browse, count; but one, now and then, of an empty queue, to learn whether the
broker would let us), and outside the listings, which have a deadline of their own, attributes that wait for an
operator's bulk operation (an address's MessageCount, a queue's Paused; but GroupCount, which has a deadline, too).
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from penstock.brokers.artemis import answers as wire
from penstock.brokers.requests import attributes, call, quote, read
from penstock.model import QueueRow
from penstock.transports.transport import Request

DOMAIN = "org.apache.activemq.artemis"

LISTINGS = (
    "listConsumers",
    "listQueues",
    "listAddresses",
    "listConnections",
    "listSessions",
    "listProducers",
)
LARGEST_FIRST = {"listQueues": "messageCount", "listAddresses": "addressSize"}
"""Field by which listings are sorted that have more rows than are read; others keep their order, the oldest first."""
ALL_ROWS = 100_000
"""Rows of a page that is meant to hold everything."""

BULK = 1_000
BULK_CHARACTERS = 1_000_000
"""Characters of the names in a bulk, where they are long."""

# The empty filter that every version understands; an empty string fails before 2.40.
_NO_FILTER = '{"field":"","operation":"","value":"","searchFilters":[]}'
# The field is a `sortColumn` on 2.21 and 2.28, a `sortField` on the newest; 2.44 takes both.
_SORTED = _NO_FILTER[:-1] + ',"sortField":"%s","sortColumn":"%s","sortOrder":"desc"}'


def _read(mbean: str, attributes: Sequence[str]) -> Request:
    return read(f"{DOMAIN}:{mbean}", attributes, canonicalNaming="true")


BROKERS = _read("broker=*", attributes(wire.BrokerAttributes))
BRIDGES = _read("broker=*,component=bridges,name=*", attributes(wire.BridgeAttributes))
BROKER_CONNECTIONS = _read(
    "broker=*,component=broker-connections,name=*", ("Started", "Connected")
)


def addresses(
    broker: str, row: type[Struct] = wire.AddressAttributes, below: str = ""
) -> Request:
    """The attributes of a row, of all addresses or of all objects below them."""
    return _read(
        f"broker={quote(broker)},component=addresses,address=*{below}", attributes(row)
    )


def queues(broker: str, row: type[Struct]) -> Request:
    return addresses(broker, row, ",subcomponent=queues,routing-type=*,queue=*")


def diverts(broker: str) -> Request:
    return addresses(broker, wire.DivertAttributes, ",subcomponent=diverts,divert=*")


def first_message_age(broker: str, queue: QueueRow) -> Request:
    """An attribute that an exporter's role must be denied; asked now and then, of an empty queue."""
    name = queue_object(
        f"broker={quote(broker)}", queue.address, queue.routing_type, queue.name
    )
    return _read(name, ("FirstMessageAge",))


def of_queue(
    broker: str,
    address: str,
    queue: str,
    routing_type: str,
    row: type[Struct] = wire.QueueSizes,
) -> Request:
    """Attributes of one queue. Its name has the order in which the answer to a pattern has it."""
    return _read(
        f"address={quote(address)},broker={quote(broker)},component=addresses,queue={quote(queue)},"
        f"routing-type={quote(routing_type.lower())},subcomponent=queues",
        attributes(row),
    )


def in_bulks(requests: Iterable[Request]) -> Iterator[list[Request]]:
    """Reads by name, as many at once as one answer may hold: it repeats each name."""
    bulk: list[Request] = []
    length = 0
    for request in requests:
        if bulk and (
            len(bulk) == BULK or length + len(request["mbean"]) > BULK_CHARACTERS
        ):
            yield bulk
            bulk = []
            length = 0
        bulk.append(request)
        length += len(request["mbean"])
    if bulk:
        yield bulk


def listing(
    broker: str,
    operation: str,
    page: int = 1,
    rows: int = ALL_ROWS,
    *,
    largest_first: bool = False,
) -> Request:
    """Page `page` (from 1) of one of `LISTINGS`. largest_first: as `LARGEST_FIRST` has it, where it does."""
    if operation not in LISTINGS:
        raise ValueError(f"{operation} is not a listing that may be asked")
    field = LARGEST_FIRST.get(operation)
    options = _SORTED % (field, field) if largest_first and field else _NO_FILTER
    return _call(broker, f"{operation}(java.lang.String,int,int)", options, page, rows)


def address_settings(broker: str, address: str) -> Request:
    return _call(broker, "getAddressSettingsAsJSON(java.lang.String)", address)


def prepared_transactions(broker: str) -> Request:
    return _call(broker, "listPreparedTransactions()")


def _call(broker: str, operation: str, *arguments: str | int) -> Request:
    return call(object_name(broker), operation, *arguments)


def object_name(broker: str) -> str:
    return f"{DOMAIN}:broker={quote(broker)}"


def queue_object(broker: str, address: str, routing_type: str, queue: str) -> str:
    """The name of a queue's object. broker: what its broker's is, or ends with."""
    of_address = f"{broker},component=addresses,address={quote(address)}"
    return f"{of_address},subcomponent=queues,routing-type={quote(routing_type)},queue={quote(queue)}"
