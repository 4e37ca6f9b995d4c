"""
The conditions on the account, on a real Artemis: faults beside healthy loads that look like them, polled twice a second
and judged at each poll and at each third one, with shorter constants.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flowbench.core import CoreProcess
from penstock.agent.checkpoint import checkpoint_of, restore
from penstock.assessment.assess import State, assess
from penstock.brokers.artemis.reader import ArtemisReader
from penstock.conditions import in_doubt
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.insight.account import account_list
from penstock.insight.explain import BrokerView
from penstock.model import Snapshot
from penstock.settings.constants import Constants
from penstock.settings.policy import Policy
from penstock.transports.jolokia import JolokiaTarget, JolokiaTransport
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.management import Management
from rig.drivers import AmqpProducer

pytestmark = [pytest.mark.broker, pytest.mark.slow]

POLICY = Policy("b", constants=Constants(persistent=4.0, window=10.0, proof=2.0))
LASTING = 8.0
POLLS = 50
NEW = {"in_doubt", "duplicates_dropped", "unwanted", "unaccounted", "dead_letters_lost"}


async def polled(
    broker: ArtemisBroker, polls: int, meanwhile: Callable[[int], None]
) -> list[Snapshot]:
    account = broker.accounts["exporter"]
    transport = JolokiaTransport(
        JolokiaTarget(
            broker.jolokia_url, account.user, lambda: account.password, broker.origin
        )
    )
    reader = ArtemisReader(transport)
    found = list[Snapshot]()
    while len(found) < polls:
        found.append(await reader.poll(30))
        await asyncio.to_thread(meanwhile, len(found))
        await asyncio.sleep(0.6)
    await transport.close()
    return found


def told(snapshots: Sequence[Snapshot]) -> dict[str, list[ActiveCondition]]:
    """All that was ever active of these conditions, by queue. The agent is restarted in the middle."""
    state = State()
    found = dict[str, dict[tuple[str, str], ActiveCondition]]()
    for number, snapshot in enumerate(snapshots):
        if number == len(snapshots) // 2:
            kept = checkpoint_of(state, snapshots[number - 1], POLICY)
            assert kept is not None
            state = restore(kept, State(), snapshot, POLICY)
        state, tables = assess(state, snapshot, POLICY)
        for one in state.judgement.conditions:
            if one.name in NEW and one.severity is not Severity.INFO:
                found.setdefault(one.queue, {})[one.name, one.queue] = one
    view = BrokerView(state, tables, snapshots[-1], POLICY, 1.0)
    for sheet in account_list(view, "").rows:
        assert sheet.unexplained in (0, None), sheet
    (doubt,) = [one for one in account_list(view, "f.doubt").rows if one.queue]
    assert doubt.delivering["in_doubt"] == 5
    return {queue: list(of.values()) for queue, of in found.items()}


def made(manage: Management) -> None:
    """The queues: f has a fault, h is healthy."""
    away = {"deadLetterAddress": "no.such.queue"}
    kept = {"deadLetterAddress": "h.dlq"}
    full = {"maxSizeBytes": 20_000, "pageSizeBytes": 10_000}
    for name, where in {
        "f.kill": away,
        "h.purge": away,
        "f.src": {"deadLetterAddress": "f.dlq"},
        "h.dead": kept,
    }.items():
        manage.add_settings(name, maxDeliveryAttempts=1, redeliveryDelay=0, **where)
    manage.add_settings("f.dlq", **full, addressFullMessagePolicy="DROP")
    manage.add_settings("h.page", **full, addressFullMessagePolicy="PAGE")
    names = "f.doubt f.dup f.kill f.src f.dlq h.xa h.xaslow h.purge h.page h.rollout h.retry h.auto h.dead h.dlq"
    manage.create_queues(names.split())
    manage.create_queue("f.red", filter_string="colour='red'")
    for colour in ("red", "blue"):
        manage.create_queue(
            f"h.{colour}",
            address="h.all",
            routing_type="multicast",
            filter_string=f"c='{colour}'",
        )
    manage.create_queue("h.all", routing_type="multicast")
    manage.create_queue(
        "h.topic", routing_type="multicast", filter_string="colour='red'"
    )


def played(
    broker: ArtemisBroker, core: CoreProcess, clients: ExitStack
) -> Callable[[int], None]:
    """Starts all loads; what is returned is called at each poll."""
    manage = broker.manage
    endpoint = broker.endpoint()
    made(manage)
    sends: dict[str, dict[str, Any]] = {
        "f.dup": {"duplicates": 3, "client_id": "sends-twice"}, "h.retry": {"duplicates": 10_000},
        "h.auto": {"rate": 300}, "f.src": {"size": 2_000}, "h.page": {"size": 2_000}, "f.doubt": {"persistent": 1},
    }  # fmt: skip
    sends |= {
        name: {}
        for name in (
            "f.red",
            "f.kill",
            "h.xa",
            "h.xaslow",
            "h.purge",
            "h.rollout",
            "h.dead",
        )
    }
    takes: dict[str, dict[str, Any]] = {
        name: {} for name in ("h.auto", "f.dup", "h.retry")
    }
    takes |= {
        name: {"mode": "transacted", "returns": 1}
        for name in ("f.kill", "f.src", "h.dead")
    }
    takes["h.xa"] = {"mode": "xa", "batch": 5, "hold_ms": 100}
    takes["h.xaslow"] = {"mode": "xa", "batch": 20, "hold_ms": 5_000, "to": "h.moved"}
    for name, options in sends.items():
        clients.enter_context(
            core.open(
                endpoint,
                name,
                **{"mode": "produce", "rate": 20, "pull_ms": 50, **options},
            )
        )
    for name, options in takes.items():
        clients.enter_context(core.open(endpoint, name, **options))
    for address in ("h.all", "h.topic"):
        clients.enter_context(AmqpProducer(endpoint, address, topic=True)).run(20)
    in_hand = core.open(endpoint, "f.doubt", mode="xa", batch=5, hold_ms=-1)
    state = {"rollout": core.open(endpoint, "h.rollout", work=20)}

    def at_poll(number: int) -> None:
        if number == 4:
            in_hand.close()
        if number % 5 == 0:
            manage.purge("h.purge")
            state["rollout"].close()
            state["rollout"] = core.open(endpoint, "h.rollout", work=20)

    return at_poll


@pytest.mark.nightly  # a minute; account/live has other situations by day
def test_faults_are_told_and_healthy_loads_are_not(
    own_artemis: Callable[..., ArtemisBroker],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_doubt, "LASTING", LASTING)
    broker = own_artemis(read_only_user="exporter")
    with CoreProcess(tmp_path / "core") as core, ExitStack() as clients:
        snapshots = asyncio.run(polled(broker, POLLS, played(broker, core, clients)))
    for every in (1, 3):
        found = told(snapshots[::every])
        names = {queue: {one.name for one in of} for queue, of in found.items()}
        assert names == {
            "": {"in_doubt"},
            "f.dup": {"duplicates_dropped"},
            "f.red": {"unwanted"},
            "f.kill": {"dead_letters_lost"},
            "f.dlq": {"dead_letters_lost"},
        }
        why = {queue: {one.why for one in of} for queue, of in found.items()}
        assert (
            "5 of f.doubt" in why[""].pop()
        )  # beside those that the slow ones have in doubt just now
        assert "sends-twice" in why["f.dup"].pop()
        assert "colour='red'" in why["f.red"].pop()
        assert why["f.kill"] == {"its dead-letter address no.such.queue has no queue"}
        assert "policy is DROP" in why["f.dlq"].pop()
