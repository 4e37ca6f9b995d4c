"""The tables of history, queue by queue, as they are put together for the agent."""

import numpy as np

from penstock.learned.byte_tables import DAYS, WEEKS, packed
from penstock.learned.normal import ABSENCES, FLOWS, LONG_ABSENCE
from penstock.learned.profile import COLUMNS, QueueProfile, broker_profile, by_broker
from penstock.settings.calendar import HOURS

HIGHS = len(FLOWS.days)
SHORT = int(packed(LONG_ABSENCE))
LONG = int(packed(2 * LONG_ABSENCE))


def profile(number: int, *, absence: int = 0, weeks: int = 1) -> QueueProfile:
    """Of a queue all of whose bytes are this number. absence: the longest of one hour."""
    hours = np.full((len(COLUMNS), WEEKS, HOURS), number, np.uint8)
    hours[-1] = 0
    hours[-1, 1, 2] = absence
    days = np.full((HIGHS, DAYS), number, np.uint8)
    return QueueProfile(hours, days, weeks, (float(number), 10.0 * number))


A, B, C = (("address", name) for name in "abc")


def test_the_flows_of_each_queue_are_in_its_column() -> None:
    made = broker_profile({A: profile(7), B: profile(9)})
    assert dict(made.flows.names) == {A: 0, B: 1}
    assert made.flows.hours.shape == (*FLOWS.hours.shape[:-1], 2)
    assert made.flows.days.shape == (*FLOWS.days.shape[:-1], 2)
    assert (made.flows.hours == [7, 9]).all()
    assert (made.flows.days == [7, 9]).all()


def test_service_times_are_by_queue() -> None:
    assert broker_profile({A: profile(7), B: profile(9)}).service.tolist() == [
        [7, 9],
        [70, 90],
    ]


def test_only_queues_that_are_away_for_long_have_a_column_of_absences() -> None:
    made = broker_profile(
        {
            A: profile(7, absence=LONG),
            B: profile(9, absence=SHORT),
            C: profile(5, absence=LONG),
        }
    )
    assert dict(made.absences.names) == {A: 0, C: 1}
    assert made.absences.hours.shape == (*ABSENCES.hours.shape[:-1], 2)
    assert made.absences.hours[0, 1, 2].tolist() == [LONG, LONG]
    assert np.count_nonzero(made.absences.hours) == 2


def test_weeks_are_the_most_of_any_queue() -> None:
    assert (
        broker_profile(
            {A: profile(7, weeks=2), B: profile(9, weeks=4), C: profile(9, weeks=1)}
        ).weeks
        == 4
    )


def test_each_broker_has_its_own_queues() -> None:
    found = by_broker(
        [("b", A, profile(7)), ("c", B, profile(9)), ("b", C, profile(5))]
    )
    assert {broker: [*of.flows.names] for broker, of in found.items()} == {
        "b": [A, C],
        "c": [B],
    }


def test_a_service_time_may_be_unknown() -> None:
    without = QueueProfile(profile(7).hours, profile(7).days, 1)
    np.testing.assert_equal(broker_profile({A: without}).service, [[np.nan], [0.0]])
