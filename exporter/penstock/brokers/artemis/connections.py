"""listConnections, listSessions and listProducers → connections, producers, and whose connection a session is."""

from collections.abc import Iterable, Sequence
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
    return (
        float(producer_id)
        if producer_id.isdecimal() and len(producer_id) < 16
        else place(producer_id)
    )


class ConnectionBuilder:
    """What is known of them from poll to poll: of sessions only hashes, as there may be as many as consumers."""

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
        """Of connections whose texts are not known yet: key, id, user and client id of a session, by id."""
        self._session_hashes: Keys = np.empty(0, np.int64)
        """Ascending; with the keys of their connections."""
        self._session_connections: Keys = np.empty(0, np.int64)

    def sessions(self, listing: ListingPage) -> Numbers:
        """The keys are hashes of the ids; the values: key of the connection, consumers, producers, place."""
        sessions = self._sessions(listing)
        keys = sessions.values[0].astype(np.int64)
        unknown = np.flatnonzero(self._index.positions(keys) < 0)
        wanted = set(keys[unknown].tolist())
        rows = self._session_texts.at_least(listing, unknown, len(sessions))
        of = self._connection_keys.give([row.connection_id for row in rows])
        for key, row in zip(of.tolist(), rows, strict=True):
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
        """Without numbers; fresh: the rows of those that were not known before, by key."""
        found = self._decode_connections(listing)
        wanted = [
            (row, *self._unknown[row.connection_id])
            for row in found.rows
            if row.connection_id in self._unknown
        ]
        rows = {key: self._row(row, *session) for row, key, *session in wanted}
        return Numbers.of(found, np.arange(len(found)), np.empty((0, len(found))), rows)

    def table(
        self, sessions: Sequence[Numbers], connections: Sequence[Numbers]
    ) -> Table[ConnectionRow]:
        """Connections that carry sessions; Core clients hold others, for the topology, which say nothing."""
        listed = self._sessions.together(sessions)
        ids, numbers = self.session_sight.whole(
            [len(page) for page in sessions], *listed, lost=lost_rows(sessions)
        )
        keys = numbers[0].astype(np.int64)
        order = np.argsort(ids)
        self._session_hashes = ids[order]
        self._session_connections = keys[order]
        self._unknown = {}
        fresh = {key: row for page in connections for key, row in page.fresh.items()}
        # What connected between the two listings is in one of them only: it waits for the next poll.
        here = (self._index.positions(keys) >= 0) | np.isin(
            keys, np.fromiter(fresh, np.int64, len(fresh))
        )
        shown = keys[here]
        self._index, _ = self._index.advance(
            shown, lambda new: [fresh[int(shown[i])] for i in new]
        )
        self._connection_keys.keep(keys)
        at = self._index.positions(shown)
        size = len(self._index)
        counts = np.bincount(at, minlength=size)
        columns: dict[str, Column] = {"sessions": counts.astype(np.float64)}
        for name, of_sessions in zip(SESSION_FIELDS, numbers[1:], strict=False):
            sums = np.bincount(at, of_sessions[here], minlength=size)
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
        new = np.flatnonzero(self._producer_index.positions(keys) < 0).tolist()
        known = {*addresses, ANONYMOUS} if new and addresses else set()
        early = {
            int(keys[i]) for i in new if known and _address(producers[i]) not in known
        } - self._early
        self._early = early
        here = [
            producer
            for producer, key in zip(producers, keys.tolist(), strict=True)
            if key not in early
        ]
        of_pages = np.split(keys, np.cumsum([len(page) for page in pages])[:-1])
        known_by_page = [page[~np.isin(page, list(early))] for page in of_pages]
        listed = np.vstack(
            [
                matrix(here, PRODUCER_FIELDS),
                [producer_place(producer.id) for producer in here],
            ]
        )
        sizes = [len(page) for page in known_by_page]
        whole, numbers = self.producer_sight.whole(
            sizes, np.concatenate(known_by_page), listed, lost=lost_rows(pages)
        )
        self._producer_keys.keep(np.append(whole, list(early)).astype(np.int64))
        fresh = {int(keys[i]): producers[i] for i in new}
        self._producer_index, order = self._producer_index.advance(
            whole, lambda of: [self._producer(fresh[int(whole[i])]) for i in of]
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
            client = (
                row.client_id or ""
            )  # the node id of the broker that is mirrored here
        return ProducerRow(row.id, _address(row), client, row.session)


def _address(row: wire.ListedProducer) -> str:
    return ANONYMOUS if not row.address or row.address == "ANONYMOUS" else row.address
