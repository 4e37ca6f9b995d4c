"""What is offered for which condition, with ids filled in: nothing that does harm on a protocol or lacks its id."""

from dataclasses import replace
from functools import cache
from itertools import product
from string import Formatter

import numpy as np
import pytest

from agent.test_restart import busy, work
from agent.world import World
from penstock.actions.catalogue import ACTIONS, ActionTemplate
from penstock.brokers.requests import quote
from penstock.conditions.catalogue import CONDITIONS, for_kind, on
from penstock.conditions.condition import ActiveCondition, CauseState, Severity, Verdict
from penstock.core.table import Index, Table
from penstock.insight import answers
from penstock.insight.actions import MOST_XIDS, Actions
from penstock.model import BROKER_KINDS, AddressRow, ConnectionRow, Snapshot, TransactionRow, TransactionState

BROKER = 'org.apache.activemq.artemis:broker="b1"'
NOT_ONE_QUEUE = frozenset({"unknown"})


@cache
def made(protocol: str = "CORE") -> World:
    """A stalled client and others, of one protocol."""
    world = busy()
    for key, row in world.rows.items():
        world.rows[key] = replace(row, dead_letter_address="forgotten")
    for key, (consumer, queue) in world.consumer_rows.items():
        world.consumer_rows[key] = replace(consumer, protocol=protocol, remote_host="10.0.0.7"), queue
    work(world, 25)
    return world


def known(world: World, **about: object) -> Snapshot:
    """With all that a real broker lists."""
    found = world.snapshot()
    assert found.broker is not None
    connections = Table(Index.of([ConnectionRow("8520ed91", "stuck", "", "u", "10.0.0.7")]), {})
    queues = found.queues
    assert queues is not None
    addresses = Table(
        Index.of([AddressRow(row.address, "BLOCK") for row in queues.index]),
        {"max_delivery_attempts": np.full(len(queues), 7.0)},
    )
    prepared = [TransactionRow(f"xid-{i}", "", "") for i in range(MOST_XIDS + 2)]
    transactions = Table(Index.of(prepared), {"state": np.full(len(prepared), float(TransactionState.PREPARED))})
    return replace(
        found,
        broker=replace(found.broker, object_name=BROKER, **about),  # type: ignore[arg-type]
        connections=connections,
        addresses=addresses,
        transactions=transactions,
        consumer_connection=np.full(len(found.consumer_connection), connections.index.keys[0]),
    )


@pytest.fixture
def world() -> World:
    return made()


def offered(world: World, condition: str, snapshot: Snapshot, **fields: object) -> list[answers.Action]:
    client = "stuck" if CONDITIONS[condition].scope.value == "client" else ""
    one = ActiveCondition(condition, "b1", "orders", "orders", client, Severity.WARNING, 0.0, {"held": 100.0})
    assert snapshot.broker is not None
    return Actions(snapshot, world.state.consumers.clients).of(
        one._replace(**fields),  # type: ignore[arg-type]
        on(snapshot.broker.kind.name, condition),
    )


@pytest.mark.parametrize("kind", sorted(BROKER_KINDS))
def test_every_condition_has_something_to_do(world: World, kind: str) -> None:
    snapshot = known(world, kind=BROKER_KINDS[kind])
    for name in for_kind(kind):
        if name not in NOT_ONE_QUEUE:
            assert offered(world, name, snapshot), name


def test_every_template_is_offered_and_names_what_is_known() -> None:
    found = set()
    for kind, protocol in product(sorted(BROKER_KINDS), ("CORE", "MQTT", "AMQP")):
        snapshot = known(made(protocol), kind=BROKER_KINDS[kind])
        for name in for_kind(kind):
            found |= {one.name for one in offered(made(protocol), name, snapshot)}
    assert found == {one.name for one in ACTIONS}


@pytest.mark.parametrize("template", ACTIONS, ids=lambda one: one.name)
def test_templates_name_conditions_and_causes_that_exist(template: ActionTemplate) -> None:
    assert template.conditions <= set(CONDITIONS)
    own = {cause for name in template.conditions for kind in BROKER_KINDS if name in for_kind(kind)
           for cause in on(kind, name).causes}  # fmt: skip
    assert template.causes <= own
    texts = [template.do, template.effect, template.check, template.command]
    texts += [text for call in template.calls for text in call.arguments]
    assert all(name is None or name.isidentifier() for text in texts for _, name, _, _ in Formatter().parse(text))


def test_a_hung_core_consumer_is_closed_by_its_connection(world: World) -> None:
    found = {one.name: one for one in offered(world, "stalled", known(world))}
    close = found["close_connection"]
    (call,) = close.calls
    assert (call.mbean, call.operation, call.arguments) == (
        BROKER, "closeConnectionWithID(java.lang.String)", ["8520ed91"]
    )  # fmt: skip
    assert "Its 100 messages go back" in close.effect
    assert "one of 7 delivery attempts" in close.effect
    assert close.right == "a role that may call closeConnectionWithID"
    assert "closeConsumerWithID on Core" in close.never
    assert "10.0.0.7" in found["thread_dump"].do
    assert str(call).startswith('{"type":"exec","mbean":"org.apache')


@pytest.mark.parametrize(
    ("protocol", "names"),
    [
        ("CORE", {"close_connection"}),
        ("STOMP", {"close_connection"}),
        ("AMQP", {"close_connection", "close_consumer"}),
        ("MQTT", {"close_connection_of_mqtt"}),
    ],
)
def test_what_is_closed_depends_on_the_protocol(protocol: str, names: set[str]) -> None:
    found = {one.name for one in offered(made(protocol), "stalled", known(made(protocol)))}
    assert {one for one in found if one.startswith("close_")} == names


def test_an_excluded_cause_takes_its_action_along(world: World) -> None:
    excluded = Verdict(CauseState.EXCLUDED, "")
    snapshot = known(world)
    assert "group_owner" in {one.name for one in offered(world, "not_dispatching", snapshot)}
    found = offered(world, "not_dispatching", snapshot, verdicts={"groups": excluded})
    assert "group_owner" not in {one.name for one in found}
    only_selectors = {name: excluded for name in CONDITIONS["not_dispatching"].causes if name != "selector"}
    assert [one.name for one in offered(world, "not_dispatching", snapshot, verdicts=only_selectors)] == [
        "match_selector"
    ]


def test_a_ring_loses_what_comes_back(world: World) -> None:
    found = {one.name: one for one in offered(world, "stalled", known(world), evidence={"held": 5.0, "at_risk": 3.0})}
    assert "and 3 of them are evicted from the full ring" in found["close_connection"].effect


def test_prepared_transactions_are_named_one_by_one(world: World) -> None:
    found = {one.name: one for one in offered(world, "in_doubt", known(world))}
    assert [call.arguments for call in found["commit_prepared"].calls] == [[f"xid-{i}"] for i in range(MOST_XIDS)]
    openmq = known(world, kind=BROKER_KINDS["openmq"])
    commands = {one.name: one.commands for one in offered(world, "in_doubt", openmq)}["end_prepared"]
    assert commands[0] == "imqcmd commit txn -n xid-0 (or rollback txn)"


def test_queues_and_addresses_are_named_as_the_broker_names_them(world: World) -> None:
    found = {one.name: one for one in offered(world, "paused", known(world))}
    assert found["resume_address"].calls[0].mbean == f'{BROKER},component=addresses,address="orders"'
    assert found["resume_queue"].calls[0].mbean.endswith('subcomponent=queues,routing-type="anycast",queue="orders"')
    assert quote('a"b*') == '"a\\"b\\*"'
    letters = {one.name: one for one in offered(world, "dead_lettering", known(world))}["retry_dead_letters"]
    assert 'queue="forgotten"' in letters.calls[0].mbean


def test_without_an_id_nothing_is_made_up(world: World) -> None:
    without = replace(known(world), connections=None)
    names = {one.name for one in offered(world, "stalled", without)}
    assert not {one for one in names if one.startswith("close_connection")}
    assert "thread_dump" in names
    unread = replace(known(world), consumers=None, queues=None, addresses=None, transactions=None)
    assert offered(world, "in_doubt", unread)
    for name in for_kind("artemis"):
        for one in offered(world, name, unread):
            assert "{" not in one.do + one.effect + one.check
