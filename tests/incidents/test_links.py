"""Which condition brings which: made-up conditions, and the groups that they become."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.conditions.condition import ActiveCondition, Severity
from penstock.incidents.incident import Group, key_of
from penstock.incidents.links import linked, older
from penstock.incidents.symptoms import Noted

SINCE = 1000.0
INTERVAL = 5.0


def condition(
    name: str, queue: str = "q", *, client: str = "", since: float = SINCE, **said: Any
) -> ActiveCondition:
    where = {"broker": "b", "address": "a", "queue": queue, "client": client}
    plain: dict[str, Any] = where | {"severity": Severity.WARNING, "since": since}
    return ActiveCondition(name, **(plain | said))


def symptoms(
    *free: ActiveCondition, changes: tuple[Noted, ...] = (), interval: float = INTERVAL
) -> Any:
    poll = SimpleNamespace(found=SimpleNamespace(interval=interval))
    return SimpleNamespace(
        poll=poll, free={key_of(one): one for one in free}, changes=changes
    )


def groups(
    *free: ActiveCondition, known: tuple[Group, ...] = (), **more: Any
) -> list[Any]:
    """Kind, what it is, and the names of its own conditions and of its victims."""
    return [
        (
            group.kind,
            group.what,
            [one.name for one in group.own],
            [one.name for one in group.victims],
        )
        for group in linked(symptoms(*free, **more), known)
    ]


STALLED = condition("stalled", client="app")
BEHIND = condition("falling_behind")


@pytest.mark.parametrize("free", [(STALLED, BEHIND), (BEHIND, STALLED)])
def test_what_a_condition_brings_on_its_queue_is_its_victim(
    free: tuple[ActiveCondition, ...],
) -> None:
    assert groups(*free) == [("stalled", "app", ["stalled"], ["falling_behind"])]


def test_a_group_begins_with_its_first_condition() -> None:
    later = STALLED._replace(since=SINCE + 50)
    (group,) = linked(symptoms(later), [])
    assert group.begin == SINCE + 50
    assert group.facts == {"left": ""}


@pytest.mark.parametrize(
    "other",
    [
        condition("falling_behind", "r"),
        condition("falling_behind", address="other"),
        condition("dead_lettering"),
        condition("falling_behind", since=SINCE - 2 * INTERVAL - 0.1),
    ],
)
def test_not_on_another_queue_nor_what_it_does_not_bring_nor_what_was_there_before(
    other: ActiveCondition,
) -> None:
    result = groups(STALLED, other)
    assert result[0] == ("stalled", "app", ["stalled"], [])
    assert result[1] == (other.name, other.queue, [other.name], [])


@pytest.mark.parametrize(
    ("interval", "before", "expected"),
    [
        (INTERVAL, 2 * INTERVAL, False),
        (INTERVAL, 2 * INTERVAL + 0.1, True),
        (-1.0, 0.0, False),
        (-1.0, 0.1, True),
        (0.5, 1.1, True),
        (0.5, 1.0, False),
    ],
)
def test_older_is_what_was_there_two_polls_before(
    interval: float, before: float, expected: bool
) -> None:
    one = condition("falling_behind", since=SINCE - before)
    assert older(one, STALLED, symptoms(interval=interval)) is expected


def test_what_is_of_the_address_comes_of_any_of_its_queues() -> None:
    blocked = condition("producers_blocked", "")
    assert groups(STALLED, blocked) == [
        ("stalled", "app", ["stalled"], ["producers_blocked"])
    ]
    on_queue = condition("producers_blocked", "r")
    assert groups(STALLED, on_queue) == [
        ("stalled", "app", ["stalled"], ["producers_blocked"])
    ]


def test_a_victim_brings_others() -> None:
    unread = condition("no_consumer")
    paused = condition("paused")
    expiring = condition("expiring")
    assert groups(expiring, unread, paused) == [
        ("paused", "a", ["paused"], ["no_consumer", "expiring"])
    ]


def test_the_conditions_of_groups_that_are_known_bring_others_as_well() -> None:
    by_own = Group("common_cause", "app", SINCE, own=[STALLED])
    by_victim = Group("address_full", "a", SINCE, victims=[STALLED])
    for group in (by_own, by_victim):
        assert linked(symptoms(BEHIND), [group]) == [group]
        assert group.victims[-1] == BEHIND


def test_of_two_roots_the_first_has_it() -> None:
    other = condition("stalled", client="other")
    result = groups(STALLED, other, BEHIND)
    assert [victims for *_, victims in result] == [["falling_behind"], []]


def test_the_same_of_one_client_is_one_group() -> None:
    elsewhere = condition("stalled", "r", client="app")
    assert groups(STALLED, elsewhere) == [
        ("stalled", "app", ["stalled", "stalled"], [])
    ]
    other_name = condition("orphaned", client="app")
    assert len(groups(STALLED, other_name)) == 2


# --- what it is about


@pytest.mark.parametrize(
    ("one", "what"),
    [
        (condition("stalled", client="app"), "app"),
        (condition("falling_behind"), "q"),
        (condition("producers_blocked"), "a"),
        (condition("two_actives", "", address=""), "b"),
    ],
)
def test_it_is_the_client_the_queue_the_address_or_the_broker(
    one: ActiveCondition, what: str
) -> None:
    assert groups(one) == [(one.name, what, [one.name], [])]


@pytest.mark.parametrize(
    ("name", "queue", "client", "expected"),
    [
        ("surge", "q", "", False),
        ("falling_behind", "q", "", True),
        ("rejecting", "q", "", True),
        ("two_actives", "", "", True),
    ],
)
def test_alone_a_notice_of_a_queue_is_no_incident(
    name: str, queue: str, client: str, expected: bool
) -> None:
    """Unless others come of it."""
    one = condition(name, queue, client=client, severity=Severity.INFO)
    assert bool(groups(one)) is expected


def test_a_warning_is_one() -> None:
    assert groups(condition("dead_letters_lost")) == [
        ("dead_letters_lost", "q", ["dead_letters_lost"], [])
    ]


# --- a consumer that left

UNREAD = condition("no_consumer")
WENT = Noted(SINCE, "app left queue q", "a", "q", "app", went=True)


@pytest.mark.parametrize(
    ("changes", "what", "left"),
    [
        ((WENT,), "app", "app"),
        ((WENT, WENT._replace(client="last")), "last", "last"),
        ((WENT._replace(went=False),), "q", ""),
        ((WENT._replace(queue="r"),), "q", ""),
        ((), "q", ""),
    ],
)
def test_where_nobody_reads_it_is_the_client_that_left(
    changes: tuple[Noted, ...], what: str, left: str
) -> None:
    (group,) = linked(symptoms(UNREAD, changes=changes), [])
    assert (group.kind, group.what, group.facts) == (
        "no_consumer",
        what,
        {"left": left},
    )


def test_of_other_conditions_nobody_left() -> None:
    result = linked(
        symptoms(UNREAD, condition("dead_letters_lost"), changes=(WENT,)), []
    )
    assert [group.facts["left"] for group in result] == ["app", ""]


def test_nobody_left_a_queue_that_is_read() -> None:
    (group,) = linked(symptoms(BEHIND, changes=(WENT,)), [])
    assert group.facts == {"left": ""}


def test_without_an_interval_nothing_is_older() -> None:
    assert not older(
        condition("falling_behind", since=0.0), STALLED, symptoms(interval=np.nan)
    )
