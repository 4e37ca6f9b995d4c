"""Limits of OpenMQ's flow control as they are measured from its pauses, and as explain tells them."""

from typing import Any

import numpy as np
import pytest

from conditions.openmq_world import OpenmqJudged, openmq
from penstock.insight.flow_control import connections_of, flow_of
from penstock.settings.rules import Match, Rule, Rules
from penstock.settings.rules import RuleSettings as Says

# --- what is shown beside the conditions


@pytest.mark.slow  # many polls
def test_limit_and_resume_level_are_measured_between_pauses() -> None:
    """Limit 1000 at 50 %: a slow consumer, paused at each poll, of which some see two windows more."""
    world = openmq()
    windows = np.cumsum([0, 1, 1, 2, 1, 1, 3, 1])
    for i, count in enumerate(windows.tolist()):
        world.poll(
            {"q": {"A": 50_000, "K": 500 * count, "M": 50_000 - 500 * count, "D": 700}},
            {
                "c": {
                    "N": 1000 + 500 * count,
                    "T": 700 + 30 * i,
                    "L": world.now + 10,
                    "flow_paused": 1,
                }
            },
        )
    table = world.tables["consumer"]
    assert (table["flow_limit"].tolist(), table["flow_resume"].tolist()) == (
        [1000.0],
        [500.0],
    )


def paused_at_each_poll(polls: int) -> OpenmqJudged:
    """A consumer of which each poll sees one window more."""
    world = openmq()
    for i in range(polls):
        world.poll(
            {"q": {"A": 50_000, "K": 500 * i, "M": 50_000 - 500 * i, "D": 700}},
            {
                "c": {
                    "N": 1000 + 500 * i,
                    "T": 700,
                    "L": world.now + 10,
                    "flow_paused": 1,
                }
            },
        )
    return world


def test_limits_are_absent_while_too_little_was_seen() -> None:
    world = paused_at_each_poll(5)
    assert np.isnan(world.tables["consumer"]["flow_limit"]).all()


def test_explain_shows_the_arithmetic_of_what_is_measured() -> None:
    world = paused_at_each_poll(8)
    (series,) = world.tables["queue"].index
    (flow,) = flow_of(world.state.judgement, world.tables["consumer"], series)
    assert (flow.limit, flow.resume, flow.batch, flow.paused) == (
        1000,
        500,
        (500, 1000),
        True,
    )
    assert (
        "buffers 700, above its resume level; stops at 1,000, asks again at 500 (50%) for 500 to 1,000"
        in flow.told
    )


@pytest.mark.parametrize("limit", [200, None])
def test_explain_sums_what_a_connection_holds_against_the_limit_that_a_rule_tells(
    limit: int | None,
) -> None:
    world = openmq()
    consumers: dict[str, dict[str, Any]] = {
        "a": {"N": 250, "T": 250, "connection": 7},
        "b": {"queue": "p", "N": 49, "T": 49, "connection": 7},
        "c": {"N": 9, "T": 9, "connection": 8, "client": "other"},
    }
    rules = Rules((Rule(Match(client="app"), Says(connection_flow_limit=limit)),))
    queues = {"q": {"M": 500, "D": 259}, "p": {"M": 49, "D": 49}}
    series = next(
        row
        for row in world.poll(queues, consumers).tables["queue"].index
        if row.queue == "q"
    )
    found = connections_of(world.snapshot(queues, consumers, {}), rules, series)
    assert [(one.client, one.held, one.limit) for one in found] == (
        [("app", 299, 200)] if limit else []
    )
    if limit:
        assert "goes on at 199" in found[0].told
        assert "299 at most. Most are with consumer a of q: 250" in found[0].told
