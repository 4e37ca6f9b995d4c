"""Sharding: each broker is watched by exactly one agent, and a change of their number moves few."""

import pytest

from penstock.agent.shard import Shard, parse_shard
from penstock.core.errors import PenstockError

BROKERS = [f"broker-{number}" for number in range(2_000)]


def owner(broker: str, count: int) -> int:
    (found,) = (
        ordinal for ordinal in range(count) if Shard(ordinal, count).owns(broker)
    )
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_broker_is_watched_by_exactly_one_and_all_get_their_part(
    count: int,
) -> None:
    owners = [owner(broker, count) for broker in BROKERS]
    for ordinal in range(count):
        assert owners.count(ordinal) == pytest.approx(len(BROKERS) / count, rel=0.2)


def test_one_agent_more_takes_its_part_and_moves_nothing_else() -> None:
    before, after = ([owner(broker, count) for broker in BROKERS] for count in (3, 4))
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {3}
    assert len(moved) == pytest.approx(len(BROKERS) / 4, rel=0.2)


@pytest.mark.parametrize("text", ["2/3", "penstock-2/3", "a-b-2/3"])
def test_a_shard_by_number_or_by_the_name_of_its_pod(text: str) -> None:
    assert parse_shard(text) == Shard(2, 3)


@pytest.mark.parametrize(
    "text", ["", "3/3", "-1/3", "a/3", "1", "0/0", "penstock/3", "0/99999", "٢/3"]
)
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(PenstockError, match="write ORDINAL/COUNT such as 0/3"):
        parse_shard(text)
