"""A queue that is made again under its name while another row of the listing cannot be read."""

import json

from penstock.brokers.artemis.kinds import Roles
from penstock.brokers.artemis.listings import ListingPage, listing_page
from penstock.brokers.artemis.tables import QueueBuilder


def listed(*rows: dict[str, object]) -> ListingPage:
    value = json.dumps({"data": rows, "count": len(rows)}, separators=(",", ":"))
    reply = [{"request": {}, "value": value, "status": 200, "timestamp": 1}]
    return listing_page(json.dumps(reply, separators=(",", ":")).encode())


def queue(key: int, name: str, messages: int) -> dict[str, object]:
    found = {
        "id": key,
        "name": name,
        "address": name,
        "messageCount": messages,
        "messagesAdded": messages,
    }
    return found | {"routingType": "ANYCAST", "durable": "true"}


def test_the_one_before_is_gone() -> None:
    queues = QueueBuilder()
    unreadable: dict[str, object] = {"id": "x?", "name": "bad"}

    def messages(*rows: dict[str, object]) -> dict[str, list[float]]:
        page = queues.page(listed(*rows), refresh=False)
        table = queues.table([page], Roles(), from_attributes=False)
        return {
            row.name: table["messages"][table.index.rows == row].tolist()
            for row in table.index
        }

    assert messages(queue(1, "orders", 900), queue(2, "z", 3)) == {
        "orders": [900.0],
        "z": [3.0],
    }
    found = messages(queue(7, "orders", 5), unreadable)
    assert found == {"orders": [5.0], "z": [3.0]}, (
        "z may be the row that could not be read"
    )
