"""What the rules for roots read: who sends no more, what came and went, and what a poll shows of addresses."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conditions.inputs import changed, inputs_after
from conditions.pairs import NOW, with_values
from conditions.world import Judged
from incidents.made import START, condition, producer, symptoms, town
from penstock.core.table import Index, Table
from penstock.incidents.incident import Group
from penstock.incidents.symptoms import (
    AT_ONCE,
    RECENT,
    AddressLimits,
    Noted,
    Sending,
    noticed,
)
from penstock.model import ProducerRow
from penstock.observation.poll import RuleInputs


def producers(
    produced: list[float], before: Index[Any] | None = None
) -> Table[ProducerRow]:
    keys = np.arange(len(produced))
    index = (before or Index[Any].empty()).advance(
        keys, lambda new: [producer(at) for at in new]
    )[0]
    return Table(index, {"produced": np.array(produced)})


# --- who sends


def sending(*polls: list[float]) -> Sending:
    """At polls of 10 s."""
    result = Sending()
    index = Index[Any].empty()
    for number, produced in enumerate(polls):
        table = producers(produced, index)
        index = table.index
        result = result.advance(table, START + 10 * number)
    return result


def test_it_sent_last_when_its_number_rose() -> None:
    result = sending([5.0, 5.0], [5.0, 6.0], [5.0, 6.0])
    np.testing.assert_equal(result.last, [np.nan, START + 10])
    assert result.produced.tolist() == [5, 6]
    assert (result.since, result.read) == (START, START + 20)


def test_who_came_later_came_just_now() -> None:
    np.testing.assert_equal(
        sending([5.0], [5.0, 0.0], [5.0, 0.0]).last, [np.nan, START + 10]
    )


def test_where_producers_were_not_read_nothing_is_new() -> None:
    result = sending([5.0], [6.0])
    assert result.advance(None, START + 99) is result
    same = Table(result.index, {"produced": result.produced})
    assert result.advance(same, START + 99) is result
    assert not np.isnan(result.advance(producers([6.0], result.index), START + 99).read)


BEGIN = START + 1000
"""When a root began."""


def waits(
    *,
    produced: float = 5.0,
    last: float = np.nan,
    since: float = START,
    read: float = BEGIN + 100,
) -> bool:
    index = Index.of([producer(0)])
    one = Sending(index, np.array([produced]), np.array([last]), since, read)
    return bool(one.waiting(BEGIN, 4.0))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"last": BEGIN - RECENT}, True),
        ({"last": BEGIN - RECENT - 1}, False),
        ({"last": BEGIN + 50}, True),
        ({"last": BEGIN + 96}, True),
        ({"last": BEGIN + 96.1}, False),
        ({"last": np.nan}, False),
        ({"last": np.nan, "since": BEGIN - RECENT + 1}, True),
        ({"last": np.nan, "since": BEGIN - RECENT}, False),
        ({"produced": 0.0, "last": BEGIN + 1}, True),
        ({"produced": 0.0, "last": BEGIN}, False),
        ({"produced": 0.5, "last": BEGIN}, True),
        ({"produced": 0.0, "last": np.nan, "since": BEGIN}, False),
    ],
)
def test_who_sent_until_the_root_began_or_came_later_and_sends_no_more(
    said: dict[str, Any], expected: bool
) -> None:
    assert waits(**said) is expected


# --- what came and went


def two_polls(before: dict[str, Any], now: dict[str, Any]) -> RuleInputs:
    """Consumers by id, at both polls."""
    world = Judged()
    at_polls = [before, now]
    return inputs_after(
        world,
        2,
        lambda poll: {"queues": {"q": {"M": 1.0}}, "consumers": at_polls[poll]},
    )


A = {"client": "app"}
B = {"client": "billing"}
KNOWN = Sending(since=START)


def notes(
    poll: RuleInputs,
    *,
    before: Sequence[str] = (),
    known: Sending = KNOWN,
    refused: float = np.nan,
) -> list[Noted]:
    rows = [SimpleNamespace(client=name, queue="q", address="q") for name in before]
    consumers: Any = Index.of(rows)
    return [*noticed(poll, consumers, known, refused)]


def test_consumers_come_and_go() -> None:
    poll = two_polls({"c": A}, {"d": B})
    stamp = poll.snapshot.stamp
    assert notes(poll, before=["app"]) == [
        Noted(stamp, "app left queue q", "q", "q", "app", went=True),
        Noted(stamp, "billing began to consume queue q", "q", "q", "billing"),
    ]
    assert notes(poll, before=[]) == [
        Noted(stamp, "billing began to consume queue q", "q", "q", "billing")
    ]


def test_at_the_first_poll_nothing_came() -> None:
    assert notes(two_polls({"c": A}, {"d": B}), before=["app"], known=Sending()) == []


def test_of_many_that_come_twenty_are_noted() -> None:
    many = {f"c{number}": A for number in range(AT_ONCE + 5)}
    assert len(notes(two_polls({}, many))) == AT_ONCE


def test_a_start_of_the_broker_is_noted() -> None:
    poll = changed(
        two_polls({}, {}), found__restarted=True, broker__authentication_failures=9.0
    )
    assert notes(poll, refused=1.0) == [
        Noted(poll.snapshot.stamp, "the broker started")
    ]


@pytest.mark.parametrize(
    ("now", "before", "count"),
    [(9.0, 7.0, 2), (1.5, 1.0, 0.5), (7.0, 7.0, 0), (9.0, np.nan, 0)],
)
def test_refused_logins_are_noted(now: float, before: float, count: float) -> None:
    poll = changed(two_polls({}, {}), broker__authentication_failures=now)
    said = Noted(poll.snapshot.stamp, f"refused logins: {count:.0f}", logins=count)
    assert notes(poll, refused=before) == ([said] if count else [])


def test_who_begins_to_send_is_noted_once_for_each_client_and_address() -> None:
    before = Index.of([producer(0)])
    rows = [
        producer(0),
        producer(1),
        producer(2, address="b"),
        producer(3, client="other"),
    ]
    now = before.advance(np.arange(4), lambda new: [rows[at] for at in new])[0]
    poll = changed(two_polls({}, {}), snapshot__producers=Table(now, {}))
    stamp = poll.snapshot.stamp
    assert notes(poll, known=Sending(before, since=START)) == [
        Noted(stamp, "app began to send to b", "b", "", "app"),
        Noted(stamp, "other began to send to a", "a", "", "other"),
    ]


def test_of_many_that_begin_to_send_twenty_are_noted() -> None:
    rows = [producer(number, client=f"c{number}") for number in range(AT_ONCE + 5)]
    poll = changed(two_polls({}, {}), snapshot__producers=Table(Index.of(rows), {}))
    assert len(notes(poll)) == AT_ONCE


def test_where_producers_are_not_read_none_began() -> None:
    assert notes(changed(two_polls({}, {}), snapshot__producers=None)) == []


# --- addresses


@pytest.mark.parametrize(
    ("percent", "limit", "full"),
    [
        (100.0, 1.0, True),
        (99.9, 1.0, False),
        (100.0, 0.0, False),
        (100.0, 0.5, True),
        (np.nan, 1.0, False),
    ],
)
def test_an_address_is_full_by_a_limit_of_its_own(
    percent: float, limit: float, full: bool
) -> None:
    assert AddressLimits(limit_percent=percent, limit_bytes=limit).full is full


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("limit_percent", 100.0, True),
        ("limit_percent", 99.0, False),
        ("paused", 0.5, True),
        ("paused", 0.0, False),
        ("producers_paused", 0.5, True),
        ("producers_paused", 0.0, False),
    ],
)
def test_addresses_that_are_full_paused_or_blocked(
    column: str, value: float, expected: bool
) -> None:
    poll = with_values(town(), {f"snapshot.addresses.{column}": [value, 0.0]})
    addresses = symptoms(poll).addresses
    assert [*addresses] == (["a"] if expected else [])
    assert all(
        getattr(one, column) == value and one.policy == "page"
        for one in addresses.values()
    )


def test_all_addresses_where_the_broker_is_full() -> None:
    full = changed(
        town(), broker__memory_used_bytes=9.0, broker__memory_limit_bytes=9.0
    )
    assert [*symptoms(full).addresses] == ["a", "r"]
    assert symptoms(changed(full, snapshot__addresses=None)).addresses == {}


def test_the_queues_of_an_address() -> None:
    assert symptoms(town()).queues_of("a") == {("a", "p"): 0, ("a", "q"): 1}
    assert symptoms(town()).queues_of("other") == {}


# --- what is reported


def test_the_numbers_of_the_queues_that_are_reported() -> None:
    """Messages, how many more there are than at the poll before, and the least age."""
    group = Group(
        "kind",
        "what",
        NOW,
        own=[condition("x", "p")],
        victims=[condition("x", "q")],
        places={("r", "r")},
    )
    poll = with_values(town(), {
        "found.messages": [5, np.nan, 7],
        "found.d_added": [4, 1, np.nan],
        "found.d_settled": [1, 3, 0],
    })  # fmt: skip
    now = poll.found.now
    told = symptoms(poll, told=[group], oldest=np.array([now - 9, np.nan, now]))
    np.testing.assert_equal(dict(told.queues), {
        ("a", "p"): [5, 3, 9],
        ("a", "q"): [0, -2, np.nan],
        ("r", "r"): [7, 0, 0],
    })  # fmt: skip
    assert symptoms(poll).queues == {}


def test_changes_about_what_is_reported() -> None:
    group = Group(
        "kind",
        "what",
        NOW,
        own=[condition("x", "p", "app")],
        places={("r", "r")},
        blocked=["waits"],
    )
    changes = (
        Noted(1.0, "of the broker"),
        Noted(2.0, "of the address", "a", "p", "nobody"),
        Noted(3.0, "of a place", "r", "r", "waits"),
        Noted(4.0, "of a client", "elsewhere", "", "app"),
        Noted(5.0, "of another", "elsewhere", "", "other"),
        Noted(6.0, "of the address again", "a"),
    )
    by_address, by_client = symptoms(
        town(), told=[group], changes=changes
    ).changes_about
    assert by_address == {"": [0], "a": [1, 5], "r": [2]}
    assert by_client == {"app": [3], "waits": [2]}


def test_victims_have_changes_too() -> None:
    group = Group("kind", "what", NOW, victims=[condition("x", "p", "app")])
    by_address, by_client = symptoms(
        town(), told=[group], changes=(Noted(1.0, "", "a", "p", "app"),)
    ).changes_about
    assert (by_address, by_client) == ({"a": [0]}, {"app": [0]})


# --- conditions and consumers


def test_free_conditions_are_taken() -> None:
    stays = condition("x", "p")
    goes = condition("y", "p")
    here = symptoms(town(), stays, goes)
    taken: list[Any] = []
    here.take(taken, lambda one: one.name == "y")
    assert taken == [goes]
    assert [*here.free.values()] == [stays]


def test_the_consumers_of_clients_the_longest_first() -> None:
    poll = with_values(town(), {"unacked.unacked_since": [NOW, NOW - 5, NOW - 9]})
    here = symptoms(poll)
    assert here.consumers_of(
        [condition("x", "p", "app"), condition("x", "q")]
    ).tolist() == [1, 0]
    assert here.consumers_of(
        [condition("x", "p", "app"), condition("x", "q", "billing")]
    ).tolist() == [2, 1, 0]
    assert here.consumers_of([condition("x", "p", "unknown")]).tolist() == []
    assert here.consumers_of([]).tolist() == []


def test_hidden_consumers_are_of_no_client() -> None:
    poll = with_values(town(), {"groups.clients.member": [-1, 0, -1]})
    assert symptoms(poll).consumers_of([condition("x", "p", "app")]).tolist() == [1]


def test_conditions_of_clients_that_consume_in_the_session_of_a_producer() -> None:
    of_app = condition("x", "p", "app")
    of_billing = condition("x", "q", "billing")
    here = symptoms(town(), of_app, of_billing)
    fits = here.of_sessions([producer(0, session="two"), producer(1, session="")])
    assert (fits(of_app), fits(of_billing)) == (True, False)
    of_none = here.of_sessions([producer(1, session="")])
    assert not of_none(of_app)


def test_a_measured_root_began_when_it_was_first_seen() -> None:
    here = symptoms(town(), begun={("kind", "old"): 7.0})
    assert here.measured("kind", "old") == Group("kind", "old", 7.0, measured=True)
    assert here.measured("kind", "new").begin == town().snapshot.stamp


@pytest.mark.parametrize(
    ("interval", "seconds", "expected"),
    [(2.0, 4.0, True), (2.0, 3.9, False), (10.0, 9.0, True), (10.0, 8.9, False)],
)
def test_who_sends_no_more_for_nearly_a_poll(
    interval: float, seconds: float, expected: bool
) -> None:
    """Four seconds at least."""
    index = Index.of([producer(0)])
    sent = Sending(index, np.array([5.0]), np.array([NOW]), START, NOW + seconds)
    here = symptoms(changed(town(), found__interval=interval), sending=sent)
    assert here.waiting(Group("kind", "what", NOW)) == (
        [producer(0)] if expected else []
    )
