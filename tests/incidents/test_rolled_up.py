"""What the alert on an incident says in place of the alerts on its conditions, and how many it counts."""

import pytest

from incidents.world import Scene
from penstock.agent.checkpoint import MOST_MEMBERS
from penstock.assessment.health import client_causes, queue_causes

QUEUES = 300
"""More than a state file remembers of an incident, and than once were noted of a poll."""


def dead_application(queues: int) -> Scene:
    """One application reads all queues, and goes away while producers send on."""
    scene = Scene()
    readers = [f"c{n}" for n in range(queues)]
    for n, reader in enumerate(readers):
        scene.reader(reader, f"q{n}", "billing")
    scene.run(5, lambda one: one.works(*readers))
    scene.consumers.clear()

    def grow(one: Scene) -> None:
        for n in range(queues):
            one.come(f"q{n}")

    return scene.run(20, grow)


@pytest.mark.slow  # many polls
def test_one_dead_application_is_one_incident_that_counts_its_queues() -> None:
    judgement = dead_application(QUEUES).state.judgement
    (one,) = judgement.incidents.told
    assert (one.kind, one.object, one.size) == ("no_consumer", "billing", QUEUES)
    assert len(judgement.incidents.rolled_up) == QUEUES > MOST_MEMBERS
    causes = queue_causes(judgement.conditions, judgement.incidents.rolled_up)
    assert causes["unhealthy"].size == QUEUES
    assert (causes["in_incident"] == 1).all()


@pytest.mark.slow  # many polls
def test_one_queue_alone_fires_its_own_alert() -> None:
    judgement = dead_application(1).state.judgement
    (one,) = judgement.incidents.told
    assert one.size == 1
    assert judgement.incidents.rolled_up == frozenset()
    assert "in_incident" in queue_causes(judgement.conditions, frozenset()).columns
    assert not (
        queue_causes(judgement.conditions, frozenset())["in_incident"] == 1
    ).any()


def test_a_cause_is_rolled_up_only_where_all_of_it_is() -> None:
    """Two clients stalled on one queue: the incident of one does not hide the other."""
    judgement = dead_application(2).state.judgement
    first, second = judgement.conditions[:2]
    twice = [
        first._replace(client="a"),
        first._replace(client="b", queue=first.queue),
        second,
    ]
    keys = frozenset({(first.name, first.address, first.queue, "a")})
    assert not (queue_causes(twice, keys)["in_incident"] == 1).any()
    clients = client_causes(twice, keys)
    assert [
        (row.client, value == 1)
        for row, value in zip(clients.index, clients["in_incident"], strict=True)
    ] == [
        ("a", True),
        ("b", False),
    ]
