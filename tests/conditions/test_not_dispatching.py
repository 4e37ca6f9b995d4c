"""`not_dispatching`: messages wait beside a free consumer; what explains it silences it."""

from collections.abc import Mapping

import pytest

from conditions.situations import FREE, HOLDER, WAIT, polls
from conditions.things import Numbers
from conditions.world import START, Judged
from penstock.settings.constants import Constants


@pytest.mark.parametrize(
    ("queue", "delivered", "names"),
    [
        ({"K": 0.0, "Att": 0.0}, 20.0, set()),  # read by all, and kept
        ({"K": 0.0, "Att": 0.0}, 21.0, {"not_dispatching"}),  # came back: it counts
        ({"K": 0.0, "Att": 1.0}, 20.0, {"not_dispatching"}),
        ({"K": 1.0, "Att": 0.0}, 20.0, {"not_dispatching"}),
    ],
)
def test_a_queue_whose_messages_stay_though_acknowledged_may_be_non_destructive(
    queue: Numbers, delivered: float, names: set[str]
) -> None:
    judged = Judged(constants=Constants(cold=60.0))
    polls(
        judged,
        10,
        {"A": 20.0, "M": 20.0, **queue},
        {"c": {"T": 0.0, "N": delivered, "C": delivered}},
    )
    assert judged.names == names


@pytest.mark.slow  # many polls
def test_what_no_selector_selects_may_come_in_bursts() -> None:
    """At no two polls that follow each other; what is left over and grows no more stays quiet."""
    judged = Judged()
    for n in range(60):
        some = 10.0 * (n // 3 + 1)
        judged.poll(
            {"q": {**WAIT, "A": some, "M": some}}, {"c": {**FREE, "filter": "x"}}
        )
    assert judged.names == {"not_dispatching"}
    for _ in range(40):
        judged.poll(
            {"q": {**WAIT, "A": some, "M": some}}, {"c": {**FREE, "filter": "x"}}
        )
    assert not judged.names


def told(
    queue: Numbers,
    consumers: Mapping[str, Numbers],
    *,
    comes: float = 0.0,
    **address: float,
) -> set[str]:
    judged = Judged()
    for n in range(30):
        more = comes * n
        queues = {"q": {**queue, "A": queue["A"] + more, "M": queue["M"] + more}}
        judged.poll(queues, consumers, {"q": address})
    return judged.names


TOLD: list[tuple[Numbers, Mapping[str, Numbers], float, set[str]]] = [
    (WAIT, {"c": FREE}, 0, {"not_dispatching"}),
    (WAIT, {"c": {**FREE, "filter": "x"}}, 0, set()),
    (WAIT, {"c": {**FREE, "filter": "x"}}, 1, {"not_dispatching"}),
    (WAIT, {"c": {**FREE, "filter": "x"}, "d": FREE}, 0, {"not_dispatching"}),
    ({**WAIT, "D": 10}, {"c": HOLDER, "d": FREE}, 0, {"not_dispatching", "stalled"}),
    ({**WAIT, "D": 10, "exclusive": 1}, {"c": HOLDER, "d": FREE}, 0, {"stalled"}),
    ({**WAIT, "D": 10, "grouped": 1}, {"c": HOLDER, "d": FREE}, 0, {"stalled"}),
    ({**WAIT, "exclusive": 1}, {"c": FREE, "d": FREE}, 0, {"not_dispatching"}),
    (
        {**WAIT, "exclusive": 1, "D": 3},
        {"c": {**FREE, "W": 3.0, "L": START}, "d": FREE},
        0,
        {"open_transaction"},
    ),
    ({**WAIT, "D": 10}, {"c": HOLDER}, 0, {"stalled"}),
    ({"A": 50.0, "M": 0.0}, {"c": FREE}, 0, set()),
    ({**WAIT, "consumers": 0}, {"c": FREE}, 0, set()),
    ({**WAIT, "S": 50}, {"c": FREE}, 0, set()),
]
"""A queue, its consumers, how many come with each poll, and the conditions after 30 polls."""


def test_not_dispatching() -> None:
    """Each of them a queue of its own, with clients of its own."""
    judged = Judged()
    for n in range(30):
        queues = {}
        consumers = {}
        for i, (queue, readers, comes, _) in enumerate(TOLD):
            queues[f"{i}"] = {
                **queue,
                "A": queue["A"] + comes * n,
                "M": queue["M"] + comes * n,
            }
            for key, said in readers.items():
                consumers[f"{i} {key}"] = {
                    "client": f"app {i}",
                    **said,
                    "queue": f"{i}",
                }
        judged.poll(queues, consumers)
    assert {i: judged.names_of(f"{i}") for i in range(len(TOLD))} == {
        i: names for i, (*_, names) in enumerate(TOLD)
    }


@pytest.mark.slow  # many polls
def test_not_dispatching_waits_for_both_patience_and_a_consumer_old_enough() -> None:
    judged = polls(
        Judged(), 20, WAIT, {"c": FREE}
    )  # still since the second poll: 285 s before the next but one
    assert not judged.names
    polls(judged, 1, WAIT, {"d": FREE})  # another consumer: it has only come
    polls(judged, 10, WAIT, {"d": FREE})
    assert not judged.names
    polls(judged, 11, WAIT, {"d": FREE})
    assert judged.names == {"not_dispatching"}
    assert judged.one("not_dispatching").since == START + 15


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("silencer", ["paused", "depaging_frozen"])
def test_what_explains_it_silences_not_dispatching(silencer: str) -> None:
    paused = {"paused": 1.0} if silencer == "paused" else {"delivering_bytes": 95.0}
    address = (
        {} if silencer == "paused" else {"paging": 1.0, "page_read_limit_bytes": 100.0}
    )
    assert told({**WAIT, **paused}, {"c": FREE}, **address) == {silencer}
