"""What is offered for which condition, with ids filled in: nothing that does harm on a protocol or lacks its id."""

import json
import shlex
from dataclasses import replace
from functools import cache
from itertools import product
from string import Formatter

import numpy as np
import pytest

from agent.test_restart import busy, work, work_once
from agent.world import World
from penstock.actions.catalogue import ACTIONS, ActionTemplate
from penstock.assessment.assess import State
from penstock.brokers.requests import quote
from penstock.causes.verdict import CauseState, Verdict
from penstock.conditions.catalogue import CONDITIONS, for_kind, on
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.conditions.wording import action as action_text
from penstock.core.table import Index, Table
from penstock.insight import answers
from penstock.insight.actions import MOST_XIDS, Actions
from penstock.model import (
    BROKER_KINDS,
    AddressRow,
    ConnectionRow,
    ProducerRow,
    Snapshot,
    TransactionRow,
    TransactionState,
)
from penstock.observation.prepared import PreparedTransaction
from rig.each import of_each

BROKER = 'org.apache.activemq.artemis:broker="b1"'
NOT_ONE_QUEUE = frozenset({"unknown"})
FULL = {
    name: Verdict(CauseState.PROVEN, "it is full")
    for name in ("memory_full", "disk_full")
}
BLOCKED = {
    "blocked_in_send": Verdict(
        CauseState.PROVEN, "its session sends to x.reply (full at 117 %)"
    )
}


@cache
def made(protocol: str = "CORE") -> World:
    """A stalled client and others, of one protocol."""
    world = busy()
    for key, row in world.rows.items():
        world.rows[key] = replace(row, dead_letter_address="forgotten")
    for key, (consumer, queue) in world.consumer_rows.items():
        world.consumer_rows[key] = (
            replace(consumer, protocol=protocol, remote_host="10.0.0.7"),
            queue,
        )
    work(world, 25)
    world.state = aged(world, {f"xid-{i}": 700.0 - i for i in range(MOST_XIDS + 2)})
    return world


def aged(world: World, seconds: dict[str, float]) -> State:
    """Its state, with transactions that have been prepared for so long."""
    judgement = world.state.judgement
    seen = {xid: judgement.seen.times.now - age for xid, age in seconds.items()}
    listed = [
        PreparedTransaction(
            TransactionRow(xid, "app", "u"),
            since=at,
            created=at,
            sent=0.0,
            received=0.0,
        )
        for xid, at in sorted(seen.items(), key=lambda one: one[1])
    ]
    account = judgement.account
    judged = replace(
        judgement,
        account=replace(account, losses=replace(account.losses, prepared=seen)),
        openmq=replace(
            judgement.openmq, prepared=replace(judgement.openmq.prepared, listed=listed)
        ),
    )
    return replace(world.state, judgement=judged)


def known(world: World, **about: object) -> Snapshot:
    """With all that a real broker lists."""
    found = world.snapshot()
    assert found.broker is not None
    connections = Table(
        Index.of([ConnectionRow("8520ed91", "stuck", "", "u", "10.0.0.7")]), {}
    )
    queues = found.queues
    assert queues is not None
    addresses = Table(
        Index.of([AddressRow(row.address, "BLOCK") for row in queues.index]),
        {"max_delivery_attempts": np.full(len(queues), 7.0)},
    )
    prepared = [TransactionRow(f"xid-{i}", "", "") for i in range(MOST_XIDS + 2)]
    states = np.full(len(prepared), float(TransactionState.PREPARED))
    transactions = Table(
        Index.of(prepared), {"state": states, "messages": np.ones(len(prepared))}
    )
    key = connections.index.keys[0]
    return replace(
        found,
        broker=replace(found.broker, object_name=BROKER, **about),  # type: ignore[arg-type]
        connections=connections,
        addresses=addresses,
        transactions=transactions,
        transaction_connection=np.full(len(prepared), key),
        producers=Table(Index.of([ProducerRow("p1", "orders", "stuck", "")]), {}),
        producer_connection=np.array([key]),
        consumer_connection=np.full(len(found.consumer_connection), key),
    )


@pytest.fixture
def world() -> World:
    return made()


def offered(
    world: World, condition: str, snapshot: Snapshot, **fields: object
) -> list[answers.Action]:
    client = "stuck" if CONDITIONS[condition].scope.value == "client" else ""
    one = ActiveCondition(
        condition,
        "b1",
        "orders",
        "orders",
        client,
        Severity.WARNING,
        0.0,
        {"held": 100.0},
    )
    assert snapshot.broker is not None
    return Actions(snapshot, world.state).of(
        one._replace(**fields),  # type: ignore[arg-type]
        on(snapshot.broker.kind.name, condition),
    )


@pytest.mark.slow  # all actions of all conditions
@pytest.mark.parametrize("kind", sorted(BROKER_KINDS))
def test_every_condition_has_something_to_do(world: World, kind: str) -> None:
    snapshot = known(world, kind=BROKER_KINDS[kind])
    for name in for_kind(kind):
        if name not in NOT_ONE_QUEUE:
            assert offered(world, name, snapshot), name


@pytest.mark.slow  # all actions of all conditions
def test_every_template_is_offered_and_names_what_is_known() -> None:
    found = set()
    for kind, protocol in product(sorted(BROKER_KINDS), ("CORE", "MQTT", "AMQP")):
        snapshot = known(made(protocol), kind=BROKER_KINDS[kind])
        for name, condition in for_kind(kind).items():
            found |= {one.name for one in offered(made(protocol), name, snapshot)}
            for cause in condition.causes:
                proven = {cause: Verdict(CauseState.PROVEN, "it is so")}
                found |= {
                    one.name
                    for one in offered(made(protocol), name, snapshot, verdicts=proven)
                }
    nowhere = without_dead_letters(known(world := made()))
    found |= {one.name for one in offered(world, "dead_letters_lost", nowhere)}
    assert found == {one.name for one in ACTIONS}


def without_dead_letters(snapshot: Snapshot) -> Snapshot:
    assert snapshot.queues is not None
    rows = [replace(row, dead_letter_address="") for row in snapshot.queues.index]
    return replace(snapshot, queues=Table(Index.of(rows), snapshot.queues.columns))


@pytest.mark.parametrize(
    "protocol",
    [
        "CORE",
        pytest.param("AMQP", marks=pytest.mark.slow),
        pytest.param("MQTT", marks=pytest.mark.slow),
    ],
)  # many polls
def test_who_is_blocked_in_a_send_is_not_closed_but_its_target_is_freed(
    protocol: str,
) -> None:
    world = made(protocol)
    found = {
        one.name: one
        for one in offered(world, "stalled", known(world), verdicts=BLOCKED)
    }
    assert [*found] == ["free_target"]
    assert "its session sends to x.reply (full at 117 %)" in found["free_target"].do
    assert "one of 7 delivery attempts" in found["free_target"].never
    possible = {
        "blocked_in_send": Verdict(CauseState.POSSIBLE, "it may send to x.reply")
    }
    assert "free_target" not in {
        one.name for one in offered(world, "stalled", known(world), verdicts=possible)
    }


@of_each({one.name: one for one in ACTIONS})
def test_templates_name_conditions_and_causes_that_exist(
    template: ActionTemplate,
) -> None:
    assert template.conditions <= set(CONDITIONS)
    own = {cause for name in template.conditions for kind in BROKER_KINDS if name in for_kind(kind)
           for cause in on(kind, name).causes}  # fmt: skip
    assert template.causes | template.proof | template.spoiled <= own
    texts = [
        template.do,
        template.effect,
        template.check,
        template.never,
        template.command,
    ]
    texts += [text for call in template.calls for text in call.arguments]
    assert all(
        name is None or name.isidentifier()
        for text in texts
        for _, name, _, _ in Formatter().parse(text)
    )


def test_a_hung_core_consumer_is_closed_by_its_connection(world: World) -> None:
    found = {one.name: one for one in offered(world, "stalled", known(world))}
    close = found["close_connection"]
    (call,) = close.calls
    assert (call.mbean, call.operation, call.arguments) == (
        BROKER, "closeConnectionWithID(java.lang.String)", ["8520ed91"]
    )  # fmt: skip
    assert "Its 100 messages of orders go back" in close.effect
    assert "one of 7 delivery attempts" in close.effect
    assert close.right == "a role that may call closeConnectionWithID"
    assert "closeConsumerWithID on Core" in close.never
    assert "10.0.0.7" in found["thread_dump"].do
    assert str(call).startswith('{"type":"exec","mbean":"org.apache')


@pytest.mark.slow  # all actions of all conditions
@pytest.mark.parametrize(
    ("protocol", "names"),
    [
        ("CORE", {"close_connection"}),
        ("STOMP", {"close_connection_of_others"}),
        ("AMQP", {"close_connection_of_others", "close_consumer"}),
        ("MQTT", {"close_connection_of_mqtt"}),
    ],
)
def test_what_is_closed_depends_on_the_protocol(protocol: str, names: set[str]) -> None:
    found = {
        one.name: one
        for one in offered(made(protocol), "stalled", known(made(protocol)))
    }
    assert {one for one in found if one.startswith("close_")} == names
    said = " ".join(
        f"{one.do} {one.effect} {one.check} {one.never}" for one in found.values()
    )
    assert ("Core" in said) == (protocol == "CORE")


@pytest.mark.slow  # many polls
def test_the_smaller_act_comes_first() -> None:
    """One consumer before its connection; what stays is said only where there is more on it."""
    world = made("AMQP")
    found = {one.name: one for one in offered(world, "stalled", known(world))}
    names = [*found]
    assert (
        names.index("thread_dump")
        < names.index("close_consumer")
        < names.index("close_connection_of_others")
    )
    number = len(known(world).consumer_connection)
    assert found["close_consumer"].do.endswith(
        f"only this consumer of stuck on orders; its connection and the {number - 1} other consumers of that stay"
    )
    snapshot = known(world)
    assert snapshot.connections is not None
    own = replace(
        snapshot,
        consumer_connection=np.arange(number) + snapshot.connections.index.keys[0],
    )
    alone = {one.name: one for one in offered(world, "stalled", own)}["close_consumer"]
    assert alone.do.endswith("only this consumer of stuck on orders")


def test_acknowledging_is_the_developers_act() -> None:
    world = made("AMQP")
    commit = {one.name: one for one in offered(world, "stalled", known(world))}[
        "commit_in_client"
    ]
    assert "have its developers find the code path" in commit.do
    assert (
        commit.never == "Acknowledging messages that were not processed: they are lost."
    )


def test_how_a_limit_is_raised_is_said_in_full(world: World) -> None:
    proven = {"address_full": Verdict(CauseState.PROVEN, "full")}
    found = {
        one.name: one
        for one in offered(world, "producers_blocked", known(world), verdicts=proven)
    }
    assert (
        "copy all settings of orders (getAddressSettingsAsJSON), change only maxSizeBytes"
        in found["raise_limit"].do
    )
    assert "to more than the bytes that it uses now" in found["raise_limit"].do
    assert "Producers that are blocked go on" in found["start_reader"].check
    assert (
        "Producers"
        not in {one.name: one for one in offered(world, "no_consumer", known(world))}[
            "start_reader"
        ].check
    )


def test_a_crash_loop_has_the_time_from_which_to_read_and_what_is_lost_already(
    world: World,
) -> None:
    snapshot = known(world)
    assert snapshot.queues is not None
    killed = replace(
        snapshot,
        queues=Table(
            snapshot.queues.index,
            {**snapshot.queues.columns, "killed": np.full(len(snapshot.queues), 80.0)},
        ),
    )
    found = {
        one.name: one
        for one in offered(world, "crash_looping", killed, since=1_700_000_000.0)
    }
    assert "from 22:13:20 UTC on" in found["read_log"].do
    assert found["stop_restarts"].effect.endswith(
        "Killed (dead-lettered or purged) until now: 80."
    )
    none = {one.name: one for one in offered(world, "crash_looping", snapshot)}[
        "stop_restarts"
    ]
    assert none.effect.endswith("after the last one they are dead letters.")


def test_an_excluded_cause_takes_its_action_along(world: World) -> None:
    excluded = Verdict(CauseState.EXCLUDED, "")
    snapshot = known(world)
    assert "group_owner" in {
        one.name for one in offered(world, "not_dispatching", snapshot)
    }
    found = offered(world, "not_dispatching", snapshot, verdicts={"groups": excluded})
    assert "group_owner" not in {one.name for one in found}
    only_selectors = {
        name: excluded
        for name in CONDITIONS["not_dispatching"].causes
        if name != "selector"
    }
    assert [
        one.name
        for one in offered(world, "not_dispatching", snapshot, verdicts=only_selectors)
    ] == ["match_selector"]


@pytest.mark.parametrize(
    ("full", "name"), [("memory_full", "free_memory"), ("disk_full", "free_disk")]
)
def test_who_suffers_from_a_full_broker_is_not_told_to_empty_its_own_queue(
    world: World, full: str, name: str
) -> None:
    excluded = dict.fromkeys(
        {"address_full", "memory_full", "disk_full"}, Verdict(CauseState.EXCLUDED, "")
    )
    verdicts = excluded | {full: Verdict(CauseState.PROVEN, "it is full")}
    assert [
        one.name
        for one in offered(world, "producers_blocked", known(world), verdicts=verdicts)
    ] == [name]


def test_closing_is_not_advised_where_several_clients_wait_for_something_outside(
    world: World,
) -> None:
    likely = {
        "outside": Verdict(
            CauseState.POSSIBLE, "3 other clients stopped within 2 s of it", likely=True
        )
    }
    names = [
        one.name for one in offered(world, "stalled", known(world), verdicts=likely)
    ]
    assert names == ["thread_dump"]


def test_an_amqp_client_without_credit_is_not_told_to_start_its_connection() -> None:
    world = made("AMQP")
    excluded = Verdict(CauseState.EXCLUDED, "")
    verdicts = {
        name: excluded
        for name in CONDITIONS["not_dispatching"].causes
        if name != "no_credit"
    }
    names = [
        one.name
        for one in offered(world, "not_dispatching", known(world), verdicts=verdicts)
    ]
    assert names == ["look_at_receiver"], "it may have set its messages down"
    verdicts |= {"no_credit": Verdict(CauseState.PROVEN, "")}
    names = [
        one.name
        for one in offered(world, "not_dispatching", known(world), verdicts=verdicts)
    ]
    assert names == ["give_credit", "look_at_receiver"]


def test_a_ring_loses_what_comes_back(world: World) -> None:
    found = {
        one.name: one
        for one in offered(
            world, "stalled", known(world), evidence={"held": 5.0, "at_risk": 3.0}
        )
    }
    assert (
        "and 3 of them are evicted from the full ring"
        in found["close_connection"].effect
    )


def test_prepared_transactions_are_named_one_by_one(world: World) -> None:
    found = {one.name: one for one in offered(world, "in_doubt", known(world))}
    assert [call.arguments for call in found["commit_prepared"].calls] == [
        [f"xid-{i}"] for i in range(MOST_XIDS)
    ]
    openmq = known(world, kind=BROKER_KINDS["openmq"])
    commands = {one.name: one.commands for one in offered(world, "in_doubt", openmq)}[
        "end_prepared"
    ]
    assert commands[0] == "imqcmd commit txn -n xid-0"


def test_queues_and_addresses_are_named_as_the_broker_names_them(world: World) -> None:
    found = {one.name: one for one in offered(world, "paused", known(world))}
    assert (
        found["resume_address"].calls[0].mbean
        == f'{BROKER},component=addresses,address="orders"'
    )
    assert (
        found["resume_queue"]
        .calls[0]
        .mbean.endswith('subcomponent=queues,routing-type="anycast",queue="orders"')
    )
    assert quote('a"b*') == '"a\\"b\\*"'
    letters = {one.name: one for one in offered(world, "dead_lettering", known(world))}[
        "retry_dead_letters"
    ]
    assert 'queue="forgotten"' in letters.calls[0].mbean


def test_without_an_id_nothing_is_made_up(world: World) -> None:
    without = replace(known(world), connections=None)
    names = {one.name for one in offered(world, "stalled", without)}
    assert not {one for one in names if one.startswith("close_connection")}
    assert "thread_dump" in names
    unread = replace(
        known(world), consumers=None, queues=None, addresses=None, transactions=None
    )
    assert offered(world, "in_doubt", unread)
    for name in for_kind("artemis"):
        for one in offered(world, name, unread):
            assert "{" not in one.do + one.effect + one.check + one.never


# --- what a review of the first version found


def hung_and_working() -> tuple[World, Snapshot]:
    """A client's hung consumer, and one on another connection that works and buffers more."""
    world = busy()
    world.consumer(13, 1, "stuck")
    for _ in range(25):
        work_once(world)
        sibling = world.consumers[13]
        sibling["acknowledged"] += 600 if sibling["buffered"] else 450
        sibling["delivered"] += 600
        sibling["buffered"] = 150
        sibling["last_delivery"] = sibling["last_acknowledgement"] = world.now + 14
        world.queues[1]["acknowledged"] += 600
        world.queues[1]["added"] += 600
        world.poll()
    found = known(world)
    rows = [
        ConnectionRow(name, "stuck", "CORE", "u", "10.0.0.7")
        for name in ("HUNG", "WORKS")
    ]
    connections = Table(Index.of(rows), {})
    assert found.consumers is not None
    keys = [
        connections.index.keys[int(row.id == "13")] for row in found.consumers.index
    ]
    return world, replace(
        found, connections=connections, consumer_connection=np.array(keys)
    )


@pytest.mark.slow  # all actions of all conditions
def test_the_connection_of_the_consumer_that_hangs_is_named() -> None:
    world, snapshot = hung_and_working()
    close = {one.name: one for one in offered(world, "stalled", snapshot)}[
        "close_connection"
    ]
    assert close.calls[0].arguments == ["HUNG"]
    assert close.effect.startswith(
        "It closes all 4 consumers of the connection: what they buffer returns, too. Its "
    )


@pytest.mark.slow  # all actions of all conditions
def test_who_goes_with_the_connection_takes_nothing() -> None:
    """All consumers of the queue are on it, or one stays."""
    world, snapshot = hung_and_working()
    stays = {one.name: one for one in offered(world, "stalled", snapshot)}[
        "close_connection"
    ]
    assert "and at once to its other consumers" in stays.effect
    alone = replace(
        snapshot,
        consumer_connection=np.full_like(
            snapshot.consumer_connection, snapshot.consumer_connection[0]
        ),
    )
    goes = {one.name: one for one in offered(world, "stalled", alone)}[
        "close_connection"
    ]
    assert "wait for a consumer: it has no other" in goes.effect


def test_a_full_store_of_classic_is_no_full_disk() -> None:
    """It is a share of the limit that is set: room on the disk changes nothing."""
    verdicts = {"disk_full": Verdict(CauseState.PROVEN, "it is full")}
    names = [
        one.name
        for one in ACTIONS
        if one.fits("producers_blocked", verdicts, {"disk_full": ""}, "classic", "")
    ]
    assert "free_disk" not in names
    assert "start_reader_on_classic" in names


def test_only_transactions_that_are_in_doubt_for_long_are_decided(world: World) -> None:
    state = aged(world, {"young": 10.0, "old": 600.0, "older": 700.0})
    found = Actions(known(world), state).of(
        ActiveCondition("in_doubt", "b1", "", "", "", Severity.WARNING, 0.0),
        on("artemis", "in_doubt"),
    )
    calls = {one.name: one.calls for one in found}["commit_prepared"]
    assert [call.arguments for call in calls] == [["older"], ["old"]]


def test_names_are_quoted_for_a_shell_and_for_json(world: World) -> None:
    name = "orders$old; rm -rf 'x'"
    openmq = known(world, kind=BROKER_KINDS["openmq"])
    (command,) = {
        one.name: one.commands
        for one in offered(world, "limit_losing", openmq, address=name)
    }["purge"]
    assert shlex.split(command) == ["imqcmd", "purge", "dst", "-t", "q", "-n", name]
    ring = {
        one.name: one
        for one in offered(world, "ring_losing", known(world), queue='a"b')
    }["larger_ring"]
    assert (
        json.loads(ring.calls[0].arguments[0].replace("NUMBER", "7"))["name"] == 'a"b'
    )


def test_of_a_topic_the_destination_is_named_and_not_the_subscription(
    world: World,
) -> None:
    openmq = known(world, kind=BROKER_KINDS["openmq"])
    found = offered(
        world, "limit_losing", openmq, address="billing (topic)", queue="billing.sub1"
    )
    (command,) = {one.name: one.commands for one in found}["purge"]
    assert command.endswith(" -n billing")
    assert "purge" not in {
        one.name
        for one in offered(world, "delivered_to_none", openmq, address="", queue="")
    }


def test_dead_letters_are_sent_back_only_where_they_are_all_there_are(
    world: World,
) -> None:
    assert "retry_dead_letters" in {
        one.name for one in offered(world, "dead_lettering", known(world))
    }
    queues = known(world).queues
    assert queues is not None
    rows = [
        replace(row, address="forgotten") if row.name == "ring" else row
        for row in queues.index
    ]
    shared = replace(known(world), queues=Table(Index.of(rows), queues.columns))
    assert "retry_dead_letters" not in {
        one.name for one in offered(world, "dead_lettering", shared)
    }


def test_dead_letters_without_an_address_get_one(world: World) -> None:
    excluded, proven = (
        Verdict(state, "") for state in (CauseState.EXCLUDED, CauseState.PROVEN)
    )
    verdicts = {"no_dead_letter_queue": proven, "dead_letter_address_full": excluded}
    nowhere = without_dead_letters(known(world))
    names = {
        one.name
        for one in offered(world, "dead_letters_lost", nowhere, verdicts=verdicts)
    }
    assert "set_dead_letter_address" in names
    names = {
        one.name
        for one in offered(world, "dead_letters_lost", known(world), verdicts=verdicts)
    }
    assert "set_dead_letter_address" not in names, "it has one, which has no queue"
    assert not {"raise_limit", "move_messages"} & names


# --- advice that is worse than none


def on_several_connections(world: World, kind: str = "artemis") -> Snapshot:
    """Each consumer has a connection of its own, and so has a producer of another client."""
    snapshot = known(world, kind=BROKER_KINDS[kind])
    count = len(snapshot.consumer_connection)
    rows = [
        ConnectionRow(f"c{i}", f"client-{i}", "", "u", "10.0.0.7")
        for i in range(count + 1)
    ]
    connections = Table(Index.of(rows), {})
    return replace(
        snapshot,
        connections=connections,
        consumer_connection=connections.index.keys[:count],
        producer_connection=connections.index.keys[count:],
        transaction_connection=np.full(
            len(snapshot.transaction_connection), connections.index.keys[count]
        ),
    )


@pytest.mark.parametrize("condition", ["redelivery_loop", "dead_lettering"])
def test_no_connection_is_closed_where_several_clients_may_be_at_fault(
    world: World, condition: str
) -> None:
    assert "set_aside" in {one.name for one in offered(world, condition, known(world))}
    assert "set_aside" not in {
        one.name for one in offered(world, condition, on_several_connections(world))
    }


def test_for_a_producers_transaction_its_own_connection_is_closed_and_no_consumers(
    world: World,
) -> None:
    snapshot = on_several_connections(world, "openmq")
    commands = [
        command
        for one in offered(world, "producer_transaction_open", snapshot)
        for command in one.commands
    ]
    producer = f"c{len(snapshot.consumer_connection)}"
    assert commands == [f"imqcmd destroy cxn -n {producer}"]


def test_of_several_producers_with_transactions_none_is_closed(world: World) -> None:
    snapshot = on_several_connections(world, "openmq")
    assert snapshot.connections is not None
    keys = snapshot.connections.index.keys
    two = Table(
        Index.of([ProducerRow(f"p{i}", "orders", f"client-{i}", "") for i in range(2)]),
        {},
    )
    sends = np.resize(keys[:2], len(snapshot.transaction_connection))
    snapshot = replace(
        snapshot,
        producers=two,
        producer_connection=keys[:2],
        transaction_connection=sends,
    )
    assert not [
        command
        for one in offered(world, "producer_transaction_open", snapshot)
        for command in one.commands
    ]


CONDITIONAL = ("If ", "Last, if ", "Or ", "When ")


@of_each({one.name: one for one in ACTIONS})
def test_what_fits_one_rival_alone_and_changes_something_needs_its_proof(
    action: ActionTemplate,
) -> None:
    changes = action.command or any(
        not call.operation.startswith("list") for call in action.calls
    )
    if not changes or action.proof or action.do.startswith(CONDITIONAL):
        return
    for name, kind in product(action.conditions, action.brokers or BROKER_KINDS):
        condition = for_kind(kind).get(name)
        causes = action.causes & condition.causes.keys() if condition else set()
        if condition and len(causes) == 1:
            assert not {
                rival for cause in causes for rival in condition.rivals.get(cause, ())
            }, name


@pytest.mark.parametrize(("cause", "action"), [
    ("no_credit", "give_credit"), ("groups", "share_groups"), ("consumers_before_dispatch", "start_missing_consumers"),
    ("memory_full", "free_memory"),
])  # fmt: skip
def test_what_needs_proof_is_not_offered_while_its_cause_is_possible(
    cause: str, action: str
) -> None:
    (template,) = [one for one in ACTIONS if one.name == action]
    condition = next(
        name
        for name in sorted(template.conditions)
        if cause in on(kind_of(template), name).causes
    )
    causes = on(kind_of(template), condition).causes
    kind = kind_of(template)
    assert not template.fits(
        condition, {cause: Verdict(CauseState.POSSIBLE, "")}, causes, kind, ""
    )
    assert template.fits(
        condition, {cause: Verdict(CauseState.PROVEN, "")}, causes, kind, ""
    )


def kind_of(template: ActionTemplate) -> str:
    return min(template.brokers, default="artemis")


@pytest.mark.parametrize(("state", "add", "look"), [
    (CauseState.POSSIBLE, False, True), (CauseState.EXCLUDED, True, False),
])  # fmt: skip
def test_consumers_are_added_only_where_it_is_known_that_more_are_let_in(
    state: CauseState, add: bool, look: bool
) -> None:
    causes = on("openmq", "falling_behind").causes
    verdicts = {
        "max_consumers": Verdict(state, ""),
        "too_few_consumers": Verdict(CauseState.POSSIBLE, ""),
    }
    fits = {
        one.name
        for one in ACTIONS
        if one.fits("falling_behind", verdicts, causes, "openmq", "")
    }
    assert ("add_consumers" in fits, "see_consumer_limit" in fits) == (add, look)


@pytest.mark.parametrize(("likely", "condition", "spoiled"), [
    ("selector", "falling_behind", {"add_consumers", "faster_consumers"}),
    ("expired_on_arrival", "expiring", {"raise_time_to_live"}),
    ("no_consumers", "purged", {"who_purged"}),
    ("broker_slow", "slowed", {"find_what_is_slow"}),
])  # fmt: skip
def test_what_would_bring_nothing_is_not_offered(
    world: World, likely: str, condition: str, spoiled: set[str]
) -> None:
    assert spoiled <= {one.name for one in offered(world, condition, known(world))}
    verdicts = {likely: Verdict(CauseState.POSSIBLE, "", likely=True)}
    assert not spoiled & {
        one.name for one in offered(world, condition, known(world), verdicts=verdicts)
    }


@pytest.mark.parametrize(("most", "says"), [
    (10.0, "after 10 deliveries a message goes to the dead letters (max-delivery-attempts)"),
    (-1.0, "max-delivery-attempts is -1: no message ever goes to the dead letters"),
    (None, "see whether max-delivery-attempts is set, it was not read"),
])  # fmt: skip
def test_no_delivery_attempts_are_to_be_set_where_they_are(
    most: float | None, says: str
) -> None:
    evidence = {"returned": 9.0, "delivered": 10.0, "settled": 1.0}
    evidence |= {} if most is None else {"max_delivery_attempts": most}
    text = action_text(CONDITIONS["redelivery_loop"], evidence)
    assert text.endswith(says)
    assert "Set max-delivery-attempts" not in text
