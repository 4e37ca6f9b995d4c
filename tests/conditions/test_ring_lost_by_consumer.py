"""`ring_lost_by_consumer`: what a consumer gave back did not fit into the ring."""

from conditions.situations import quiet, ring


def test_a_loss_by_consumers_is_an_event_shown_for_five_minutes() -> None:
    world, queue, (consumer,) = ring(10, 1)
    quiet(world)
    queue.come(10)
    queue.take(consumer)
    queue.come(10)
    world.run(30)
    queue.close(consumer)
    world.run(30)
    found = world.one("ring_lost_by_consumer")
    assert found.evidence == {"age": 0, "lost": 10, "evicted": 10}
    assert found.why == (
        "app closed, lost the connection or rolled back: 10 messages; a Core client returns the whole window of its"
        " session when it closes or rolls back: a smaller consumerWindowSize keeps fewer there"
    )
    told_at = world.now
    world.run(300)
    assert "ring_lost_by_consumer" in world.names
    world.run(15)
    assert "ring_lost_by_consumer" not in world.names
    assert world.last["ring_lost_by_consumer"] + world.begin == told_at + 300
