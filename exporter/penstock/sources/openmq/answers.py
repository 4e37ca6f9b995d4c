"""
OpenMQ's answers, typed. Ids are texts of 63-bit numbers, times milliseconds, and nothing there is `null`, not `[]`.

A value that cannot be read is missing, never 0; how many there were is told.
"""

from typing import Any, Generic

import msgspec

from penstock.errors import BadAnswer, Refused
from penstock.sources.rows import NAN, UNREADABLE, Flag, Rows, RowT, lenient


class Reply(msgspec.Struct):
    """One Jolokia response, its value as it stands in the answer. HTTP is 200 even for errors: `status` tells."""

    status: int
    error: str | None = None
    error_type: str | None = None
    timestamp: float = NAN
    value: msgspec.Raw = msgspec.Raw(b"null")

    def raise_for_status(self, what: str) -> None:
        """A `SourceError` unless the request succeeded."""
        if self.status == 200:
            return
        text = f"{what}: status {self.status}: {(self.error or 'no reason given')[:300]}"
        if self.status == 403:
            raise Refused(f"{text}; the agent's policy file must allow it, see docs/openmq.md")
        raise BadAnswer(text)

    @property
    def nothing_found(self) -> bool:
        return self.status == 404

    @property
    def worth_a_retry(self) -> bool:
        """A listing fails as a whole when one of what it lists goes away meanwhile."""
        return self.status == 500


_replies = msgspec.json.Decoder(list[Reply])
_refusal = msgspec.json.Decoder(Reply)


def replies(body: bytes, expected: int) -> list[Reply]:
    """The responses to a bulk of `expected` requests, in their order."""
    try:
        if body.lstrip()[:1] == b"{":  # an agent that refuses the bulk as a whole answers with one object
            _refusal.decode(body).raise_for_status("the request")
        found = _replies.decode(body)
    except UNREADABLE as error:
        start = body[:80].decode(errors="replace")
        raise BadAnswer(
            f"not an answer of Jolokia ({error}): {start!r}; is the URL's path right? Its agent: /jolokia/"
        ) from error
    if len(found) != expected:
        raise BadAnswer(f"{expected} requests were answered by {len(found)} responses")
    return found


class Decoder(Generic[RowT]):
    """Reads values of one type out of the answers: of one MBean, of all that match a pattern, or of a listing."""

    def __init__(self, row: type[RowT]) -> None:
        self._row = row
        self._one = msgspec.json.Decoder(row, strict=False)
        self._many = msgspec.json.Decoder(dict[str, row], strict=False)  # type: ignore[valid-type]
        self._list = msgspec.json.Decoder(list[row] | None, strict=False)  # type: ignore[valid-type]

    def one(self, reply: Reply, what: str) -> RowT:
        """What a read of one MBean, or an operation that returns one thing, says."""
        reply.raise_for_status(what)
        try:
            return self._one.decode(reply.value)
        except msgspec.ValidationError:
            rows = self._leniently([_any(reply, what)], what)
            if not rows.rows:
                raise BadAnswer(f"{what}: what is needed cannot be read in the answer") from None
            return rows.rows[0]
        except UNREADABLE as error:
            raise BadAnswer(f"{what}: broken JSON: {error}") from error

    def many(self, reply: Reply, what: str) -> Rows[RowT]:
        """What a pattern read says of each MBean; none matched: none."""
        if reply.nothing_found:
            return Rows([], 0)
        reply.raise_for_status(what)
        try:
            found = list(self._many.decode(reply.value).values())
        except msgspec.ValidationError:
            values = _any(reply, what)
            return self._leniently(list(values.values()) if isinstance(values, dict) else [values], what)
        except UNREADABLE as error:
            raise BadAnswer(f"{what}: broken JSON: {error}") from error
        return Rows(found, len(found))

    def listed(self, reply: Reply, what: str) -> Rows[RowT]:
        """The rows of a listing."""
        reply.raise_for_status(what)
        try:
            found = self._list.decode(reply.value) or []
        except msgspec.ValidationError:
            values = _any(reply, what)
            return self._leniently(values if isinstance(values, list) else [values], what)
        except UNREADABLE as error:
            raise BadAnswer(f"{what}: broken JSON: {error}") from error
        return Rows(found, len(found))

    def _leniently(self, values: list[Any], what: str) -> Rows[RowT]:
        if not all(isinstance(value, dict) for value in values):
            raise BadAnswer(f"{what}: the answer is of another form than OpenMQ's")
        loose = [lenient(self._row, value) for value in values]
        rows = [row for row, _ in loose if row is not None]
        return Rows(rows, len(values), sum(bad for _, bad in loose))


def _any(reply: Reply, what: str) -> Any:
    try:
        return msgspec.json.decode(reply.value)
    except UNREADABLE as error:
        raise BadAnswer(f"{what}: broken JSON: {error}") from error


_texts = msgspec.json.Decoder(list[str] | None)


def texts(reply: Reply, what: str) -> list[str]:
    """The texts that an operation returns; none: an empty list."""
    reply.raise_for_status(what)
    try:
        return _texts.decode(reply.value) or []
    except UNREADABLE as error:
        raise BadAnswer(f"{what}: not a list of texts: {error}") from error


class BrokerAttributes(msgspec.Struct, rename="pascal"):
    version: str = ""
    host: str | None = None
    port: int = 0
    resource_state: str | None = None


class RuntimeAttributes(msgspec.Struct, rename="pascal"):
    start_time: float = NAN
    uptime: float = NAN


class HeapAttributes(msgspec.Struct, rename="pascal"):
    total_memory: float = NAN
    free_memory: float = NAN
    max_memory: float = NAN


class TotalAttributes(msgspec.Struct, rename="pascal"):
    num_msgs: float = NAN
    num_msgs_in_dmq: float = msgspec.field(name="NumMsgsInDMQ", default=NAN)
    total_msg_bytes: float = NAN


class TotalLimits(msgspec.Struct, rename="pascal"):
    max_total_msg_bytes: float = NAN


class ConnectionCount(msgspec.Struct, rename="pascal"):
    num_connections: float = NAN


class Connection(msgspec.Struct, rename="pascal", gc=False):
    connection_id: int = msgspec.field(name="ConnectionID")
    client_id: str | None = msgspec.field(name="ClientID", default=None)
    host: str | None = None
    port: int | None = None
    user: str | None = None
    service_name: str | None = None
    num_consumers: float = NAN
    num_producers: float = NAN


class Depth(msgspec.Struct, rename="pascal", gc=False):
    """The expensive attributes of a destination."""

    num_msgs: float = NAN
    num_msgs_pending_acks: float = NAN
    num_msgs_held_in_transaction: float = NAN
    num_msgs_in_delay_delivery: float = NAN
    total_msg_bytes: float = NAN


class Destination(msgspec.Struct, rename="pascal", gc=False):
    """A destination; the expensive attributes only where they were asked."""

    name: str
    type: str
    state: float = NAN
    temporary: Flag = NAN
    connection_id: int | None = msgspec.field(name="ConnectionID", default=None)
    num_msgs_in: float = NAN
    num_msgs_out: float = NAN
    msg_bytes_in: float = NAN
    msg_bytes_out: float = NAN
    num_consumers: float = NAN
    num_active_consumers: float = NAN
    num_producers: float = NAN
    num_msgs: float = NAN
    num_msgs_pending_acks: float = NAN
    num_msgs_held_in_transaction: float = NAN
    num_msgs_in_delay_delivery: float = NAN
    total_msg_bytes: float = NAN


class Settings(msgspec.Struct, rename="pascal", gc=False, frozen=True):
    """-1 = unlimited."""

    name: str
    type: str
    consumer_flow_limit: float = NAN
    limit_behavior: str = ""
    max_num_msgs: float = NAN
    max_total_msg_bytes: float = NAN
    max_bytes_per_msg: float = NAN
    max_num_producers: float = NAN
    use_dmq: Flag = msgspec.field(name="UseDMQ", default=NAN)


class Consumer(msgspec.Struct, rename="pascal", gc=False):
    """A consumer, a subscription that stands for its members, or a member."""

    consumer_id: int = msgspec.field(name="ConsumerID")
    connection_id: int | None = msgspec.field(name="ConnectionID", default=None)
    client_id: str | None = msgspec.field(name="ClientID", default=None)
    user: str | None = None
    host: str | None = None
    service_name: str | None = None
    destination_name: str | None = None
    destination_type: str | None = None
    selector: str | None = None
    durable: bool | None = None
    durable_name: str | None = None
    durable_active: bool | None = None
    wildcard: bool | None = None
    acknowledge_mode: float = NAN
    flow_paused: Flag = NAN
    num_msgs: float = NAN
    num_msgs_pending: float = NAN
    num_msgs_pending_acks: float = NAN
    last_ack_time: float = NAN
    creation_time: float = NAN

    @property
    def is_subscription(self) -> bool:
        """Whether it stands for a durable or shared subscription, whose members are hidden behind it."""
        return bool(self.durable) or (self.connection_id is None and not self.wildcard)

    @property
    def is_active(self) -> bool:
        return self.durable_active is not False


class Producer(msgspec.Struct, rename="pascal", gc=False):
    producer_id: int = msgspec.field(name="ProducerID")
    connection_id: int | None = msgspec.field(name="ConnectionID", default=None)
    user: str | None = None
    host: str | None = None
    service_name: str | None = None
    destination_name: str | None = None
    destination_type: str | None = None
    num_msgs: float = NAN
    creation_time: float = NAN


class Transaction(msgspec.Struct, rename="pascal", gc=False):
    transaction_id: int = msgspec.field(name="TransactionID")
    xid: str | None = msgspec.field(name="XID", default=None)
    user: str | None = None
    client_id: str | None = msgspec.field(name="ClientID", default=None)
    connection_string: str | None = None
    state: float | None = NAN
    """None: it has ended while it was listed."""
    num_msgs: float = NAN
    num_acks: float = NAN
    creation_time: float = NAN

    @property
    def remote(self) -> tuple[str, int] | None:
        """Host and port of the client's end of its connection, `user@host:port->service:port`."""
        end = (self.connection_string or "").partition("->")[0].rpartition("@")[2]
        host, _, port = end.rpartition(":")
        return (host, int(port)) if host and port.isdigit() else None
