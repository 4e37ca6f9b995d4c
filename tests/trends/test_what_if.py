"""Replays of polls beside a queue that is run second by second."""

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from bench.truths import Second
from click.testing import CliRunner

from penstock.cli import main as cli
from penstock.history.compact import read
from penstock.history.schema import QUEUE
from penstock.history.store import Store
from penstock_demo.history import Truth
from penstock_trends import advice
from penstock_trends.what_if import (
    Setting,
    Steps,
    better_consumers,
    better_ring,
    replay,
    steps,
)

DAYS = 2
RANDOM = np.random.default_rng(8)
AT = np.arange(DAYS * 86400)


def world(came: Any, able: Any) -> Second:
    return Second(
        RANDOM.poisson(np.broadcast_to(came, AT.shape)),
        RANDOM.poisson(np.broadcast_to(able, AT.shape)),
    )


STALLS = world(1.0, np.where(AT % 20_000 < 1500, 0.0, 2.0))
OVERLOAD = world(2.0, 1.5)


def polls(of: Second, ring: float, every: int = 60) -> Steps:
    _, added, left, depth = of.run(ring)
    at = np.arange(0, len(added), every)
    return steps(
        at.astype(float), np.zeros(len(at), np.int64), added[at], left[at], depth[at]
    )


@pytest.mark.slow  # long courses
@pytest.mark.parametrize("ring", [200, 800, 3000])
def test_another_ring_loses_what_it_would_have_lost(ring: int) -> None:
    of = polls(STALLS, 400)
    assert (
        abs(replay(of, Setting(ring=ring)).lost - STALLS.run(ring)[0])
        <= 0.01 * of.came.sum()
    )


@pytest.mark.slow  # long courses
def test_advice_is_a_ring_that_keeps_what_it_says() -> None:
    found = better_ring(polls(STALLS, 400), 400)
    assert found is not None
    assert found.setting is not None
    assert 1400 <= found.setting.ring <= 2200
    assert found.now.lost > 1000
    assert STALLS.run(found.setting.ring)[0] <= 0.002 * found.now.came


@pytest.mark.slow  # long courses
def test_no_ring_is_advised_where_none_helps_or_none_is_needed() -> None:
    found = better_ring(polls(OVERLOAD, 400), 400)
    assert found is not None
    assert found.setting is None
    assert better_ring(polls(STALLS, 5000), 5000) is None
    latest = world(0.2, 0.0)
    kept = better_ring(polls(latest, 3), 3)
    assert kept is not None
    assert kept.setting is None, "a ring that is there to keep the last three"


def test_limits_by_policy() -> None:
    of = polls(STALLS, np.inf)
    dropped = replay(of, Setting(limit=500))
    assert dropped.lost == replay(of, Setting(ring=500)).lost > 0
    blocked = replay(of, Setting(limit=500, policy="block"))
    assert (blocked.lost, blocked.peak) == (0, 500)
    assert blocked.waited > 0
    paged = replay(of, Setting(limit=500, policy="page"))
    assert paged.peak == paged.paged + 500
    assert 0 < paged.paging < DAYS * 86400


@pytest.mark.slow  # long courses
def test_more_consumers_shorten_the_backlog() -> None:
    of = polls(OVERLOAD, np.inf)
    found = better_consumers(of, 4, 900.0)
    assert found is not None
    assert found.setting is not None
    assert found.setting.consumers * 4 in (6, 7, 8), (
        "2.0 come, four take 1.5: the first that is enough"
    )
    faster = Second(
        OVERLOAD.came, RANDOM.poisson(np.full(len(AT), 1.5 * found.setting.consumers))
    )
    assert faster.run(np.inf)[3].max() == pytest.approx(found.outcome.peak, abs=300)
    assert better_consumers(polls(world(0.5, 2.0), np.inf), 4, 900.0) is None


def test_more_traffic_than_the_consumers_take_piles_up() -> None:
    of = polls(
        world(1.0, np.where(AT % 20_000 < 1500, 0.0, 1.5)), np.inf
    )  # 1.39 on average
    assert replay(of, Setting(traffic=1.1)).left < 3000
    assert replay(of, Setting(traffic=2.0)).left == pytest.approx(
        0.61 * DAYS * 86400, rel=0.1
    )


def test_restarts_and_gaps_are_not_replayed() -> None:
    stamp = np.arange(0, 600, 60.0)
    added = stamp / 6
    left = stamp / 10
    messages = stamp / 15
    lives = np.where(stamp < 300, 1, 2)
    found = steps(stamp, lives, added, left, messages)
    assert len(found.came) == 8
    assert found.depth[4] == messages[5], (
        "it goes on from what the first poll of the new life said"
    )
    gap = steps(
        np.where(stamp >= 300, stamp + 9000, stamp),
        np.ones(10, np.int64),
        added,
        left,
        messages,
    )
    assert len(gap.came) == 8
    assert gap.days == pytest.approx(480 / 86400)
    order = RANDOM.permutation(10)
    mixed = steps(
        stamp[order], lives[order], added[order], left[order], messages[order]
    )
    assert replay(mixed, Setting()) == replay(found, Setting())
    unsaid = steps(stamp, lives, np.where(stamp == 120, np.nan, added), left, messages)
    assert unsaid.came.sum() == found.came.sum()


def test_nothing_known_is_no_step() -> None:
    none = steps(
        np.empty(0), np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0)
    )
    assert none.days == 0
    assert replay(none, Setting()).came == 0
    one = replace(
        none,
        seconds=np.array([60.0]),
        came=np.array([5.0]),
        able=np.array([2.0]),
        depth=np.array([1.0]),
    )
    assert replay(one, Setting()).left == 4


@pytest.mark.slow  # replays what an agent kept
def test_the_command_replays_what_the_agent_kept(fleet: tuple[Store, Truth]) -> None:
    polls = read(fleet[0], [e.path for e in fleet[0].files("raw/kind=queue")], QUEUE)
    table = polls.filter(pc.equal(polls["ring_limit"], 5000))
    queue, broker = (table[name][0].as_py() for name in ("queue", "broker"))
    mine = table.filter(pc.equal(table["broker"].cast("string"), broker))
    asked = [
        "trends",
        "what-if",
        "--history",
        fleet[0].url,
        "--broker",
        broker,
        "--queue",
        queue,
    ]
    found = CliRunner().invoke(cli, [*asked, "--ring", "1", "--format", "json"])
    assert found.exit_code == 0, found.output
    said = json.loads(found.output)
    assert 3 < said["days"] < 4.01
    lost = pc.sum(mine["evicted"]).as_py()
    assert (said["as it was"]["lost"] > 0) == (lost > 0)
    assert said["as asked"]["lost"] >= said["as it was"]["lost"]
    text = (
        CliRunner()
        .invoke(cli, [*asked, "--limit", "5", "--policy", "page", "--traffic", "50"])
        .output
    )
    assert re.search(
        r"as asked: [\d,]+ of [\d,]+ messages lost, at most [\d,]+ in the queue, longest backlog",
        text,
    )
    wrong = CliRunner().invoke(cli, [*asked[:-1], "no.such"])
    assert wrong.exit_code == 1
    assert "has no polls of the queue no.such" in wrong.output
    assert "Traceback" not in wrong.output


@pytest.mark.slow  # long courses
def test_a_queue_without_traffic_is_replayed_too(
    fleet: tuple[Store, Truth], monkeypatch: pytest.MonkeyPatch
) -> None:
    still = {name: np.zeros(99) for name in (*advice.NUMBERS, "sid", "inc")} | {
        "stamp": 60.0 * np.arange(99)
    }
    monkeypatch.setattr(advice, "polls_of", lambda *_: still)
    asked = [
        "trends",
        "what-if",
        "--history",
        fleet[0].url,
        "--broker",
        "b",
        "--queue",
        "q",
        "--ring",
        "10",
    ]
    found = CliRunner().invoke(cli, asked)
    assert found.exit_code == 0, found.exception
    assert "as asked: 0 of 0 messages lost" in found.output
