"""Every number that is declared for a listing arrives in its column, and in its metric."""

import json
from typing import Any

import numpy as np
import pytest

from core.things import queue, table
from penstock.brokers.artemis import answers
from penstock.brokers.artemis.kinds import Roles
from penstock.brokers.artemis.listings import ListingPage
from penstock.brokers.artemis.tables import ConsumerBuilder, QueueBuilder
from penstock.columns.consumers import ConsumerColumns
from penstock.columns.queues import QueueColumns
from penstock.columns.spec import Frame, Kind
from penstock.core.table import Table
from penstock.model import Observation
from penstock.series.queues import Queues, queue_table
from penstock.settings.policy import Policy


def sent(frame: type[Frame[Any]], operation: str) -> dict[str, float]:
    """A number for each column of the listing: 1 for a flag, else 1, 2, 3, …"""
    specs = frame.specs()
    numbers = dict.fromkeys(frame.from_request(operation), 1)
    for place, column in enumerate(numbers):
        if specs[column].kind is not Kind.FLAG:
            numbers[column] += place
    return {column: float(number) for column, number in numbers.items()}


def listing(frame: type[Frame[Any]], operation: str) -> ListingPage:
    """A listing with one row, which has these numbers as texts."""
    row = {"id": "1", "name": "q", "queue": "q", "address": "q"}
    attributes = frame.from_request(operation)
    for column, number in sent(frame, operation).items():
        row[attributes[column]] = str(int(number))
    text = json.dumps({"data": [row], "count": 1})
    return ListingPage(answers.TextReply(200, value=text))


def read(frame: type[Frame[Any]], operation: str, rows: Table[Any]) -> dict[str, float]:
    """The numbers of the only row; times are milliseconds again."""
    numbers = {column: rows[column][0] for column in frame.from_request(operation)}
    for column, number in numbers.items():
        if frame.specs()[column].kind is Kind.TIME:
            numbers[column] = 1000 * number
    return numbers


def test_numbers_of_list_queues_arrive() -> None:
    builder = QueueBuilder()
    page = builder.page(listing(QueueColumns, "listQueues"), refresh=True)
    rows = builder.table([page], Roles(), from_attributes=False)
    numbers = sent(QueueColumns, "listQueues")
    assert numbers
    assert read(QueueColumns, "listQueues", rows) == numbers


def test_numbers_of_list_consumers_arrive() -> None:
    builder = ConsumerBuilder((), numbers=True)
    page = builder.page(listing(ConsumerColumns, "listConsumers"))
    rows = builder.table([page])
    numbers = sent(ConsumerColumns, "listConsumers")
    assert numbers
    assert read(ConsumerColumns, "listConsumers", rows) == pytest.approx(numbers)


def test_each_number_of_a_queue_with_a_metric_is_shown() -> None:
    columns = {name: [1.0] for name in QueueColumns.measured()}
    queues = table([queue("q")], **columns)
    state = Queues().advance(queues, Policy("b"), Observation(), counts_reloaded=False)
    shown = queue_table(state, queues, None)
    for name in (*QueueColumns.shown(), *QueueColumns.shown(counters=True)):
        np.testing.assert_array_equal(shown[name], [1], name)
