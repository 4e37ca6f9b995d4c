"""What /metrics shows of a broker that makes more series than its budget."""

import re
from dataclasses import replace

import pytest

from agent.world import World
from penstock.agent import tables as own
from penstock.agent.assessor import Assessor, PollResult, Result
from penstock.exposition.gzip_stream import CODEC
from penstock.exposition.render import BrokerBlocks
from penstock.settings.policy import Limits, Policy

SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def samples(blocks: BrokerBlocks, family: str) -> list[tuple[dict[str, str], float]]:
    """Labels and values of a family as they are shown."""
    if family not in blocks.published.families:
        return []
    text = b"".join(
        CODEC.inflate(one) for one in blocks.published.families[family].fragments
    ).decode()
    found = [SAMPLE.match(line) for line in text.splitlines()]
    return [(dict(LABEL.findall(one[2])), float(one[3])) for one in found if one]


class Shown:
    """A broker of ten queues, q9 the deepest; q1 is paused with one message, and no more series than `most`."""

    def __init__(self, most: int) -> None:
        self.world = World()
        for number in range(10):
            self.world.queue(number, f"q{number}", messages=100.0 * number)
        self.world.queues[1] |= {"paused": 1.0, "messages": 1.0}
        self.assessor = Assessor(Policy("b1", limits=Limits(series=most)), 15.0)

    def poll(self, times: int = 1) -> None:
        for _ in range(times):
            self.world.now += 15
            self.assessor.take(self.world.snapshot())
            self.assessor.publish(PollResult(Result.OK), dict.fromkeys(Result, 0))

    def of(self, family: str) -> list[tuple[dict[str, str], float]]:
        return samples(self.assessor.blocks, family)

    def queues(self) -> set[str]:
        return {labels["queue"] for labels, _ in self.of("mq_queue_messages")}

    def of_broker(self, family: str) -> float:
        ((_, number),) = self.of(family)
        return number


@pytest.fixture
def all_of_them() -> int:
    shown = Shown(1_000_000)
    shown.poll(4)
    assert len(shown.queues()) == 10
    return int(shown.of_broker("penstock_series"))


def test_what_is_unhealthy_comes_first_then_the_largest_backlogs(
    all_of_them: int,
) -> None:
    shown = Shown(all_of_them // 2)
    shown.poll(5)
    kept = shown.queues()
    assert "q1" in kept, "small and unhealthy"
    assert 3 <= len(kept) <= 5
    assert kept - {"q1"} == {f"q{number}" for number in range(11 - len(kept), 10)}
    assert shown.of_broker("penstock_series") <= all_of_them // 2 + 5
    assert {labels["queue"] for labels, _ in shown.of("mq_queue_unhealthy")} == {"q1"}


@pytest.mark.slow  # many polls
def test_what_is_left_out_is_counted_and_a_condition_says_so(all_of_them: int) -> None:
    shown = Shown(all_of_them // 2)
    shown.poll(5)
    dropped = shown.of_broker("penstock_series_dropped")
    made = shown.of_broker("penstock_series")
    assert dropped >= all_of_them / 2 - 5
    assert dropped + made == pytest.approx(all_of_them, abs=5)
    assert [
        (labels["cause"], number) for labels, number in shown.of("mq_broker_unhealthy")
    ] == [("over_budget", 1.0)]
    view = shown.assessor.view
    assert view is not None
    (condition,) = [
        one for one in view.state.judgement.conditions if one.name == "over_budget"
    ]
    assert re.search(
        r"^left out: \d+ of \d+ series \(budgets\.series\)$", condition.why
    )
    assert any("not shown in /metrics" in note for note in view.snapshot.notes)
    assert len(view.tables["queue"]) == 10, "the API and the pages know all"


@pytest.mark.slow  # many polls
def test_within_the_budget_nothing_is_touched(all_of_them: int) -> None:
    shown = Shown(all_of_them + 10)
    shown.poll(5)
    assert len(shown.queues()) == 10
    assert shown.of_broker("penstock_series_dropped") == 0
    assert not shown.of("mq_broker_unhealthy")


@pytest.mark.slow  # many polls
def test_what_is_shown_stays_while_others_are_about_as_large(all_of_them: int) -> None:
    shown = Shown(all_of_them // 2)
    shown.poll(5)
    kept = shown.queues()
    for number in range(2, 10):
        queue = shown.world.queues[number]
        messages = 600.0 + (number * 7) % 5
        queue |= {
            "messages": messages,
            "added": queue["added"] + messages - queue["messages"],
        }
    shown.poll(3)
    assert len(shown.queues() & kept) >= len(kept) - 1
    shown.world.queues[2] |= {"messages": 1e6, "added": 1e6}
    shown.poll()
    assert "q2" in shown.queues(), "of another order of magnitude"


@pytest.mark.slow  # many polls
def test_a_new_policy_takes_effect_at_the_next_poll(all_of_them: int) -> None:
    shown = Shown(all_of_them // 2)
    shown.poll(3)
    shown.assessor.next_policy = replace(
        shown.assessor.policy, limits=Limits(series=1_000_000)
    )
    shown.poll()
    assert len(shown.queues()) == 10
    shown.assessor.next_policy = replace(
        shown.assessor.policy, limits=Limits(label_length=64)
    )
    shown.world.queue(11, 100 * "y", messages=5)
    shown.poll()
    assert {len(labels["queue"]) for labels, _ in shown.of("mq_queue_messages")} == {
        2,
        64,
    }


@pytest.mark.slow  # many polls
def test_series_of_the_tables_are_what_is_counted(all_of_them: int) -> None:
    shown = Shown(all_of_them // 3)
    shown.poll(4)
    text = sum(one.count for one in shown.assessor.blocks.published.families.values())
    assert text == own.series(
        shown.assessor._shown(PollResult(Result.OK), dict.fromkeys(Result, 0))
    )
