"""A back-test with the agent's own rules says what the agent said, however the work is cut; other rules say else."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from conditions.scenarios import FAULTS, HEALTHY, arrivals, together
from conditions.world import START, Live, World
from history.polls import Judged, judged, recorded, write
from labelled import openmq
from labelled.recordings import HERE, lines
from penstock.cli import main
from penstock.config import load_rules
from penstock.history.store import Store
from penstock.model import Snapshot
from penstock.settings.policy import Policy
from penstock_demo.history import Fleet, generate
from penstock_trends import session
from penstock_trends.backtest import (
    BacktestError,
    BacktestPlan,
    BacktestResult,
    Episode,
    backtest,
)
from penstock_trends.judging import Span
from penstock_trends.rules import policies_of
from penstock_trends.wanted import Policies

RULES = "judgement: {cold: 45s, trend: 60s}\nrules:\n- {match: {queue: quiet}, silence: true}\n"
ARTEMIS = (
    "stuck-listener",
    "no-consumer",
    "ring-overflow",
    "reconnect-churn",
    "healthy",
)
OPENMQ = ("conn_flow_blocked", "uncommitted", "remove_oldest", "one_stuck_of_three")


def of_openmq(name: str) -> list[Snapshot]:
    samples = openmq.Samples()
    polls = openmq.without_the_run_before(lines(HERE / "openmq" / f"{name}.jsonl.gz"))
    return [samples.snapshot(line) for line in polls]


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Policies:
    file = tmp_path_factory.mktemp("rules") / "rules.yaml"
    file.write_text(RULES)
    return policies_of(load_rules(file))


def live(snapshots: list[Snapshot], policies: Policies, broker: str) -> list[Judged]:
    return list(judged(snapshots, replace(policies[""], broker=broker)))


@pytest.fixture(scope="module")
def recordings(policies: Policies, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """What an agent kept of some brokers: recordings of real ones."""
    directory = tmp_path_factory.mktemp("recorded")
    polls = {name: recorded(name) for name in ARTEMIS} | {
        name: of_openmq(name) for name in OPENMQ
    }
    for name, snapshots in polls.items():
        store = write(
            directory, live(snapshots, policies, name), interval=3.0, broker=name
        )
    return store


class Town(World):
    """Every fault and rhythm at once, each on a queue of its own; keeps what was polled."""

    def __init__(self, step: float) -> None:
        super().__init__(step)
        self.seen: list[Snapshot] = []

    def queue(self, name: str = "q", **options: Any) -> Any:
        return super().queue(f"{name}{len(self.queues)}", **options)

    def snapshot(self, *tables: Any) -> Snapshot:
        made = super().snapshot(*tables)
        self.seen.append(made)
        return made


def lunch(world: World) -> Live:
    """A client that takes nothing for the middle third of each hour."""
    queue = world.queue()
    consumer = queue.join(window=50)

    def live(_: float) -> None:
        queue.take(consumer)
        if not 1200 <= world.now % 3600 < 2400:
            queue.settle(consumer, 50)

    return together(arrivals(queue, 1), live)


@pytest.fixture(scope="module")
def town(policies: Policies, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """An hour and a half of a broker with some thirty queues."""
    world = Town(step=15.0)
    lives = [
        setup(world)
        for setup in (
            *(fault[0] for fault in FAULTS.values()),
            *[*HEALTHY.values()][:6],
            lunch,
        )
    ]
    world.run(5400.0, together(*lives), tick=5.0)
    return write(
        tmp_path_factory.mktemp("town"),
        live(world.seen, policies, "b"),
        interval=15.0,
        broker="b",
    )


def alike(found: list[Episode]) -> list[tuple[Any, ...]]:
    """Times to the millisecond, as history keeps them."""
    rows = [
        (
            e.broker,
            e.address,
            e.queue,
            e.client,
            e.condition,
            e.severity,
            round(e.begin, 3),
            round(e.end, 3),
            e.open,
        )
        for e in found
    ]
    return sorted(rows)


def test_it_says_what_the_agent_said(
    spark: Any, recordings: Store, policies: Policies
) -> None:
    found = backtest(spark, recordings, policies, BacktestPlan())
    assert alike(found.rules) == alike(found.agent)
    assert {one.broker for one in found.rules} == {*ARTEMIS, *OPENMQ} - {"healthy"}
    assert len({one.condition for one in found.rules}) >= 6
    assert set(found.polls) == {*ARTEMIS, *OPENMQ}
    assert found.polls["healthy"] == 40


@pytest.mark.parametrize(
    "plan",
    [BacktestPlan(), BacktestPlan(slice=1 / 48, warm_up=1e9, parts=2)],
    ids=["whole", "in slices, by address"],
)
@pytest.mark.nightly  # several back-tests
def test_however_the_work_is_cut_it_says_the_same(
    spark: Any, town: Store, policies: Policies, plan: BacktestPlan
) -> None:
    found = backtest(spark, town, policies, plan)
    assert alike(found.rules) == alike(found.agent)
    assert len({one.condition for one in found.rules}) >= 12
    assert found.polls == {"b": 360}


@pytest.mark.nightly  # several back-tests
def test_an_hour_of_warm_up_finds_the_same_conditions_on_the_same_queues(
    spark: Any, town: Store, policies: Policies
) -> None:
    def places(found: BacktestResult) -> set[tuple[str, str, str]]:
        return {
            (e.queue, e.client, e.condition)
            for e in found.rules
            if e.severity != "info"
        }

    late = Span(START + 4500, np.inf)
    all_known, some = (
        places(backtest(spark, town, policies, BacktestPlan(late, hours)))
        for hours in (1e9, 3600.0)
    )
    assert len(some) >= 10
    # Whether a queue was ever read may rest on what lies further back.
    assert {place[2] for place in all_known ^ some} <= {"no_consumer"}


@pytest.mark.nightly  # a back-test
def test_other_rules_say_else(
    spark: Any, recordings: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "spark_session", lambda _: spark)
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES + "- {match: {client: '*'}, patience: 1h}\n")
    options = ["trends", "backtest", "--history", recordings.url, "--rules", str(rules)]
    ran = CliRunner().invoke(
        main, [*options, "--format", "json"], catch_exceptions=False
    )
    told = json.loads(ran.stdout)
    by_name = {line["condition"]: line for line in told["conditions"]}
    assert by_name["stalled"]["times"] == 0 < by_name["stalled"]["then"]
    assert by_name["no_consumer"]["times"] == by_name["no_consumer"]["then"] > 0
    text = CliRunner().invoke(main, options, catch_exceptions=False).stdout
    assert "polls of 9 brokers evaluated" in text
    assert "no_consumer: " in text


def test_what_cannot_be_done_is_said(
    spark: Any, recordings: Store, policies: Policies, tmp_path: Path
) -> None:
    with pytest.raises(BacktestError, match="holds no polls of this time"):
        backtest(spark, recordings, policies, BacktestPlan(Span(0, 1)))
    with pytest.raises(BacktestError, match="holds no polls"):
        backtest(
            spark, Store(str(tmp_path / "nothing")), {"": Policy("")}, BacktestPlan()
        )
    generate(
        Store(str(tmp_path / "imagined")),
        Fleet(brokers=1, queues=2, days=1, interval=900),
    )
    with pytest.raises(BacktestError, match="were imported"):
        backtest(
            spark, Store(str(tmp_path / "imagined")), {"": Policy("")}, BacktestPlan()
        )
    bad = tmp_path / "bad.yaml"
    bad.write_text("rulez: []\n")
    ran = CliRunner().invoke(
        main, ["trends", "backtest", "--history", recordings.url, "--rules", str(bad)]
    )
    assert ran.exit_code == 2
    assert "bad.yaml:1: rulez: unknown key; did you mean rules?" in ran.output
