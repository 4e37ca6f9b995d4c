"""How long an incident is the same: over polls, growth, restarts of the agent, and a little longer than its root."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from conditions.rules_world import rule
from incidents.test_chains import blocked_in_send, common, memory
from incidents.world import FULL, KIB, Scene
from penstock.agent.checkpoint import Checkpoint, checkpoint_of, restore
from penstock.agent.packed import pack, unpack
from penstock.assessment.assess import State
from penstock.conditions.catalogue import CONDITIONS
from penstock.incidents.incident import Incident
from penstock.incidents.incidents import MISSED, MOST, TEXTS
from penstock.incidents.links import BRINGS
from penstock.settings.rules import Rules


def frozen() -> Scene:
    scene = Scene()
    for n in range(4):
        scene.reader(f"c{n}", f"q{n}", "frozen")
    scene.run(5, lambda one: one.works("c0", "c1", "c2", "c3"))
    return scene.run(8, lambda one: one.holds("c0").works("c1", "c2", "c3"))


@pytest.mark.slow  # many polls
def test_it_grows_and_stays_the_same() -> None:
    scene = frozen()
    first = scene.incident
    scene.run(8, lambda one: one.holds("c0", "c1", "c2", "c3"))
    assert len(scene.incident.members) == 4
    assert (scene.incident.id, scene.incident.begin) == (first.id, first.begin)


@pytest.mark.slow  # many polls
def test_several_that_turn_out_to_have_one_root_go_on_as_the_earliest() -> None:
    """Two of three that stopped at one moment are known to stall before the third."""
    scene = Scene()
    scene.policy = replace(
        scene.policy, rules=Rules((rule(client="c", patience=60.0),))
    )
    names = ["a", "b", "c"]
    for name in names:
        scene.reader(name, f"q.{name}")
    scene.run(5, lambda one: one.works(*names))
    scene.run(6, lambda one: one.holds(*names))
    two = {one.object: one for one in scene.incidents}
    assert two.keys() == {"a", "b"}
    scene.run(8, lambda one: one.holds(*names))
    assert scene.incident.kind == "common_cause"
    assert scene.incident.id in {one.id for one in two.values()}


@pytest.mark.slow  # many polls
def test_what_comes_of_a_root_stays_with_it_for_a_while_and_the_memory_leaves_no_list_behind() -> (
    None
):
    scene = memory().run(10)
    found = scene.incident
    scene.about["memory_used_bytes"] = 1.0
    for address in scene.addresses.values():
        address["limit_percent"] = 1.0
    for _ in range(MISSED + 3):
        scene.run(
            1,
            lambda one: one.sends("app-a", "app-b", "app-c").works(
                "reader-a", "reader-b", "reader-c"
            ),
        )
        assert len(scene.incidents) <= 1
        assert all(one.id == found.id for one in scene.incidents)
    assert not scene.incidents


@pytest.mark.slow  # many polls
def test_a_victim_that_outlives_its_root_becomes_one_of_its_own() -> None:
    """Not at once: most recover with it, a little later."""
    scene = blocked_in_send()
    found = scene.incident
    scene.addresses["x.reply"]["limit_percent"] = 1.0

    def hangs(one: Scene) -> None:
        one.holds("order").come("x.req", 100).works("other", "asker").sends(
            "reply", "asks"
        )

    scene.reader("asker", "x.reply", waits=scene.queues["x.reply"]["M"])
    for _ in range(MISSED + 1):
        assert [one.id for one in scene.run(1, hangs).incidents] == [found.id]
    scene.run(4, hangs)
    assert (scene.incident.kind, scene.incident.object) == ("stalled", "order-service")


@pytest.mark.slow  # many polls
def test_a_victim_that_recovers_with_its_root_is_never_one_of_its_own() -> None:
    scene = blocked_in_send()
    found = scene.incident
    scene.addresses["x.reply"]["limit_percent"] = 1.0
    scene.reader("asker", "x.reply")
    scene.queues["x.reply"] |= {"A": 10.0, "M": 0.0, "K": 10.0}
    one = scene.consumers["order"]
    queue = scene.queues["x.req"]
    queue |= {"K": queue["A"], "M": 0.0, "D": 0.0}
    one |= {"C": one["N"], "T": 0.0}
    seen = set()
    for _ in range(8):
        scene.run(
            1, lambda one: one.works("order", "other", "asker").sends("reply", "asks")
        )
        seen |= {one.id for one in scene.incidents}
    assert seen <= {found.id}
    assert not scene.incidents


def away(scene: Scene) -> State:
    """What the next agent knows before its first poll."""
    snapshot = scene.snapshot(scene.queues, scene.consumers, scene.addresses)
    kept = checkpoint_of(scene.state, snapshot, scene.policy)
    assert kept is not None
    kept = unpack(pack(kept), Checkpoint)
    return restore(kept, State(), snapshot, scene.policy)


@pytest.mark.slow  # many polls
def test_a_restart_of_the_agent() -> None:
    scene = frozen()
    found = scene.incident
    scene.state = away(scene)
    scene.run(1, lambda one: one.works("c1", "c2", "c3"))
    assert (scene.incident.id, scene.incident.begin) == (found.id, found.begin)


@pytest.mark.slow  # many polls
def test_a_root_that_goes_while_the_agent_is_away() -> None:
    scene = memory().run(3)
    found = scene.incident
    scene.state = away(scene)
    scene.about["memory_used_bytes"] = 1.0
    for address in scene.addresses.values():
        address["limit_percent"] = 1.0
    for _ in range(MISSED + 1):
        scene.run(
            1,
            lambda one: one.sends("app-a", "app-b", "app-c").works(
                "reader-a", "reader-b", "reader-c"
            ),
        )
        assert {one.id for one in scene.incidents} <= {found.id}
    assert not scene.incidents


@pytest.mark.slow  # many polls
def test_faults_that_have_nothing_to_do_with_each_other_stay_apart() -> None:
    """A blocked consumer, a frozen one beside it, and a queue of a third client without its reader, all at once."""
    scene = Scene()
    scene.reader("order", "x.req", "order-service", session="s1")
    scene.reader("frozen", "q", "frozen")
    scene.reader("reader", "far", "billing")
    scene.producers["reply"] = {
        "address": "x.reply",
        "client": "order-service",
        "session": "s1",
    }
    scene.addresses["x.reply"] = {
        "policy": "block",
        "limit_percent": 60.0,
        "limit_bytes": 200 * KIB,
    }
    scene.come("x.reply", 0)
    scene.run(10, lambda one: one.works("order", "frozen", "reader").sends("reply"))
    scene.addresses["x.reply"] = FULL
    del scene.consumers["reader"]
    scene.run(
        60,
        lambda one: (
            one.holds("order", "frozen")
            .come("x.req", 100)
            .come("q", 100)
            .come("far", 100)
        ),
    )
    assert scene.roots == [
        ("address_full", "x.reply"),
        ("no_consumer", "billing"),
        ("stalled", "frozen"),
    ]


@pytest.mark.slow  # many polls
def test_an_older_fault_is_no_victim() -> None:
    """The queue fell behind long before its consumer stopped."""
    scene = Scene()
    scene.reader("slow", "q")
    scene.run(80, lambda one: one.works("slow", n=10).come("q", 20))
    assert scene.roots == [("falling_behind", "q")]
    scene.run(12, lambda one: one.holds("slow").come("q", 20))
    assert ("stalled", "slow") in scene.roots


def test_two_hundred_roots_are_a_bounded_answer() -> None:
    scene = Scene()
    for n in range(200):
        scene.come(f"q{n}", 10)
        scene.queues[f"q{n}"]["paused"] = 1.0
    told = scene.run(3).state.judgement.incidents
    assert (len(told.told), told.beyond) == (MOST, 200 - MOST)
    assert len(scene.tables["incident"]) == MOST


@pytest.mark.slow  # many polls
def test_of_two_hundred_that_began_together_the_same_stay_reported() -> None:
    scene = Scene()
    for i in range(200):
        scene.queues[f"q{i}"] = {"A": 50.0, "M": 50.0, "paused": 1.0}
    reported = set()
    for _ in range(8):
        reported.add(
            frozenset(one.id for one in scene.run(1).state.judgement.incidents.told)
        )
    assert {len(ids) for ids in reported} == {0, MOST}
    assert len(reported) == 2


@pytest.mark.slow  # many polls
def test_notices_are_no_incident() -> None:
    scene = Scene()
    scene.come("q", 100)
    scene.run(80, lambda one: one.come("q", 10))
    assert scene.notices == {"no_consumer"}
    assert not scene.incidents


def test_what_stands_in_the_texts_is_known() -> None:
    assert BRINGS.keys() | frozenset[str]().union(*BRINGS.values()) <= CONDITIONS.keys()
    own: dict[str, Any] = {
        f"{kind} on OpenMQ": texts["openmq"]
        for kind, texts in TEXTS.items()
        if "openmq" in texts
    }
    for kind, texts in ({**TEXTS, **own}).items():
        assert texts.keys() <= {"title", "impact", "advice", "causes", "openmq"}, kind
        for state, *said in texts.get("causes", {}).values():
            assert state in {"proven", "possible", "excluded"}
            assert len(said) == 2


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    "scene", [lambda: memory().run(3), common], ids=["memory", "common"]
)
def test_the_api_has_it_as_it_is(scene: Callable[[], Scene]) -> None:
    incident = scene().incident
    assert (
        msgspec.json.decode(msgspec.json.encode(incident), type=Incident).id
        == incident.id
    )


@pytest.mark.slow  # many polls
def test_producers_that_were_not_read_do_not_seem_to_wait() -> None:
    scene = blocked_in_send(producing=False)
    tables = list[Any]()
    read = Scene.snapshot

    def as_last_read(*said: Any) -> Any:
        found = read(scene, *said)
        tables.append(found.producers)
        return replace(found, producers=tables[0])

    scene.snapshot = as_last_read  # type: ignore[assignment, method-assign]
    scene.run(6, lambda one: one.works("other").sends("reply", "asks"))
    assert not any(one.victims for one in scene.incidents)
