"""Every message that clients sent to a real broker balances in the account, by its reason and its client."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

from click.testing import CliRunner, Result

from e2e.conftest import Observer
from penstock.cli import main
from rig.drivers import AmqpConsumer, AmqpHolder, AmqpProducer
from rig.waiting import eventually

Unique = Callable[[str], str]


def sheets(observer: Observer, name: str) -> dict[str, dict[str, Any]]:
    """What the API says, of the address under an empty name."""
    path = f"/api/v1/account?broker={quote(observer.broker.name)}&name={quote(name)}"
    status, body = observer.agent.request(path)
    assert status == 200, body
    return {sheet["queue"]: sheet for sheet in json.loads(body)["accounts"]}


def play(
    observer: Observer, ring: str, last: str, full: str, red: str, late: str
) -> None:
    """What the clients do, on queues of these names; the agent polls in between."""
    broker = observer.broker
    agent = observer.agent
    endpoint = observer.broker.endpoint()
    broker.manage.add_settings(
        full, maxSizeBytes=50_000, pageSizeBytes=20_000, addressFullMessagePolicy="DROP"
    )
    broker.manage.create_queue(ring, ring_size=3)
    broker.manage.create_queue(last, last_value=True, last_value_key="key")
    broker.manage.create_queue(full)
    broker.manage.create_queue(red, filter_string="colour='red'")
    broker.manage.create_queue(late)
    with ExitStack() as clients:
        to = {
            name: clients.enter_context(
                AmqpProducer(endpoint, name, size=5_000 if name == full else 200)
            )
            for name in (ring, last, full, red, late)
        }
        observer.until(
            lambda scrape: bool(scrape.find("mq_queue_messages", queue=late)),
            expected=True,
        )
        for _ in range(3):
            agent.next_poll(broker.name)
        # The manual's example: three of three, four of four, and one lost as the consumer goes.
        to[ring].send(3)
        holder = AmqpHolder(endpoint, ring, credit=3, client_id="taker")
        eventually(lambda: broker.manage.queue(ring, "DeliveringCount"), 3)
        agent.next_poll(broker.name)
        to[ring].send(1)
        to[last].send(5, properties={"key": "a"})
        to[red].send(2, properties={"colour": "red"})
        to[red].send(7, properties={"colour": "blue"})
        to[full].send(60)
        to[late].send(4, ttl=0.2)
        for _ in range(2):
            agent.next_poll(broker.name)
        holder.close()
        clients.enter_context(
            AmqpConsumer(endpoint, late)
        )  # which finds what has expired
        eventually(lambda: broker.manage.queue(late, "MessagesExpired"), 4)
        for _ in range(4):
            agent.next_poll(broker.name)


def test_every_message_balances(main_observer: Observer, unique: Unique) -> None:
    broker = main_observer.broker
    names = [unique(name) for name in ("ring", "last", "full", "red", "late")]
    ring, last, full, red, late = names
    play(main_observer, *names)
    found = sheets(main_observer, ring)[ring]
    assert {fate: value for fate, value in found["left"].items() if value != 0} == {
        "evicted": 1
    }
    assert found["lost_by"] == {"arrivals": 0, "taker": 1}
    assert found["sums"] == "4 added = 3 ready + 1 evicted"
    found = sheets(main_observer, last)[last]
    assert (
        found["came"]["added"],
        found["left"]["replaced"],
        found["there"]["ready"],
    ) == (5, 4, 1)
    assert sheets(main_observer, red)[""]["left"]["unwanted"] == 7
    assert sheets(main_observer, red)[red]["there"]["ready"] == 2
    added = int(broker.manage.queue(full, "MessagesAdded"))
    assert 0 < added < 60
    assert sheets(main_observer, full)[""]["left"]["dropped"] == 60 - added
    assert sheets(main_observer, full)[full]["there"]["ready"] == added
    assert sheets(main_observer, late)[late]["left"]["expired"] == 4
    assert all(sheets(main_observer, name)[name]["unexplained"] == 0 for name in names)
    assert all(
        sheets(main_observer, name)[""]["left"]["unrouted"] == 0 for name in names
    )
    shown = {
        (labels["address"], labels["queue"], labels["fate"]): value
        for labels, value in main_observer.agent.scrape().find(
            "mq_account_messages_total"
        )
        if labels["address"] in names
    }
    assert shown == {
        (ring, ring, "evicted"): 1, (last, last, "replaced"): 4, (red, "", "unwanted"): 7,
        (full, "", "dropped"): 60 - added, (late, late, "expired"): 4,
    }  # fmt: skip
    said = command(main_observer, ring)
    assert said.exit_code == 0, said.output
    assert "4 added = 3 ready + 1 evicted" in said.output
    assert "taker" in said.output
    said = command(main_observer, "nowhere")
    assert said.exit_code == 1
    assert "no address, queue or client" in said.output
    for name in names:
        broker.manage.destroy_queue(name)


def command(observer: Observer, name: str) -> Result:
    url = f"http://127.0.0.1:{observer.agent.port}"
    return CliRunner().invoke(
        main, ["account", observer.broker.name, name, "--url", url]
    )
