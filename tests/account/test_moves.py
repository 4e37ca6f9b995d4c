"""What an operator moved is not acknowledged; what looks like a move, and is none."""

import random
from typing import Any

import pytest

from account.world import Broker, queue

LONG = 14


def see(
    broker: Broker,
    k: float,
    came: float,
    sent: float = 0.0,
    polls: int = 3,
    **said: Any,
) -> Broker:
    """A queue of a hundred of which `k` left, and one that `came` messages came to, `sent` of them by a producer."""
    rows = {"q": queue(100, 100 - k, K=float(k), **said), "to": queue(came, came)}
    return broker.see(rows, senders={"p": ("to", sent)}, polls=polls)


def idle() -> Broker:
    return see(Broker(), 0, 0, polls=LONG)


@pytest.mark.slow  # many polls
def test_a_move_is_proven_where_nothing_else_can_have_done_it() -> None:
    broker = see(idle(), 10, 10)
    assert (broker.left("moved"), broker.left("acknowledged")) == (10, 0)
    assert broker.shown() == {("q", "moved"): 10}
    see(broker, 30, 30)
    assert (broker.left("moved"), broker.left("acknowledged")) == (30, 0)
    assert broker.sheet().sums == "100 at start = 70 ready + 30 moved"


@pytest.mark.slow  # many polls
def test_it_is_told_once_with_the_address_that_has_them() -> None:
    broker = idle()
    told: list[tuple[int, int, tuple[str, ...]]] = []
    for _ in range(6):
        see(broker, 10, 10, polls=1)
        told += broker.account.moves.proven
    ((_, messages, to),) = told
    assert (messages, to) == (10, ("to",))


@pytest.mark.slow  # many polls
def test_nothing_that_came_elsewhere_is_no_move() -> None:
    """A client that is gone before a poll lists it; removeMessage, STOMP's NACK."""
    broker = see(idle(), 10, 0)
    assert (broker.left("moved"), broker.left("acknowledged")) == (0, 10)
    see(broker, 10, 25, sent=25)
    see(broker, 20, 35, sent=35)
    assert (broker.left("moved"), broker.left("acknowledged")) == (0, 20)


@pytest.mark.slow  # many polls
def test_what_consumers_settled_was_not_moved() -> None:
    broker = Broker()
    for n in range(LONG):
        k = max(0.0, n - 9.0)
        rows = {"q": queue(100, 100 - k, K=k, consumers=1.0), "to": queue(k, k)}
        taker = {"c": {"queue": "q", "T": 0.0, "N": k, "C": k, "W": 0.0}}
        broker.see(rows, consumers=taker, senders={})
    assert (broker.left("moved"), broker.left("acknowledged")) == (0, 4)


@pytest.mark.slow  # many polls
def test_other_numbers_than_left_have_bounds() -> None:
    """Ten left, and six came somewhere from none that is listed: up to six of them."""
    broker = see(idle(), 10, 6)
    assert (broker.left("moved"), broker.left("acknowledged")) == ((0, 6), (4, 10))
    see(broker, 10, 60)
    assert broker.left("moved") == (0, 6)


@pytest.mark.slow  # many polls
def test_a_client_that_came_and_went_in_the_interval_has_bounds() -> None:
    broker = idle()
    rows = {"q": queue(100, 90, K=10.0), "to": queue(10, 10)}
    broker.see(rows, senders={"p": ("to", 0.0), "new": ("other", 3.0)}, polls=3)
    assert (broker.left("moved"), broker.left("acknowledged")) == ((0, 10), (0, 10))


@pytest.mark.slow  # many polls
def test_a_queue_whose_consumers_come_and_go_has_bounds() -> None:
    """They settle after they were last seen: what came elsewhere may have been moved, for all that is known."""
    broker = idle()
    for n in range(1, 8):
        rows = {"q": queue(100, 100 - n, K=float(n), consumers=1.0), "to": queue(n, n)}
        broker.see(
            rows,
            consumers={f"c{n}": {"queue": "q", "T": 1.0, "N": 1.0, "C": 0.0}},
            senders={},
        )
    low, high = broker.fate("moved")
    assert low == 0 < high <= 7
    assert broker.fate("acknowledged")[1] == 7


@pytest.mark.slow  # many polls
def test_what_a_link_takes_is_not_listed() -> None:
    broker = see(Broker(), 0, 0, polls=LONG, consumers=1.0)
    see(broker, 10, 10, consumers=1.0)
    assert (broker.left("moved"), broker.left("acknowledged")) == (0, 10)


@pytest.mark.slow  # many polls
def test_dead_letters_and_expired_messages_that_come_were_not_moved() -> None:
    gone: dict[str, Any] = {
        "dead_letter_address": "to",
        "has_dead_letter_address": 1.0,
        "expiry_address": "to",
    }
    broker = see(Broker(), 0, 0, polls=LONG, **gone)
    rows = {"q": queue(100, 80, K=10.0, X=4.0, E=6.0, **gone), "to": queue(10, 10)}
    broker.see(rows, senders={"p": ("to", 0.0)}, polls=4)
    assert (broker.left("moved"), broker.left("acknowledged")) == (0, 10)


@pytest.mark.slow  # many polls
def test_no_counter_falls() -> None:
    broker = idle()
    before: dict[tuple[str, str], float] = {}
    for k, came, sent in [
        (3, 0, 0),
        (3, 3, 0),
        (9, 3, 0),
        (9, 9, 0),
        (20, 9, 0),
        (20, 30, 10),
        (40, 80, 60),
    ]:
        see(broker, k, came, sent, polls=1)
        shown = broker.shown()
        assert all(shown.get(name, 0) >= value for name, value in before.items())
        before = shown
    low, high = broker.fate("moved")
    acknowledged = broker.fate("acknowledged")
    assert acknowledged == (40 - high, 40 - low)


@pytest.mark.slow  # many polls
def test_a_restart_of_the_agent_keeps_it() -> None:
    broker = see(idle(), 10, 10)
    broker.restart_agent()
    see(broker, 10, 10, polls=LONG)
    assert (broker.left("moved"), broker.left("acknowledged")) == (10, 0)
    see(broker, 15, 15)
    assert (broker.left("moved"), broker.left("acknowledged")) == (15, 0)


# --- what is read apart


@pytest.mark.slow  # many polls
def test_a_move_between_the_reads_is_not_acknowledged_first() -> None:
    """The address is read before the queue: what came to it shows one poll later. Both were told before: 10 and 10."""
    broker = idle()
    rows = {"q": queue(100, 90, K=10.0), "to": queue(10, 10)}
    broker.see(rows, {"to": {"messages_added": 0.0}}, senders={"p": ("to", 0.0)})
    assert broker.left("acknowledged") == (0, 10)
    see(broker, 10, 10)
    assert (broker.left("moved"), broker.left("acknowledged")) == (10, 0)


@pytest.mark.slow  # many polls
def test_while_producers_are_not_read_nothing_is_exact() -> None:
    broker = idle()
    broker.see({"q": queue(100, 90, K=10.0), "to": queue(10, 10)}, polls=3)
    assert (broker.left("moved"), broker.left("acknowledged")) == ((0, 10), (0, 10))
    see(broker, 10, 10)
    assert (
        broker.fate("moved")[0] + broker.fate("acknowledged")[0]
        <= 10
        <= broker.fate("moved")[1]
    )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("calm", [0, LONG])
@pytest.mark.parametrize("lag", [0, 10])
@pytest.mark.parametrize("polls", [2, LONG])
def test_beside_producers_without_an_address_a_move_has_bounds(
    calm: int, lag: float, polls: int
) -> None:
    """They send as much elsewhere; the queue is as new as a test's, or its consumer has just gone."""
    broker = Broker()
    sent = 0.0
    for n in range(polls + 4):
        sent += 50.0 * (n >= calm)
        moved = 10.0 * (n >= polls)
        rows = {
            "q": queue(100, 100 - moved, K=moved),
            "to": queue(sent + moved, sent + moved),
        }
        late = lag if n == polls else 0.0
        taker = {"c": {"queue": "q", "T": 0.0, "N": 0.0, "C": 0.0}} if n == 0 else {}
        address = {"to": {"messages_added": sent + moved - late}}
        broker.see(rows, address, consumers=taker, senders={"p": ("(anonymous)", sent)})
    low, high = broker.fate("moved")
    assert low <= 10 <= high
    assert broker.fate("acknowledged")[0] == 0


# --- beside producers without an address, what rows say later explains what they had not said


class Beside:
    """
    A queue with one consumer, beside a producer without an address that always sends.

    settled, moved, in_vain: so many, by the consumer, by an operator, and of what the consumer rolled back. unread: of
    what it settled, acknowledged only after the rows of consumers were read.
    """

    def __init__(self, *, counts_attempts: bool = True) -> None:
        self.broker = Broker()
        self.consumer = "c"
        self.settled = 0
        self.moved = 0
        self.in_vain = 0
        self.sent = 0
        self._earlier = 0
        self.attempts = counts_attempts
        self.poll()

    def poll(
        self,
        settled: int = 0,
        moved: int = 0,
        in_vain: int = 0,
        *,
        unread: int = 0,
        strangers: int = 50,
    ) -> None:
        self.settled = self.settled + settled
        self.moved = self.moved + moved
        self.in_vain = self.in_vain + in_vain
        self.sent += strangers
        k = float(self.settled + self.moved)
        numbers = {"Att": k + self.in_vain} if self.attempts else {}
        rows = {
            "q": queue(
                9000, 9000 - k, K=k, consumers=float(bool(self.consumer)), **numbers
            )
        }
        other = {"to": queue(self.sent + self.moved, self.sent + self.moved)}
        done = float(self.settled + self.in_vain - unread - self._earlier)
        takers = (
            {self.consumer: {"queue": "q", "N": done, "C": done, "T": 0.0}}
            if self.consumer
            else {}
        )
        senders = {"p": ("(anonymous)", float(self.sent)), "gone": ("to", 0.0)}
        self.broker.see(rows | other, consumers=takers, senders=senders)

    def worked(self, polls: int, settled: int) -> "Beside":
        """The consumer settles so many before each of some polls."""
        for _ in range(polls):
            self.poll(settled=settled)
        return self

    def goes(self, then: str = "") -> None:
        self._earlier = self.settled + self.in_vain
        self.consumer = then

    @property
    def told(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Acknowledged and moved, at least and at most."""
        low, high = self.broker.fate("acknowledged")
        assert (low, high) == tuple(
            self.settled + self.moved - n for n in reversed(self.broker.fate("moved"))
        )
        return (low, high), self.broker.fate("moved")


@pytest.mark.slow  # many polls
def test_batches_that_are_acknowledged_between_the_reads_are_acknowledged_in_the_end() -> (
    None
):
    """At four polls of five a batch of fifty was acknowledged just after the rows had been read."""
    queue = Beside()
    for n in range(30):
        queue.poll(settled=100, unread=50 if n % 5 else 0)
        assert queue.told[0][0] >= queue.settled - 50
    queue.poll()
    assert queue.told == ((3000, 3000), (0, 0))


@pytest.mark.slow  # many polls
def test_what_was_in_hand_when_a_consumer_went_is_all_that_has_bounds() -> None:
    queue = Beside()
    for n in range(20):
        queue.poll(settled=100, unread=100 if n % 3 else 0)
    queue.poll()
    queue.settled += 30
    queue.goes()
    for _ in range(6):
        queue.poll()
    assert queue.told == ((2000, 2030), (0, 30))


@pytest.mark.slow  # many polls
def test_what_consumers_roll_back_hides_no_move() -> None:
    """Both were told as acknowledged: their sum is what the rows of the consumers say."""
    queue = Beside()
    queue.poll(settled=40)
    for _ in range(12):
        queue.poll(settled=10, in_vain=15)
        queue.poll(settled=10, in_vain=5, moved=5)
        assert queue.told[0][0] <= queue.settled
    queue.poll()
    (low, high), (_, moved) = queue.told
    assert low <= 280 <= high
    assert queue.moved <= moved


@pytest.mark.slow  # many polls
def test_retries_now_and_then_leave_the_rest_exact() -> None:
    queue = Beside()
    for n in range(60):
        queue.poll(settled=20, in_vain=3 * (n % 25 == 20), unread=10 * (n % 2))
    queue.poll()
    assert queue.told[0][1] == 1200
    assert queue.told[0][0] >= 1200 - 2 * 2 * 3


@pytest.mark.slow  # many polls
def test_a_move_within_the_noise_is_not_acknowledged_when_strangers_end() -> None:
    queue = Beside().worked(10, settled=50)
    queue.poll(settled=50, moved=3)
    for _ in range(12):
        queue.poll(settled=50, strangers=0)
    assert queue.told == ((1150, 1153), (0, 3))


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("seed", "attempts"), [(1, True), (4, True), (5, True), (2, False)]
)
def test_nothing_that_was_moved_is_ever_acknowledged(
    seed: int, *, attempts: bool
) -> None:
    dice, queue = random.Random(seed), Beside(counts_attempts=attempts)  # noqa: S311 - no secret
    rolls_back = 3 * (attempts and seed % 2)
    queue.poll(5, in_vain=rolls_back)
    for n in range(60):
        if not dice.randrange(15):
            queue.settled += dice.randrange(10)
            queue.goes(then=f"c{n}")
        batch = dice.choice([0, 5, 50])
        moved = dice.choice([0, 0, 0, 7])
        strangers = dice.choice([0, 20])
        unread = dice.choice([0, batch])
        queue.poll(
            batch, moved, rolls_back * (n % 7 == 0), unread=unread, strangers=strangers
        )
        (low, _), (_, most) = queue.told
        assert low <= queue.settled
        assert queue.moved <= most
    for _ in range(6):
        queue.poll()
    assert queue.told[0][0] <= queue.settled <= queue.told[0][1]


@pytest.mark.slow  # many polls
def test_while_attempts_are_not_read_nothing_is_taken_back() -> None:
    queue = Beside().worked(5, settled=10)
    queue.poll(settled=10, moved=10)
    queue.poll()
    assert queue.told[0][0] == 60
    for known in (False, True, True, True, True, True, True):
        queue.attempts = known
        queue.poll(settled=10 * (not known), in_vain=10 * (not known))
    assert queue.told[0][0] <= 70 <= queue.told[0][1]


def test_a_restart_of_the_agent_keeps_what_it_was_not_sure_of() -> None:
    queue = Beside().worked(5, settled=10)
    queue.poll(settled=10, moved=10)
    queue.broker.restart_agent()
    for _ in range(6):
        queue.poll(settled=10)
    assert queue.told == ((120, 130), (0, 10))


def settles_unread(
    broker: Broker, elsewhere: str, *, polls: int, has_queue: bool = False
) -> None:
    """Its consumers settle some between the reads, and are replaced now and then; messages come to another address."""
    consumer = "c"
    earlier = 0.0
    for n in range(1, polls + 1):
        settled = 20.0 * n
        done = settled - n % 4
        if n % 8 == 0:
            consumer = f"c{n}"
            earlier = done
        taker = {
            consumer: {"queue": "q", "N": done - earlier, "C": done - earlier, "T": 0.0}
        }
        rows = {"q": queue(9000, 9000 - settled, K=settled, consumers=1.0)}
        if has_queue:
            rows[elsewhere] = queue(50 * n, 50 * n)
        routed = {elsewhere: {"messages_added": 50.0 * n, "messages_unrouted": 0.0}}
        broker.see(rows, routed, consumers=taker, senders={"p": ("q", 0.0)})


@pytest.mark.slow  # many polls
def test_to_an_address_without_a_queue_nothing_is_moved() -> None:
    """What comes to it a divert has sent; the queue beside it is healthy."""
    broker = Broker()
    settles_unread(broker, "audit", polls=23)
    assert broker.fate("moved") == (0, 3), "what the rows of this poll do not show yet"
    assert broker.fate("acknowledged") == (437, 440)


@pytest.mark.slow  # many polls
def test_to_an_address_with_a_queue_they_may_have_been_moved() -> None:
    broker = Broker()
    settles_unread(broker, "to", polls=23, has_queue=True)
    assert broker.fate("moved")[1] > 10
