"""`removed_unsettled`: messages leave that no consumer let go."""

from conditions.openmq_world import losing, openmq, openmq_polls


def test_expiry_informs() -> None:
    world = losing("reject_newest", 100_000, polls=10)  # three polls show what is usual
    assert (world.names, world.notices) == (set(), {"removed_unsettled"})


def test_short_lived_consumers_are_no_expiry() -> None:
    """Each poll another consumer, whose predecessor settled all before it went."""
    world = openmq()
    openmq_polls(world, 12, lambda i: {
        "queues": {"q": {"A": 30 * i, "K": 30 * i, "M": 0, "D": 0}},
        "consumers": {f"c{i}": {"N": 5, "T": 0, "L": world.now + 10}},
    })  # fmt: skip
    assert world.names | world.notices == set()
