"""A handful of scenarios at once, with a short patience: that the benchmark works, and that these are judged right."""

from pathlib import Path

import pytest

from flowbench import advice, openmq, rivals
from flowbench.bench import Result, Run, beside, confusion, play, summary
from flowbench.scene import SCENARIOS
from flowbench.soak import alarms
from incidents.test_chains import blocked_in_send
from penstock.causes.verdict import CauseState, Verdict
from penstock.conditions.catalogue import on
from penstock.insight.events import Change, Event

LIVE = (
    "one-of-four-wedged",
    "no-consumer",
    "selector-matches-nothing",
    "paused-queue",
    "ring-loss-by-close",
    "rollback-loop",
    "consumer-per-message",
    "exclusive-standby",
    "reply-queue",
    "agent-restart",
)


@pytest.mark.broker
@pytest.mark.nightly  # a minute; recorded and generated situations judge the same rules by day
def test_labelled_situations(tmp_path: Path) -> None:
    run = Run(seed=7, interval=1.0, seconds=65.0, cold=30.0, start=5.0)
    results = play([SCENARIOS[name] for name in LIVE], run, tmp_path)
    told = "\n".join(result.line() for result in results)
    assert [result.name for result in results if not result.counts] == [], told
    assert [
        result.name for result in results if result.missing or result.wrong
    ] == [], told
    files = sorted((tmp_path / "agent").glob("*.jsonl.gz"))
    found = rivals.rival_alarms(files)
    finds = {name: {alarm.queue for alarm in all_of} for name, all_of in found.items()}
    wedged = results[0].queues[0]
    looping = results[5].queues[0]
    # The others of the pool go on acknowledging, a loop acknowledges nothing.
    assert wedged not in finds["acknowledgements flat for 60 s"]
    assert looping in finds["Burrow's rules"]


def test_the_true_causes_of_each_fault_are_known_by_the_names_that_conditions_have() -> (
    None
):
    needed = {
        name: set(one.label.need) - {"link_down"} for name, one in SCENARIOS.items()
    }
    assert {name for name, need in needed.items() if need} == set(advice.ARTEMIS)
    assert {one.name for one in openmq.FAULTS} == set(advice.OPENMQ)
    of_openmq = {
        one.name: {name for group in one.need for name in group}
        for one in openmq.FAULTS
    }
    for kind, causes, need in (
        ("artemis", advice.ARTEMIS, needed),
        ("openmq", advice.OPENMQ, of_openmq),
    ):
        for name, true in causes.items():
            known = {
                cause
                for condition in need[name]
                for cause in on(kind, condition).causes
            }
            assert set(true.split()) <= known, name


@pytest.mark.slow  # many polls
def test_a_cause_that_is_decided_wrongly_and_a_wrong_advice_count() -> None:
    scene = blocked_in_send()
    snapshot = scene.snapshot(scene.queues, scene.consumers, scene.addresses)
    (one,) = (one for one in scene.conditions if one.name == "stalled")

    def said(true: str, **verdicts: CauseState) -> list[str]:
        active = one._replace(
            verdicts={name: Verdict(state) for name, state in verdicts.items()}
        )
        return [
            *advice.wrong_causes(active, [true]),
            *advice.wrong_actions(active, snapshot, scene.state, [true]),
        ]

    assert said("blocked_in_send", blocked_in_send=CauseState.PROVEN) == []
    untrue = said(
        "frozen", frozen=CauseState.EXCLUDED, blocked_in_send=CauseState.PROVEN
    )
    assert untrue[:2] == [
        "frozen is true and excluded",
        "blocked_in_send is proven and not true",
    ]
    assert said("no_such_cause")[0] == "no_such_cause: no cause of it"


def result(**said: object) -> Result:
    values = {
        "name": "x",
        "need": ("stalled",),
        "queues": ["q"],
        "begin": 100.0,
        **said,
    }
    return Result(**values)  # type: ignore[arg-type]


def test_a_run_that_did_not_come_about_counts_neither_way() -> None:
    results = [
        result(untrue=["nothing waits"], missing=["stalled"]),
        result(seconds={"stalled": 3.0}),
    ]
    told = summary(results, Run(1, 5.0, 400.0))
    assert (told["scenarios"], told["counted"], told["right"], told["not_counted"]) == (
        2,
        1,
        1,
        ["x"],
    )
    assert confusion(results)[-1] == "| stalled | 1 |"


def test_what_is_told_wrongly_is_beside_what_was_there() -> None:
    results = [
        result(missing=["stalled"], wrong=["hoarding (warning)"]),
        result(need=(), wrong=["paused (warning)"]),
    ]
    assert confusion(results)[2:] == ["| stalled | 1 | · |", "| healthy | · | 1 |"]
    assert [one.right for one in results] == [False, False]


def test_a_rule_in_use_finds_a_fault_only_after_its_begin() -> None:
    before = rivals.Alarm("q", 99.0)
    after = rivals.Alarm("q", 101.0)
    lines = beside([result()], {"early": [before], "late": [after]})
    assert [line.split("|")[2].strip() for line in lines[3:]] == ["0 of 1", "1 of 1"]


def sample(
    at: float, lag: float, settled: float, rates: tuple[float, ...] = ()
) -> rivals.Sample:
    return rivals.Sample(at, lag, settled, settled + lag, rates)


@pytest.mark.parametrize(
    ("lags", "settled", "alarms"),
    [
        ([5] * 10, [0] * 10, True),
        ([5] * 9, [0] * 9, False),
        ([5] * 9 + [0], [0] * 10, False),
        ([*range(5, 15)], [*range(10)], True),
        ([9, 8, *[9] * 8], [*range(10)], False),
    ],
)
def test_burrow(lags: list[float], settled: list[float], alarms: bool) -> None:
    samples = [
        sample(5.0 * n, lag, acked)
        for n, (lag, acked) in enumerate(zip(lags, settled, strict=True))
    ]
    assert rivals.burrow(samples) is alarms


@pytest.mark.parametrize(("last", "alarms"), [(60.0, True), (50.0, False)])
def test_acknowledgements_flat(last: float, alarms: bool) -> None:
    assert (
        rivals.acks_flat([sample(0, 1, 7), sample(last / 2, 2, 7), sample(last, 3, 7)])
        is alarms
    )
    assert not rivals.acks_flat([sample(0, 1, 7), sample(last, 3, 8)])


@pytest.mark.parametrize(
    ("lag", "rates", "alarms"),
    [
        (9, (0.5,), True),
        (9, (1.0,), False),
        (1, (0.5, 2.0), False),
        (9, (0.5, 2.0), True),
    ],
)
def test_slow_consumer(lag: float, rates: tuple[float, ...], alarms: bool) -> None:
    assert (
        rivals.slow_consumer([sample(0, lag, 0), sample(60, lag, 0, rates)]) is alarms
    )


@pytest.mark.parametrize(
    ("growth", "alarms"), [(1.0, True), (0.0, False), (-1.0, False)]
)
def test_backlog_growing(growth: float, alarms: bool) -> None:
    samples = [sample(5.0 * n, 500 + growth * n, 0) for n in range(80)]
    assert rivals.lag_growing(samples) is alarms
    assert not rivals.lag_growing(samples[:50])


def test_the_first_cycles_of_a_batch_are_apart() -> None:
    def told(queue: str, at: float, severity: str = "warning") -> Event:
        return Event(
            at,
            Change.CONDITION_ON,
            queue=queue,
            condition="no_consumer",
            severity=severity,
        )

    events = [
        told("a.batch-10min", 1810),
        told("a.batch-10min", 1900),
        told("b.steady-1", 5),
        told("c", 5, "info"),
    ]
    assert list(alarms(events, began=0.0)) == [events[1], events[2]]
