"""Consumers whose session is gone, out of listConsumers."""

import json

import numpy as np

from penstock.brokers.artemis.listings import ListingPage, listing_page
from penstock.brokers.artemis.tables import ConsumerBuilder


def page(first: int, *statuses: str) -> ListingPage:
    rows = [
        {"id": str(first + i), "queue": "q", "messagesInTransit": "1", "status": s}
        for i, s in enumerate(statuses)
    ]
    text = json.dumps({"data": rows, "count": len(rows)}, separators=(",", ":"))
    return listing_page(
        json.dumps([{"status": 200, "value": text}], separators=(",", ":")).encode()
    )


def orphans(consumers: ConsumerBuilder, *pages: ListingPage) -> list[int]:
    table = consumers.table([consumers.page(one) for one in pages])
    return [int(key) for key in table.index.keys[table["orphaned"] > 0]]


def made() -> ConsumerBuilder:
    return ConsumerBuilder((), numbers=True)


def test_the_status_of_a_consumer_is_read_and_ends_with_it() -> None:
    consumers = made()
    assert orphans(consumers, page(1, "OK", "Orphaned")) == [2]
    assert orphans(consumers, page(1, "OK", "Orphaned")) == [2]
    assert orphans(consumers, page(1, "OK")) == []
    assert np.isnan(consumers.table([consumers.page(page(1, "OK"))])["orphaned"]).all()


def test_every_page_is_looked_at() -> None:
    consumers = made()
    second = page(11, "Orphaned", "OK")
    assert orphans(consumers, page(1, "OK"), second) == [11]
    assert orphans(consumers, page(1, "OK"), second) == [11]
    assert orphans(consumers, page(1, "Orphaned"), page(11, "OK", "OK")) == [1]
