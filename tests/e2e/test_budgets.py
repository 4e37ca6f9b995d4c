"""Of more queues than may be read every version of Artemis gives those with the most messages."""

from collections.abc import Callable

import pytest

from penstock.brokers.artemis.reader import ArtemisReader
from penstock.brokers.budget import RowBudgets
from penstock.brokers.engine import ReaderOptions
from penstock.model import Snapshot
from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport
from penstock_demo.broker import Broker
from rig.day_and_night import versions
from rig.drivers import AmqpProducer

pytestmark = pytest.mark.broker

Unique = Callable[[str], str]
DEEP = {"a": 900, "m": 1100, "z": 1000}
"""Messages of three queues: more than other tests leave in any. By their names they would not come first."""


def messages(snapshot: Snapshot) -> dict[str, float]:
    assert snapshot.queues is not None
    return dict(
        zip(
            [row.name for row in snapshot.queues.index],
            snapshot.queues["messages"].tolist(),
            strict=True,
        )
    )


def shared(request: pytest.FixtureRequest, version: str) -> Broker:
    broker: Broker = request.getfixturevalue(version)
    return broker


@pytest.mark.parametrize(
    "version", versions("artemis_2_21", "artemis_2_28", "artemis", "artemis_newest")
)
async def test_the_queues_with_the_most_messages_are_read(
    version: str, request: pytest.FixtureRequest, unique: Unique
) -> None:
    broker = shared(request, version)
    names = {unique(name): count for name, count in DEEP.items()}
    broker.manage.create_queues([*names, *(unique("empty") for _ in range(7))])
    for name, count in names.items():
        with AmqpProducer(broker.endpoint(), name) as producer:
            producer.send(count)
    target = JolokiaTarget(
        broker.jolokia_url,
        broker.admin.user,
        lambda: broker.admin.password,
        origin=broker.origin,
    )
    whole = ArtemisReader(JolokiaTransport(target))
    cut = ArtemisReader(
        JolokiaTransport(target),
        ReaderOptions(
            budgets=RowBudgets(queues=3, addresses=5, consumers=1, sessions=1)
        ),
    )
    try:
        everything = messages(await whole.poll(30))
        for _ in range(3):
            found = await cut.poll(30)
            assert messages(found) == names
            assert found.addresses is not None
            assert len(found.addresses) == 5
            assert not [one for one in found.collectors.values() if one.error]
            (queues,) = [
                one for one in found.observation.left_out if one.what == "queues"
            ]
            assert queues.count == queues.of - 3
            assert queues.of == len(everything)
    finally:
        await whole.close()
        await cut.close()
        for name in names:
            broker.manage.destroy_queue(name)
