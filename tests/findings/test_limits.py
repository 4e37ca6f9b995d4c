"""The arithmetic of flow control: the manual's numbers, those measured on brokers, and a simulation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.findings.limits import (
    ConnectionWindow,
    ConsumerWindow,
    CreditWindow,
    effective_limit,
    limit_for_memory,
    resume_level,
    threshold_for,
    window_for_ring,
)


@pytest.mark.parametrize(
    ("client", "destination", "limit"),
    [
        (1000, -1, 1000),
        (1000, 1000, 1000),
        (2000, 1000, 1000),
        (100, 1000, 100),
        (1000, 5, 5),
        (0, -1, None),
        (-1, 1000, None),
        (0, 1000, None),
        (1, 1000, 1),
    ],
)
def test_the_lower_limit_is_in_force(
    client: int, destination: int, limit: int | None
) -> None:
    assert effective_limit(client, destination) == limit


@pytest.mark.parametrize(
    ("limit", "threshold", "level"),
    [
        *(
            (1000, 50, 500),
            (1000, 10, 100),
            (100, 100, 99),
            (1000, 150, 999),
            (1, 50, 0),
            (3, 50, 1),
            (7, 33, 2),
        ),
        *((9, 50, 4), (10, 0, 0), (1000, -5, 0), (40, 10, 4), (5, 50, 2)),
    ],
)
def test_resume_level_as_the_client_has_it(
    limit: int, threshold: int, level: int
) -> None:
    assert resume_level(limit, threshold) == level


def test_the_manuals_numbers() -> None:
    half = ConsumerWindow(1000, resume_level(1000, 50))
    low = ConsumerWindow(1000, resume_level(1000, 10))
    assert (half.resume, half.batch) == (500, (500, 1000))
    assert (low.resume, low.consumed_before_resume, low.batch) == (
        100,
        900,
        (900, 1000),
    )


@pytest.mark.parametrize(
    ("buffered", "batch"), [(500, 500), (501, 0), (499, 501), (0, 1000)]
)
def test_next_batch_begins_at_the_resume_level(buffered: int, batch: int) -> None:
    assert ConsumerWindow(1000, 500).next_batch(buffered) == batch


@given(st.integers(1, 3000), st.integers(-20, 150))
def test_a_batch_never_overfills_the_buffer(limit: int, threshold: int) -> None:
    window = ConsumerWindow(limit, resume_level(limit, threshold))
    assert 0 <= window.resume < limit
    assert window.batch == (window.next_batch(window.resume), window.next_batch(0))
    assert all(
        buffered + window.next_batch(buffered) <= limit for buffered in range(limit)
    )


def simulated(limit: int, resume: int, per_trip: int, trips: int) -> float:
    """Messages taken per message time, by a consumer that takes one at each step; a request takes `per_trip` steps."""
    buffered = limit
    asked = 0
    taken = 0
    arrives = -1
    steps = trips * per_trip
    for step in range(steps):
        if arrives == step:
            buffered = buffered + asked
            asked = 0
        if buffered:
            buffered = buffered - 1
            taken = taken + 1
        if not asked and buffered <= resume:
            asked = limit - buffered
            arrives = step + 1 + per_trip
    return taken / steps


@pytest.mark.parametrize("resume", [0, 20, 50, 80, 99])
@pytest.mark.parametrize("per_trip", [10, 40, 70, 150, 400])
def test_throughput_against_a_simulation(resume: int, per_trip: int) -> None:
    window = ConsumerWindow(100, resume)
    simulation = simulated(100, resume, per_trip, 200)
    assert window.throughput(1.0, per_trip) == pytest.approx(simulation, rel=0.06)
    assert (window.dry_seconds(1.0, per_trip) > 0) == (min(resume, 50) < per_trip)


@pytest.mark.parametrize(
    ("limit", "rate", "round_trip", "percent"),
    [
        (1000, 2000.0, 0.1, 20),
        (1000, 10.0, 0.001, 1),
        (1000, 20000.0, 0.1, None),
        (10, 95.0, 0.1, None),
    ],
)
def test_least_threshold(
    limit: int, rate: float, round_trip: float, percent: int | None
) -> None:
    assert threshold_for(limit, rate, round_trip) == percent
    if percent is not None:
        assert (
            ConsumerWindow(limit, resume_level(limit, percent)).dry_seconds(
                rate, round_trip
            )
            == 0
        )


@pytest.mark.parametrize(
    ("memory", "size", "consumers", "limit"),
    [(64e6, 4000, 5, 3200), (1000, 4000, 1, 0), (4000, 4000, 1, 1)],
)
def test_limit_for_memory(
    memory: float, size: float, consumers: int, limit: int
) -> None:
    assert limit_for_memory(memory, size, consumers) == limit


def test_connection_limit_overshoots_by_its_count() -> None:
    window = ConnectionWindow(limit=200, count=100)
    assert (window.resume, window.most) == (199, 299)


@given(st.integers(1, 500), st.integers(1, 200), st.integers(0, 3))
def test_a_connection_that_stops_as_a_broker_counts_holds_its_most(
    limit: int, count: int, in_hand: int
) -> None:
    window = ConnectionWindow(limit, count)
    sent = count
    while sent - in_hand < limit:
        sent += count
    assert sent - in_hand <= window.most


def test_credit_windows() -> None:
    window = CreditWindow(1024 * 1024)
    assert (window.messages(1000), window.returned, window.batch(1000)) == (
        1049,
        524288,
        525,
    )
    assert (CreditWindow(0).messages(1000), CreditWindow(0).batch(1000)) == (1, 1)
    assert window_for_ring(1000, 1000, 3) == 333_000
    assert window_for_ring(2, 1000, 3) == 0
