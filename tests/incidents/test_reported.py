"""What is reported of a group of conditions, and how an incident goes on from poll to poll: one step at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conditions.inputs import changed
from conditions.pairs import NOW, with_values
from incidents.made import condition, symptoms, town
from penstock.causes.verdict import AGAINST, CauseState
from penstock.conditions.condition import Severity
from penstock.conditions.wording import RAISE_LIMIT, Cause
from penstock.core.table import Index, Table
from penstock.incidents import incidents
from penstock.incidents.incident import SHOWN, Group, Incident, key_of
from penstock.incidents.incidents import KEPT, MISSED, MOST, Incidents
from penstock.incidents.incidents import changed as changes_near
from penstock.incidents.symptoms import RECENT, Noted, Sending
from penstock.model import ConnectionRow, LinkRow, Takeover
from penstock.observation.poll import RuleInputs
from penstock.series.clock import JITTER_SECONDS


def group(*own: Any, **fields: Any) -> Group:
    return Group("stalled", "app", NOW, own=[*own], **fields)


STALLED = condition("stalled", "p", "app")
BEHIND = condition("falling_behind", "p")

# --- how many, and in which words


@pytest.mark.parametrize(
    ("own", "victims", "blocked", "size"),
    [
        ([STALLED], [], [], 1),
        ([STALLED, STALLED], [], [], 1),
        ([STALLED], [BEHIND], [], 2),
        ([STALLED], [BEHIND, condition("falling_behind", "q")], [], 3),
        ([STALLED, condition("stalled", "p", "other")], [], [], 2),
        ([STALLED], [condition("rejecting", "p"), condition("rejecting", "q")], [], 2),
        ([STALLED], [], ["app", "other", "other"], 2),
    ],
)
def test_what_is_of_an_address_counts_once(
    own: list[Any], victims: list[Any], blocked: list[str], size: int
) -> None:
    assert incidents.size_of(group(*own, victims=victims, blocked=blocked)) == size


@pytest.mark.parametrize(
    ("name", "facts", "text"),
    [
        (
            "no_consumer",
            {},
            " (messages wait or expire unread, and the queue has no consumer)",
        ),
        ("no_consumer", {"unread": "p"}, ""),
        (
            "falling_behind",
            {"unread": "p"},
            " (more messages come than the consumers process)",
        ),
    ],
)
def test_what_is_wrong_with_a_victim_unless_the_impact_says_it(
    name: str, facts: dict[str, str], text: str
) -> None:
    assert incidents.problem_of(condition(name, "p"), group(facts=facts)) == text


def test_only_sentences_of_which_all_is_known() -> None:
    templates = ["{object} is full.", "{who} waits.", "{raise_limit}"]
    facts = {"object": "a", "address": "a", "used": "5 bytes"}
    advice = RAISE_LIMIT.format(address="a", used="5 bytes")
    assert incidents.sentences(templates, facts) == ["a is full.", advice]


def test_only_causes_of_which_all_is_known() -> None:
    texts = {
        "crash": ["proven", "{object} crashed", "see its log"],
        "stop": ["possible", "{who} stopped it"],
    }
    assert [*incidents.causes_of(texts, {"object": "app"})] == [
        Cause("crash", CauseState.PROVEN, "app crashed", "see its log")
    ]


LOGIN = Cause(
    "login_refused", CauseState.POSSIBLE, "a login was refused", "3 since the start"
)
OTHER = Cause("stop", CauseState.POSSIBLE, "it was stopped", "a stop")


@pytest.mark.parametrize(
    ("logins", "time", "names", "fact"),
    [
        (2.0, NOW, ["login_refused", "stop"], "refused logins since it left: 2"),
        (
            2.0,
            NOW - town().found.interval,
            ["login_refused", "stop"],
            "refused logins since it left: 2",
        ),
        (
            2.0,
            NOW - 100,
            ["stop", "login_refused"],
            f"{AGAINST}none was refused since it left",
        ),
        (
            0.0,
            NOW,
            ["stop", "login_refused"],
            f"{AGAINST}none was refused since it left",
        ),
    ],
)
def test_logins_that_were_refused_since_a_consumer_left(
    logins: float, time: float, names: list[str], fact: str
) -> None:
    changes = (Noted(time, "refused", logins=logins), Noted(NOW, "came"))
    causes = incidents.since_it_left(
        [OTHER, LOGIN], symptoms(town(), changes=changes), NOW
    )
    assert [cause.name for cause in causes] == names
    assert next(cause.fact for cause in causes if cause.name == "login_refused") == fact
    assert OTHER in causes


# --- who is involved


def test_the_clients_that_are_it_and_those_that_are_blocked() -> None:
    rows = [
        ConnectionRow(f"id-{name}", name, "CORE", "u", "h")
        for name in ("app", "billing", "web")
    ]
    rows += [ConnectionRow("id-second", "app", "", "u", "h")]
    poll = changed(town(), snapshot__connections=Table(Index.of(rows), {}))
    poll = changed(poll, snapshot__consumer_connection=np.array([0, 1, -1]))
    here = symptoms(poll)
    found = incidents.involved(
        group(consumers=np.array([1, 0, 2]), blocked=["web"]), here
    )
    assert [one["client"] for one in found] == ["billing", "app", "web"]
    assert found[0] == {
        "client": "billing",
        "host": "h",
        "connection": "id-billing",
        "protocol": "CORE",
        "user": "u",
    }
    second = incidents.involved(group(blocked=["app"]), here)
    assert [one["connection"] for one in second] == ["id-app"]
    assert (
        incidents.involved(group(), symptoms(changed(poll, snapshot__connections=None)))
        == []
    )


def test_no_more_than_a_few_are_named() -> None:
    rows = [
        ConnectionRow(f"id-{number}", f"c{number}", "CORE", "u", "h")
        for number in range(SHOWN + 2)
    ]
    poll = changed(town(), snapshot__connections=Table(Index.of(rows), {}))
    blocked = [row.client for row in rows]
    assert len(incidents.involved(group(blocked=blocked), symptoms(poll))) == SHOWN


# --- what changed


def near(*changes: Noted, kind: str = "stalled") -> list[tuple[float, str]]:
    one = Group(kind, "app", NOW, own=[STALLED])
    return changes_near(one, NOW, symptoms(town(), told=[one], changes=changes), {"a"})


@pytest.mark.parametrize(
    ("change", "is_near"),
    [
        (Noted(NOW, "of the broker"), True),
        (Noted(NOW, "of the address", "a"), True),
        (Noted(NOW, "of the client", "elsewhere", "", "app"), True),
        (Noted(NOW, "of another", "elsewhere", "", "other"), False),
        (Noted(NOW - RECENT, "early"), True),
        (Noted(NOW - RECENT - 1, "too early"), False),
        (Noted(NOW + JITTER_SECONDS, "late"), True),
        (Noted(NOW + JITTER_SECONDS + 1, "too late"), False),
        (Noted(NOW, "refused", logins=2.0), False),
    ],
)
def test_what_came_or_went_shortly_before(change: Noted, is_near: bool) -> None:
    assert near(change) == ([(change.time, change.text)] if is_near else [])


def test_refused_logins_matter_where_a_consumer_is_absent() -> None:
    assert near(Noted(NOW, "refused", logins=2.0), kind="no_consumer") == [
        (NOW, "refused")
    ]


def test_of_many_the_last_are_shown_in_their_order() -> None:
    many = [Noted(NOW - number, f"change {number}") for number in range(SHOWN + 2)]
    shown = near(*many)
    assert [time for time, _ in shown] == [
        NOW - number for number in reversed(range(SHOWN))
    ]
    assert shown[-1][1] == f"change 0 ({SHOWN} of {SHOWN + 2} changes)"
    assert shown[0][1] == f"change {SHOWN - 1}"


# --- whether there is anything to look for


def links(queue: str, pending: float) -> RuleInputs:
    rows = [LinkRow("bridge", "bridge", queue)]
    return changed(
        town(), snapshot__links=Table(Index.of(rows), {"pending": np.array([pending])})
    )


NOTICE = condition("surge", "p")._replace(severity=Severity.INFO)
TOOK = Takeover("other", NOW, 1.0, alone=False)


@pytest.mark.parametrize(
    ("poll", "active", "expected"),
    [
        (town(), [], False),
        (town(), [NOTICE], False),
        (town(), [NOTICE, BEHIND], True),
        (
            changed(
                town(), broker__memory_used_bytes=9.0, broker__memory_limit_bytes=9.0
            ),
            [],
            True,
        ),
        (changed(town(), snapshot__observation__takeover=TOOK), [], True),
        (with_values(town(), {"snapshot.addresses.limit_percent": [0, 100]}), [], True),
        (
            with_values(town(), {"snapshot.addresses.limit_percent": [0, 99.9]}),
            [],
            False,
        ),
        (links("p", 0.5), [], True),
        (links("p", 0.0), [], False),
        (links("", 5.0), [], False),
        (changed(town(), snapshot__addresses=None), [], False),
    ],
)
def test_an_incident_may_begin(
    poll: RuleInputs, active: list[Any], expected: bool
) -> None:
    assert incidents.may_begin(poll, active) is expected


# --- from poll to poll


def told(*members: Any, root: Any = STALLED, **fields: Any) -> Incident:
    plain: dict[str, Any] = {
        "id": "1",
        "kind": "stalled",
        "broker": "b",
        "object": "app",
        "severity": "warning",
        "begin": NOW - 50,
        "title": "",
    }
    keys = [key_of(one) for one in members]
    root_key = key_of(root) if root else ("", "", "", "")
    return Incident(**(plain | fields), members=keys, root=root_key)


def kept(
    one: Incident, *free: Any, groups: tuple[Group, ...] = ()
) -> tuple[list[Incident], list[str]]:
    """The incidents that stay, and the conditions that are free then."""
    here = symptoms(town(), *free)
    stays = [*Incidents(told=(one,))._staying(here, groups)]
    return stays, [left.name for left in here.free.values()]


def test_what_came_of_a_root_stays_with_it() -> None:
    root = Group("stalled", "app", NOW)
    stays, free = kept(
        told(STALLED, BEHIND), BEHIND, condition("surge", "p"), groups=(root,)
    )
    assert (stays, free) == ([], ["surge"])
    assert root.victims == [BEHIND]


def test_of_a_root_that_is_gone_what_is_left_is_kept_for_a_while() -> None:
    one = told(STALLED, BEHIND)
    assert kept(one, BEHIND) == ([replace(one, missed=1)], [])
    again = replace(one, missed=MISSED - 1)
    assert kept(again, BEHIND) == ([replace(one, missed=MISSED)], [])
    assert kept(replace(one, missed=MISSED), BEHIND) == ([], ["falling_behind"])


def test_without_anything_left_only_a_measured_root_is_kept() -> None:
    assert kept(told(STALLED)) == ([], [])
    measured = told(STALLED, root=None)
    assert kept(measured) == ([replace(measured, missed=1)], [])


def test_it_goes_on_while_one_of_its_kind_is_there() -> None:
    """Or where another root has taken its conditions."""
    other = condition("stalled", "q", "app")
    assert kept(told(STALLED, other), other) == ([], ["stalled"])
    elsewhere = Group("address_full", "a", NOW, own=[BEHIND])
    assert kept(told(STALLED, BEHIND), groups=(elsewhere,)) == ([], [])
    as_victim = Group("address_full", "a", NOW, victims=[BEHIND])
    assert kept(told(STALLED, BEHIND), groups=(as_victim,)) == ([], [])


def continued(
    *groups: Group, before: tuple[Incident, ...] = (), used: tuple[str, ...] = ()
) -> list[Any]:
    """Object, severity, begin and id of each."""
    following = Incidents(told=before)._continued(groups, set(used))
    return [(one.group.what, one.severity, one.begin, one.id) for one in following]


def test_a_group_has_the_id_and_begin_that_it_had() -> None:
    assert continued(group(STALLED)) == [("app", "warning", NOW, "")]
    assert continued(group(STALLED), before=(told(STALLED),)) == [
        ("app", "warning", NOW - 50, "1")
    ]
    by_member = replace(told(STALLED), object="other")
    assert continued(group(STALLED), before=(by_member,)) == [
        ("app", "warning", NOW - 50, "1")
    ]
    later = told(STALLED, begin=NOW + 50)
    assert continued(group(STALLED), before=(later,)) == [("app", "warning", NOW, "1")]


def test_of_several_it_is_the_earliest() -> None:
    early = told(BEHIND, id="2", object="other", begin=NOW - 90)
    both = group(STALLED, victims=[BEHIND])
    assert continued(both, before=(told(STALLED), early)) == [
        ("app", "warning", NOW - 90, "2")
    ]


def test_each_id_is_used_once() -> None:
    assert continued(group(STALLED), before=(told(STALLED),), used=("1",)) == [
        ("app", "warning", NOW, "")
    ]
    second = Group("stalled", "new", NOW - 5, own=[STALLED])
    found = continued(second, group(STALLED), before=(told(STALLED),))
    assert found == [("app", "warning", NOW - 50, "1"), ("new", "warning", NOW - 5, "")]


def test_notices_are_no_incident() -> None:
    assert continued(group(NOTICE)) == []


def test_the_alert_on_an_incident_says_its_conditions_where_they_are_several() -> None:
    several = told(STALLED, BEHIND, size=2)
    alone = told(condition("surge", "q"), size=1)
    assert Incidents(told=(several, alone)).rolled_up == {
        key_of(STALLED),
        key_of(BEHIND),
    }


# --- one poll


def advanced(
    *active: Any, before: Incidents | None = None, poll: RuleInputs | None = None
) -> Incidents:
    poll = poll or town()
    return (before or Incidents()).advance(
        poll, active, np.full(3, np.nan), poll.found.consumer.index
    )


def test_conditions_become_incidents() -> None:
    after = advanced(STALLED, BEHIND)
    (one,) = after.told
    assert (one.kind, one.object, one.severity, one.begin) == (
        "stalled",
        "app",
        "warning",
        NOW,
    )
    assert one.members == [key_of(STALLED), key_of(BEHIND)]
    assert one.root == key_of(STALLED)
    assert (one.size, one.victim_count, one.missed) == (2, 1, 0)
    assert one.messages == 5
    again = advanced(STALLED, BEHIND, before=after)
    assert [same.id for same in again.told] == [one.id]


def test_silenced_conditions_are_none() -> None:
    assert advanced(STALLED._replace(silenced=True)).told == ()


def test_the_worst_come_first_and_of_many_not_all_are_reported() -> None:
    many = [
        condition("falling_behind", f"q{number}")._replace(since=NOW - number)
        for number in range(MOST + 3)
    ]
    worst = condition("falling_behind", "worst")._replace(severity=Severity.CRITICAL)
    after = advanced(*many, worst)
    assert (len(after.told), after.beyond) == (MOST, 4)
    assert [one.object for one in after.told[:2]] == ["worst", f"q{MOST + 2}"]


def test_a_measured_root_needs_two_polls() -> None:
    full = changed(
        town(), broker__memory_used_bytes=9.0, broker__memory_limit_bytes=9.0
    )
    once = advanced(poll=full)
    assert once.told == ()
    assert once.begun == {
        ("broker_memory_full", full.groups.broker): full.snapshot.stamp
    }
    (one,) = advanced(poll=full, before=once).told
    assert (one.kind, one.begin, one.root) == (
        "broker_memory_full",
        full.snapshot.stamp,
        ("", "", "", ""),
    )


def test_changes_are_kept_for_a_while() -> None:
    stamp = town().snapshot.stamp
    old = Noted(stamp - KEPT - 1, "old")
    young = Noted(stamp - KEPT, "young")
    assert advanced(before=Incidents(changes=(old, young))).changes == (young,)


def test_refused_logins_are_counted_on() -> None:
    poll = changed(town(), broker__authentication_failures=7.0)
    assert advanced(poll=poll).refused == 7
    assert advanced(before=Incidents(refused=9.0)).refused == 9
    known = Incidents(refused=5.0, sending=Sending(since=0.0))
    assert [
        one.logins for one in advanced(poll=poll, before=known).changes if one.logins
    ] == [2]
