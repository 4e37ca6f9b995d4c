"""What a declaration says about a broker is what the types of its answers read.

The types of listings are made of the declarations. Those of MBeans are written by hand, since
most of their numbers are formulas over several attributes.
"""

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import msgspec
import pytest

from penstock.brokers.artemis import answers as artemis
from penstock.brokers.classic import answers as classic
from penstock.brokers.openmq import answers as openmq
from penstock.columns.addresses import AddressColumns
from penstock.columns.broker import BrokerColumns
from penstock.columns.connections import ConnectionColumns
from penstock.columns.consumers import ConsumerColumns
from penstock.columns.links import LinkColumns
from penstock.columns.producers import ProducerColumns
from penstock.columns.queues import QueueColumns
from penstock.columns.spec import Frame, Spec
from penstock.columns.transactions import TransactionColumns
from penstock.model import Broker

READ: list[tuple[str, type[msgspec.Struct], type[Frame[Any]]]] = [
    ("artemis", artemis.QueueAttributes, QueueColumns),
    ("artemis", artemis.QueueSizes, QueueColumns),
    ("artemis", artemis.AddressAttributes, AddressColumns),
    ("artemis", artemis.AddressSettings, AddressColumns),
    ("openmq", openmq.Consumer, ConsumerColumns),
    ("openmq", openmq.Connection, ConnectionColumns),
    ("openmq", openmq.Producer, ProducerColumns),
    ("openmq", openmq.Transaction, TransactionColumns),
    ("openmq", openmq.Destination, AddressColumns),
    ("openmq", openmq.Settings, AddressColumns),
    ("classic", classic.Consumer, ConsumerColumns),
    ("classic", classic.Destination, QueueColumns),
    ("classic", classic.Producer, ProducerColumns),
    ("classic", classic.Settings, AddressColumns),
]
FRAMES: list[type[Frame[Any]]] = [
    AddressColumns,
    BrokerColumns,
    ConnectionColumns,
    ConsumerColumns,
    LinkColumns,
    ProducerColumns,
    QueueColumns,
    TransactionColumns,
]
OTHER_NAMES = {
    "MessagesAcknowledged": "messagesAcked",
}
"""Attributes of MBeans of Artemis that the listing calls otherwise."""


def words(spec: Spec[Any], kind: str) -> set[str]:
    """The words of a column's source, in lower case."""
    source: str = getattr(spec.sources, kind)
    return set(re.findall("[a-z]+", f"{source} {spec.sources.request}".lower()))


def read_but_not_declared(
    kind: str, struct: type[msgspec.Struct], frame: type[Frame[Any]]
) -> Iterator[str]:
    """The attributes that a type reads for a column whose source does not name them."""
    specs = frame.specs()
    for field in msgspec.structs.fields(struct):
        if field.name not in frame.measured():
            continue
        attribute = OTHER_NAMES.get(field.encode_name, field.encode_name)
        if attribute.lower() not in words(specs[field.name], kind):
            yield f"{field.name}: {attribute}"


@pytest.mark.parametrize(("kind", "struct", "frame"), READ)
def test_sources_name_the_attributes_that_are_read(
    kind: str, struct: type[msgspec.Struct], frame: type[Frame[Any]]
) -> None:
    assert not list(read_but_not_declared(kind, struct, frame))


@pytest.mark.parametrize("frame", FRAMES)
def test_every_number_of_a_broker_has_a_source_and_a_sentence(
    frame: type[Frame[Any]],
) -> None:
    for name in frame.measured():
        spec = frame.specs()[name]
        assert str(spec.sources), name
        assert spec.meaning.endswith("."), name


def test_numbers_of_the_broker_are_the_fields_that_it_has() -> None:
    numbers = [field.name for field in fields(Broker) if field.type is float]
    assert list(BrokerColumns.specs()) == numbers
