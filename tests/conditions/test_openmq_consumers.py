"""`leaking` and `crash_looping` by what an OpenMQ shows of its consumers."""

import pytest

from conditions.openmq_world import OpenmqJudged


def polled(judged: OpenmqJudged, polls: int, policy: str) -> None:
    """100 messages a second, one of 200 is never acknowledged."""
    for n in range(1, polls + 1):
        seen = 200.0 * n
        kept = float(n)
        queue = {"A": seen, "K": seen - kept, "M": kept, "D": kept}
        judged.poll(
            {"q": queue}, {"c": {"T": kept, "N": seen}}, {"q": {"policy": policy}}
        )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("policy", "told"), [("reject_newest", {"leaking"}), ("remove_oldest", set())]
)
def test_a_leak_is_suspected_but_not_where_a_limit_removes_what_consumers_buffer(
    policy: str, told: set[str]
) -> None:
    judged = OpenmqJudged(step=2.0)
    polled(judged, 130, policy)
    assert judged.notices == told


@pytest.mark.slow  # many polls
def test_a_lull_proves_a_leak() -> None:
    judged = OpenmqJudged(step=2.0)
    polled(judged, 70, "reject_newest")
    for _ in range(6):
        judged.poll(
            {"q": {"A": 14_000.0, "K": 13_930.0, "M": 70.0, "D": 70.0}},
            {"c": {"T": 70.0, "N": 14_000.0}},
        )
    assert judged.one("leaking").evidence["leaked"] == 70
    assert judged.names == {"leaking"}


@pytest.mark.slow  # many polls
def test_a_crash_loop_beside_a_good_client() -> None:
    judged = OpenmqJudged(step=2.0)
    for n in range(1, 41):
        done = 40.0 * n
        good = {"T": 0.0, "N": done, "client": "good"}
        bad = {f"bad{n // 2}": {"T": 10.0, "N": 10.0, "client": "bad"}}
        judged.poll(
            {"q": {"A": done + 10, "K": done, "M": 10.0, "D": 10.0}},
            {"good": good, **bad},
        )
    assert judged.one("crash_looping").client == "bad"
    assert judged.one("crash_looping").evidence["given_back"] >= 100
