"""`removed_unsettled`: messages leave that no consumer let go."""

import pytest

from conditions.openmq_world import losing, openmq, openmq_polls


def test_expiry_informs() -> None:
    world = losing("reject_newest", 100_000, polls=10)  # three polls show what is usual
    assert (world.names, world.notices) == (set(), {"removed_unsettled"})


@pytest.mark.slow  # many polls
def test_short_lived_consumers_are_no_expiry() -> None:
    """Each poll another consumer, whose predecessor settled all before it went."""
    world = openmq()
    openmq_polls(world, 12, lambda i: {
        "queues": {"q": {"A": 30 * i, "K": 30 * i, "M": 0, "D": 0}},
        "consumers": {f"c{i}": {"N": 5, "T": 0, "L": world.now + 10}},
    })  # fmt: skip
    assert world.names | world.notices == set()


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("other", ["steady", "short-lived", "unlisted", "read apart"])
def test_only_the_destination_whose_messages_expire_has_it(other: str) -> None:
    """Its dead letters come to the dead message queue, from which they may be of any destination."""
    world = openmq()
    found = set()
    for i in range(24):
        queues = {
            "a": {"A": 1000 + 30 * i, "K": 500 + 30 * i, "M": 500, "D": 10},
            "b": {"A": 30 * i, "K": 30 * i, "M": 0, "D": 0},
            "mq.sys.dmq": {"A": 20 * i, "M": 20 * i},
        }
        consumers = {
            "ca": {"queue": "a", "N": 110 + 10 * i, "T": 10, "L": world.now + 10}
        }
        one = {"queue": "b", "client": "y", "L": world.now + 10}
        if other == "steady":
            consumers["cb"] = {**one, "N": 30 * i, "T": 0}
        if other == "short-lived":
            consumers[f"cb{i}"] = {**one, "N": 15, "T": 0}
        if other == "read apart":
            queues["b"] = {
                "A": 3000 * i,
                "K": 3000 * i - i * 37 % 29,
                "M": i * 37 % 29,
                "D": 10,
            }
            consumers["cb"] = {**one, "N": 3000 * i - i * 53 % 41 + 10, "T": 10}
        world.poll(
            queues, consumers, {"a": {"dead_letters": 1.0}, "b": {"dead_letters": 1.0}}
        )
        found |= {
            condition.queue
            for condition in world.conditions
            if condition.name == "removed_unsettled"
        }
    assert found == {"a"}
