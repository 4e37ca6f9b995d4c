"""listConnections, listSessions and listProducers → connections, producers, and whose connection a session is."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from sys import intern

import numpy as np

from penstock.brokers.artemis import answers as wire
from penstock.brokers.artemis.kinds import MIRROR
from penstock.brokers.artemis.listings import (
    ListingDecoder,
    ListingPage,
    Numbers,
    NumbersReader,
)
from penstock.brokers.clients import NameMap, client_name, remote_host
from penstock.brokers.rows import Rows, columns_of, lost_rows, matrix
from penstock.brokers.sight import Sight
from penstock.columns.connections import ConnectionColumns
from penstock.columns.producers import ProducerColumns
from penstock.core.table import (
    Column,
    Index,
    KeyAllocator,
    Keys,
    Mask,
    Matrix,
    Table,
    positions,
)
from penstock.model import ANONYMOUS, ConnectionRow, ProducerRow

SESSION_FIELDS = tuple(ConnectionColumns.from_request("listSessions"))
PRODUCER_FIELDS = tuple(ProducerColumns.from_request("listProducers"))
"""Columns that a listing gives, in the order of its values."""


def hashes(texts: Iterable[str]) -> Keys:
    """64 bits of each text, the same in this process. That any two of 100,000 agree has a chance of 3 in 10 billion."""
    return np.array([hash(text) for text in texts], np.int64)


def place(text: str) -> float:
    """The rank of a text among others: its first six characters as a number."""
    return float(int.from_bytes(text.encode(errors="replace")[:6].ljust(6, b"\0")))


def producer_place(producer_id: str) -> float:
    """The ids are numbers from 2.28 on; before, they may be texts."""
    if producer_id.isdecimal() and len(producer_id) < 16:
        return float(producer_id)
    return place(producer_id)


class ConnectionBuilder:
    """Keeps connections, sessions and producers from poll to poll: only hashes of sessions, which may be very many."""

    def __init__(self, names: NameMap) -> None:
        self._names = names
        self._decode_connections = ListingDecoder(
            wire.ConnectionListed, "listConnections"
        )
        self._session_texts = ListingDecoder(wire.SessionListed, "listSessions")
        self._sessions = NumbersReader(
            self._session_texts,
            lambda rows: hashes(row.id for row in rows),
            self._session_values,
        )
        self.producers = ListingDecoder(wire.ProducerListed, "listProducers")
        self._connection_keys = KeyAllocator[str]()
        self._producer_keys = KeyAllocator[str]()
        self._index: Index[ConnectionRow] = Index.empty()
        self._producer_index: Index[ProducerRow] = Index.empty()
        self.session_sight = Sight(lambda _, numbers: numbers[-1])
        self.producer_sight = Sight(
            lambda _, numbers: numbers[-1], proofs=2
        )  # sorted as consumers are
        self._early: set[int] = set()
        """Keys of producers that wait for their address to be listed."""
        self._unknown: dict[str, tuple[int, str, str, str]] = {}
        """Connections whose texts are not known yet, by id: key, id, user and client id of a session."""
        self._session_hashes: Keys = np.empty(0, np.int64)
        """(sessions,) Ascending."""
        self._session_connections: Keys = np.empty(0, np.int64)
        """(sessions,) The key of the connection of each session."""

    def sessions(self, listing: ListingPage) -> Numbers:
        """The keys are hashes of the ids; the values: key of the connection, consumers, producers, place."""
        sessions = self._sessions(listing)
        keys = sessions.values[0].astype(np.int64)
        unknown = np.flatnonzero(self._index.positions(keys) < 0)
        wanted = set(keys[unknown].tolist())
        rows = self._session_texts.at_least(listing, unknown, len(sessions))
        connection_keys = self._connection_keys.give(
            [row.connection_id for row in rows]
        )
        for key, row in zip(connection_keys.tolist(), rows, strict=True):
            if key in wanted:
                self._unknown.setdefault(
                    row.connection_id, (key, row.connection_id, row.user, row.client_id)
                )
        return sessions

    def _session_values(self, rows: Sequence[wire.ListedSession]) -> Matrix:
        connections = self._connection_keys.give([row.connection_id for row in rows])
        places = [place(row.id) for row in rows]
        return np.vstack([connections, matrix(rows, SESSION_FIELDS), places])

    def unknown(self) -> bool:
        """Whether listConnections must be asked: texts of connections that carry sessions are not known yet."""
        return bool(self._unknown)

    def connections(self, listing: ListingPage) -> Numbers:
        """The page, without numbers; fresh: the rows of connections that were not known before, by key."""
        listed = self._decode_connections(listing)
        wanted = [
            (row, *self._unknown[row.connection_id])
            for row in listed.rows
            if row.connection_id in self._unknown
        ]
        rows = {key: self._row(row, *session) for row, key, *session in wanted}
        return Numbers.of(
            listed, np.arange(len(listed)), np.empty((0, len(listed))), rows
        )

    def table(
        self, sessions: Sequence[Numbers], connections: Sequence[Numbers]
    ) -> Table[ConnectionRow]:
        """Connections that carry sessions; Core clients hold others, for the topology, which say nothing."""
        sizes = [len(page) for page in sessions]
        ids, listed = self._sessions.together(sessions)
        ids, numbers = self.session_sight.whole(
            sizes, ids, listed, lost=lost_rows(sessions)
        )
        keys = numbers[0].astype(np.int64)
        order = np.argsort(ids)
        self._session_hashes = ids[order]
        self._session_connections = keys[order]
        self._unknown = {}
        fresh = {key: row for page in connections for key, row in page.fresh.items()}
        has_connection = self._has_texts(keys, fresh)
        self._advance(keys[has_connection], fresh)
        self._connection_keys.keep(keys)
        return self._sums(keys[has_connection], numbers[1:-1, has_connection])

    def _has_texts(self, keys: Keys, fresh: Mapping[int, ConnectionRow]) -> Mask:
        """(keys,) True for a connection whose texts are known.

        A client that connected between the two listings is in one of them only: it waits for the next poll.
        """
        is_known = self._index.positions(keys) >= 0
        return is_known | np.isin(keys, np.fromiter(fresh, np.int64, len(fresh)))

    def _advance(self, keys: Keys, fresh: Mapping[int, ConnectionRow]) -> None:
        """The index now has the connections of these keys. fresh: the rows of new ones, by key."""
        self._index, _ = self._index.advance(
            keys, lambda new: [fresh[key] for key in keys[new].tolist()]
        )

    def _sums(self, keys: Keys, numbers: Matrix) -> Table[ConnectionRow]:
        """The table of connections, each with the sums of its sessions.

        keys: (sessions,) that of the connection. numbers: (SESSION_FIELDS, sessions).
        """
        rows = self._index.positions(keys)
        size = len(self._index)
        sessions = np.bincount(rows, minlength=size)
        columns: dict[str, Column] = {"sessions": sessions.astype(np.float64)}
        for name, of_sessions in zip(SESSION_FIELDS, numbers, strict=True):
            sums = np.bincount(rows, of_sessions, minlength=size)
            columns[name] = sums.astype(np.float64)
        return Table(self._index, columns)

    def keys_of(self, sessions: Sequence[str]) -> Keys:
        """Keys of the connections of `sessions`, -1 where unknown."""
        return np.append(self._session_connections, -1)[
            positions(self._session_hashes, hashes(sessions))
        ]

    def producer_table(
        self, pages: Sequence[Rows[wire.ListedProducer]], addresses: Sequence[str]
    ) -> Table[ProducerRow]:
        """addresses: the names of all that were listed. A producer whose address was created after that waits for the
        next listing: how it is shown is not known yet, and what counted under another name would be lost to it.
        """
        producers = [row for page in pages for row in page.rows]
        keys = self._producer_keys.give([f"{p.session} {p.id}" for p in producers])
        is_new = self._producer_index.positions(keys) < 0
        fresh = {
            key: producer
            for key, producer, new in zip(keys.tolist(), producers, is_new, strict=True)
            if new
        }
        self._early = _early(fresh, addresses) - self._early
        is_listed = ~np.isin(keys, list(self._early))
        sizes = _sizes_of(is_listed, pages)
        keys, numbers = self.producer_sight.whole(
            sizes,
            keys[is_listed],
            _producer_numbers(list(compress(producers, is_listed.tolist()))),
            lost=lost_rows(pages),
        )
        self._producer_keys.keep(np.append(keys, list(self._early)).astype(np.int64))
        self._producer_index, order = self._producer_index.advance(
            keys,
            lambda new: [self._producer(fresh[key]) for key in keys[new].tolist()],
        )
        columns = columns_of(PRODUCER_FIELDS, numbers[:-1], order)
        return Table(self._producer_index, columns)

    def _row(
        self,
        connection: wire.ConnectionListed,
        name: str,
        session_user: str,
        client_id: str,
    ) -> ConnectionRow:
        """name: its id, as the text that `_connection_keys` holds: each is kept once."""
        user = session_user or connection.users
        origin = connection.remote_address
        protocol = connection.protocol
        client = client_name(
            client_id or connection.client_id, user, origin, protocol, self._names
        )
        return ConnectionRow(
            name,
            intern(client),
            intern(protocol),
            intern(user),
            intern(remote_host(origin)),
        )

    def _producer(self, row: wire.ListedProducer) -> ProducerRow:
        user = row.user or row.validated_user
        client = client_name(
            row.client_id, user, row.remote_address, row.protocol, self._names
        )
        if (row.address or "").startswith(MIRROR):
            # The node id of the broker that is mirrored here.
            client = row.client_id or ""
        return ProducerRow(row.id, _address(row), client, row.session)


def _early(
    fresh: Mapping[int, wire.ListedProducer], addresses: Sequence[str]
) -> set[int]:
    """Keys of new producers whose address is not listed yet. addresses: names; empty while they are not known."""
    if not fresh or not addresses:
        return set()
    listed = {*addresses, ANONYMOUS}
    return {key for key, producer in fresh.items() if _address(producer) not in listed}


def _sizes_of(is_listed: Mask, pages: Sequence[Rows[wire.ListedProducer]]) -> list[int]:
    """How many rows of each page are listed. is_listed: (rows of all pages,)."""
    sizes = []
    start = 0
    for page in pages:
        end = start + len(page)
        sizes.append(int(np.count_nonzero(is_listed[start:end])))
        start = end
    return sizes


def _producer_numbers(producers: Sequence[wire.ListedProducer]) -> Matrix:
    """(fields, producers) The numbers of `PRODUCER_FIELDS`, and the rank of each producer in the listing."""
    ranks = [producer_place(producer.id) for producer in producers]
    return np.vstack([matrix(producers, PRODUCER_FIELDS), ranks])


def _address(row: wire.ListedProducer) -> str:
    """The address that a producer sends to; `ANONYMOUS`: it names one with each message."""
    if not row.address or row.address == "ANONYMOUS":
        return ANONYMOUS
    return row.address
