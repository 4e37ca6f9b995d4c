"""Since when each queue is as it is, from poll to poll: each number that a timer rests on, alone."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conditions.world import QUEUE
from penstock.core.table import Index
from penstock.learned.timeout import LearnedTimeout, advance_timers
from penstock.model import QueueKind
from penstock.observation.unacked import QueueTimers
from penstock.series.totals import LEAST_DORMANT
from penstock.settings.constants import Constants

CONSTANTS = Constants()
NOW = 10_000.0
BEFORE = 9_985.0
LONG_AGO = 9_000.0
"""The poll, the one before it, and an earlier one."""
NEVER = np.nan
UNKNOWN = np.nan


def queues(*names: str, after: Index[Any] | None = None, **said: Any) -> Index[Any]:
    """Each name is a key as well: one that is gone and comes again is another thing."""
    rows = [replace(QUEUE, name=name[0], address=name[0], **said) for name in names]
    keys = np.array([sum(map(ord, name)) for name in names])
    made: Index[Any] = (after or Index.empty()).advance(
        keys, lambda new: [rows[at] for at in new]
    )[0]
    return made


Q = queues("q")


def poll(index: Index[Any] = Q, **said: Any) -> Any:
    """A queue with a consumer, that is known, and to which nothing happens."""
    plain = {
        "consumers": 1.0,
        "known": True,
        "keeps": False,
        "paused": 0.0,
        "ready": 0.0,
    }
    plain |= dict.fromkeys(
        (
            "d_settled",
            "d_delivered",
            "d_expired",
            "settled",
            "messages",
            "scheduled",
            "delivering",
        ),
        0.0,
    )
    address = {
        "paused": said.pop("address_paused", 0.0),
        "d_added": said.pop("d_added", 0.0),
    }
    size = len(index)
    columns = {name: np.full(size, value) for name, value in (plain | said).items()}
    of_address = SimpleNamespace(
        **{name: np.full(size, value) for name, value in address.items()}
    )
    return SimpleNamespace(
        now=NOW, interval=15.0, queues=index, address=of_address, **columns
    )


def timers(**said: float) -> QueueTimers:
    """Of one queue; NEVER where nothing is said."""
    columns: dict[str, Any] = {name: np.array([value]) for name, value in said.items()}
    return replace(QueueTimers().reindexed(Q), **columns)


def after(before: QueueTimers, found: Any, *, then: float = BEFORE) -> QueueTimers:
    return advance_timers(before, LearnedTimeout(), found, then, CONSTANTS)[0]


def check(
    timer: str, before: dict[str, Any], said: dict[str, Any], expected: float
) -> None:
    made = after(timers(**before), poll(**said))
    np.testing.assert_equal(getattr(made, timer), [expected])


HAS_STOPPED = {"still": LONG_AGO}


@pytest.mark.parametrize(
    ("before", "said", "since"),
    [
        ({}, {}, BEFORE),
        (HAS_STOPPED, {}, LONG_AGO),
        (HAS_STOPPED, {"d_settled": 0.5}, NEVER),
        (HAS_STOPPED, {"d_delivered": 0.5}, NEVER),
        (HAS_STOPPED, {"consumers": 0.0}, NEVER),
        (HAS_STOPPED, {"consumers": 2.0}, LONG_AGO),
        (HAS_STOPPED, {"consumers": UNKNOWN}, LONG_AGO),
        (HAS_STOPPED, {"paused": 0.5}, NEVER),
        (HAS_STOPPED, {"address_paused": 0.5}, NEVER),
        ({}, {"known": False}, NEVER),
    ],
)
def test_nothing_moves(
    before: dict[str, Any], said: dict[str, Any], since: float
) -> None:
    check("still", before, said, since)


def test_before_the_second_poll_everything_begins_now() -> None:
    made = after(timers(), poll(), then=np.nan)
    assert made.still.tolist() == [NOW]
    assert made.unsettled.tolist() == [NOW]


WAITS = {"ready": LONG_AGO}


@pytest.mark.parametrize(
    ("before", "said", "since"),
    [
        ({}, {"ready": 0.5}, NOW),
        (WAITS, {"ready": 5.0}, LONG_AGO),
        (WAITS, {"ready": 0.0}, NEVER),
        (WAITS, {"ready": UNKNOWN}, NEVER),
        (WAITS, {"consumers": 0.0, "d_expired": 0.5}, LONG_AGO),
        (WAITS, {"consumers": 0.0, "d_expired": 0.5, "keeps": True}, NEVER),
        (WAITS, {"consumers": 1.0, "d_expired": 0.5}, NEVER),
        (WAITS | {"expired": NOW - CONSTANTS.cap}, {"consumers": 0.0}, LONG_AGO),
        (WAITS | {"expired": NOW - CONSTANTS.cap - 1}, {"consumers": 0.0}, NEVER),
    ],
)
def test_messages_are_ready_or_expired_unread(
    before: dict[str, Any], said: dict[str, Any], since: float
) -> None:
    check("ready", before, said, since)


EXPIRED = {"expired": LONG_AGO}


@pytest.mark.parametrize(
    ("before", "said", "at"),
    [
        ({}, {"consumers": 0.0}, NEVER),
        (EXPIRED, {"consumers": 0.0}, LONG_AGO),
        (EXPIRED, {"consumers": 0.0, "d_expired": 0.5}, NOW),
        (EXPIRED, {"consumers": 0.0, "d_expired": 0.5, "d_settled": 0.5}, NEVER),
        (EXPIRED, {"consumers": 1.0}, NEVER),
    ],
)
def test_messages_expired_last_while_there_is_no_consumer(
    before: dict[str, Any], said: dict[str, Any], at: float
) -> None:
    check("expired", before, said, at)


THERE = {"present": LONG_AGO}


@pytest.mark.parametrize(
    ("before", "said", "since"),
    [
        (THERE, {}, NEVER),
        ({}, {"messages": 5.0, "scheduled": 4.0}, NOW),
        (THERE, {"messages": 5.0, "scheduled": 4.0}, LONG_AGO),
        ({}, {"messages": 4.0, "scheduled": 4.0}, NEVER),
        (THERE, {"messages": 0.5, "scheduled": 0.5}, LONG_AGO),
        (THERE, {"messages": 4.0, "scheduled": 4.0, "d_settled": 1.0}, NEVER),
        ({}, {"delivering": 0.5}, NOW),
        ({}, {"ready": 1.0}, NOW),
        ({}, {"ready": 1.0, "delivering": 1.0}, NOW),
    ],
)
def test_messages_that_are_due_are_there(
    before: dict[str, Any], said: dict[str, Any], since: float
) -> None:
    """What is delivered again after a delay is scheduled in between."""
    check("present", before, said, since)


ABSENT = {"absent": LONG_AGO}


@pytest.mark.parametrize(
    ("before", "said", "since"),
    [
        ({}, {"consumers": 0.0}, NOW),
        (ABSENT, {"consumers": 0.0}, LONG_AGO),
        (ABSENT, {"consumers": 0.0, "d_settled": 1.0}, NOW),
        (ABSENT, {"consumers": 1.0}, NEVER),
        (ABSENT, {"consumers": UNKNOWN}, LONG_AGO),
        (ABSENT, {"consumers": UNKNOWN, "d_settled": 1.0}, NEVER),
        ({}, {"consumers": UNKNOWN}, NEVER),
    ],
)
def test_no_consumer_is_there(
    before: dict[str, Any], said: dict[str, Any], since: float
) -> None:
    check("absent", before, said, since)


UNSETTLED = {"unsettled": LONG_AGO}


@pytest.mark.parametrize(
    ("before", "said", "since"),
    [
        ({}, {}, BEFORE),
        (UNSETTLED, {}, LONG_AGO),
        (UNSETTLED, {"d_settled": 0.5}, NEVER),
        (UNSETTLED, {"known": False}, NOW),
    ],
)
def test_nothing_is_settled(
    before: dict[str, Any], said: dict[str, Any], since: float
) -> None:
    check("unsettled", before, said, since)


BLOCKED = {"blocked": LONG_AGO}


@pytest.mark.parametrize(
    ("before", "said", "since"),
    [
        ({}, {}, BEFORE),
        (BLOCKED, {}, LONG_AGO),
        (BLOCKED, {"d_added": 1.0}, NEVER),
        (BLOCKED, {"d_added": UNKNOWN}, NEVER),
        (BLOCKED, {"known": False}, NEVER),
    ],
)
def test_nothing_comes_to_its_address(
    before: dict[str, Any], said: dict[str, Any], since: float
) -> None:
    check("blocked", before, said, since)


# --- whether it ever had a consumer


@pytest.mark.parametrize(
    ("before", "said", "had"),
    [
        ({}, {}, True),
        (ABSENT, {}, False),
        (ABSENT | {"had_consumer": True}, {}, True),
        (ABSENT, {"settled": 5.0, "d_settled": 5.0}, False),
        (ABSENT, {"settled": 5.0, "d_settled": 4.0}, True),
        (ABSENT, {"known": False}, False),
        (ABSENT, {"known": False, "settled": 0.5}, True),
    ],
)
def test_it_had_one_up_to_the_poll_before(
    before: dict[str, Any], said: dict[str, Any], had: bool
) -> None:
    check("had_consumer", before, said, had)


def seen(
    index: Index[Any], had: list[bool], before: QueueTimers | None = None
) -> QueueTimers:
    made = (before or QueueTimers()).reindexed(index)
    return replace(made, had_consumer=np.array(had))


def test_a_queue_that_is_deleted_and_made_again_is_remembered_by_its_name() -> None:
    first = queues("p", "q", "r")
    then = queues("p", after=first)
    gone = after(seen(first, [True, True, False]), poll(then))
    assert [*gone.read] == [("q", "q")]
    again = queues("p", "s", "q2", after=then)
    absent = replace(gone, absent=np.full(1, LONG_AGO))
    back = after(absent, poll(again, known=np.array([True, False, False])))
    assert back.had_consumer.tolist() == [True, False, True]
    assert [*back.read] == [("q", "q")]


def test_queues_of_the_broker_itself_are_not_remembered() -> None:
    first = queues("q", kind=QueueKind.INTERNAL)
    assert [*after(seen(first, [True]), poll(queues("p", after=first))).read] == []


def test_the_last_names_are_kept_and_no_more_than_there_is_room_for() -> None:
    many = {(str(number), str(number)): None for number in range(LEAST_DORMANT)}
    before = replace(seen(Q, [True]), read=many)
    gone = after(before, poll(queues("p", after=Q)))
    assert len(gone.read) == LEAST_DORMANT
    first, *_, last = gone.read
    assert first == ("1", "1")
    assert last == ("q", "q")


# --- how long absences were


HAD = {"had_consumer": True}


@pytest.mark.parametrize(
    ("before", "said", "seconds"),
    [
        (HAD | {"absent": NOW - 90, "ready": NOW - 80}, {}, 80),
        (HAD | {"absent": NOW - 80, "ready": NOW - 90}, {}, 80),
        (
            HAD | {"absent": NOW - 90, "ready": NOW - 80},
            {"consumers": 0.0, "d_settled": 0.5},
            80,
        ),
        (HAD | {"absent": NOW - 90, "ready": NOW - 80}, {"consumers": 0.0}, UNKNOWN),
        (HAD | {"absent": NOW - 90}, {}, UNKNOWN),
        (HAD | {"absent": BEFORE, "ready": NOW - 80}, {}, UNKNOWN),
        (HAD | {"absent": BEFORE - 1, "ready": NOW - 80}, {}, 16),
        ({"absent": NOW - 90, "ready": NOW - 80}, {}, UNKNOWN),
    ],
)
def test_an_absence_ends_with_the_next_consumer(
    before: dict[str, Any], said: dict[str, Any], seconds: float
) -> None:
    _, _, absences = advance_timers(
        timers(**before), LearnedTimeout(), poll(**said), BEFORE, CONSTANTS
    )
    np.testing.assert_equal(absences, [seconds])


# --- waits for a delivery


WAITED = {"still": NOW - 90, "ready": NOW - 80}


@pytest.mark.parametrize(
    ("before", "said", "gaps"),
    [
        (WAITED, {"d_delivered": 0.5}, [80]),
        (WAITED | {"still": NOW - 70}, {"d_delivered": 0.5}, [70]),
        (WAITED | {"ready": NOW - 0.5}, {"d_delivered": 0.5}, [0.5]),
        (WAITED, {"d_delivered": 0.0}, []),
        (WAITED | {"still": NEVER}, {"d_delivered": 0.5}, []),
        (WAITED | {"ready": NEVER}, {"d_delivered": 0.5}, []),
        (WAITED | {"ready": NOW}, {"d_delivered": 0.5}, []),
        (WAITED | {"still": NOW - 301, "ready": NOW - 301}, {"d_delivered": 0.5}, []),
    ],
)
def test_a_wait_that_ends_is_learned(
    before: dict[str, Any], said: dict[str, Any], gaps: list[float]
) -> None:
    """Not one that was longer than the patience of its time."""
    _, dispatch, _ = advance_timers(
        timers(**before), LearnedTimeout(), poll(**said), BEFORE, CONSTANTS
    )
    assert dispatch.weight.tolist() == [len(gaps)]
    assert dispatch.longest.tolist() == (gaps or [0])
