"""
The grammar: which clients, acknowledge modes, failures, kinds of queues, neighbours and rhythms go together, and what
is true of the situation that they make.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Final

ANY: Final = frozenset[str]()
JMS: Final = frozenset({"core", "openwire"})
ARTEMIS: Final = JMS | {"amqp", "stomp", "mqtt"}
ALL: Final = ARTEMIS | {"openmq"}
MODES: Final = {
    "core": ("auto", "client", "individual", "transacted", "dups"),
    "openwire": ("auto", "client", "individual", "transacted"),
    "amqp": ("accept", "transacted"),
    "stomp": ("individual",),
    "mqtt": ("qos1",),
    "openmq": ("auto", "client", "dups", "transacted"),
}
QUEUES: Final = (
    "anycast",
    "subscription",
    "ring",
    "last-value",
    "exclusive",
    "groups",
    "selector",
)
NEIGHBOURS: Final = ("alone", "pool")
RHYTHMS: Final = ("steady", "bursts", "trickle")
FLOWING: Final = frozenset({"steady"})
WORDS: Final = (
    "orders",
    "stock",
    "claims",
    "audit",
    "mail",
    "rates",
    "trades",
    "parcels",
    "meter",
    "ledger",
    "seats",
)
CLOSE: Final = (
    "close_connection close_connection_of_others close_connection_of_mqtt close_consumer destroy_connection"
    " destroy_connection_in_transaction "
)


@dataclass(frozen=True, slots=True)
class Failure:
    """
    What goes wrong, with whom it can, and what is true then. Empty sets: any.

    need: one of these has to be told; also: lawful beside. causes: true of each of `need`, by client where it differs.
    helps: of these actions one has to be advised; harmless: may be, too. whole: of all consumers of a pool, else of
    one. patience: times that of a cold client until it is told, beside `seconds`. notice: a notice is enough.
    """

    clients: frozenset[str]
    need: str = ""
    causes: str = ""
    helps: str = ""
    harmless: str = ""
    also: str = ""
    modes: frozenset[str] = ANY
    queues: frozenset[str] = ANY
    neighbours: frozenset[str] = ANY
    rhythms: frozenset[str] = ANY
    whole: bool = False
    notice: bool = False
    early: bool = False
    history: bool = False
    patience: float = 0.0
    seconds: float = 0.0
    differs: dict[str, str] = field(default_factory=dict)

    def causes_of(self, client: str) -> frozenset[str]:
        return frozenset(self.differs.get(client, self.causes).split())


LOST = "ring_losing ring_lost_by_consumer holder_gone"
"""What a ring loses meanwhile."""
FAILURES: Final = {
    "none": Failure(ALL),
    "rollout": Failure(ARTEMIS),
    "hang": Failure(
        ALL, "stalled open_transaction", "listener_hangs", "thread_dump " + CLOSE, "commit_in_client larger_ring",
        f"falling_behind {LOST} hoarding", patience=2, differs={"mqtt": "puback_missing", "openmq": "listener_hangs"},
    ),
    "slow": Failure(
        ARTEMIS - {"mqtt"}, "slowed falling_behind", "work_slow became_slower",
        "find_what_is_slow look_at_disk faster_consumers see_consumer_limit",
        "larger_ring match_selector", "falling_behind slowed " + LOST, frozenset({"auto", "individual", "accept"}),
        rhythms=FLOWING, queues=frozenset({"anycast", "subscription", "selector"}), whole=True, seconds=170,
    ),
    "crash loop": Failure(
        ARTEMIS - {"mqtt"}, "churn_without_progress crash_looping no_consumer", "reconnects crashes application_down",
        "read_log stop_restarts", "set_aside start_reader larger_ring",
        f"no_consumer redelivery_loop dead_lettering dead_letters_lost {LOST}",
        queues=frozenset({"anycast", "ring", "last-value"}), patience=1, seconds=60,
    ),
    "leak": Failure(
        frozenset({"core", "amqp", "stomp"}), "leaking", "leaks", "thread_dump " + CLOSE, "",
        LOST, frozenset({"individual", "accept"}), frozenset({"anycast", "subscription"}), frozenset({"alone"}),
        FLOWING, early=True, notice=True, seconds=330,
    ),
    "never commits": Failure(
        frozenset({"core", "openwire", "openmq", "amqp"}), "open_transaction stalled", "never_commits",
        "commit_in_client " + CLOSE, "thread_dump larger_ring",
        "falling_behind hoarding stalled open_transaction " + LOST, frozenset({"transacted"}), patience=2,
        differs={"openmq": "never_commits transaction_failed"},
    ),
    "never acknowledges": Failure(
        ALL - {"mqtt"}, "stalled open_transaction", "never_acknowledges", "commit_in_client thread_dump " + CLOSE,
        "larger_ring", "falling_behind hoarding open_transaction " + LOST,
        frozenset({"client", "individual", "accept"}), patience=2,
    ),
    "rejects": Failure(
        frozenset({"core", "openwire", "amqp", "openmq"}), "redelivery_loop", "rolls_back",
        "read_log set_aside", "look_at_receiver larger_ring", "falling_behind " + LOST,
        frozenset({"transacted", "accept"}), frozenset({"anycast", "exclusive", "selector"}),
        seconds=80, differs={"amqp": "releases"},
    ),
    "frozen": Failure(
        JMS | {"openmq"}, "stalled no_consumer", "frozen application_down", "thread_dump start_reader " + CLOSE,
        "commit_in_client read_log larger_ring", f"no_consumer falling_behind orphaned hoarding {LOST}",
        neighbours=frozenset({"alone"}), rhythms=FLOWING, queues=frozenset({"anycast", "subscription"}), patience=2,
    ),
    "cut": Failure(
        frozenset({"core", "amqp", "stomp"}), "stalled no_consumer", "frozen application_down",
        "thread_dump start_reader " + CLOSE, "commit_in_client read_log larger_ring",
        f"no_consumer falling_behind orphaned hoarding {LOST}", patience=2,
        neighbours=frozenset({"alone"}), queues=frozenset({"anycast", "subscription", "ring", "selector"}),
    ),
    "idle producer": Failure(
        ALL, "producer_silent", "producer_idle", "look_at_producers", rhythms=FLOWING, early=True, history=True,
        notice=True, seconds=100,
    ),
    "gone producer": Failure(
        ARTEMIS, "producer_silent", "producer_gone", "look_at_producers", rhythms=FLOWING, early=True, history=True,
        notice=True, seconds=100,
    ),
    "refused login": Failure(
        ARTEMIS - {"mqtt"}, "no_consumer", "login_refused", "start_reader", "larger_ring", LOST, whole=True, patience=1,
    ),
    "gone": Failure(
        ALL, "no_consumer", "application_down", "start_reader", "larger_ring", LOST, whole=True, patience=1
    ),
    "wrong selector": Failure(
        frozenset({"core", "openwire", "amqp", "stomp", "openmq"}), "not_dispatching", "selector", "match_selector",
        "start_delivery give_credit look_at_receiver larger_ring group_owner", LOST, whole=True, patience=1,
        queues=frozenset({"anycast", "selector", "ring"}),
    ),
    "not started": Failure(
        frozenset({"core", "openmq"}), "not_dispatching", "not_started", "start_delivery",
        "match_selector larger_ring group_owner", LOST, whole=True, patience=1,
        queues=frozenset({"anycast", "ring", "subscription"}),
    ),
    "no credit": Failure(
        frozenset({"amqp"}), "not_dispatching", "no_credit", "give_credit look_at_receiver start_delivery",
        "match_selector larger_ring group_owner",
        LOST, whole=True, patience=1, queues=frozenset({"anycast", "ring", "subscription"}),
    ),
    "never receives": Failure(
        JMS | {"openmq"}, "stalled", "never_receives", "thread_dump " + CLOSE,
        "start_delivery commit_in_client larger_ring",
        f"falling_behind hoarding {LOST}", patience=2, neighbours=frozenset({"alone"}),
        queues=frozenset({"anycast", "subscription", "ring"}),
    ),
    "full target": Failure(
        frozenset({"core"}), "stalled producers_blocked", "blocked_in_send address_full",
        "free_target start_reader raise_limit", "move_messages remove_messages",
        "producers_blocked falling_behind open_transaction no_consumer " + LOST, frozenset({"auto", "individual"}),
        frozenset({"anycast"}), frozenset({"alone"}), FLOWING, patience=1, seconds=30,
    ),
    "paused": Failure(
        ALL, "paused", "paused", "resume_queue resume_address resume_destination", "larger_ring", LOST,
        queues=frozenset({"anycast", "ring", "exclusive", "groups", "selector", "last-value"}), whole=True, seconds=45,
    ),
    "overload": Failure(
        ARTEMIS - {"mqtt"}, "falling_behind", "too_few_consumers", "add_consumers see_consumer_limit",
        "faster_consumers larger_ring",
        "surge " + LOST, frozenset({"auto", "individual", "accept"}), rhythms=FLOWING,
        queues=frozenset({"anycast"}), whole=True, seconds=200,
    ),
}  # fmt: skip
HEALTHY: Final = ("none", "none", "rollout")
"""Each third situation is one of these."""


@dataclass(frozen=True, slots=True)
class Situation:
    """One of a run; name: of its address. history: the agent begins with a profile of it."""

    name: str
    client: str
    mode: str
    failure: str
    queue: str
    neighbours: str
    rhythm: str
    history: bool
    rate: float
    seed: int

    @property
    def truth(self) -> Failure:
        return FAILURES[self.failure]

    @property
    def healthy(self) -> bool:
        return not self.truth.need


DIMENSIONS: Final = (
    "failure",
    "client",
    "mode",
    "queue",
    "neighbours",
    "rhythm",
    "history",
)
assert {*DIMENSIONS} <= {one.name for one in fields(Situation)}


def situations(seed: int, count: int, *, only_healthy: bool = False) -> list[Situation]:
    """A third healthy, or all; each failure as often as each other, with whatever it goes together."""
    dice = random.Random(f"grammar {seed}")  # noqa: S311 - the same run for the same seed
    faults = _in_turn(dice, [name for name, one in FAILURES.items() if one.need])
    healthy = _in_turn(dice, HEALTHY)
    order = [
        next(healthy) if only_healthy or i % 3 == 0 else next(faults)
        for i in range(count)
    ]
    return [_situation(dice, number, failure) for number, failure in enumerate(order)]


def _in_turn(dice: random.Random, names: Sequence[str]) -> Iterator[str]:
    while True:
        yield from dice.sample(names, len(names))


Choice = tuple[str, str, str, str, str]
"""Client, mode, kind of queue, neighbours, rhythm."""


def fits(
    failure: str, client: str, mode: str, queue: str, neighbours: str, rhythm: str
) -> bool:
    """Whether these make a situation of which it is known what is true."""
    made = FAILURES[failure]
    said = (client, mode, queue, neighbours, rhythm)
    allowed = (made.clients, made.modes, made.queues, made.neighbours, made.rhythms)
    if any(one and word not in one for word, one in zip(said, allowed, strict=True)):
        return False
    if client == "openmq":  # its clients have one rhythm
        return queue == "anycast" and rhythm == "steady"
    if (queue == "subscription" and neighbours == "pool") or (
        client == "mqtt" and queue != "subscription"
    ):
        return False
    if (
        queue in ("exclusive", "groups")
        and neighbours == "alone"
        and not made.neighbours
    ):
        return False
    return (client, mode) != ("amqp", "transacted") or failure == "never commits"


def choices(failure: str) -> dict[str, list[Choice]]:
    """All that fit, by client."""
    found: dict[str, list[Choice]] = {}
    for client, modes in MODES.items():
        for rest in product(modes, QUEUES, NEIGHBOURS, RHYTHMS):
            if fits(failure, client, *rest):
                found.setdefault(client, []).append((client, *rest))
    return found


def _situation(dice: random.Random, number: int, failure: str) -> Situation:
    by_client = choices(failure)
    made = FAILURES[failure]
    client, mode, queue, neighbours, rhythm = dice.choice(
        by_client[dice.choice(sorted(by_client))]
    )
    return Situation(
        name=f"{dice.choice(WORDS)}_{number}",
        client=client,
        mode=mode,
        failure=failure,
        queue=queue,
        neighbours=neighbours,
        rhythm=rhythm,
        history=made.history or dice.random() < 0.5,
        rate=round(dice.uniform(5, 12) if failure == "leak" else dice.uniform(3, 8), 1),
        seed=dice.randrange(1 << 30),
    )
