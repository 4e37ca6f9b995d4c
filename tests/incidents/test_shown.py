"""Where incidents are shown: explain, lists, events, metrics."""

import pickle
from dataclasses import replace

import pytest

from incidents.test_chains import blocked_in_send, memory, stopped_bridge
from incidents.world import Scene
from penstock.causes import stalled
from penstock.causes.case import ConsumerCase
from penstock.incidents.incident import Incident
from penstock.insight.events import Change, StatusSummary, changes, summarize
from penstock.insight.explain import BrokerView, explain
from penstock.insight.lists import ListQuery, incident_list, merged
from penstock.insight.objects import explain_address, explain_broker
from penstock.insight.text import explanation, impact, incident_lines, object_lines
from penstock.server.pages.render import _environment


def view(scene: Scene) -> BrokerView:
    snapshot = scene.snapshot(scene.queues, scene.consumers, scene.addresses)
    return BrokerView(scene.state, scene.tables, snapshot, scene.policy, scene.step)


@pytest.mark.slow  # many polls
def test_a_victim_names_its_root_first() -> None:
    seen = view(blocked_in_send())
    lines = [*explanation(explain(seen, "x.req"))]
    heads = [line for line in lines if line.startswith(("CRITICAL  ", "WARNING  "))]
    assert (
        heads[0]
        == "CRITICAL  order-service is blocked sending to x.reply; nothing is acknowledged on queue x.req"
    )
    assert "stalled" in heads[1]
    assert not explain(seen, "y").incidents


@pytest.mark.slow  # many polls
def test_the_root_and_the_broker_name_it_too() -> None:
    title = "CRITICAL  order-service is blocked sending to x.reply; nothing is acknowledged on queue x.req"
    assert title in [
        *object_lines(explain_address(view(blocked_in_send()), "x.reply", None))
    ]
    lines = [*object_lines(explain_broker(view(memory().run(3)), None))]
    assert (
        "CRITICAL  Broker b has used up its memory for messages: 4 producers are blocked"
        in lines
    )


@pytest.mark.slow  # many polls
def test_a_queue_that_an_incident_without_conditions_concerns_is_not_healthy() -> None:
    seen = view(stopped_bridge())
    found = explain(seen, "out")
    title = "Link to-2 forwards nothing from queue out"
    assert (found.knowledge.state, found.knowledge.why) == ("warning", title)
    assert [one.title for one in found.incidents] == [title]
    for thing in (explain_address(seen, "out", None), explain_broker(seen, None)):
        assert (thing.knowledge.state, [one.title for one in thing.incidents]) == (
            "warning",
            [title],
        )


@pytest.mark.slow  # many polls
def test_its_lines_are_in_the_order_of_what_is_asked() -> None:
    (found,) = incident_list([view(blocked_in_send())], ListQuery(text="x.reply")).rows
    words = [
        line.split()[0] for line in incident_lines([found], found.begin + 60) if line
    ]
    lines = [*incident_lines([found], found.begin + 60)]
    assert {type(line) for line in lines} == {str}
    assert [i for i, line in enumerate(lines) if not line] == [len(lines) - 1], (
        "an empty line ends it"
    )
    assert [word for i, word in enumerate(words) if word not in words[:i]] == [
        "CRITICAL", "incident", "impact", "who", "cause", "do", "check",
    ]  # fmt: skip


@pytest.mark.slow  # many polls
def test_lists_are_bounded_and_searched() -> None:
    seen = view(memory().run(3))
    assert incident_list([seen], ListQuery(text="app-b")).total == 1
    assert incident_list([seen], ListQuery(text="nothing of this name")).total == 0
    cut = incident_list([seen], ListQuery(limit=0))
    assert (len(cut.rows), cut.total) == (0, 1)


@pytest.mark.slow  # many polls
def test_a_root_that_is_a_condition_says_what_can_be_done() -> None:
    scene = Scene()
    scene.reader("c", "q", "billing")
    scene.run(5, lambda one: one.works("c"))
    scene.run(10, lambda one: one.holds("c"))
    (found,) = incident_list([view(scene)], ListQuery()).rows
    assert any("two thread dumps of billing" in line for line in found.advice)
    assert any(
        line.startswith("Check: The same frames in both") for line in found.advice
    )


def test_clients_that_are_named_are_no_victims_beside() -> None:
    """In whatever order the broker lists their connections."""
    who = [{"client": name} for name in ("svc-3", "svc-1", "svc-2")]
    found = Incident(
        "1", "common_cause", "b", "svc-1", "critical", 0.0, "title", who=who
    )
    found = replace(
        found, victims=["svc-1", "svc-2", "svc-3", "q (it is full)"], victim_count=4
    )
    assert impact(found) == "0 messages. Victims: q (it is full)."


def test_a_client_without_a_name_is_known_by_its_connection() -> None:
    incident = Incident(
        "1",
        "common_cause",
        "b",
        "",
        "critical",
        0.0,
        "title",
        who=[{"host": "10.0.0.7", "connection": "c1"}],
        victims=["q"],
        victim_count=1,
    )
    lines = list(incident_lines([incident], 10.0))
    assert "  who       a client without a name on 10.0.0.7, connection c1" in lines
    page = _environment().get_template("parts.html").make_module({"urls": {}})
    card = str(page.incident_card(incident, 10.0))  # type: ignore[attr-defined]
    assert "without a name on <bdi>10.0.0.7</bdi>" in card


@pytest.mark.slow  # many polls
def test_all_queues_that_a_client_left_are_named_with_their_numbers() -> None:
    scene = Scene()
    for name in ("gone", "closed"):
        scene.reader(name, name, "billing")
    scene.run(5, lambda one: one.works("gone", "closed"))
    scene.consumers.clear()
    scene.run(70, lambda one: one.come("gone", 10).come("closed", 5))
    (found,) = incident_list([view(scene)], ListQuery()).rows
    assert found.title == "No consumer on queues gone, closed since billing left"
    assert found.advice[0] == (
        "Find out why the application that reads gone (700 messages), closed (350 messages) is gone, or acknowledges"
        " nothing: its log, logins that the broker refused, another queue that it reads. Fix that, and start it. Then"
        " the 1,050 ready messages are processed, unless they expire before."
    )
    assert not any("blocked" in text for text in found.advice)


@pytest.mark.slow  # many polls
def test_begin_and_end_are_events() -> None:
    scene = blocked_in_send()
    snapshot = scene.snapshot(scene.queues, scene.consumers, scene.addresses)
    before = StatusSummary("b")
    after = summarize(before, scene.state, snapshot, up=True)
    begun = [
        one
        for one in changes(before, after, scene.now)
        if one.change is Change.INCIDENT_BEGIN
    ]
    ended = [
        one
        for one in changes(after, before, scene.now)
        if one.change is Change.INCIDENT_END
    ]
    assert [one.detail for one in begun] == [one.detail for one in ended]
    assert scene.incident.id in begun[0].detail


@pytest.mark.slow  # many polls
def test_one_series_for_each_with_its_victims() -> None:
    table = memory().run(3).tables["incident"]
    (row,) = table.index
    assert (row.broker, row.kind, row.object, row.severity) == (
        "b",
        "broker_memory_full",
        "b",
        "critical",
    )
    assert (table["active"].tolist(), table["victims"].tolist()) == ([1.0], [3.0])


@pytest.mark.slow  # many polls
def test_several_processes_give_one_list() -> None:
    query = ListQuery(limit=2)
    parts = [
        incident_list([view(scene)], query)
        for scene in (blocked_in_send(), memory().run(3), blocked_in_send())
    ]
    whole = merged(pickle.loads(pickle.dumps(parts)), query, ["b"])  # noqa: S301 - as they come from a process
    assert (len(whole.rows), whole.total) == (2, 3)
    assert whole.rows[0].begin <= whole.rows[1].begin


@pytest.mark.slow  # many polls
def test_causes_are_worked_out_when_they_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    real = stalled.flat_for

    def counted(case: ConsumerCase) -> float:
        asked.append(case.row)
        return real(case)

    monkeypatch.setattr(stalled, "flat_for", counted)
    seen = view(blocked_in_send(limit=60.0))
    assert not asked, "a poll works out none"
    for _ in range(2):
        (found,) = incident_list([seen], ListQuery()).rows
        assert {one.name: str(one.state) for one in found.causes}[
            "listener_hangs"
        ] == "possible"
    assert len(asked) == 1, "and each once"
