"""Who made a ring lose: by client, also over restarts; narrower where it is polled in between."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from account.world import Broker, queue
from agent.stored import as_read
from conditions.situations import ring
from conditions.things import Numbers
from conditions.world import World
from penstock.account.ring_losses import Loss
from penstock.agent.checkpoint import Checkpoint, checkpoint_of
from penstock.agent.record import applied, record_of, written_as
from penstock.model import LeftOut
from penstock.rule_engine.judgement import glanced


def taker(client: str, held: float, **said: Any) -> dict[str, Any]:
    return {"queue": "q", "client": client, "T": held, "N": held, "C": 0.0, **said}


def by_client(broker: Any) -> dict[str, float]:
    """mq_queue_messages_lost_by_consumer_total by client."""
    table = broker.tables["ring_loser"]
    return {
        row.client: float(value)
        for row, value in zip(table.index, table["lost"], strict=True)
    }


def closed(broker: Broker) -> Broker:
    """Three of three with one of two clients, four of four, and it closes: one is lost."""
    both = {"a": taker("a", 3.0), "b": taker("b", 0.0)}
    broker.see(
        {"q": queue(0, 0, ring=3.0)},
        consumers={"a": taker("a", 0.0), "b": taker("b", 0.0)},
        polls=2,
    )
    broker.see({"q": queue(4, 4, D=3.0, ring=3.0)}, consumers=both, polls=2)
    return broker.see(
        {"q": queue(4, 3, ring=3.0)}, consumers={"b": taker("b", 0.0)}, polls=2
    )


def test_a_close_is_counted_for_its_client_alone() -> None:
    broker = closed(Broker())
    assert by_client(broker) == {"a": 1, "": 0}
    (found,) = [one for one in broker.conditions if one.name == "ring_lost_by_consumer"]
    assert found.evidence["lost"] == 1
    assert found.why.startswith(
        "a closed, lost the connection or rolled back: 1 messages; a Core client"
    )


def test_a_client_that_holds_more_than_the_ring_is_counted_from_0_on() -> None:
    """So that the first increase is one."""
    broker = Broker().see({"q": queue(0, 0, ring=3.0)}, polls=2)
    assert by_client(broker) == {"": 0}
    broker.see({"q": queue(4, 4, D=3.0, ring=3.0)}, consumers={"a": taker("a", 3.0)})
    assert by_client(broker) == {"a": 0, "": 0}
    assert broker.sheet().lost_by == {}


def test_two_that_close_together_share_what_none_is_known_to_have_lost() -> None:
    both = {"a": taker("a", 2.0), "b": taker("b", 2.0)}
    broker = Broker().see({"q": queue(7, 7, D=4.0, ring=3.0)}, consumers=both, polls=2)
    broker.see({"q": queue(7, 3, ring=3.0)}, polls=2)
    assert by_client(broker) == {"a": 0, "b": 0, "": 4}
    assert broker.sheet().lost_by == {"arrivals": 0, "a": (0, 4), "b": (0, 4)}
    (found,) = [one for one in broker.conditions if one.name == "ring_lost_by_consumer"]
    assert found.why.startswith(
        "a and b closed, lost the connection or rolled back: 4 messages together; "
    )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("killed", [False, True])
def test_it_goes_on_over_a_restart_of_the_agent(*, killed: bool) -> None:
    """Killed: from a checkpoint of before, and the journal."""
    broker = Broker()
    if killed:
        broker.see({"q": queue(0, 0, ring=3.0)}, polls=2)
        assert broker.last is not None
        checkpoint = checkpoint_of(broker.state, broker.last, broker.policy)
        assert checkpoint is not None
        written = written_as(checkpoint, broker.state, {}, 1)
        closed(broker)
        record, _ = record_of(written, broker.state, broker.last, broker.policy, {}, 2)
        assert record is not None
        checkpoint = applied(checkpoint, record)
    else:
        closed(broker)
        assert broker.last is not None
        checkpoint = checkpoint_of(broker.state, broker.last, broker.policy)
        assert checkpoint is not None
    assert by_client(broker)["a"] == 1
    broker.restart_agent(whole(checkpoint))
    broker.see({"q": queue(4, 3, ring=3.0)}, polls=2)
    assert by_client(broker) == {"a": 1, "": 0}
    broker.see(
        {"q": queue(5, 4, D=3.0, ring=3.0)}, consumers={"a": taker("a", 3.0)}, polls=2
    )
    broker.see({"q": queue(5, 3, ring=3.0)}, polls=2)
    assert by_client(broker) == {"a": 2, "": 0}


def whole(checkpoint: Checkpoint) -> Checkpoint:
    """As it is read from the file."""
    return as_read(checkpoint)


def test_after_a_restart_of_the_broker_the_counter_begins_again_and_the_account_goes_on() -> (
    None
):
    broker = closed(Broker())
    broker.restart()
    broker.see({"q": queue(3, 3, ring=3.0)}, consumers={"b": taker("b", 0.0)}, polls=3)
    assert by_client(broker) == {"a": 0, "": 0}
    assert broker.sheet().lost_by == {"arrivals": 0, "a": 1}


# --- sessions that are never listed


def unlisted(made: float, consumers: Mapping[str, Numbers]) -> Broker:
    """Five come to a ring of three with two ready, and so many sessions are made meanwhile."""
    broker = Broker()
    broker.about["sessions_made"] = 10.0
    broker.see({"q": queue(2, 2, ring=3.0)}, polls=2)
    broker.about["sessions_made"] += made
    broker.see({"q": queue(7, 3, ring=3.0)}, consumers=consumers)
    return broker.see({"q": queue(7, 3, ring=3.0)}, consumers=consumers)


def test_a_consumer_that_comes_and_goes_between_two_polls_may_have_evicted() -> None:
    broker = unlisted(1, {})
    assert broker.sheet().left["evicted"] == 4
    assert broker.sheet().lost_by == {"arrivals": (0, 4), "(not known)": (0, 4)}
    assert by_client(broker) == {"": 0}


@pytest.mark.slow  # many polls
def test_a_session_that_is_listed_is_none_that_went() -> None:
    other = {"c": {"queue": "other", "client": "x", "T": 0.0, "session": "new"}}
    assert unlisted(1, other).sheet().lost_by == {"arrivals": 4}
    assert unlisted(2, other).sheet().lost_by["arrivals"] == (0, 4)
    assert unlisted(0, {}).sheet().lost_by == {"arrivals": 4}


def test_beside_one_that_was_never_listed_no_client_is_known_for_sure() -> None:
    broker = Broker()
    broker.about["sessions_made"] = 10.0
    broker.see(
        {"q": queue(4, 4, D=3.0, ring=3.0)}, consumers={"a": taker("a", 3.0)}, polls=2
    )
    broker.about["sessions_made"] = 11.0
    broker.see({"q": queue(4, 3, ring=3.0)}, polls=2)
    assert broker.sheet().lost_by == {"arrivals": 0, "a": (0, 1)}
    assert by_client(broker) == {"a": 0, "": 1}


# --- polls in between


@pytest.mark.slow  # many polls
def test_polls_in_between_say_what_came_before_the_close_and_change_nothing_else() -> (
    None
):
    """Arrivals go on: each 15 s, and in between each half second, of which only the account knows."""

    def live(world: World, glances: bool) -> tuple[float, float, float]:
        one = world.queues["q"]
        holder = one.join("holder", window=np.inf)
        for second in range(90):
            for half in range(2):
                one.come(1)
                if (second, half) == (20, 0):
                    one.take(holder)
                if (second, half) == (37, 0):
                    one.close(holder)
                world.now = world.now + 0.5
                world.uptime = world.uptime + 0.5
                if glances:
                    glance(world)
            if second % 15 == 14:
                world.look()
        world.run(30)
        losses = world.state.judgement.account.ring_losses
        books = world.state.judgement.account.books
        assert losses.least[0] <= one.lost_by_consumers <= losses.most[0]
        assert books.lost[0] == one.lost
        assert world.evicted() == one.lost
        return (
            losses.most[0] - losses.least[0],
            one.lost_by_consumers,
            world.column("queue", "lost_by_consumer"),
        )

    def world() -> World:
        return ring(10)[0].run(30)

    wide = live(world(), False)
    close = live(world(), True)
    assert close[1] == wide[1] > 0
    assert close[0] < wide[0] / 5
    assert wide[2] <= close[2] <= close[1]


def glance(world: World) -> None:
    consumers = {
        name: said
        for one in world.queues.values()
        for name, said in one.consumers_said().items()
    }
    queues = {name: one.queue_said() for name, one in world.queues.items()}
    addresses = {
        name: {"messages_added": float(one.A)} for name, one in world.queues.items()
    }
    snapshot = world.snapshot(queues, consumers, addresses)
    state = world.state
    judgement = glanced(state.judgement, snapshot, world.policy.constants)
    world.state = type(state)(
        **{
            **{name: getattr(state, name) for name in state.__slots__},
            "judgement": judgement,
        }
    )


def test_what_grew_in_between_is_told_at_the_next_poll() -> None:
    world, one, _ = ring(3)
    world.run(30)
    one.come(9)
    world.now = world.now + 0.5
    world.uptime = world.uptime + 0.5
    for _ in range(3):
        world.now = world.now + 0.5
        world.uptime = world.uptime + 0.5
        glance(world)
    assert "ring_losing" not in world.notices
    world.now = world.now + 0.5
    world.uptime = world.uptime + 0.5
    world.look()
    assert world.evicted() == 6
    assert world.state.judgement.account.ring_losses.grew[0] == 6


def test_a_sum_of_losses_is_one_of_its_parts() -> None:
    assert Loss(1, 2, 1) + Loss(0, 3, 0) == Loss(1, 5, 1)


# --- what goes between the reads of a poll


def between_the_reads(came: float, then: float = 20.0) -> Broker:
    """A ring of 20 with 20 in delivery and 20 ready; then it closes after its consumers were listed."""
    broker = Broker().see({"q": queue(0, 0, ring=20.0)}, polls=3)
    c = {"c": taker("c", 20.0)}
    broker.see({"q": queue(20, 20, D=20.0, ring=20.0)}, consumers=c, polls=2)
    broker.see({"q": queue(40, 40, D=20.0, ring=20.0)}, consumers=c, polls=3)
    broker.see({"q": queue(40 + came, then, ring=20.0)}, consumers=c)
    return broker.see({"q": queue(40 + came, then, ring=20.0)}, polls=4)


@pytest.mark.slow  # many polls
def test_a_consumer_that_closed_after_it_was_listed() -> None:
    """Seen on 2.44: all were booked to arrivals, of which there was none."""
    assert between_the_reads(0).sheet().lost_by == {"arrivals": 0, "c": 20}


@pytest.mark.slow  # many polls
def test_and_among_arrivals_it_has_bounds() -> None:
    assert between_the_reads(5).sheet().lost_by == {"arrivals": (0, 5), "c": (20, 25)}


def test_one_that_goes_much_later_evicted_nothing() -> None:
    c = {"c": taker("c", 2.0)}
    broker = Broker().see({"q": queue(2, 2, D=2.0, ring=3.0)}, consumers=c, polls=3)
    broker.see({"q": queue(9, 5, D=2.0, ring=3.0)}, consumers=c, polls=2).see(
        {"q": queue(9, 5, ring=9.0)}, polls=3
    )
    assert broker.sheet().lost_by == {"arrivals": 4}


def test_of_consumers_beyond_the_budget_any_may_have_made_it_lose() -> None:
    """One that went out of view is not gone for sure, and not the only one that may be."""
    over = [LeftOut("consumers", 1, 3)]
    both = {"a": taker("a", 2.0), "b": taker("b", 1.0)}
    broker = Broker().see(
        {"q": queue(6, 6, D=5.0, consumers=3.0, ring=3.0)},
        consumers=both,
        polls=3,
        left_out=over,
    )
    b = {"b": taker("b", 1.0)}
    broker.see(
        {"q": queue(6, 3, D=1.0, consumers=2.0, ring=3.0)},
        consumers=b,
        polls=3,
        left_out=over,
    )
    assert broker.left("evicted") == 3
    assert broker.sheet().lost_by == {"arrivals": 0, "a": (0, 3)}
    assert "not listed" in broker.sheet().reasons["lost_by"]
    assert by_client(broker) == {"a": 0, "b": 0, "": 3}
