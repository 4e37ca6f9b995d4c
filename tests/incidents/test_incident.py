"""One incident as it is reported: its texts, its numbers and who suffers."""

from typing import Any

import numpy as np
import pytest

from conditions.inputs import changed
from conditions.pairs import NOW, with_values
from incidents.made import condition, symptoms, town
from penstock.conditions.condition import ActiveCondition
from penstock.incidents.incident import Group, Incident, key_of
from penstock.incidents.incidents import Continued, as_incident
from penstock.observation.poll import RuleInputs

NUMBERS = {
    "found.messages": [5, 6, 7],
    "found.d_added": [3, 0, 0],
    "found.d_settled": [1, 0, 0],
}
FACTS = {
    "stands": "r",
    "readers": "5 messages, no consumer",
    "senders": "",
    "limit": "117 % of 1 KB",
    "used": "5 bytes",
    "producers": "1 producer is",
    "clients": "web",
}
FIRST = condition("falling_behind", "q")._replace(since=NOW - 9)
SECOND = condition("falling_behind", "p")
STALLED = condition("stalled", "r", "app", address="r")
EXPIRING = condition("expiring", "r", address="r")


def full_address() -> Group:
    return Group(
        "address_full",
        "a",
        NOW - 5,
        own=[SECOND, FIRST],
        victims=[STALLED, EXPIRING],
        blocked=["web"],
        places={("a", "p"), ("a", "q")},
        facts=FACTS,
    )


def reported(
    group: Group, poll: RuleInputs, *, name: str = "", **said: Any
) -> Incident:
    return as_incident(
        Continued(group, "warning", NOW - 5, name), symptoms(poll, told=[group], **said)
    )


def of_full_address(group: Group | None = None) -> Incident:
    poll = with_values(town(), NUMBERS)
    now = poll.found.now
    oldest = np.array([now - 9.12345, np.nan, now - 3])
    return reported(group or full_address(), poll, oldest=oldest)


def test_its_texts_are_of_its_facts() -> None:
    one = of_full_address()
    assert (
        one.title
        == "a is full: 1 producer is blocked; nothing is acknowledged on queue r"
    )
    assert one.impact == [
        "Nothing is accepted on a.",
        "The messages are those of a and of queue r.",
    ]
    assert [cause.name for cause in one.causes] == [
        "address_full",
        "blocked_in_send",
        "listener_hangs",
    ]
    assert one.causes[1].text == "web waits in a send"
    assert one.advice[0].startswith("Start the reader of a")
    assert len(one.advice) == 4


def test_its_numbers_are_those_of_all_its_queues() -> None:
    one = of_full_address()
    assert one.messages == 18
    assert type(one.messages) is float
    assert one.rate == round(2 / 15, 3)
    assert one.oldest == 9.123


def test_its_conditions_and_who_suffers() -> None:
    one = of_full_address()
    assert one.root == key_of(FIRST)
    assert one.members == [key_of(each) for each in (SECOND, FIRST, STALLED, EXPIRING)]
    assert one.victims == ["web", "app", "r (messages expire before they are read)"]
    assert (one.victim_count, one.size) == (3, 5)
    assert one.places == [("a", "p"), ("a", "q")]
    assert (one.kind, one.broker, one.object, one.severity, one.begin) == (
        "address_full",
        "b",
        "a",
        "warning",
        NOW - 5,
    )


def test_a_new_one_has_an_id_of_its_own_and_another_one_goes_on() -> None:
    other = full_address()
    other.what = "b"
    assert len(of_full_address().id) == 8
    assert of_full_address().id == of_full_address().id
    assert of_full_address().id != of_full_address(other).id
    assert reported(full_address(), town(), name="known").id == "known"


def test_where_no_number_is_known_it_has_none() -> None:
    away = condition("stalled", "unknown", "app", address="unknown")
    one = reported(Group("stalled", "app", NOW, own=[away]), town())
    assert (one.messages, one.rate, one.oldest) == (0, 0, None)
    assert type(one.messages) is float


@pytest.mark.parametrize(
    ("queues", "title"),
    [
        (["p"], "No consumer on queue p since app left"),
        (["p", "q"], "No consumer on queues p, q since app left"),
    ],
)
def test_queues_are_named_as_queues(queues: list[str], title: str) -> None:
    own = [condition("no_consumer", queue) for queue in queues]
    one = reported(
        Group("no_consumer", "app", NOW, own=own, facts={"left": "app"}), town()
    )
    assert one.title == title


def absent(
    refused: float, *, left: str = "app", name: str = "no_consumer"
) -> list[str]:
    """The causes of a queue without a consumer, where so many logins were refused since the broker's start."""
    facts = {"left": left} if left else {}
    group = Group(name, "app", NOW, own=[condition(name, "p")], facts=facts)
    poll = changed(town(), broker__authentication_failures=refused)
    one = reported(group, poll)
    return [cause.name for cause in one.causes]


@pytest.mark.parametrize(
    ("refused", "left", "said"),
    [
        (3.0, "app", True),
        (0.5, "app", True),
        (0.0, "app", False),
        (3.0, "", False),
        (np.nan, "app", False),
    ],
)
def test_a_refused_login_may_be_why_a_consumer_left(
    refused: float, left: str, said: bool
) -> None:
    assert ("login_refused" in absent(refused, left=left)) is said


def test_the_title_of_one_condition_is_that_of_the_condition() -> None:
    own = [ActiveCondition(*condition("surge", "p"))]
    one = reported(Group("surge", "p", NOW, own=own), town())
    assert one.title.startswith("p: ")
    assert not one.title.endswith(".")
    assert (one.impact, one.causes, one.advice) == ([], [], [])


def test_a_measured_root_is_no_condition() -> None:
    group = Group(
        "broker_memory_full",
        "b",
        NOW,
        own=[FIRST],
        measured=True,
        facts={"share": "90 %", "filler": "a"},
    )
    assert reported(group, town()).root == ("", "", "", "")
