"""Limit and resume level as measured from outside, on recordings whose clients told the truth, and by simulation."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from penstock.core.table import Index
from penstock.findings.limits import resume_level
from penstock.observation.flow_window import WindowEstimate

RECORDINGS = Path(__file__).parents[1] / "recordings" / "judged" / "openmq"


def estimated(prefetch: list[tuple[float, float, bool]]) -> tuple[float, float]:
    """Of one consumer: delivered, held and paused at each poll."""
    index: Index[str] = Index.of(["c"])
    estimate = WindowEstimate()
    for delivered, held, paused in prefetch:
        estimate = estimate.advance(
            index, np.array([delivered]), np.array([held]), np.array([paused])
        )
    limit, resume = estimate.limits()
    return float(limit[0]), float(resume[0])


@pytest.mark.parametrize(
    "name", ["healthy_backlog", "durable_slow", "flow_control_slow"]
)
def test_recordings_whose_client_said_its_limit(name: str) -> None:
    """The consumer that works, by what it held and what the client itself said of its limit and threshold."""
    with gzip.open(RECORDINGS / f"{name}.jsonl.gz", "rt") as file:
        lines = [json.loads(line) for line in file]
    told = [
        one
        for line in lines
        if line["kind"] == "truth"
        for one in line.get("consumers", ())
        if "max" in one
    ]
    seen: dict[str, list[tuple[float, float, bool]]] = {}
    for line in lines:
        if line["kind"] == "sample":
            for row in (*line["consumers"], *line.get("children", ())):
                sighting = (
                    row["NumMsgs"],
                    row["NumMsgsPendingAcks"],
                    row["FlowPaused"],
                )
                seen.setdefault(row["ConsumerID"], []).append(sighting)
    found = {pair for pair in map(estimated, seen.values()) if not np.isnan(pair[0])}
    assert found == {(float(told[-1]["max"]), float(told[-1]["thr"]))}


@pytest.mark.parametrize(
    ("limit", "threshold"),
    [(1000, 50), (100, 50), (100, 10), (10, 50), (5, 50), (40, 90)],
)
def test_a_simulated_slow_consumer(limit: int, threshold: int) -> None:
    resume = resume_level(limit, threshold)
    generator = np.random.default_rng(limit)
    delivered = limit
    buffered = limit
    prefetch = []
    for _ in range(400):
        buffered -= 1
        if buffered <= resume:
            delivered = delivered + limit - buffered
            buffered = limit
        if generator.random() < 0.1:
            prefetch.append((float(delivered), float(buffered), True))
    # until enough pauses were seen
    prefetch += [
        (float(delivered + i * (limit - resume)), float(limit), True)
        for i in range(1, 7)
    ]
    assert estimated(prefetch) == (limit, resume)


def test_never_paused_or_fast_gives_no_estimate() -> None:
    assert np.isnan(estimated([(100.0 * i, 5.0, False) for i in range(20)])).all()
    assert np.isnan(
        estimated(
            [(37.0 * i * i + 3 * i, 5.0, True) for i in range(20)]
            + [(99_999.0, 5.0, True)]
        )
    ).all()
