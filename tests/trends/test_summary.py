"""Page 1: what a manager sees, from facts made by hand."""

import re
from typing import Any

import numpy as np
import pytest

from penstock.core.errors import PenstockError
from penstock.settings.policy import Policy
from penstock.settings.rules import Match, Rule, Rules, RuleSettings
from penstock_trends.analysis import cleaned, limit_facts
from penstock_trends.report import pages
from penstock_trends.summary import headline, risks, summary
from penstock_trends.wanted import Wanted
from penstock_trends.wording import UNKNOWN, signed
from trends.test_unseen import facts_of

HOUR = 3600
NAMES = {"broker": "b", "address": "a", "queue": "q", "owner": "checkout"}


def broker(name: str, days: float, hours: int = 1440) -> dict[str, Any]:
    """One whose disk is full in so many days; 0: it is full."""
    level = 0.9 - 0.0002 * (days * 24 - 6 * (days == 0) + np.arange(float(hours))[::-1])
    limits = {
        "disk": limit_facts(level, 0.9, 0, hours * HOUR),
        "memory": limit_facts(level * 0 + 0.1, 0.9, 0, 0),
    }
    numbers = {
        "coverage": 1.0,
        "missing_hours": 0,
        "restarts": 0,
        "sid": 1 + int(days),
        "owner": f"team {name}",
    }
    made: dict[str, Any] = cleaned({"broker": name, "limits": limits, **numbers})
    return made


def facts(**more: Any) -> dict[str, Any]:
    return facts_of([None] * 168) | more


@pytest.mark.slow  # reads an imagined history
def test_risks_are_dated_and_the_first_comes_first() -> None:
    brokers = [
        broker("far", 60),
        broker("near", 5),
        broker("soon", 20),
        broker("full", 0),
        broker("never", 900),
    ]
    address = {
        "broker": "b",
        "address": "a",
        "limit_name": "bytes",
        "owner": "x",
        "state": "rising",
        "limit": 100.0,
    }
    address |= {
        "level": 90.0,
        "slope": 1.0,
        "days": 10.0,
        "low": 9.0,
        "high": 11.0,
        "now": 0.0,
    }
    found = risks(facts(brokers=brokers, addresses=[address]))
    assert [(one["severity"], one["what"], one["owner"]) for one in found] == [
        ("critical", "disk of full", "team full"), ("critical", "disk of near", "team near"),
        ("warning", "bytes of a on b", "x"), ("warning", "disk of soon", "team soon"),
        ("notice", "disk of far", "team far"),
    ]  # fmt: skip
    assert found[0]["when"] == "is at its limit now"
    assert found[1]["when"].startswith("reaches its limit about 7 Mar 1970 (between ")
    assert (
        found[2]["when"]
        == "reaches its limit about 11 Jan 1970 (between 10 Jan 1970 and 12 Jan 1970)"
    )
    # 150 at 1 a day from 90: 60 days
    assert found[2]["do"].endswith(
        "50 % more would last until about 2 Mar 1970 at the present rate."
    )


def queue(
    ring_retention: float | None = None, drain_target: float | None = None, **more: Any
) -> dict[str, Any]:
    numbers = {
        "ring": 600.0,
        "busiest_rate": 20.0,
        "consumers": 2.0,
        "messages": {"p95": 3000.0},
        "pace": {"rate": 2.5},
    }
    return (
        NAMES
        | numbers
        | {"targets": {"ring_retention": ring_retention, "drain_target": drain_target}}
        | more
    )


def test_targets_that_are_missed_are_risks() -> None:
    """A ring of 600 covers 30 s at 20 a second; two consumers at 2.5 a second take 10 minutes for 3,000."""
    brokers = [broker("near", 5), broker("far", 60)]
    found = risks(facts(brokers=brokers, queues=[queue(60.0, 300.0)]))
    assert [
        (one["severity"], one["what"], one["when"], one["owner"]) for one in found[1:3]
    ] == [
        (
            "warning",
            "backlog of q on b",
            "(3,000 messages) takes 10 min at least, 5 min is the target",
            "checkout",
        ),
        (
            "warning",
            "ring of q on b",
            "covers 30 s in its busiest hours, 1 min is the target",
            "checkout",
        ),
    ]
    assert [one["what"] for one in (found[0], found[3])] == [
        "disk of near",
        "disk of far",
    ]
    assert found[2]["do"] == "Give it a ring of 1,200 messages."


@pytest.mark.parametrize(
    "quiet",
    [
        queue(30.0, 600.0),  # just met
        queue(),  # nobody said one
        queue(60.0, 300.0, busiest_rate=None, pace={"rate": None}),  # not known
        queue(60.0, 300.0, busiest_rate=0.0, messages={"p95": 0.0}, consumers=0.0),
        queue(60.0, None, ring=None),
    ],
)
def test_targets_that_are_met_or_not_known_are_none(quiet: dict[str, Any]) -> None:
    assert risks(facts(queues=[quiet])) == []


def test_the_headline_is_one_sentence_of_what_matters() -> None:
    flow = {"target": 0.9995, "queues": 12, "missed": 2, "worst": []}
    week = {"lost": 1234, "added": 10, "conditions": 0, "seconds": 0}
    said = headline(
        facts(flow=flow, periods={"week": week}),
        [{"what": "disk of b", "when": "is at its limit now"}],
        [],
    )
    assert said == (
        "The disk of b is at its limit now; 1,234 messages were lost in the last seven days;"
        " 2 of 12 queues missed the flow target of 99.95 %."
    )
    healthy = headline(
        facts(flow=flow | {"missed": 0}, periods={"week": week | {"lost": 0}}), [], []
    )
    assert healthy == (
        "No limit is known to be met within 90 days; no message is known to be lost in the last seven days;"
        " all 12 queues met the flow target of 99.95 %."
    )


def test_changes_are_told_only_of_what_the_history_holds() -> None:
    now = {"added": 150.0, "lost": 5, "conditions": 2, "seconds": 60.0, "hours": 168}
    before = {
        "added": 100.0,
        "lost": 0,
        "conditions": 4,
        "seconds": 120.0,
        "hours": 168,
    }
    rows = {
        row["name"]: row
        for row in summary(facts(periods={"week": now, "week before": before}), [])[
            "changes"
        ]
    }
    assert rows["Messages added"]["week"] == {
        "now": 150.0,
        "before": 100.0,
        "change": 0.5,
    }
    assert rows["Messages lost"]["week"]["change"] is None, (
        "of nothing before there is no share"
    )
    assert rows["Messages added"]["month"] == {
        "now": None,
        "before": None,
        "change": None,
    }
    assert summary(facts(), [])["changes"] == []
    half = summary(
        facts(periods={"week": now, "week before": before | {"hours": 84}}), []
    )["changes"]
    assert {row["week"]["change"] for row in half} == {None}, (
        "what was seen half as long is no less"
    )
    assert (signed(0.5), signed(-0.1), signed(51.4), signed(None)) == (
        "+50.0 %",
        "-10.0 %",
        "52 times",
        UNKNOWN,
    )
    assert signed(-0.0001) == "+0.0 %", "no minus zero"


@pytest.mark.slow  # reads an imagined history
def test_queues_below_the_target_are_shown_with_the_budget_that_they_used() -> None:
    row = NAMES | {
        "seen": 100_000.0,
        "without_flow": 250.0,
        "availability": 0.9975,
        "budget": 2.5,
    }
    page = pages(
        facts(flow={"target": 0.999, "queues": 3, "missed": 1, "worst": [row]})
    )["report.html"]
    cells = re.findall(
        r"<td[^>]*>(.*?)</td>",
        next(line for line in page.splitlines() if "99.750 %" in line),
    )
    assert cells == ["q", "b", "99.750 %", "4 min 10 s", "250 %", "checkout"]
    none = {"target": 1.0, "queues": 3, "missed": 1, "worst": [row | {"budget": None}]}
    assert (
        '<td class="n">\N{EN DASH}</td><td>checkout</td>'
        in pages(facts(flow=none))["report.html"]
    )


def test_an_owner_is_who_the_rules_say() -> None:
    rules = Rules((
        Rule(Match(queue="orders.#"), RuleSettings(team="checkout", owner="anna")),
        Rule(Match(broker="b1"), RuleSettings(team="platform")),
        Rule(Match(client="reader"), RuleSettings(owner="ben")),
    ))  # fmt: skip
    wanted = Wanted({"": Policy("", rules=rules)})
    assert (
        wanted.owner({"broker": "b1", "address": "orders.eu", "queue": "orders.eu"})
        == "checkout, anna"
    )
    assert wanted.owner({"broker": "b1"}) == "platform"
    assert (
        wanted.owner({"broker": "b2", "address": "a", "queue": "a", "client": "reader"})
        == "ben"
    )
    assert (
        wanted.owner({"broker": "b2", "address": "a", "queue": "a", "client": ""}) == ""
    )
    assert Wanted().owner(NAMES) == ""


def test_targets_are_those_of_the_rules() -> None:
    wanted = Wanted(
        {
            "": Policy(
                "",
                rules=Rules(
                    (Rule(Match(queue="q"), RuleSettings(ring_retention=60.0)),)
                ),
            )
        }
    )
    assert wanted.targets(NAMES) == {"ring_retention": 60.0, "drain_target": None}
    assert wanted.targets(NAMES | {"queue": "other"}) == {
        "ring_retention": None,
        "drain_target": None,
    }


@pytest.mark.slow  # of 500 brokers
def test_five_hundred_brokers_fit() -> None:
    one = broker("b", 10)
    brokers = [
        one | {"broker": f"broker-{number}", "sid": number} for number in range(500)
    ]
    made = pages(facts(brokers=brokers))
    assert len(made) == 501
    assert max(map(len, made.values())) < 5_000_000 / 10
    assert made["report.html"].count("<svg") <= 7


def test_facts_of_another_version_are_refused() -> None:
    with pytest.raises(PenstockError, match="run `penstock trends run` again"):
        pages({"queues": []})
