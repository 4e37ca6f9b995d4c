"""Faults and healthy rhythms, as functions that set up a world and give what happens in it."""

from collections.abc import Callable
from functools import partial
from itertools import cycle

import numpy as np

from conditions.world import Live, Queue, Rate, World
from penstock.model import QueueKind

Setup = Callable[[World], Live]


def every(seconds: float, do: Callable[[], None], phase: float = 0.0) -> Live:
    """`do` every so many seconds, first after `phase`."""
    left = phase

    def live(passed: float) -> None:
        nonlocal left
        left -= passed
        while left <= 1e-9:
            left += seconds
            do()

    return live


def together(*lives: Live) -> Live:
    def live(seconds: float) -> None:
        for one in lives:
            one(seconds)

    return live


def arrivals(queue: Queue, per_second: float) -> Live:
    rate = Rate(per_second)
    return lambda seconds: queue.come(rate(seconds))


def working(
    queue: Queue, client: str = "app", per_second: float = np.inf, window: float = 1000
) -> Live:
    """A consumer that takes and settles; at most so many per second."""
    consumer = queue.join(client, window=window)
    rate = Rate(per_second if np.isfinite(per_second) else 1e9)

    def live(seconds: float) -> None:
        queue.take(consumer)
        queue.settle(consumer, rate(seconds))

    return live


# --- faults


def blocked_listener(world: World) -> Live:
    """Its window fills and nothing is settled."""
    queue = world.queue()
    consumer = queue.join(window=500)
    return together(arrivals(queue, 2), lambda _: queue.take(consumer))


def never_acknowledges(world: World) -> Live:
    """Takes without end, with fresh deliveries at every poll."""
    queue = world.queue()
    consumer = queue.join(window=np.inf)
    return together(arrivals(queue, 2), lambda _: queue.take(consumer))


def one_wedged_of_eight(world: World) -> Live:
    """A staggered pool with jobs of a minute and a half, of which one stands still."""
    queue = world.queue()
    pool = [queue.join("pool", window=1) for _ in range(8)]
    queue.come(1000)
    queue.take(pool[0])
    jobs = [
        every(90, partial(queue.next, c), phase=11.0 * n)
        for n, c in enumerate(pool[1:], 1)
    ]
    return together(arrivals(queue, 0.05), *jobs)


def open_transaction(world: World) -> Live:
    """Acknowledges one by one and never commits."""
    queue = world.queue()
    consumer = queue.join()

    def live(_: float) -> None:
        queue.take(consumer)
        queue.acknowledge(consumer)

    return together(arrivals(queue, 1), live)


def rollback_loop(world: World) -> Live:
    queue = world.queue()
    consumer = queue.join(window=50)
    queue.come(20)

    def live(_: float) -> None:
        queue.take(consumer)
        queue.roll_back(consumer)

    return live


def reconnects_in_vain(world: World) -> Live:
    """Takes the backlog, fails, connects anew every 20 s."""
    queue = world.queue()
    queue.come(50)

    def again() -> None:
        for consumer in [*queue.consumers.values()]:
            queue.close(consumer)
        queue.take(queue.join(window=10))

    return together(arrivals(queue, 0.5), every(20, again))


def selector_without_match(world: World) -> Live:
    queue = world.queue()
    queue.join(filter="x = 1")
    return arrivals(queue, 1)


def not_started(world: World) -> Live:
    """A connection that is not started: no message is taken."""
    queue = world.queue()
    queue.join()
    return arrivals(queue, 1)


def consumer_gone(world: World) -> Live:
    """Works for a minute, then its process is gone."""
    queue = world.queue()
    work = working(queue)
    begin = world.seconds

    def live(seconds: float) -> None:
        if world.seconds - begin < 60:
            work(seconds)
        else:
            queue.consumers = {}

    return together(arrivals(queue, 2), live)


def paused(world: World) -> Live:
    queue = world.queue(paused=1.0)
    queue.join()
    return arrivals(queue, 1)


def depaging_frozen(world: World) -> Live:
    """One consumer holds as many bytes as may be read from the pages."""
    queue = world.queue(
        delivering_bytes=19e6,
        address={"paging": 1.0, "pages": 20.0, "page_read_limit_bytes": 20e6},
    )
    queue.come(5000)
    queue.take(queue.join(window=1000), 1000)
    queue.join()
    return arrivals(queue, 1)


def blocked_producers(world: World) -> Live:
    queue = world.queue(address={"limit_percent": 100.0, "paging": 0.0})
    queue.come(1000)
    queue.take(queue.join(window=10))
    return lambda _: None


def rejecting(world: World) -> Live:
    queue = world.queue(address={"limit_percent": 100.0, "paging": 1.0, "pages": 0.0})
    queue.come(1000)
    return working(queue, per_second=0.5)


def ring_lost_by_close(world: World) -> Live:
    """A full ring; the consumer holds 40 and closes after ten minutes without arrivals."""
    queue = world.queue(ring=10)
    queue.come(10)
    consumer = queue.join(window=40)
    for _ in range(4):
        queue.take(consumer)
        queue.come(10)
    begin = world.seconds

    def live(_: float) -> None:
        if world.seconds - begin >= 100 and queue.consumers:
            queue.close(consumer)

    return live


def too_slow(world: World) -> Live:
    queue = world.queue()
    return together(arrivals(queue, 5), working(queue, per_second=3, window=20))


def hoarding(world: World) -> Live:
    """One prefetched everything and works slowly, its peer has nothing."""
    queue = world.queue()
    slow = queue.join(window=np.inf)
    queue.come(800)
    queue.take(slow)
    queue.join()
    rate = Rate(0.5)
    return lambda seconds: queue.settle(slow, rate(seconds))


FAULTS: dict[str, tuple[Setup, str, set[str]]] = {
    # fault: what happens, the condition that must come, others that may
    "blocked listener": (blocked_listener, "stalled", set()),
    "never acknowledges": (never_acknowledges, "stalled", set()),
    "one wedged of eight": (one_wedged_of_eight, "stalled", set()),
    "open transaction": (open_transaction, "open_transaction", set()),
    "rollback loop": (rollback_loop, "redelivery_loop", set()),
    "reconnects in vain": (reconnects_in_vain, "churn_without_progress", set()),
    "selector without match": (selector_without_match, "not_dispatching", set()),
    "not started": (not_started, "not_dispatching", set()),
    "consumer gone": (consumer_gone, "no_consumer", set()),
    "paused": (paused, "paused", set()),
    "depaging frozen": (depaging_frozen, "depaging_frozen", {"stalled"}),
    "blocked producers": (blocked_producers, "producers_blocked", {"stalled"}),
    "rejecting": (rejecting, "rejecting", set()),
    "ring lost by close": (
        ring_lost_by_close,
        "ring_lost_by_consumer",
        {"no_consumer", "stalled"},
    ),
    "too slow": (too_slow, "falling_behind", set()),
    "hoarding": (hoarding, "hoarding", set()),
}


# --- healthy


def busy(world: World) -> Live:
    """2,000 a second, settled at once."""
    queue = world.queue()
    return together(arrivals(queue, 2000), working(queue, window=np.inf))


def busy_pool(world: World) -> Live:
    queue = world.queue()
    return together(
        arrivals(queue, 2000), *(working(queue, per_second=600) for _ in range(4))
    )


def idle(world: World) -> Live:
    queue = world.queue()
    queue.join()
    return lambda _: None


def pool_with_long_jobs(world: World) -> Live:
    """Eight with jobs of four minutes each, half a minute apart."""
    queue = world.queue()
    pool = [queue.join("pool", window=1) for _ in range(8)]
    queue.come(1000)
    jobs = [
        every(240, partial(queue.next, c), phase=30.0 * n) for n, c in enumerate(pool)
    ]
    return together(*jobs)


def commits(seconds: float) -> Setup:
    """Acknowledges at once and commits at a rhythm that may fit the polls."""

    def setup(world: World) -> Live:
        queue = world.queue()
        consumer = queue.join()

        def work(_: float) -> None:
            queue.take(consumer)
            queue.acknowledge(consumer)

        return together(
            arrivals(queue, 4),
            work,
            every(seconds, lambda: queue.commit(consumer), phase=seconds),
        )

    return setup


def one_big_rollback(world: World) -> Live:
    queue = world.queue()
    consumer = queue.join(window=2000)
    queue.come(2000)
    rate = Rate(20)
    begin = world.seconds
    done: list[int] = []

    def live(seconds: float) -> None:
        queue.take(consumer)
        if world.seconds - begin >= 130 and not done:
            done.append(1)
            queue.roll_back(consumer)
        else:
            queue.settle(consumer, rate(seconds))

    return together(arrivals(queue, 20), live)


def some_fail(world: World) -> Live:
    """One message in a hundred fails, is delivered again, and then settled."""
    queue = world.queue()
    consumer = queue.join(window=np.inf)

    def work(_: float) -> None:
        queue.take(consumer)
        queue.settle(consumer)

    def fail() -> None:
        queue.come(1)
        queue.take(consumer, 1)
        queue.roll_back(consumer)

    return together(arrivals(queue, 99), work, every(1.0, fail))


def short_lived(world: World) -> Live:
    """A consumer every 20 s, for a blink, that takes all there is."""
    queue = world.queue()
    return together(arrivals(queue, 1), every(20, partial(visit, queue), phase=7))


def visit(queue: Queue) -> None:
    """A consumer comes, settles all there is, and goes."""
    consumer = queue.join()
    queue.take(consumer)
    queue.settle(consumer)
    queue.close(consumer)


def short_lived_seen(world: World) -> Live:
    """A consumer every 20 s that stays for a while, also at a poll, and settles all."""
    queue = world.queue()

    def visit() -> None:
        for consumer in [*queue.consumers.values()]:
            queue.settle(consumer)
            queue.close(consumer)
        queue.take(queue.join(window=5))

    return together(arrivals(queue, 0.2), every(20, visit))


def exclusive_standby(world: World) -> Live:
    """The second of two on an exclusive queue never gets anything; the first works slowly."""
    queue = world.queue(exclusive=1.0)
    queue.come(50)
    live = working(queue, per_second=0.02, window=5)
    queue.join("standby")
    return together(arrivals(queue, 0.02), live)


def unwanted_leftovers(world: World) -> Live:
    """What no selector wants stays, and nothing comes."""
    queue = world.queue()
    queue.come(20)
    queue.join(filter="x = 1")
    return lambda _: None


def empty_dead_letters(world: World) -> Live:
    """Dead letters wait, nobody reads them, now and then one comes."""
    queue = world.queue(kind=QueueKind.DEAD_LETTER)
    queue.come(5)
    return arrivals(queue, 0.02)


def ring_overflows(world: World) -> Live:
    """More comes than is read: what a ring is for."""
    queue = world.queue(ring=100)
    return together(arrivals(queue, 50), working(queue, per_second=10, window=20))


def full_ring(world: World) -> Live:
    """Full, nothing comes, a consumer reads one now and then."""
    queue = world.queue(ring=100)
    queue.come(100)
    return working(queue, per_second=0.1, window=1)


def bursts(world: World) -> Live:
    """A thousand at once every two minutes, worked off in between."""
    queue = world.queue()
    return together(
        every(120, lambda: queue.come(1000)), working(queue, per_second=15, window=100)
    )


def saw_teeth(world: World) -> Live:
    """Read in batches of all there is, every 50 s."""
    queue = world.queue()
    consumer = queue.join(window=np.inf)

    def batch() -> None:
        queue.take(consumer)
        queue.settle(consumer)

    return together(arrivals(queue, 10), every(50, batch, phase=50))


def one_in_hand(world: World) -> Live:
    """A queue with little to do: one consumer has the only message for a while, its peers none."""
    queue = world.queue()
    pool = [queue.join(window=5) for _ in range(3)]
    turns = cycle(pool)

    def turn() -> None:
        for consumer in pool:
            queue.settle(consumer)
        queue.come()
        queue.take(next(turns))

    return every(40, turn)


def burst_gone_at_once(world: World) -> Live:
    """A burst goes to one consumer, which is done with it within the time of a poll."""
    queue = world.queue()
    first = queue.join(window=200)
    queue.join()

    def burst() -> None:
        queue.come(150)
        queue.take(first)

    rate = Rate(10)
    return together(
        every(60, burst), lambda seconds: queue.settle(first, rate(seconds))
    )


def paging_at_work(world: World) -> Live:
    queue = world.queue(
        delivering_bytes=19e6,
        address={"paging": 1.0, "pages": 20.0, "page_read_limit_bytes": 20e6},
    )
    queue.come(20_000)
    return together(arrivals(queue, 10), working(queue, per_second=10, window=1000))


def throttled(world: World) -> Live:
    """A full address whose producers are let in as messages leave."""
    queue = world.queue(address={"limit_percent": 100.0, "paging": 0.0})
    queue.come(1000)
    return together(arrivals(queue, 0.2), working(queue, per_second=0.2, window=5))


def one_purge(world: World) -> Live:
    """An operator removes a thousand messages; once some expire together."""
    queue = world.queue()
    live = working(queue, per_second=0.2, window=5)
    queue.come(3000)
    begin = world.seconds
    purged: list[int] = []

    def purge(_: float) -> None:
        if world.seconds - begin >= 140 and not purged:
            purged.append(1)
            queue.X += 1000
            queue.E += 100
            queue.waiting -= 1100

    return together(live, purge)


HEALTHY: dict[str, Setup] = {
    "busy": busy,
    "busy pool": busy_pool,
    "idle": idle,
    "pool with long jobs": pool_with_long_jobs,
    "commits every 5 s": commits(5),
    "commits every 25 s": commits(25),
    "commits every 60 s": commits(60),
    "one big rollback": one_big_rollback,
    "some fail": some_fail,
    "short-lived": short_lived,
    "short-lived, seen": short_lived_seen,
    "exclusive standby": exclusive_standby,
    "unwanted leftovers": unwanted_leftovers,
    "dead letters": empty_dead_letters,
    "ring overflows": ring_overflows,
    "full ring": full_ring,
    "bursts": bursts,
    "saw-teeth": saw_teeth,
    "one in hand": one_in_hand,
    "burst gone at once": burst_gone_at_once,
    "paging at work": paging_at_work,
    "throttled": throttled,
    "one purge": one_purge,
}
