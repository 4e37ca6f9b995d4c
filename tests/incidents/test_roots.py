"""The roots that are more than one condition: each number that makes one, and what it takes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conditions.inputs import changed
from conditions.pairs import NOW, with_values
from incidents.made import START, condition, producer, symptoms, town
from penstock.core.table import Index, Table
from penstock.incidents import roots
from penstock.incidents.incident import Group
from penstock.incidents.symptoms import Sending, Symptoms
from penstock.model import LinkRow, ProducerRow, Takeover
from penstock.observation.poll import RuleInputs


def named(conditions: list[Any]) -> list[str]:
    return [one.name for one in conditions]


def waiting(*rows: ProducerRow) -> Sending:
    """Producers that sent until the root began."""
    size = len(rows)
    return Sending(
        Index.of(rows), np.full(size, 5.0), np.full(size, NOW - 30), START, NOW + 50
    )


NOTHING: Mapping[str, Any] = {}
STEP = 5.0
"""Seconds between two polls, so that what is 10 s apart is within two of them."""


# --- the broker is full


def full(*, memory: bool = True, **addresses: list[float]) -> RuleInputs:
    """The addresses are "a", of two queues, and "r"; "a" uses most."""
    broker = {
        "broker__memory_used_bytes": 9.0,
        "broker__memory_limit_bytes": 9.0 if memory else 10.0,
    }
    if not memory:
        broker |= {"broker__disk_used_ratio": 0.9, "broker__disk_limit_ratio": 0.9}
    columns = {
        "memory_bytes": [6.0, 3.0],
        "limit_bytes": [0.0, 0.0],
        "limit_percent": [100.0, 100.0],
    } | addresses
    poll = with_values(
        town(),
        {f"snapshot.addresses.{name}": values for name, values in columns.items()},
    )
    return changed(poll, **broker)


def root(rule: Any, here: Symptoms) -> Group:
    (group,) = rule(here)
    made: Group = group
    return made


def test_a_broker_with_room_is_no_root() -> None:
    assert [*roots.full_broker(symptoms(town()))] == []


@pytest.mark.parametrize(
    ("memory", "kind", "filler", "share"),
    [
        (True, "broker_memory_full", "a", "67% of 9 B"),
        (False, "broker_disk_full", "", "nan% of 10 B"),
    ],
)
def test_memory_has_a_filler_and_the_disk_has_none(
    memory: bool, kind: str, filler: str, share: str
) -> None:
    group = root(roots.full_broker, symptoms(full(memory=memory)))
    assert (group.kind, group.measured) == (kind, True)
    assert group.what == town().groups.broker
    assert group.facts["filler"] == filler
    assert group.facts["share"].split()[0] == share.split(maxsplit=1)[0]
    assert group.places == ({("a", "p"), ("a", "q")} if memory else set())


def test_producers_wait_where_no_pages_are_written() -> None:
    """An address that pages takes more while memory is full, and not while the disk is."""
    sent = waiting(
        producer(0, address="a"), producer(1, address="other", client="late")
    )
    in_memory = root(roots.full_broker, symptoms(full(), sending=sent))
    assert in_memory.blocked == ["late"]
    assert in_memory.facts["producers"] == "1 producer is"
    assert in_memory.facts["client"] == "late"
    assert in_memory.facts["addresses"] == "a, other"
    on_disk = root(roots.full_broker, symptoms(full(memory=False), sending=sent))
    assert on_disk.blocked == ["app", "late"]
    assert on_disk.facts["producers"] == "2 producers are"


@pytest.mark.parametrize(
    ("limit", "stamp", "said"),
    [(0.0, 1.0, True), (0.0, np.nan, False), (5.0, 1.0, False)],
)
def test_the_filler_has_no_limit_of_its_own(
    limit: float, stamp: float, said: bool
) -> None:
    poll = full(limit_bytes=[limit, 0.0], settings_stamp=[stamp, stamp])
    group = root(roots.full_broker, symptoms(poll))
    assert group.facts["unlimited"] == ("it is below it, or has none" if said else "")


def test_a_full_broker_takes_what_is_blocked_and_what_fills() -> None:
    free = [
        condition("producers_blocked", "p"),
        condition("producers_blocked", "r", address="r"),
        condition("falling_behind", "q"),
        condition("falling_behind", "r", address="r"),
        condition("surge", "q"),
    ]
    here = symptoms(full(), *free)
    group = root(roots.full_broker, here)
    assert named(group.own) == [
        "producers_blocked",
        "producers_blocked",
        "falling_behind",
    ]
    assert {(one.name, one.queue) for one in here.free.values()} == {
        ("falling_behind", "r"),
        ("surge", "q"),
    }


def test_what_is_blocked_by_a_limit_of_its_own_stays() -> None:
    here = symptoms(
        full(limit_bytes=[0.0, 5.0]), condition("producers_blocked", "r", address="r")
    )
    assert root(roots.full_broker, here).own == []


def test_who_cannot_send_cannot_consume() -> None:
    sent = waiting(producer(0, address="other", client="app", session="one"))
    second_fills = full(memory_bytes=[3.0, 6.0])
    here = symptoms(
        second_fills,
        condition("stalled", "p", "app"),
        condition("stalled", "q", "billing"),
        sending=sent,
    )
    group = root(roots.full_broker, here)
    assert [one.client for one in group.victims] == ["app"]


# --- a failover


@pytest.mark.parametrize(("alone", "expected"), [(True, 1), (False, 0)])
def test_a_broker_that_serves_alone_is_a_root(alone: bool, expected: int) -> None:
    took = Takeover("other", 77.0, 1000.0, alone)
    poll = changed(town(), snapshot__observation__takeover=took)
    groups = [*roots.failed_over(symptoms(poll))]
    assert len(groups) == expected
    for group in groups:
        assert (group.kind, group.begin, group.measured) == ("failover", 77.0, True)
        assert group.facts == {"took": took.text, "other": "other"}


# --- texts


@pytest.mark.parametrize(
    ("clients", "said", "one"),
    [
        ([], "", ""),
        (["app"], "1 producer is", "app"),
        (["app", "app"], "2 producers are", "app"),
        (["app", "web"], "2 producers are", ""),
    ],
)
def test_producers_are_counted_and_named(
    clients: list[str], said: str, one: str
) -> None:
    result = roots.producers(
        [producer(number, client=name) for number, name in enumerate(clients)]
    )
    assert (result["producers"], result["client"]) == (said, one)
    assert all(name in result["clients"] for name in clients)


def test_the_numbers_of_an_address() -> None:
    poll = with_values(town(), {
        "found.messages": [1000, np.nan, 7],
        "found.consumers": [2, 1, 9],
        "snapshot.addresses.limit_percent": [117, 0],
        "snapshot.addresses.limit_bytes": [1024, 0],
        "snapshot.addresses.memory_bytes": [1198, 0],
    })  # fmt: skip
    sent = waiting(
        producer(0), producer(1, client="web"), producer(2, address="r", client="else")
    )
    here = symptoms(
        poll, condition("stalled", "p", "app"), condition("surge", "p"), sending=sent
    )
    facts = roots.address_facts(here, "a")
    assert facts["limit"].startswith("117 % of 1")
    assert facts["readers"] == "1,000 messages, 3 consumers, app stalled"
    assert "app" in facts["senders"]
    assert "web" in facts["senders"]
    assert "else" not in facts["senders"]
    assert facts["used"] == "1,198 bytes"


@pytest.mark.parametrize(
    ("consumers", "said"), [(0, "no consumer"), (1, "1 consumer"), (2, "2 consumers")]
)
def test_an_address_without_a_limit_and_its_readers(
    consumers: float, said: str
) -> None:
    poll = with_values(
        town(), {"found.consumers": [consumers, 0, 0], "found.messages": [0, 0, 9]}
    )
    facts = roots.address_facts(symptoms(poll), "a")
    assert facts == {
        "limit": "at its limit",
        "readers": f"0 messages, {said}",
        "senders": "",
        "used": "bytes",
    }


# --- bridges


def bridged(
    values: Mapping[str, Any] = NOTHING,
    *,
    queue: str = "p",
    up: float = 1.0,
    started: float = 1.0,
) -> RuleInputs:
    """A bridge reads a queue in which messages wait, and nothing is delivered for long."""
    rows = [LinkRow("bridge to b", "bridge", queue, "there")]
    links = Table(
        Index.of(rows), {"up": np.array([up]), "started": np.array([started])}
    )
    plain = {
        "found.messages": [5, 6, 7],
        "found.delivering": 0,
        "timers.unsettled": NOW - 100,
        "timers.present": NOW - 100,
    }
    return changed(with_values(town(), {**plain, **values}), snapshot__links=links)


AT = town().found.now
STOPPED_AT = town().constants.proof


@pytest.mark.parametrize(
    ("poll", "expected"),
    [
        (bridged(), True),
        (bridged(queue=""), False),
        (bridged(queue="other"), False),
        (bridged({"found.messages": [0.5, 6, 7]}), True),
        (bridged({"found.messages": [0, 6, 7]}), False),
        (bridged({"timers.unsettled": AT - STOPPED_AT}), True),
        (bridged({"timers.unsettled": AT - STOPPED_AT + 1}), False),
        (changed(bridged(), snapshot__links=None), False),
    ],
)
def test_a_bridge_that_takes_nothing_of_what_waits(
    poll: RuleInputs, expected: bool
) -> None:
    assert len([*roots.stopped_bridges(symptoms(poll))]) == expected


@pytest.mark.parametrize(
    ("said", "how", "target"),
    [
        ({}, "full", "there"),
        ({"values": {"found.delivering": 1}}, "frozen", "there"),
        ({"up": 0.0}, "down", "there"),
        ({"started": 0.0}, "stopped", ""),
    ],
)
def test_how_a_bridge_stopped(said: dict[str, Any], how: str, target: str) -> None:
    here = symptoms(
        bridged(**said), condition("falling_behind", "p"), condition("stalled", "p")
    )
    group = root(roots.stopped_bridges, here)
    assert (group.kind, group.what, group.places) == (
        "bridge_stopped",
        "bridge to b",
        {("a", "p")},
    )
    assert group.facts == {"queues": "p", how: "5 messages wait", "target": target}
    assert named(group.victims) == ["falling_behind"]


@pytest.mark.parametrize(
    ("up", "started", "delivering", "how"),
    [
        (0, 0, 0, "stopped"),
        (0, 1, 0, "down"),
        (np.nan, 1, 0, "not_read"),
        (1, np.nan, np.nan, "not_read"),
        (1, 1, 0.5, "frozen"),
        (1, 1, 0, "full"),
    ],
)
def test_only_what_is_certain_is_said_of_a_bridge(
    up: float, started: float, delivering: float, how: str
) -> None:
    assert roots.how_it_stopped(up, started, delivering) == how


# --- addresses that are full, closed or paused

FULL = {
    "snapshot.addresses.limit_percent": [100, 0],
    "snapshot.addresses.limit_bytes": [5, 0],
}


def addressed(
    values: Mapping[str, Any] = NOTHING, *, policy: str = "block"
) -> RuleInputs:
    """The address of two queues is full by a limit of its own."""
    poll = with_values(town(), {**FULL, **values})
    addresses = poll.snapshot.addresses
    assert addresses is not None
    rows = [replace(row, policy=policy) for row in addresses.index]
    return changed(poll, snapshot__addresses=Table(Index.of(rows), addresses.columns))


@pytest.mark.parametrize(
    ("policy", "sends", "expected"),
    [("block", True, 1), ("block", False, 0), ("page", True, 0), ("fail", True, 0)],
)
def test_a_full_address_whose_producers_wait(
    policy: str, sends: bool, expected: int
) -> None:
    sent = waiting(producer(0, client="web")) if sends else Sending()
    groups = [*roots.full_addresses(symptoms(addressed(policy=policy), sending=sent))]
    assert len(groups) == expected
    for group in groups:
        assert (group.kind, group.what) == ("address_full", "a")
        assert group.blocked == ["web"]
        assert group.places == {("a", "p"), ("a", "q")}
        assert group.facts["producers"] == "1 producer is"


@pytest.mark.parametrize("name", ["producers_blocked", "blocked_by_operator"])
def test_one_that_is_reported_needs_no_producer(name: str) -> None:
    here = symptoms(
        town(),
        condition(name, "p"),
        condition("falling_behind", "q"),
        condition("surge", "q"),
    )
    group = root(roots.full_addresses, here)
    assert (group.kind, group.what) == ("address_full", "a")
    assert named(group.own) == [name, "falling_behind"]


def test_an_address_that_an_operator_closed() -> None:
    poll = with_values(town(), {"snapshot.addresses.producers_paused": [1, 0]})
    assert (
        root(
            roots.full_addresses, symptoms(poll, condition("blocked_by_operator", "p"))
        ).kind
        == "address_blocked"
    )


@pytest.mark.parametrize(("policy", "expected"), [("fail", 1), ("drop", 0)])
def test_one_that_refuses_what_is_diverted_to_it(policy: str, expected: int) -> None:
    poll = changed(
        addressed(policy=policy), snapshot__diverts=(("source", "a"), ("other", "r"))
    )
    groups = [
        *roots.full_addresses(
            symptoms(poll, sending=waiting(producer(0, address="source")))
        )
    ]
    assert len(groups) == expected
    for group in groups:
        assert group.kind == "divert_target_full"
        assert group.facts["sources"] == "source"
        assert group.blocked == ["app"]


def test_consumers_that_are_blocked_in_sending_are_victims() -> None:
    """A consumer of another address is of the session of one that cannot send to the full one."""
    second_is_full = {
        "snapshot.addresses.limit_percent": [0, 100],
        "snapshot.addresses.limit_bytes": [0, 5],
    }
    sent = waiting(producer(0, address="r", client="app", session="one"))
    free = [condition("stalled", "p", "app"), condition("stalled", "q", "billing")]
    here = symptoms(addressed(second_is_full), *free, sending=sent)
    group = root(roots.full_addresses, here)
    assert [one.client for one in group.victims] == ["app"]
    assert [*group.consumers] == [0, 1]
    assert group.facts["stands"] == "p"
    assert group.own == []


@pytest.mark.parametrize(
    ("paused", "expected"), [(1.0, True), (0.5, True), (0.0, False)]
)
def test_a_paused_address_is_one_root(paused: float, expected: bool) -> None:
    poll = with_values(town(), {
        "snapshot.addresses.paused": [paused, 0],
        "snapshot.addresses.limit_percent": 100,
        "found.consumers": [2, 0, 0],
    })  # fmt: skip
    free = [
        condition("paused", "q"),
        condition("paused", "p"),
        condition("falling_behind", "q"),
        condition("surge", "q"),
    ]
    here = symptoms(poll, *free)
    groups = [*roots.paused_addresses(here)]
    assert len(groups) == expected
    for group in groups:
        assert (group.kind, group.what, group.begin) == ("address_paused", "a", NOW)
        assert [one.queue for one in group.own] == ["p", "q"]
        assert named(group.victims) == ["falling_behind"]
        assert group.facts == {"queues": "p, q", "unread": "q"}


# --- dead letters


UNHELD = {"found.delivering": [0, 0, 3], "found.held": 0, "found.uncommitted": 0}


def refused(values: dict[str, Any]) -> RuleInputs:
    """The dead-letter address "a" is full and refuses; the third queue has three messages with no consumer."""
    poll = addressed(UNHELD | values, policy="fail")
    index = poll.found.queues
    rows = [
        replace(row, dead_letter_address="a" if row.name == "r" else "")
        for row in index
    ]
    queues: Index[Any] = Index(index.keys, np.array(rows, object), index.origin, None)
    return changed(poll, found__queues=queues)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, True),
        ({"found.delivering": [0, 0, 2.9]}, False),
        ({"found.held": 1}, False),
        ({"found.uncommitted": 1}, False),
        ({"losses.in_doubt": np.array([0.0, 0.0, 1.0])}, False),
        ({"losses.in_doubt": np.array([0.0, 0.0, np.nan])}, True),
        ({"snapshot.addresses.limit_percent": [99, 0]}, False),
    ],
)
def test_dead_letters_that_are_refused_stay_with_nobody(
    values: dict[str, Any], expected: bool
) -> None:
    assert len([*roots.dead_letters_refused(symptoms(refused(values)))]) == expected


@pytest.mark.parametrize(("in_doubt", "said"), [(0.0, True), (np.nan, False)])
def test_what_refused_dead_letters_take(in_doubt: float, said: bool) -> None:
    free = [
        condition("dead_letters_full", "p"),
        condition("falling_behind", "q"),
        condition("unheld", "r", address="r"),
        condition("expiring", "r", address="r"),
        condition("dead_lettering", "r", address="r"),
        condition("surge", "r", address="r"),
    ]
    here = symptoms(refused({"losses.in_doubt": np.full(3, in_doubt)}), *free)
    group = root(roots.dead_letters_refused, here)
    assert (group.kind, group.what) == ("dead_letter_address_full", "a")
    assert (group.places, group.blocked) == ({("r", "r")}, ["r"])
    assert (group.facts["stuck"], group.facts["queues"]) == ("3", "r")
    assert ("not_in_doubt" in group.facts) is said
    assert named(group.own) == ["dead_letters_full", "falling_behind"]
    assert named(group.victims) == ["unheld", "expiring", "dead_lettering"]
    assert named([*here.free.values()]) == ["surge"]


# --- clients that stop together


def stopped(client: str, since: float, queue: str = "p", name: str = "stalled") -> Any:
    return condition(name, queue, client)._replace(since=since)


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        ([stopped("a", 0), stopped("b", 2), stopped("c", 4)], [["a", "b", "c"]]),
        ([stopped("a", 0), stopped("b", 2), stopped("c", 4.1)], []),
        ([stopped("a", 0), stopped("b", 0)], []),
        ([stopped("a", 0), stopped("b", 0), stopped("b", 0, queue="q")], []),
        (
            [stopped("a", 0), stopped("b", 0), stopped("c", 0, name="redelivery_loop")],
            [],
        ),
        (
            [
                stopped("a", 0),
                stopped("b", 1),
                stopped("c", 1),
                stopped("d", 9),
                stopped("e", 9),
            ],
            [["a", "b", "c"]],
        ),
        (
            [stopped("a", 0), stopped("b", 9), stopped("c", 9), stopped("d", 9)],
            [["b", "c", "d"]],
        ),
        ([], []),
    ],
)
def test_three_clients_that_stop_within_two_seconds(
    free: list[Any], expected: list[list[str]]
) -> None:
    here = symptoms(town(), *free)
    groups = [*roots.common_causes(here)]
    assert [sorted(group.blocked) for group in groups] == expected
    assert len(here.free) == len(free) - sum(len(group.own) for group in groups)


def test_what_clients_have_in_common() -> None:
    poll = with_values(
        town(), {"found.d_settled": [0, 1, 0], "found.consumer.d_left": [0, 0, 1]}
    )
    here = symptoms(poll, stopped("app", 0), stopped("two", 1.5), stopped("three", 3))
    group = root(roots.common_causes, here)
    assert (group.kind, group.what, group.begin) == ("common_cause", "app", 0)
    assert [*group.consumers] == [0, 1]
    assert group.facts["count"] == "3"
    assert group.facts["works"] == "billing"
    assert group.facts["shared_host"] == "h"
    assert group.facts["queues"] == "p"
    assert "app" in group.facts["names"]
    assert group.facts["stopped"] == "00:00:00 UTC"
    assert "3" in group.facts["within"]


@pytest.mark.parametrize(
    "values",
    [
        {"found.d_settled": 0, "found.consumer.d_left": [0, 0, 1]},
        {"found.d_settled": 1, "found.consumer.d_left": [1, 1, 0]},
    ],
)
def test_where_no_other_client_works_they_share_a_host(values: dict[str, Any]) -> None:
    """What a consumer lets go counts only where its queue settles some; those that stopped do not count."""
    here = symptoms(
        with_values(town(), values),
        stopped("app", 0),
        stopped("two", 0),
        stopped("three", 0),
    )
    facts = root(roots.common_causes, here).facts
    assert (facts["works"], facts["host"]) == ("", "h")
    assert "shared_host" not in facts


# --- silence


@pytest.mark.parametrize(
    ("silent", "active", "expected"),
    [(5, 9, True), (5, 10, False), (4, 4, False), (6, 11, True), (0, 0, False)],
)
def test_more_than_half_of_the_queues_fall_silent(
    silent: int, active: int, expected: bool
) -> None:
    """Within two polls; arrivals before that are of queues that get nothing."""
    poll = town()
    near = 2 * poll.found.interval
    arrivals = [NOW - near] * active + [NOW - near - 1] * 3
    free = [condition("producer_silent", f"q{number}") for number in range(silent)]
    here = symptoms(changed(poll, usual__arrival=np.array(arrivals)), *free)
    groups = [*roots.silent_broker(here)]
    assert len(groups) == expected
    for group in groups:
        assert (group.kind, group.begin) == ("traffic_stopped", NOW)
        assert group.facts == {"count": str(silent), "active": str(active)}
        assert len(group.own) == silent
        assert not here.free


@pytest.mark.parametrize(
    ("seconds", "began"),
    [
        ([0, 0, 0, 0, 0], [0]),
        ([-100, 0, 0, 0, 0, 0], [0]),
        ([0, 0, 0, 0, 0, 100], [0]),
        ([-40, -30, -20, -10, 0], [-40]),
        ([-100, -100, -100, 0, 0], []),
        ([100, 0, 100, 0, 100, 0, 100, 0, 100, 0], [0, 100]),
    ],
)
def test_only_those_that_fall_silent_within_two_polls_count(
    seconds: list[float], began: list[float]
) -> None:
    """In whatever order they are reported; two polls are ten seconds."""
    poll = changed(
        town(), usual__arrival=np.array([NOW + 200] * 6), found__interval=STEP
    )
    free = []
    for number, since in enumerate(seconds):
        one = condition("producer_silent", f"q{number}")
        free.append(one._replace(since=NOW + since))
    groups = [*roots.silent_broker(symptoms(poll, *free))]
    assert [group.begin - NOW for group in groups] == began
    assert {group.facts["count"] for group in groups} <= {"5"}
    assert all(group.what == poll.groups.broker for group in groups)


# --- clients


def test_all_that_one_client_does_wrong_is_one_root() -> None:
    free = [
        condition("stalled", "p", "app"),
        condition("crash_looping", "q", "app")._replace(since=NOW - 5),
        condition("stalled", "q", "billing"),
        condition("surge", "p"),
    ]
    here = symptoms(town(), *free)
    by_app, by_billing = sorted(roots.clients(here), key=lambda group: group.what)
    assert (by_app.kind, by_app.what, by_app.begin) == ("crash_looping", "app", NOW - 5)
    assert named(by_app.own) == ["crash_looping", "stalled"]
    assert by_app.facts == {"queues": "p, q"}
    assert [*by_app.consumers] == [0, 1]
    assert (by_billing.kind, by_billing.what) == ("stalled", "billing")
    assert named([*here.free.values()]) == ["surge"]


@pytest.mark.parametrize(
    ("keys", "expected"), [([7, 8, 7], ["connection_paused"]), ([7, 8, 9], [])]
)
def test_who_gets_nothing_on_the_connection_that_a_client_fills(
    keys: list[int], expected: list[str]
) -> None:
    poll = with_values(town(), {"snapshot.consumer_connection": keys})
    free = [
        condition("stalled", "p", "app"),
        condition("connection_paused", "q"),
        condition("surge", "q"),
    ]
    here = symptoms(poll, *free)
    (group,) = roots.clients(here)
    assert named(group.victims) == expected
