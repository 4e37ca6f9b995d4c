"""The chains of roots and victims, each in a small world; and what must stay apart."""

import numpy as np
import pytest

from conditions.normal_world import history, steady
from conditions.openmq_world import openmq, openmq_polls
from incidents.world import FULL, KIB, MIB, Scene
from penstock.insight.text import worth_telling

LIMIT = 12 * MIB


def memory(full_at: float = LIMIT) -> Scene:
    """40 addresses: a filler without a consumer, three with working clients, one idle producer, 35 without any."""
    scene = Scene(memory_used_bytes=6 * MIB, memory_limit_bytes=LIMIT)
    for i in range(36):
        scene.queues[f"m.{i}"] = {"A": 0.0, "M": 0.0, "K": 0.0, "D": 0.0}
        scene.addresses[f"m.{i}"] = {
            "policy": "block",
            "memory_bytes": 0.0,
            "limit_percent": 50.0,
        }
    for name in "abc":
        scene.reader(f"reader-{name}", f"m.{name}")
        scene.producers[f"app-{name}"] = {
            "address": f"m.{name}",
            "client": f"app-{name}",
        }
        scene.addresses[f"m.{name}"] = {"policy": "block", "memory_bytes": 1 * KIB}
    scene.producers["idle"] = {"address": "m.1", "client": "idle", "produced": 7.0}
    scene.producers["hog"] = {"address": "m.hog", "client": "nightly-import"}
    scene.addresses["m.hog"] = {"policy": "block", "memory_bytes": 6 * MIB}

    def live(one: Scene) -> None:
        one.works("reader-a", "reader-b", "reader-c")
        one.sends("app-a", "app-b", "app-c", "hog")
        one.come("m.hog", 50)

    scene.run(20, live)
    scene.about["memory_used_bytes"] = full_at
    scene.addresses["m.hog"]["memory_bytes"] = full_at
    for address in scene.addresses.values():
        address["limit_percent"] = (
            100 * full_at / LIMIT
        )  # without a limit of its own: of the whole broker
    return scene


@pytest.mark.slow  # many polls
def test_a_full_memory_is_one_incident_with_those_that_send_as_victims() -> None:
    scene = memory().run(3)
    found = scene.incident
    assert (found.kind, found.object, found.severity) == (
        "broker_memory_full",
        "b",
        "critical",
    )
    assert (found.victim_count, found.victims) == (3, ["app-a", "app-b", "app-c"])
    assert (
        found.title
        == "Broker b has used up its memory for messages: 4 producers are blocked"
    )
    assert (
        "m.hog uses 100% of 12 MiB, 1,000 messages, no consumer" in found.causes[0].text
    )
    assert "nightly-import sends to m.hog." in found.impact
    assert found.advice[1].startswith(
        "If that takes long, make room. First stop nightly-import, or it fills"
    )
    assert [text for text in found.advice if "removeMessages" in text] == [
        "Do not remove messages of m.hog (removeMessages): they are lost"
    ]
    assert "36 other addresses" in found.impact[2]
    scene.run(6)
    assert {c.name for c in scene.conditions} >= {"producers_blocked"}
    assert scene.incident.id == found.id
    assert scene.incident.victim_count == 3
    assert len(scene.conditions) > 30


@pytest.mark.slow  # many polls
def test_a_memory_that_is_nearly_full_is_none() -> None:
    assert not memory(full_at=0.99 * LIMIT).run(8).incidents


def blocked_in_send(producing: bool = True, limit: float = 117.0) -> Scene:
    scene = Scene()
    scene.reader("order", "x.req", "order-service", session="s1")
    scene.reader("other", "y", "other")
    scene.producers["reply"] = {
        "address": "x.reply",
        "client": "order-service",
        "session": "s1",
    }
    scene.producers["asks"] = {"address": "x.req", "client": "web"}
    scene.addresses |= {
        "x.reply": {"policy": "block", "limit_percent": 60.0, "limit_bytes": 200 * KIB}
    }
    scene.come("x.reply", 0)

    def live(one: Scene) -> None:
        one.works("order", "other")
        one.sends("reply", "asks")
        one.come("x.reply", 1)

    scene.run(10, live)
    scene.addresses["x.reply"] = {**FULL, "limit_percent": limit}

    def stands(one: Scene) -> None:
        one.holds("order", n=200)
        one.come("x.req", 100)
        one.works("other")
        one.sends("asks")
        if producing:
            return
        one.sends("reply")

    return scene.run(10, stands)


@pytest.mark.slow  # many polls
def test_a_consumer_that_is_blocked_in_send_is_a_victim_of_the_full_address() -> None:
    found = blocked_in_send().incident
    assert (found.kind, found.object) == ("address_full", "x.reply")
    assert found.victims == ["order-service"]
    assert (
        found.title
        == "order-service is blocked sending to x.reply; nothing is acknowledged on queue x.req"
    )
    assert [who["client"] for who in found.who] == ["order-service"]
    assert ("stalled", "x.req", "x.req", "order-service") in found.members
    assert {c.name: c.state for c in found.causes} == {
        "address_full": "proven", "blocked_in_send": "proven", "listener_hangs": "excluded",
    }  # fmt: skip
    assert found.messages > 900
    assert found.rate == pytest.approx(20, rel=0.3)


@pytest.mark.slow  # many polls
def test_a_consumer_that_hangs_beside_an_address_that_is_not_full_is_its_own_root() -> (
    None
):
    assert blocked_in_send(limit=60.0).roots == [("stalled", "order-service")]


def reads_queues(client: str, count: int) -> Scene:
    """Consumers c0, c1 … of one client, each on a queue: q0, q1 …"""
    scene = Scene()
    for n in range(count):
        scene.reader(f"c{n}", f"q{n}", client)
    return scene


@pytest.mark.slow  # many polls
def test_a_frozen_client_is_one_incident_on_all_its_queues() -> None:
    scene = reads_queues("frozen", 4)
    scene.reader("well", "q9", "well")
    scene.run(5, lambda one: one.works("c0", "c1", "c2", "c3", "well"))
    scene.run(10, lambda one: one.holds("c0", "c1", "c2", "c3").works("well"))
    found = scene.incident
    assert (found.kind, found.object, len(found.members)) == ("stalled", "frozen", 4)
    assert found.title == "frozen acknowledges nothing on queues q0, q1, q2, q3"
    assert found.who[0] == {
        "client": "frozen", "host": "h", "connection": "id-frozen", "protocol": "CORE", "user": "u",
    }  # fmt: skip


def common(apart: float = 0.1) -> Scene:
    scene = Scene()
    names = [f"svc-{n}" for n in range(4)]
    for name in (*names, "svc-other"):
        scene.reader(name, f"q.{name}")
    scene.run(5, lambda one: one.works(*names, "svc-other"))
    begin = scene.now

    def live(one: Scene) -> None:
        for n, name in enumerate(names):
            one.holds(name, at=begin + n * apart)
        one.works("svc-other")

    return scene.run(14, live)


@pytest.mark.slow  # many polls
def test_many_clients_that_stop_at_once_have_one_root() -> None:
    found = common().incident
    assert (found.kind, found.victim_count) == ("common_cause", 4)
    assert found.title == "4 clients stopped within 0.3 s: svc-0, svc-1, svc-2, svc-3"
    assert found.impact == [
        "Nothing is acknowledged on queues q.svc-0, q.svc-1, q.svc-2, q.svc-3."
    ]
    assert any(
        text.startswith("Ask whether these clients, or what they call, were deployed")
        for text in found.advice
    )
    assert not any("host h" in text for text in found.advice), "svc-other works there"
    states = {cause.name: cause.state for cause in found.causes}
    assert states == {
        "shared_outside": "possible",
        "one_deployment": "possible",
        "broker": "possible",
        "host": "possible",
    }
    against = {cause.name: cause.fact for cause in found.causes}
    assert against["broker"] == "against it: svc-other acknowledges meanwhile"


def silent(*names: str, beside: int = 0) -> Scene:
    """These get five messages a second until they fall silent; others go on."""
    scene = Scene()
    others = [f"other-{n}" for n in range(beside)]
    scene.step = 30.0
    profile = history(**dict.fromkeys([*names, *others], steady(5.0)))
    scene.state = type(scene.state)(
        judgement=scene.state.judgement.with_profile(profile)
    )
    scene.queues = {
        name: {"A": 0.0, "K": 0.0, "M": 0.0, "D": 0.0} for name in (*names, *others)
    }

    def come(one: Scene, to: list[str]) -> None:
        for name in to:
            one.queues[name] = {
                **one.queues[name],
                "A": one.queues[name]["A"] + 150,
                "K": one.queues[name]["K"] + 150,
            }

    scene.run(6, lambda one: come(one, [*names, *others]))
    return scene.run(14, lambda one: come(one, others))


@pytest.mark.slow  # many polls
def test_most_queues_that_fall_silent_together_have_one_root() -> None:
    found = silent(*"abcdef", beside=4).incident
    assert (found.kind, found.object, len(found.members)) == ("traffic_stopped", "b", 6)
    assert (
        found.title == "6 of the 10 queues of b that get messages fell silent together"
    )


@pytest.mark.slow  # many polls
def test_a_few_queues_that_fall_silent_stay_apart() -> None:
    assert {root for root, _ in silent(*"abcdef", beside=8).roots} == {
        "producer_silent"
    }
    assert {root for root, _ in silent(*"abcd").roots} == {"producer_silent"}


@pytest.mark.slow  # many polls
def test_clients_that_stop_one_after_the_other_stay_apart() -> None:
    assert common(apart=2.5).roots == [("stalled", f"svc-{n}") for n in range(4)]


def paused_topic() -> Scene:
    scene = Scene()
    for n in range(5):
        scene.queues[f"sub{n}"] = {
            "address": "topic",
            "A": 0.0,
            "M": 0.0,
            "K": 0.0,
            "D": 0.0,
            "kind": "user",
        }
        scene.addresses["topic"] = {"paused": 0.0}
        scene.reader(f"c{n}", f"sub{n}", f"client{n}")
    return scene.run(5, lambda one: one.works(*(f"c{n}" for n in range(5))))


@pytest.mark.slow  # many polls
def test_a_paused_address_is_one_root_of_its_queues() -> None:
    scene = paused_topic()
    scene.addresses["topic"]["paused"] = 1.0
    scene.run(12, lambda one: [one.come(f"sub{n}") for n in range(5)])
    found = scene.incident
    assert (found.kind, found.object) == ("address_paused", "topic")
    assert (
        found.title
        == "Address topic is paused: nothing is delivered from queues sub0, sub1, sub2, sub3, sub4"
    )
    assert not any("consumer" in text for text in (*found.impact, found.advice[1]))


@pytest.mark.slow  # many polls
def test_queues_of_a_paused_address_that_have_no_consumer_are_said_once_and_need_one() -> (
    None
):
    scene = paused_topic()
    scene.addresses["topic"]["paused"] = 1.0
    for n in (0, 1):
        del scene.consumers[f"c{n}"]
    scene.run(70, lambda one: [one.come(f"sub{n}") for n in range(5)])
    (found,) = (one for one in scene.incidents if one.kind == "address_paused")
    assert found.impact == ["No consumer on queues sub0, sub1."]
    assert found.advice[1].startswith(
        "Start consumers of queues sub0, sub1: without one the resume delivers nothing"
    )
    assert found.victims == ["sub0", "sub1"]


def billing_left() -> Scene:
    """The only consumer of a queue; some logins were refused before."""
    scene = Scene(authentication_failures=3.0)
    scene.reader("c", "q", "billing")
    scene.run(5, lambda one: one.works("c"))
    del scene.consumers["c"]
    return scene


@pytest.mark.slow  # many polls
def test_refused_logins_are_told_with_the_queue_that_lost_its_reader() -> None:
    scene = billing_left()
    scene.run(1, lambda one: one.come("q"))
    scene.about["authentication_failures"] = 8.0
    scene.run(70, lambda one: one.come("q"))
    found = scene.incident
    assert (found.kind, found.object) == ("no_consumer", "billing")
    assert [text for _, text in found.changed] == ["billing left queue q"], (
        "the logins came after it: they are a cause"
    )
    assert found.title == "No consumer on queue q since billing left"
    assert (found.causes[0].name, found.causes[0].fact) == (
        "login_refused",
        "refused logins since it left: 5",
    )


@pytest.mark.slow  # many polls
def test_logins_that_were_refused_before_a_consumer_left_are_no_likely_cause() -> None:
    scene = billing_left()
    scene.run(70, lambda one: one.come("q"))
    told = worth_telling(scene.incident.causes)
    assert told[0] == "possible: the consuming application is down"
    assert told[1] == (
        "less likely: it listens to another queue (a consumer read this queue before); its login is refused: the"
        " broker's log has the user and the address (none was refused since it left)"
    )


@pytest.mark.slow  # many polls
def test_one_client_that_went_is_one_root_of_all_queues_that_it_read() -> None:
    scene = reads_queues("billing", 3)
    scene.reader("other", "far", "other")
    scene.run(5, lambda one: one.works("c0", "c1", "c2", "other"))
    for n in range(3):
        del scene.consumers[f"c{n}"]
    scene.run(20, lambda one: one.come("q0").come("q1").come("q2").works("other"))
    del scene.consumers["other"]
    scene.run(50, lambda one: one.come("q0").come("q1").come("q2").come("far"))
    assert scene.roots == [("no_consumer", "billing"), ("no_consumer", "other")]


def stopped_bridge(**states: float) -> Scene:
    """No condition says so: a bridge is a consumer that buffers nothing. states: as it says when it has stopped."""
    scene = Scene()
    scene.links["to-2"] = {"queue": "out", "up": 1.0, "pending": 100.0}
    scene.come("out", 0)
    scene.queues["out"]["consumers"] = 1.0
    scene.run(
        5,
        lambda one: (
            one.come("out", 10)
            .queues["out"]
            .update(K=one.queues["out"]["K"] + 10, M=0.0)
        ),
    )
    assert not scene.incidents
    scene.links["to-2"] |= states
    return scene.run(8, lambda one: one.come("out", 100))


@pytest.mark.slow  # many polls
def test_a_bridge_whose_target_is_full_is_the_root_of_its_queue() -> None:
    found = stopped_bridge().incident
    assert (found.kind, found.object) == ("bridge_stopped", "to-2")
    assert found.title == "Link to-2 forwards nothing from queue out"
    assert {cause.name: cause.state for cause in found.causes} == {
        "target_full": "possible",
        "filter": "possible",
    }
    assert (
        found.causes[0].fact
        == "it is connected, and nothing is in delivery: 800 messages wait"
    )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("up", "started", "causes"),
    [
        (
            0.0,
            1.0,
            {"peer_down": "possible", "refused": "possible"},
        ),  # one that is refused connects again and again
        (0.0, 0.0, {"stopped": "proven"}),
        (np.nan, 1.0, {"not_read": "possible"}),
    ],
)
def test_a_bridge_that_is_not_connected_need_not_have_lost_its_peer(
    up: float, started: float, causes: dict[str, str]
) -> None:
    found = stopped_bridge(up=up, started=started).incident
    assert {cause.name: cause.state for cause in found.causes} == causes


@pytest.mark.slow  # many polls
def test_a_bridge_that_had_nothing_to_forward_is_not_stopped_by_its_first_messages() -> (
    None
):
    scene = Scene()
    scene.links["to-2"] = {"queue": "out", "up": 1.0, "pending": 0.0}
    scene.come("out", 0)
    scene.queues["out"]["consumers"] = 1.0
    scene.run(
        3,
        lambda one: (
            one.come("out", 10)
            .queues["out"]
            .update(K=one.queues["out"]["K"] + 10, M=0.0)
        ),
    )
    scene.run(40)
    scene.links["to-2"]["pending"] = 100.0
    scene.run(2, lambda one: one.come("out", 100))
    assert not scene.incidents


def test_a_full_dead_letter_address_that_refuses() -> None:
    scene = Scene()
    scene.come("src", 0)
    scene.queues["src"] |= {"dead_letter_address": "DLA"}
    scene.come("DLA", 20)
    scene.queues["DLA"] |= {"kind": "dead_letter"}
    scene.addresses["DLA"] = {**FULL, "policy": "fail", "paging": 1.0, "pages": 0.0}
    scene.run(3)
    assert not [
        one for one in scene.incidents if one.kind == "dead_letter_address_full"
    ]
    scene.queues["src"] |= {"A": 331.0, "M": 331.0, "D": 331.0}
    found = scene.run(5).incident
    assert (found.kind, found.object, found.victims) == (
        "dead_letter_address_full",
        "DLA",
        ["src"],
    )
    assert (
        found.title
        == "Dead-letter address DLA is full and refuses: 331 messages are stuck"
    )
    assert ("dead_letters_full", "DLA", "DLA", "") in found.members
    assert found.impact[0].startswith(
        "331 messages of queue src are in delivery with no consumer"
    )
    assert found.impact[1] == "In DLA: 20 messages, no consumer."
    do = [text for text in found.advice if not text.startswith(("Do not", "Check"))]
    assert "DurableDeliveringCount" in do[2], "first whether a restart loses them"
    assert do[3].startswith(
        "If all of them are durable, and after 1 and 2: plan a restart of the broker"
    )
    assert "Do not purge DLA: it has the messages that failed" in found.advice


def diverted(policy: str, *, sends: bool = False) -> Scene:
    """orders, which a reader reads, is diverted to audit, which nobody reads and which is full."""
    scene = Scene()
    scene.reader("billing", "orders")
    scene.producers["shop"] = {"address": "orders", "client": "shop"}
    scene.producers["far"] = {"address": "far", "client": "far"}
    scene.come("audit", 0)
    scene.come("far", 0)
    scene.diverts = (("orders", "audit"), ("far", "kept"))
    scene.run(
        6, lambda one: one.works("billing").sends("shop", "far").come("audit", 10)
    )
    scene.addresses["audit"] = {**FULL, "policy": policy, "paging": 1.0, "pages": 0.0}
    return scene.run(6, lambda one: one.sends("far", *["shop"] * sends))


def test_whoever_sends_to_the_source_of_a_divert_is_a_victim_of_its_full_target() -> (
    None
):
    found = diverted("fail").incident
    assert (found.kind, found.object, found.victims) == (
        "divert_target_full",
        "audit",
        ["shop"],
    )
    assert found.title == "audit is full and refuses: what is sent to orders fails too"
    assert ("rejecting", "audit", "audit", "") in found.members
    assert found.impact == [
        "A divert copies orders to audit: if audit refuses its copy, the message itself is refused, too.",
        "Each send to orders fails; shop had sent there.",
    ]
    do = [text for text in found.advice if not text.startswith(("Do not", "Check"))]
    assert do[1].startswith(
        "Else raise its limit: copy all settings of audit (getAddressSettingsAsJSON)"
    )
    assert (
        "to more than the 239,616 bytes that it uses now and enough for what comes"
        in do[1]
    )
    assert do[-1].startswith(
        "Last, and only if the owner of audit agrees: remove the divert"
    )


@pytest.mark.parametrize(
    ("policy", "sends"), [("drop", False), ("drop", True), ("fail", True)]
)
def test_the_full_target_of_a_divert_that_hinders_nobody_is_no_root_of_its_source(
    policy: str, sends: bool
) -> None:
    found = diverted(policy, sends=sends).incident
    victim = "audit (a full address drops or refuses messages)"
    assert (found.kind, found.object, found.victims) == (
        "no_consumer",
        "audit",
        [victim],
    )


@pytest.mark.slow  # many polls
def test_unacknowledged_bytes_that_starve_peers_are_the_holders() -> None:
    scene = Scene()
    scene.reader("hoarder", "q")
    scene.reader("peer", "q")
    scene.addresses["q"] = {"paging": 1.0, "page_read_limit_bytes": 400_000.0}
    scene.run(5, lambda one: one.works("hoarder", "peer"))
    scene.queues["q"]["delivering_bytes"] = 401_132.0
    scene.run(10, lambda one: one.holds("hoarder", n=347).come("q", 100))
    assert {"stalled", "depaging_frozen"} <= scene.names
    assert scene.roots == [("stalled", "hoarder")]
    assert scene.incident.victims == [
        "q (page files are no longer read because one consumer buffers too much)"
    ]


@pytest.mark.slow  # many polls
def test_peers_that_are_idle_while_the_owner_hangs_are_no_incident_of_their_own() -> (
    None
):
    scene = Scene()
    scene.reader("owner", "q")
    scene.reader("peer", "q")
    scene.queues["q"]["exclusive"] = 1.0
    scene.run(5, lambda one: one.works("owner"))
    scene.run(12, lambda one: one.holds("owner", n=864).come("q", 100))
    assert scene.roots == [("stalled", "owner")]


@pytest.mark.slow  # many polls
def test_what_changed_when_it_began_is_not_hidden_by_what_came_later() -> None:
    scene = Scene()
    scene.reader("owner", "q")
    scene.run(5, lambda one: one.works("owner"))
    scene.reader("new", "q")
    scene.run(1, lambda one: one.works("owner"))
    scene.run(8, lambda one: one.holds("owner", "new").come("q"))
    for n in range(8):
        scene.reader(f"later{n}", "q")
        scene.run(1, lambda one: one.come("q"))
    (found,) = (one for one in scene.incidents if one.object == "owner")
    assert [text for _, text in found.changed] == ["new began to consume queue q"]
    assert all(time <= found.begin + 1 for time, _ in found.changed)


@pytest.mark.slow  # many polls
def test_how_many_changes_there_are_is_said_where_some_are_left_out() -> None:
    scene = Scene()
    scene.reader("owner", "q")
    scene.run(5, lambda one: one.works("owner"))
    for n in range(8):
        scene.reader(f"new{n}", "q")
    scene.run(1, lambda one: one.works("owner"))
    scene.run(8, lambda one: one.holds("owner").come("q"))
    changes = [text for _, text in scene.incident.changed]
    assert (
        len(changes),
        changes[-1].endswith("began to consume queue q (5 of 8 changes)"),
    ) == (5, True)
    assert not any("changes" in text for text in changes[:-1])


@pytest.mark.slow  # many polls
def test_a_second_producer_of_a_client_that_sends_already_is_no_change() -> None:
    scene = Scene()
    scene.reader("owner", "q")
    scene.run(5, lambda one: one.works("owner"))
    for name, client in (("one", "web"), ("two", "web"), ("three", "shop")):
        scene.producers[name] = {"address": "q", "client": client}
        scene.run(1, lambda one: one.works("owner"))
    scene.run(8, lambda one: one.holds("owner").come("q"))
    changes = [text for _, text in scene.incident.changed]
    assert changes == ["web began to send to q", "shop began to send to q"]


@pytest.mark.slow  # many polls
def test_openmq_has_its_own_words_for_what_is_done_about_a_paused_destination() -> None:
    world = openmq_polls(openmq(), 14, lambda i: {
        "queues": {"q": {"A": 50.0 + i, "M": 50.0 + i, "paused": 1.0}}, "addresses": {"q": {"paused": 1.0}},
    })  # fmt: skip
    (found,) = world.state.judgement.incidents.told
    assert (found.kind, found.title) == (
        "address_paused",
        "q is paused: nothing of it is delivered",
    )
    assert found.advice[0].startswith(
        "Find out who paused it and why, then `imqcmd resume dst -t q -n q`"
    )
