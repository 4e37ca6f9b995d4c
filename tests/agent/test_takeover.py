"""Failover pairs, copies of a data directory, crash loops: who goes on with what was known, and what is told."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.pair import QUEUE, Brokers, Made
from agent.world import BEGIN
from penstock.insight.events import Change
from penstock.insight.lists import ListQuery
from penstock.model import Role
from penstock.server.pages import views
from penstock.server.pages.render import page

DELIVERED = "mq_client_delivered_messages_total"
ADDED = "mq_queue_messages_added_total"
IN_EITHER_ORDER = pytest.mark.parametrize(
    "order",
    [("live", "backup"), pytest.param(("backup", "live"), marks=pytest.mark.slow)],
)
"""In which the two are polled."""


@pytest.fixture
async def pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Brokers]:
    live = Made("live", "n")
    backup = Made("backup", "n", role=Role.PASSIVE)
    brokers = Brokers(tmp_path, monkeypatch, live, backup)
    await brokers.agent.start()
    work(live, 10, 100, waits=70)
    await brokers.poll()
    work(live, 10, 100, waits=70)
    await brokers.poll()
    yield brokers
    await brokers.agent.stop()


def work(one: Made, client: int, messages: float, waits: float = 0) -> None:
    """The client's consumer gets and settles so many, which came meanwhile."""
    if client not in one.world.consumers:
        one.world.consumer(client, QUEUE, f"c{client}")
    consumer = one.world.consumers[client]
    queue = one.world.queues[QUEUE]
    consumer |= {
        name: consumer[name] + messages for name in ("delivered", "acknowledged")
    }
    queue |= {
        "added": queue["added"] + messages,
        "acknowledged": queue["acknowledged"] + messages,
        "messages": waits,
    }


def take_over(dead: Made, one: Made, now: float) -> None:
    """`dead` is killed, and `one` loads what waits."""
    waits = dead.world.queues[QUEUE]["messages"]
    dead.up = False
    one.up = True
    one.role = Role.ACTIVE
    one.world.consumers = {}
    one.world.consumer_rows = {}
    one.world.queue(QUEUE, "orders", messages=waits, added=waits)
    dead.started = now


async def failed_over(pair: Brokers, polls: int) -> Made:
    """The backup took over so many polls ago. The broker that was live."""
    live, backup = pair.made.values()
    take_over(live, backup, pair.now)
    for _ in range(polls):
        await pair.poll()
    return live


def comes_back(killed: Made, now: float) -> None:
    """As the backup of the other."""
    killed.up = True
    killed.role = Role.PASSIVE
    killed.started = now


def come_back(one: Made, other: Made, now: float) -> None:
    """The live broker is started again, and its backup is one again."""
    take_over(other, one, now)
    one.started = now
    other.up = True
    other.role = Role.PASSIVE
    other.started = now


@pytest.mark.slow  # many polls
async def test_a_failover_is_told_once_and_what_is_reloaded_did_not_come(
    pair: Brokers,
) -> None:
    live, backup = pair.made.values()
    take_over(live, backup, pair.now)
    for _ in range(4):
        await pair.poll()
    assert pair.events(Change.ROLE) == [("backup", Change.ROLE, "passive to active")]
    assert pair.events(Change.BROKER_RESTART) == []
    assert pair.samples(ADDED)["backup"] == 0
    work(backup, 20, 5, waits=70)
    await pair.poll()
    assert pair.samples(ADDED)["backup"] == 5


@pytest.mark.nightly  # twenty failovers; two run by day
async def test_twenty_failovers_are_told_once_each_and_no_counter_falls(
    pair: Brokers,
) -> None:
    live, backup = pair.made.values()
    client = 100
    before: dict[str, float] = {}
    for number in range(20):
        for one, to in ((live, take_over), (backup, come_back)):
            other = backup if one is live else live
            to(*((one, other, pair.now) if to is take_over else (other, one, pair.now)))
            client += 1
            for _ in range(3):
                work(other, client, 10, waits=70)
                other.world.consumer_rows[client] = (
                    other.world.consumer_rows[client][0],
                    QUEUE,
                )
                await pair.poll()
                now = pair.samples(DELIVERED, client="c20")
                assert all(now[name] >= before[name] for name in now if name in before)
                before |= now
        told = [
            ("backup", Change.ROLE, "passive to active"),
            ("backup", Change.ROLE, "active to passive"),
        ]
        assert pair.events(Change.ROLE) == told * (number + 1)
        text = "took over from {}; counters begin again; 70 messages reloaded"
        both = [
            (name, Change.FAILOVER, text.format(of))
            for name, of in (("backup", "live"), ("live", "backup"))
        ]
        assert pair.events(Change.FAILOVER) == both * (number + 1)
    assert pair.events(Change.CONDITION_ON) == []


def incidents(pair: Brokers) -> list[tuple[str, str]]:
    return [
        (one.broker, one.title)
        for one in pair.agent.lookups.incidents("", ListQuery()).rows
    ]


@pytest.mark.slow  # many polls
async def test_a_failover_is_an_incident_until_there_is_a_backup_again(
    pair: Brokers,
) -> None:
    live = await failed_over(pair, 4)
    (found,) = pair.agent.lookups.incidents("", ListQuery()).rows
    assert (found.kind, found.severity, found.object) == (
        "failover",
        "warning",
        "backup",
    )
    assert (
        found.title
        == "backup took over from live; counters begin again; 70 messages reloaded"
    )
    assert found.impact == [
        "live cannot be reached: until it is back, nothing takes over from backup."
    ]
    comes_back(live, pair.now)
    for _ in range(4):
        await pair.poll()
    assert incidents(pair) == []
    assert len(pair.events(Change.FAILOVER)) == 1


@pytest.mark.slow  # many polls
@IN_EITHER_ORDER
async def test_a_failover_is_an_incident_over_restarts_of_the_agent(
    pair: Brokers, order: tuple[str, str]
) -> None:
    live = await failed_over(pair, 4)
    (before,) = pair.agent.lookups.incidents("", ListQuery()).rows
    for _ in range(2):
        await pair.another_agent()
        for _ in range(5):
            await pair.poll(*order)
        (found,) = pair.agent.lookups.incidents("", ListQuery()).rows
        assert (found.id, found.begin, found.title) == (
            before.id,
            before.begin,
            before.title,
        )
    await pair.another_agent()
    comes_back(live, pair.now)
    for _ in range(5):
        await pair.poll(*order)
    assert incidents(pair) == []
    assert len(pair.events(Change.FAILOVER)) == 1


@pytest.mark.slow  # many polls
@IN_EITHER_ORDER
async def test_a_backup_that_was_there_again_is_there_for_the_next_agent(
    pair: Brokers, order: tuple[str, str]
) -> None:
    live = await failed_over(pair, 1)
    comes_back(live, pair.now)
    for _ in range(4):
        await pair.poll()
    assert incidents(pair) == []
    await pair.another_agent()
    for name in (order[0],) * 4 + order:
        await pair.poll(name)
        assert incidents(pair) == []
    live.up = False
    for _ in range(5):
        await pair.poll(*order)
    assert incidents(pair) == [
        (
            "backup",
            "backup took over from live; counters begin again; 70 messages reloaded",
        )
    ]


@pytest.mark.slow  # many polls
async def test_a_takeover_of_an_earlier_process_is_not_that_of_this_one(
    pair: Brokers,
) -> None:
    live, backup = pair.made.values()
    take_over(live, backup, pair.now)
    for _ in range(4):
        await pair.poll()
    await pair.agent.stop()
    pair.now += 600
    come_back(live, backup, pair.now)
    pair.agent = pair._new()
    await pair.agent.start()
    for _ in range(5):
        await pair.poll()
    assert incidents(pair) == []


async def test_the_dead_one_shows_nothing_once_the_other_serves(pair: Brokers) -> None:
    """Not for the three polls for which a broker that is only away keeps its numbers."""
    live, backup = pair.made.values()
    live.up = False
    await pair.poll()
    assert pair.samples("mq_queue_messages") == {"live": 70}, (
        "it may only be cut off from here"
    )
    take_over(live, backup, pair.now)
    await pair.poll("live", "backup")
    await pair.poll("live")
    assert pair.samples("mq_queue_messages") == {"backup": 70}
    assert pair.samples("mq_broker_info", role="active").keys() == {"backup"}


@pytest.mark.slow  # many polls
async def test_what_is_no_failover_is_not_called_one(pair: Brokers) -> None:
    """A restart of the one that serves; a while out of reach; both down, and the same one first again."""
    live, backup = pair.made.values()
    take_over(live, backup, pair.now)
    await pair.poll()
    come_back(live, backup, pair.now)
    for _ in range(2):
        await pair.poll()
    before = len(pair.events(Change.FAILOVER))
    live.started = pair.now
    for _ in range(2):
        await pair.poll()
    for up, polls in ((False, 10), (True, 3)):
        live.up = up
        for _ in range(polls):
            await pair.poll()
    live.up = backup.up = False
    await pair.poll()
    live.up = True
    live.started = pair.now
    for _ in range(4):
        await pair.poll()
    assert len(pair.events(Change.FAILOVER)) == before == 2
    assert incidents(pair) == []


@pytest.mark.slow  # many polls
async def test_a_pair_whose_two_both_serve_has_not_failed_over(pair: Brokers) -> None:
    """The live one only froze, and goes on: split brain."""
    live, backup = pair.made.values()
    live.up = False
    backup.role = Role.ACTIVE
    backup.world.queue(QUEUE, "orders", messages=70, added=70)
    for _ in range(3):
        await pair.poll()
    assert [title for _, title in incidents(pair)] == [
        "backup took over from live; counters begin again; 70 messages reloaded"
    ]
    live.up = True
    for _ in range(6):
        await pair.poll()
    assert {broker for broker, _ in incidents(pair)} == {"live", "backup"}
    assert pair.samples("mq_broker_unhealthy", cause="two_actives") == {
        "live": 2,
        "backup": 2,
    }
    assert not [title for _, title in incidents(pair) if "took over" in title]


@pytest.mark.slow  # many polls
async def test_a_failover_while_the_agent_is_away_is_told(pair: Brokers) -> None:
    live, backup = pair.made.values()
    await pair.agent.stop()
    take_over(live, backup, pair.now)
    pair.agent = pair._new()
    await pair.agent.start()
    for _ in range(3):
        await pair.poll()
    assert pair.events(Change.ROLE) == [("backup", Change.ROLE, "passive to active")]
    assert pair.samples(ADDED)["backup"] == 0
    work(backup, 10, 5)
    await pair.poll()
    assert pair.samples(DELIVERED)["backup"] == 205, (
        "of a new series: what is known goes on"
    )


@pytest.mark.slow  # many polls
async def test_whether_it_took_over_is_not_guessed(pair: Brokers) -> None:
    """The backup is polled first, when nothing says yet that the live broker is gone."""
    live, backup = pair.made.values()
    await pair.save()
    take_over(live, backup, pair.now)
    work(backup, 20, 5)
    await pair.poll("backup")
    assert "backup" not in pair.samples(DELIVERED) | pair.samples(ADDED)
    await pair.poll("live", "backup")
    assert pair.samples(DELIVERED, client="c20")["backup"] == 5


@pytest.fixture
async def copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Brokers]:
    """A copied data directory: one node id, one queue id, and another load."""
    one = Made("one", "n")
    copy = Made("copy", "n", started=BEGIN - 3600)
    brokers = Brokers(tmp_path, monkeypatch, one, copy)
    await brokers.agent.start()
    work(one, 10, 1_009)
    work(copy, 10, 1_000_002_000)
    for _ in range(3):
        await brokers.poll()
    yield brokers
    await brokers.agent.stop()


@pytest.mark.slow  # many polls
async def test_a_copy_does_not_go_on_with_what_the_other_counted(
    copies: Brokers,
) -> None:
    before = copies.samples(DELIVERED)
    assert before == {"one": 1_009, "copy": 1_000_002_000}
    await copies.another_agent()
    for _ in range(3):
        await copies.poll()
        assert copies.samples(DELIVERED) == before
    assert copies.events(Change.ROLE) == []


@pytest.mark.slow  # many polls
async def test_two_that_are_active_with_one_node_id_are_told(copies: Brokers) -> None:
    for _ in range(2):
        await copies.poll()
    assert copies.samples("mq_broker_unhealthy", cause="two_actives") == {
        "one": 2,
        "copy": 2,
    }
    await copies.another_agent()
    for _ in range(5):
        await copies.poll()
    assert copies.samples("mq_broker_unhealthy", cause="two_actives") == {
        "one": 2,
        "copy": 2,
    }
    told = {one for one, *_ in copies.events(Change.CONDITION_ON)}
    assert told == {"one", "copy"}
    assert len(copies.events(Change.CONDITION_ON)) == 2, (
        "once, over a restart of the agent"
    )
    copies.made["copy"].up = False
    copies.write("one")
    await copies.agent.reload()
    for _ in range(3):
        await copies.poll("one")
    assert copies.samples("mq_broker_unhealthy") == {}


@pytest.mark.slow  # many polls
async def test_the_status_page_names_the_other(copies: Brokers) -> None:
    for view, given in ((views.overview, {}), (views.broker, {"broker": "one"})):
        body = page(*view(copies.agent.lookups, given)).decode()
        assert "also active with its node id: copy;" in body
    assert (
        'href="broker?broker=copy"'
        in page(*views.overview(copies.agent.lookups, {})).decode()
    )


@pytest.mark.slow  # many polls
async def test_a_pair_that_fails_over_is_never_two_actives(pair: Brokers) -> None:
    live, backup = pair.made.values()
    for order in (("live", "backup"), ("backup", "live")):
        take_over(live, backup, pair.now)
        for _ in range(3):
            await pair.poll(*order)
        come_back(live, backup, pair.now)
        for _ in range(3):
            await pair.poll(*order)
    assert pair.events(Change.CONDITION_ON) == []


@pytest.mark.slow  # many polls
async def test_one_broker_under_two_names_is_no_rival_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(
        tmp_path,
        monkeypatch,
        Made("one", "n", called="x"),
        Made("vip", "n", called="x"),
    )
    await brokers.agent.start()
    for _ in range(4):
        await brokers.poll()
    assert brokers.events(Change.CONDITION_ON) == []
    await brokers.agent.stop()


@pytest.mark.slow  # many polls
async def test_copies_that_are_started_together_are_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by one compose file: a second apart, alike in everything else."""
    copies = (
        Made("one", "n", called="x"),
        Made("copy", "n", called="x", started=BEGIN - 86400 + 1),
    )
    brokers = Brokers(tmp_path, monkeypatch, *copies)
    await brokers.agent.start()
    for _ in range(4):
        await brokers.poll()
    assert {one for one, *_ in brokers.events(Change.CONDITION_ON)} == {"one", "copy"}
    await brokers.agent.stop()


@pytest.mark.slow  # many polls
async def test_a_clock_that_is_set_makes_no_rival_of_one_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Made("one", "n", called="x")
    vip = Made("vip", "n", called="x")
    brokers = Brokers(tmp_path, monkeypatch, one, vip)
    await brokers.agent.start()
    for number in range(8):
        if number % 4 == 2:
            one.started += 1.5
            await brokers.poll("one")
            vip.started += 1.5
        await brokers.poll()
    assert brokers.events(Change.CONDITION_ON) == []
    await brokers.agent.stop()


@pytest.mark.slow  # many polls
async def test_a_copy_that_is_watched_while_the_other_is_down_begins_anew(
    copies: Brokers,
) -> None:
    """It ran while the other did: no failover."""
    one = copies.made["one"]
    another = copies.made["another"] = Made("another", "n")
    work(another, 10, 7)
    copies.write("one", "another")
    await copies.agent.reload()
    await copies.poll("one")
    one.up = False
    for _ in range(3):
        await copies.poll("one", "another")
    assert copies.samples(DELIVERED)["another"] == 7


@pytest.mark.slow  # many polls
async def test_a_broker_of_another_name_goes_on_as_the_same_process(
    pair: Brokers,
) -> None:
    """The name in the configuration was changed."""
    live = pair.made["live"]
    renamed = pair.made["prod"] = Made("prod", "n", started=live.started, called="live")
    renamed.world = live.world
    pair.write("prod", "backup")
    await pair.agent.reload()
    work(renamed, 10, 5)
    await pair.poll("prod", "backup")
    assert pair.samples(DELIVERED)["prod"] == 205


async def test_a_crash_loop_is_told_start_by_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process is older at its only poll than the one before was at its own."""
    one = Made("one", "n")
    brokers = Brokers(tmp_path, monkeypatch, one)
    await brokers.agent.start()
    for number in range(5):
        one.started = brokers.now - 5 - number
        await brokers.poll()
    assert len(brokers.events(Change.BROKER_RESTART)) == 4
    await brokers.agent.stop()


async def test_a_restart_while_the_agent_is_away_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Made("one", "n", started=BEGIN - 20)
    brokers = Brokers(tmp_path, monkeypatch, one)
    await brokers.agent.start()
    await brokers.poll()
    await brokers.another_agent()
    assert brokers.events(Change.BROKER_RESTART) == []
    one.started = brokers.now - 25
    await brokers.poll()
    assert brokers.events(Change.BROKER_RESTART) == [("one", Change.BROKER_RESTART, "")]
    await brokers.agent.stop()


@pytest.mark.slow  # many polls
async def test_what_a_broker_reloads_at_its_start_did_not_come(pair: Brokers) -> None:
    live = pair.made["live"]
    live.started = pair.now
    live.world.consumers = {}
    live.world.consumer_rows = {}
    live.world.queue(QUEUE, "orders", messages=75, added=75)
    for _ in range(2):
        await pair.poll()
        assert pair.samples(ADDED)["live"] == 5, "70 waited before"
    await pair.another_agent()
    await pair.poll()
    assert pair.samples(ADDED)["live"] == 5
    live.world.queues[QUEUE] |= {"added": 3, "acknowledged": 0}
    await pair.poll()
    assert pair.samples(ADDED)["live"] == 3, "an operator has set it back"
