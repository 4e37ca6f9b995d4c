"""`stalled`: a client holds messages and settles none; since when, how bad, what is no stall."""

from dataclasses import replace

import numpy as np
import pytest

from conditions.openmq_world import (
    COLD,
    OpenmqJudged,
    openmq,
    openmq_polls,
    subscription,
)
from conditions.situations import HELD, HOLDER, polls
from conditions.world import START, Judged
from penstock.conditions.condition import Severity
from penstock.model import AcknowledgeMode


def test_a_stall_older_than_the_agent_shows_at_the_second_poll() -> None:
    judged = Judged(now=START + 5000)
    polls(judged, 1, HELD, {"c": HOLDER})
    assert not judged.conditions
    polls(judged, 1, HELD, {"c": HOLDER})
    assert judged.one("stalled").since == START
    assert judged.one("stalled").evidence["age"] == 5030


@pytest.mark.parametrize(("age", "told"), [(299.9, False), (300.0, True)])
def test_a_stall_is_told_from_patience_on(age: float, told: bool) -> None:
    judged = Judged(now=START + age - 45)
    polls(judged, 1, HELD, {"c": HOLDER})
    polls(
        judged, 1, HELD, {"c": HOLDER}
    )  # age - 15: one poll before patience is over it may agree
    assert not judged.conditions
    polls(judged, 1, HELD, {"c": HOLDER})
    assert ("stalled" in judged.names) is told
    polls(judged, 1, HELD, {"c": HOLDER})
    assert "stalled" in judged.names


@pytest.mark.slow  # many polls
def test_deliveries_do_not_reset_a_stall_and_settlements_do() -> None:
    judged = Judged()
    for n in range(24):
        judged.poll(
            {"q": HELD}, {"c": {**HOLDER, "T": 10 + n, "N": 10 + n, "Ld": judged.now}}
        )
    assert judged.names == {"stalled"}
    for n in range(2):
        judged.poll(
            {"q": {**HELD, "K": n + 1}},
            {"c": {**HOLDER, "T": 40, "N": 42, "C": n + 1.0, "L": judged.now}},
        )
    assert not judged.names


@pytest.mark.slow  # many polls
def test_times_ahead_of_the_brokers_clock_begin_nothing_in_the_future() -> None:
    judged = polls(Judged(), 30, HELD, {"c": {**HOLDER, "Ld": START + 15.02}})
    assert judged.one("stalled").since == START + 15


@pytest.mark.slow  # many polls
def test_times_are_told_by_the_agents_clock() -> None:
    judged = polls(Judged(skew=100.0), 30, HELD, {"c": HOLDER})
    assert judged.one("stalled").since == START - 100
    assert judged.column("client", "blocked_since") == START - 100


@pytest.mark.slow  # many polls
def test_a_client_is_one_condition_with_the_longest_of_its_consumers() -> None:
    two = {"c": HOLDER, "d": {**HOLDER, "Ld": START - 500, "T": 7.0}}
    judged = polls(Judged(), 30, {"A": 17, "M": 17, "D": 17}, two)
    condition = judged.one("stalled")
    assert (condition.consumers, condition.since, condition.evidence["held"]) == (
        2,
        START - 500,
        7,
    )
    assert judged.column("queue", "unhealthy_consumers") == 2


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("waiting", "settles", "severity"),
    [
        (90, False, Severity.CRITICAL),
        (0, False, Severity.WARNING),
        (90, True, Severity.WARNING),
    ],
)
def test_critical_only_without_true_progress_while_messages_wait(
    waiting: int, settles: bool, severity: Severity
) -> None:
    judged = Judged()
    for n in range(30):
        judged.poll(
            {
                "q": {
                    "A": 10 + waiting,
                    "M": 10 + waiting,
                    "D": 10,
                    "K": n if settles else 0,
                }
            },
            {"c": HOLDER},
        )
    assert judged.one("stalled").severity is severity


@pytest.mark.slow  # many polls
def test_messages_that_come_are_as_bad_as_those_that_wait() -> None:
    judged = Judged()
    for n in range(30):
        judged.poll(
            {"q": {"A": 10 + n, "M": 10 + n, "D": 10 + n}},
            {"c": {**HOLDER, "T": 10 + n, "N": 10 + n}},
        )
    assert judged.one("stalled").severity is Severity.CRITICAL


# --- OpenMQ


@pytest.mark.slow  # many polls
def test_paused_at_every_poll_with_progress_is_healthy() -> None:
    """Each poll half of the limit more was sent and acknowledged."""
    world = openmq()
    openmq_polls(world, 40, lambda i: {
        "queues": {"q": {"A": 50_000, "K": 500 * i, "M": 50_000 - 500 * i, "D": 900}},
        "consumers": {"c": {"N": 900 + 500 * i, "T": 900, "L": world.now + 10, "flow_paused": 1}},
    })  # fmt: skip
    assert world.names == set()


def hung(
    world: OpenmqJudged, *, paused: float, arriving: int = 0, last: float = np.nan
) -> OpenmqJudged:
    """A listener that took 10 and hangs; `arriving`: messages come and go out to it at each poll."""
    return openmq_polls(world, 12, lambda i: {
        "queues": {"q": {"A": 1000 + arriving * i, "K": 10, "M": 990 + arriving * i, "D": 490 + arriving * i}},
        "consumers": {"c": {"N": 500 + arriving * i, "T": 490 + arriving * i, "L": last, "flow_paused": paused}},
    })  # fmt: skip


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("paused", "arriving"), [(1, 0), (0, 5)])
def test_hung_listener_is_stalled_paused_or_not(paused: float, arriving: int) -> None:
    assert hung(openmq(), paused=paused, arriving=arriving).names == {"stalled"}


def test_discarded_messages_that_a_client_settles_are_progress() -> None:
    """LastAckTime stands still when a limit has removed what is acknowledged; what left its hands left the queue."""
    world = openmq()
    last = world.now - 1000
    openmq_polls(world, 12, lambda i: {
        "queues": {"q": {"A": 1000 + 50 * i, "K": 500 + 50 * i, "M": 500, "D": 10}},
        "consumers": {"c": {"N": 500 + 50 * i, "T": 10, "L": last}},
    })  # fmt: skip
    assert world.names == set()


def test_what_goes_out_alone_is_no_progress() -> None:
    """Sent more and more, nothing settled: CLIENT_ACKNOWLEDGE that never comes, never paused."""
    world = openmq()
    openmq_polls(world, 12, lambda i: {
        "queues": {"q": {"A": 20_000, "K": 0, "M": 20_000, "D": 100 * (i + 1)}},
        "consumers": {"c": {"N": 100 * (i + 1), "T": 100 * (i + 1), "acknowledge_mode": AcknowledgeMode.CLIENT}},
    })  # fmt: skip
    assert world.names == {"stalled"}


def test_members_of_a_subscription_are_judged_one_by_one() -> None:
    """One of two members hangs; the other's acknowledgements are the subscription's progress."""
    world = openmq()
    openmq_polls(world, 10, lambda i: {
        "queues": {"s": subscription(M=1000, D=9)},
        "consumers": {
            "stuck": {"queue": "s", "client": "a", "N": 10, "T": 5, "L": world.now - 500, "flow_paused": 1},
            "good": {"queue": "s", "client": "b", "N": 100 * (i + 1), "T": 4, "L": world.now + 10, "flow_paused": 1},
        },
    })  # fmt: skip
    (condition,) = [
        one for one in world.conditions if one.severity is not Severity.INFO
    ]
    assert (condition.name, condition.client, condition.severity) == (
        "stalled",
        "a",
        Severity.WARNING,
    )


@pytest.mark.slow  # many polls
def test_consumers_missing_every_fourth_poll() -> None:
    world = openmq()
    for i in range(24):
        world.poll(
            {"q": {"A": 1000, "K": 10, "M": 990, "D": 490}},
            {"c": {"N": 500, "T": 490, "L": np.nan, "flow_paused": 1}},
            failed=("consumers",) if i % 4 == 3 else (),
        )
    assert world.names == {"stalled"}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("interval", [5.0, 30.0])
def test_other_intervals(interval: float) -> None:
    constants = replace(COLD, cold=90.0)
    world = OpenmqJudged(constants=constants, step=interval)
    openmq_polls(world, int(300 / interval), lambda _: {
        "queues": {"q": {"A": 1000, "K": 10, "M": 990, "D": 490}},
        "consumers": {"c": {"N": 500, "T": 490, "flow_paused": 1}},
    })  # fmt: skip
    assert world.names == {"stalled"}


# --- batches of Core, whose acknowledgements stay in the client until it has received 1 MiB


SIZE = 1160


def batches(
    *per_second: float, batch: float = 2**20, polls: int = 70, size: float = SIZE
) -> tuple[Judged, set[str]]:
    """A consumer that gets each message as it comes, and acknowledges `batch` bytes at once; what was told.

    per_second: messages, one rate after the other, each at so many polls. size: bytes of one, as the broker says.
    """
    judged = Judged(step=60)
    came = 0.0
    settled = 0.0
    told = set()
    last = np.nan
    for n in range(polls * len(per_second)):
        came += round(60 * per_second[n // polls])
        if (came - settled) * size >= batch:
            settled = came
            last = judged.now + 60
        held = came - settled
        consumer = {
            "T": held,
            "N": came,
            "C": settled,
            "Ld": judged.now + 60,
            "L": last,
        }
        judged.poll({"q": {"A": came, "K": settled, "M": held, "D": held}},
                    {"c": {**consumer, "buffered_bytes": held * size}})  # fmt: skip
        told |= judged.names
    return judged, told


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("per_second", [(1.7,), (4,), (4, 0.4)])
def test_batches_of_core_are_healthy(per_second: tuple[float, ...]) -> None:
    """1.7/s: nine minutes for a batch, twice the patience at most; one that was seen may take 38 minutes at night."""
    assert "stalled" not in batches(*per_second)[1]


@pytest.mark.slow  # many polls
def test_messages_of_amqp_make_smaller_batches() -> None:
    """As measured: 1,714 of 228 bytes, which the client counts as 612. One in seven minutes, which is seen once."""
    assert "stalled" not in batches(4, batch=1714 * 228, size=228)[1]


def test_more_than_a_window_unacknowledged_is_a_stall() -> None:
    assert "stalled" in batches(4, batch=np.inf, polls=9)[1]


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("per_second", "polls"), [((1 / 15,), 14), ((4, 1 / 15), 64)])
def test_no_batch_is_waited_for_without_end(
    per_second: tuple[float, ...], polls: int
) -> None:
    """Twice the patience, an hour where one was seen; few bytes come."""
    judged, told = batches(
        *per_second, batch=2**20 if len(per_second) > 1 else np.inf, polls=polls
    )
    assert "stalled" in told
    assert judged.one("stalled").evidence["held"] * SIZE < 2**20


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("waiting", [0, 500])
@pytest.mark.parametrize(
    ("rate", "batch", "told"), [(4, 2**20, False), (0.4, np.inf, True)]
)
def test_an_open_batch_is_no_stall_while_nothing_comes(
    waiting: int, rate: float, batch: float, told: bool
) -> None:
    """Whole batches were settled, then the queue falls silent, or is paused. Who never settled one is told."""
    judged, _ = batches(rate, batch=batch, polls=10)
    came = 600 * rate
    last = judged.now
    held = came % 960
    for _ in range(75):
        judged.poll({"q": {"A": came + waiting, "K": came - held, "M": held + waiting, "D": held,
                           "paused": float(waiting > 0)}},
                    {"c": {"T": held, "N": came, "C": came - held, "Ld": last, "L": np.nan,
                           "buffered_bytes": held * SIZE}})  # fmt: skip
    assert ("stalled" in judged.names) is told


LITTLE = {**HOLDER, "buffered_bytes": 11_600.0}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("queue", "consumer", "told"),
    [
        ({}, {}, False),
        ({"A": 90.0, "M": 90.0}, {}, True),  # messages wait, and it gets none
        ({}, {"protocol": "AMQP"}, True),
        ({}, {"Ld": START}, True),  # nothing comes
        ({}, {"buffered_bytes": 1.3 * 2**20}, True),
        ({}, {"buffered_bytes": np.nan}, True),
    ],
)
def test_what_may_be_a_batch(
    queue: dict[str, float], consumer: dict[str, float], told: bool
) -> None:
    judged = Judged()
    for _ in range(30):
        judged.poll(
            {"q": {**HELD, **queue}},
            {"c": {**LITTLE, "Ld": judged.now + 10, **consumer}},
        )
    assert ("stalled" in judged.names) is told


@pytest.mark.slow  # many polls
def test_one_that_settled_less_than_a_batch_has_none() -> None:
    """A listener of AUTO_ACKNOWLEDGE that took 50 and hangs."""
    judged = Judged()
    for n in range(40):
        gone = min(10.0 * n, 50)
        judged.poll(
            {"q": {"A": 10.0 * n + 10, "K": gone, "M": 10.0 * n + 10 - gone, "D": 10.0 * n + 10 - gone}},
            {"c": {"T": 10.0 * n + 10 - gone, "N": 10.0 * n + 10, "C": gone, "Ld": judged.now + 15,
                   "buffered_bytes": SIZE * (10.0 * n + 10 - gone)}},
        )  # fmt: skip
    assert "stalled" in judged.names
