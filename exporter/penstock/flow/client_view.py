"""One client over all queues: what it reads and what holds there, where it sends, its connections."""

from penstock.flow.explain import NotFound, Plain, Sight, near, number, numbers_at
from penstock.flow.lists import Wanted, client_list, condition_list
from penstock.flow.series import ClientSeries, ConnectionSeries, ProducerSeries
from penstock.table import Index, Table

MOST = 200
"""Conditions, queues, addresses and connections of one client that are told."""
CONNECTION_NUMBERS = ("sessions", "consumers", "producers", "buffered", "buffered_bytes")


def client_view(sight: Sight, client: str) -> Plain:
    """All that is known of a client as plain values. NotFound: there is no such client; the hint names similar ones."""
    producers: Table[ProducerSeries] = sight.tables.get("producer", Table(Index.empty()))
    connections: Table[ConnectionSeries] = sight.tables.get("connection", Table(Index.empty()))
    wanted = Wanted(client=client, limit=MOST)
    queues, total = client_list([sight], wanted)
    conditions, _ = condition_list([sight], wanted)
    sends = [i for i, row in enumerate(producers.index) if row.client == client]
    through = [i for i, row in enumerate(connections.index) if row.client == client]
    if not (total or conditions or sends or through):
        raise _missing(sight, client, producers)
    return {
        "broker": sight.policy.broker,
        "client": client,
        "stamp": round(sight.snapshot.stamp, 3),
        "conditions": conditions,
        "queues": queues,
        "queues_left_out": total - len(queues),
        "sends_to": [
            {"address": producers.index.rows[i].address, "produced": number(producers["produced"][i])}
            for i in sends[:MOST]
        ],
        "connections": [_connection(connections, i) for i in through[:MOST]],
    }


def _connection(table: Table[ConnectionSeries], i: int) -> Plain:
    row: ConnectionSeries = table.index.rows[i]
    return {
        "connection": row.connection,
        "protocol": row.protocol,
        "user": row.user,
        "remote_host": row.remote_host,
        **numbers_at(table, CONNECTION_NUMBERS, i),
    }


def _missing(sight: Sight, client: str, producers: Table[ProducerSeries]) -> NotFound:
    readers: Table[ClientSeries] = sight.tables.get("client", Table(Index.empty()))
    names = sorted({row.client for row in readers.index} | {row.client for row in producers.index})
    return NotFound(f"broker {sight.policy.broker} has no client {client!r}", near(client, names, "clients"))
