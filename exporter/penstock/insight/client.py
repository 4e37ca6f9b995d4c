"""One client over all queues: what it reads and what is active there, where it sends, its connections."""

from penstock.core.table import Index, Table
from penstock.insight.answers import ClientConnection, ClientView, Target, columns
from penstock.insight.explain import BrokerView, NotFound, json_number, near, numbers_at
from penstock.insight.lists import ListQuery, client_list, condition_list, named
from penstock.series.labels import ClientSeries, ConnectionSeries, ProducerSeries

MOST = 200
"""Conditions, queues, addresses and connections of one client that are shown."""


def client_view(view: BrokerView, client: str) -> ClientView:
    """All that is known of a client. NotFound: there is no such client; the hint names similar ones."""
    producers: Table[ProducerSeries] = view.tables.get("producer", Table(Index.empty()))
    connections: Table[ConnectionSeries] = view.tables.get("connection", Table(Index.empty()))
    query = ListQuery(client=client, limit=MOST)
    queues = client_list([view], query)
    conditions = condition_list([view], query)
    sends = [i for i, row in enumerate(producers.index) if row.client == client]
    through = [i for i, row in enumerate(connections.index) if row.client == client]
    if not (queues.total or conditions.total or sends or through):
        raise _missing(view, client, producers)
    return ClientView(
        broker=view.policy.broker,
        client=client,
        stamp=round(view.snapshot.stamp, 3),
        conditions=conditions.rows,
        queues=queues.rows,
        queues_left_out=queues.total - len(queues.rows),
        sends_to=[Target(producers.index.rows[i].address, json_number(producers["produced"][i])) for i in sends[:MOST]],
        connections=[
            ClientConnection(
                **named(connections.index.rows[i], ("connection", "protocol", "user", "remote_host"))
                | numbers_at(connections, columns(ClientConnection), i)
            )
            for i in through[:MOST]
        ],
    )


def _missing(view: BrokerView, client: str, producers: Table[ProducerSeries]) -> NotFound:
    readers: Table[ClientSeries] = view.tables.get("client", Table(Index.empty()))
    names = sorted({row.client for row in readers.index} | {row.client for row in producers.index})
    return NotFound(f"broker {view.policy.broker} has no client {client!r}", near(client, names, "clients"))
