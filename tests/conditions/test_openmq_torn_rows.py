"""A consumer's numbers of OpenMQ are not read at one moment: a message in between is neither restart nor progress."""

from collections.abc import Sequence

import numpy as np
import pytest

from conditions.openmq_world import COLD, OpenmqJudged
from penstock.core.table import Index, Join, Table
from penstock.model import ConsumerRow
from penstock.observation.facts import Seen, SeenConsumers, consumer_facts

HEALTHY_POLLS = 10
HUNG_POLLS = 36
"""Of 5 s each: three minutes."""


def healthy(judged: OpenmqJudged, *, policy: str = "reject_newest") -> float:
    """10 messages a poll are acknowledged at once; how many in all."""
    for n in range(1, HEALTHY_POLLS + 1):
        done = 10.0 * n
        queue = {"A": done, "K": done, "M": 0.0, "D": 0.0}
        judged.poll(
            {"q": queue},
            {"c": {"N": done, "T": 0.0, "L": judged.now}},
            {"q": {"policy": policy}},
        )
    return 10.0 * HEALTHY_POLLS


def hung(judged: OpenmqJudged, done: float, torn: Sequence[float]) -> None:
    """It still gets a message a poll, and acknowledges none. torn: by how much its number is wrong, poll by poll."""
    acknowledged_at = judged.now
    for n in range(1, HUNG_POLLS + 1):
        held = float(n)
        queue = {"A": done + held, "K": done, "M": held, "D": held}
        wrong = torn[n % len(torn)]
        judged.poll(
            {"q": queue},
            {"c": {"N": done + held, "T": held - wrong, "L": acknowledged_at}},
        )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    "torn", [[0.0], [0.0, 1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 0.0, 1.0, -1.0, 0.0]],
    ids=["as it is", "one too many", "one too few", "both"],
)  # fmt: skip
def test_a_torn_row_hides_no_stall(torn: list[float]) -> None:
    judged = OpenmqJudged(step=5.0, constants=COLD)
    hung(judged, healthy(judged), torn)
    assert judged.one("stalled").client == "app"


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("torn", [[0.0, 1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
def test_a_torn_row_teaches_no_threshold(torn: list[float]) -> None:
    """A pause that seems to end counts as a normal one from then on."""
    judged = OpenmqJudged(step=5.0, constants=COLD)
    hung(judged, healthy(judged), torn)
    assert not (judged.state.judgement.unacked.gaps > 0).any()
    stalled = judged.one("stalled")
    assert judged.now - stalled.since >= 5.0 * (HUNG_POLLS - 2)


@pytest.mark.slow  # many polls
def test_what_a_limit_removes_while_its_client_holds_it_is_progress_all_the_same() -> (
    None
):
    """Its last acknowledgement stands still, as the broker knows these messages no more; what it lets go is counted."""
    judged = OpenmqJudged(step=5.0, constants=COLD)
    done = healthy(judged, policy="remove_oldest")
    acknowledged_at = judged.now
    for n in range(1, HUNG_POLLS + 1):
        settled = done + n
        queue = {"A": settled + 20.0, "K": settled, "M": 20.0, "D": 10.0}
        consumer = {"N": settled + 10.0, "T": 10.0, "L": acknowledged_at}
        judged.poll({"q": queue}, {"c": consumer}, {"q": {"policy": "remove_oldest"}})
    assert "stalled" not in judged.names


@pytest.mark.slow  # many polls
def test_a_torn_row_adds_nothing_to_the_total_of_its_client() -> None:
    """All that it ever acknowledged was added again each time."""
    judged = OpenmqJudged(step=5.0, constants=COLD)
    done = healthy(judged)
    hung(judged, done, [0.0, -1.0, 0.0])
    assert judged.tables["client"]["acknowledged"].tolist() == [done]


# --- counters of consumers of any kind


def changes(*polls: tuple[float, float]) -> list[tuple[float, float]]:
    """What was delivered and acknowledged since the poll before, from the second poll on."""
    row = ConsumerRow("1", "q", "q", "app", "", "jms", "u", "h", "")
    index = Index.of([row])
    join = Join(at=np.zeros(1, np.intp))
    seen = Seen()
    known = np.ones(1, np.bool_)
    late = np.zeros(1, np.bool_)
    found = []
    for delivered, acknowledged in polls:
        columns = {
            "delivered": np.array([delivered]),
            "acknowledged": np.array([acknowledged]),
        }
        numbers, facts = consumer_facts(seen, Table(index, columns), join, known, late)
        found.append((float(facts.d_delivered[0]), float(facts.d_left[0])))
        seen = Seen(consumers=SeenConsumers(index, numbers))
    return found[1:]


def test_a_number_that_falls_alone_is_no_restart_of_its_consumer() -> None:
    assert changes((540, 532), (541, 531), (541, 532), (545, 535)) == [
        (1, 0),
        (0, 0),
        (4, 3),
    ]


def test_a_window_that_was_delivered_between_two_numbers_is_none_either() -> None:
    assert changes((540, 532), (640, 432), (640, 533)) == [(100, 0), (0, 1)]


def test_a_small_fall_of_both_is_none() -> None:
    assert changes((540, 532), (539, 531), (541, 533)) == [(0, 0), (1, 1)]


def test_a_consumer_that_begins_again_counts_from_nothing() -> None:
    assert changes((540, 532), (7, 5), (9, 9)) == [(7, 5), (2, 4)]
    assert changes((2, 2), (0, 0), (1, 1)) == [(0, 0), (1, 1)]
