"""`unknown`: queues and clients of which nothing can be said yet."""

from conditions.situations import HELD, HOLDER
from conditions.world import Judged
from penstock.conditions.unknown import UNKNOWN
from penstock.insight.knowledge import undecided_conditions


def test_a_queue_is_unknown_until_its_third_poll() -> None:
    judged = Judged()
    for polls in (1, 2, 3):
        judged.poll({"q": HELD})
        (series,) = judged.tables["queue"].index
        told = next(
            undecided_conditions(
                judged.state, judged.snapshot({"q": HELD}, {}, {}), series
            ),
            None,
        )
        if polls == 3:
            assert told is None
        else:
            assert told is not None
            assert (told.name, told.evidence) == (UNKNOWN.name, {"polls": polls})


def undecided(judged: Judged) -> float:
    return float(judged.tables["broker"]["undecided_clients"][0])


def test_a_client_is_undecided_for_two_polls_unless_a_condition_holds() -> None:
    judged = Judged()
    working = {"T": 0.0, "N": 0.0, "C": 0.0, "client": "new"}
    seen = []
    for _ in range(4):
        judged.poll(
            {"q": HELD},
            {"c": {**HOLDER, "Ld": judged.now - 5000, "client": "stuck"}, "d": working},
        )
        seen.append(undecided(judged))
    # "stuck" is told at the second poll
    assert seen == [2.0, 1.0, 0.0, 0.0]


def test_all_clients_are_undecided_once_verdicts_are_too_old() -> None:
    judged = Judged(step=15)
    for _ in range(4):
        judged.poll({"q": {}}, {"c": {}})
    assert undecided(judged) == 0.0
    for _ in range(5):
        judged.poll({"q": {}}, {"c": {}}, failed=["queues"])
    assert undecided(judged) == 1.0
