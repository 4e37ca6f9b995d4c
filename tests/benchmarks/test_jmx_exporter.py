"""The exporter beside which a broker's cost is measured is kept from what Penstock does not read."""

import pytest
import yaml
from bench.jmx_exporter import CONFIG_BYTES, DEAREST, TEXTS, WANTED, config, unwanted

FOUND = {
    "queue": {
        *WANTED["queue"],
        *TEXTS,
        *DEAREST,
        *(f"OtherOfQueue{n}" for n in range(20)),
    },
    "address": {*WANTED["address"], *(f"OtherOfAddress{n}" for n in range(20))},
}


def excluded(queues: int) -> tuple[dict[str, list[str]], int, int]:
    """By object, how many attributes by pair, and the length of the text."""
    text, count = config("b", [f"queue.{n}" for n in range(queues)], unwanted(FOUND))
    return (
        yaml.load(text, yaml.CSafeLoader).get("excludeObjectNameAttributes", {}),
        count,
        len(text),
    )


def test_all_that_is_unwanted_and_nothing_else() -> None:
    found, count, _ = excluded(3)
    assert count == len(unwanted(FOUND)) == 47
    assert len(found) == 6
    for name, names in found.items():
        kind = "queue" if "subcomponent=queues" in name else "address"
        assert set(names) == FOUND[kind] - WANTED[kind]


@pytest.mark.slow  # a large broker
def test_of_a_large_broker_as_much_as_fits_the_dearest_first() -> None:
    found, count, size = excluded(10_000)
    assert size <= CONFIG_BYTES
    assert len(DEAREST) < count < 47
    assert set(DEAREST) <= set(next(iter(found.values())))


@pytest.mark.slow  # many polls
def test_where_nothing_fits_nothing_is_excluded() -> None:
    found, count, size = excluded(40_000)
    assert (found, count) == ({}, 0)
    assert size < CONFIG_BYTES
