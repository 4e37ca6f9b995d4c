"""A season in small: three weeks of every kind of queue that a batch, an office or a crowd makes, in seconds."""

import pytest
from bench import season
from bench.season import Queue, Season, per_queue_week, replay


@pytest.mark.nightly  # weeks of polls; make bench-season has eight
def test_healthy_queues_are_quiet_from_the_third_week_and_a_silence_is_found() -> None:
    kinds = [
        "steady 20/s",
        "wave",
        "business hours",
        "hourly",
        "nightly consumer",
        "growing",
    ]
    queues = [
        *map(Queue, kinds),
        Queue("steady 20/s", "silent"),
        Queue("business hours", "silent"),
    ]
    result = replay(Season(queues, weeks=3.5, step=1800.0, seed=7))
    assert per_queue_week(result, 2, 3.5, len(kinds), notices=False) == 0
    assert all(found is not None for of in result.found.values() for found in of)
    assert season.WANTED["silent"] == "producer_silent"


@pytest.mark.nightly  # weeks of polls; make bench-season has eight
def test_dead_letters_are_found_with_their_causes() -> None:
    """Which look at losses, of which the season counts none."""
    result = replay(
        Season([Queue("steady 20/s", "dead letters")], weeks=1.0, step=300.0, seed=3)
    )
    assert None not in result.found["dead letters: steady 20/s"]
