"""The agent and the baseline of the bench, on the same answers, show the same samples with the same values."""

import gzip

import pytest
from bench.baseline import Baseline
from bench.harness import Polled
from bench.world import World, WorldTransport
from prometheus_client.parser import text_string_to_metric_families

from penstock.core.counters import SMALL_FALL
from penstock.exposition.body import Exposition
from penstock.exposition.syntax import Format

pytestmark = pytest.mark.slow  # the same thousands of rows by two programs

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class TornRows:
    """Series of clients of which a consumer seemed to acknowledge less than before, though it did not begin again.

    The agent takes that for two numbers that were read a moment apart, the baseline for a new beginning.
    """

    def __init__(self) -> None:
        self.series: set[tuple[str, frozenset[tuple[str, str]]]] = set()
        self._counters: dict[str, tuple[float, float]] = {}

    def look(self, broker: str, consumers: list[dict[str, str]]) -> None:
        """At the rows of a poll."""
        for row in consumers:
            delivered = float(row["messagesDelivered"])
            acknowledged = float(row["messagesAcknowledged"])
            delivered_before, acknowledged_before = self._counters.get(
                row["id"], (0.0, 0.0)
            )
            begins_again = delivered < delivered_before - SMALL_FALL or delivered == 0
            if acknowledged < acknowledged_before and not begins_again:
                labels = {
                    "broker": broker,
                    "address": row["address"],
                    "queue": row["queue"],
                    "client": row["clientID"],
                }
                self.series.add(
                    ("mq_client_acknowledged_messages_total", frozenset(labels.items()))
                )
            self._counters[row["id"]] = delivered, acknowledged


async def test_same_samples_poll_after_poll() -> None:
    world = World(
        120, 400
    )  # one page: what stands between two may be shown a poll longer
    polled = Polled(WorldTransport(world), page_rows=500)
    baseline = Baseline("bench")
    exposition = Exposition(lambda _: b"")
    exposition.set_broker("bench", polled.blocks)
    torn = TornRows()
    for poll in range(8):
        world.step(churn=0.1)
        await polled.poll()
        asked = polled.transport.asked
        answers = [world.answer(requests) for requests in asked]
        theirs = samples(gzip.decompress(baseline.body(asked, answers)).decode())
        ours = samples(b"".join(exposition.chunks(Format.TEXT, gzip=False)).decode())
        torn.look("bench", baseline._consumers)
        if not poll:
            continue  # settings of addresses are read behind the addresses and shown from the second poll on
        assert len(theirs) > 120 * 24 + 400 * 10
        theirs = {key: value for key, value in theirs.items() if key not in torn.series}
        shown = {key: value for key, value in ours.items() if key in theirs}
        assert shown == theirs
        # What the agent alone shows: itself, the broker, connections, what it judges.
        assert {
            name for name, _ in ours.keys() - theirs.keys() - torn.series
        }.isdisjoint(name for name, _ in theirs)
    assert len(torn.series) < 80, "of 400 clients: most are compared"
    await polled.close()
