"""
The situations: which clients work on which queues, and what became of every message by their own counts.

A truth is a sum of counts of `tests/java/AccountClients.java`, as "sent - settled"; of another place as "h.div@sent".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Client = Mapping[str, Any]
"""Options of one client; `place` is the situation's name unless it says another."""
Truth = Mapping[str, str]
"""By fate, or `came`, `there`, `in_doubt` and the like: an expression."""


@dataclass(frozen=True)
class Situation:
    """
    queues: options of those to create; `address`, `routing_type` among them. settings: of the address, by JSON names.
    truth: by queue, "" for the address before its queues; a fate that is not in it is 0. By default a queue `came`
    "sent", of which "settled" are `acknowledged`, and the rest is there.
    wide: fates of which bounds are lawful though the clients know the number (acknowledged: of consumers that roll
    back); unknown: lawful, too, if null.
    raises: conditions that an agent at 2 s must raise in a run of so many seconds, where this version knows them; also:
    lawful beside.
    operator: what is called on the broker midway: (operation on the queue, its arguments).
    """

    name: str
    clients: Sequence[Client]
    queues: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    truth: Mapping[str, Truth] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    diverts: Mapping[str, str] = field(default_factory=dict)
    bridges: Mapping[str, str] = field(default_factory=dict)
    wide: Sequence[str] = ()
    unknown: Sequence[str] = ()
    raises: Mapping[str, float] = field(default_factory=dict)
    also: Sequence[str] = ()
    operator: Sequence[tuple[str, tuple[Any, ...]]] = ()
    loses_at_restart: bool = False
    """All that it has sent is gone when the broker is killed: `lost_at_restart` by its clients."""
    short: bool = False
    """Played in `make test`, too."""

    @property
    def healthy(self) -> bool:
        return self.name.startswith("h.")

    @property
    def in_hand(self) -> float:
        """At most so many messages its consumers settle after the last poll that lists them."""
        return sum(map(settled_last, self.clients))

    @property
    def protocols(self) -> frozenset[str]:
        return frozenset(
            one.get("protocol", one["role"].partition("-")[0]) for one in self.clients
        )

    @property
    def of_queues(self) -> Mapping[str, Mapping[str, Any]]:
        return self.queues or {self.name: {}}


GOES = frozenset({"life_ms", "limit", "hold", "pause_ms"})
"""Options of consumers that come and go, and of those that roll back: no poll lists all that they settle."""
MEBIBYTE = 1 << 20


def settled_last(client: Client) -> float:
    if client["role"] in {"ring", "rpc"} or (
        client["role"] == "take" and GOES & client.keys()
    ):
        return math.inf
    if client.get("mode") == "dups":  # acknowledges each mebibyte
        return MEBIBYTE / 100
    return (
        float(max(client.get("batch", 1), client.get("shuffle", 1)))
        if client["role"] != "send"
        else 0.0
    )


def send(rate: float, **options: Any) -> Client:
    return {"role": "send", "rate": rate, **options}


def take(**options: Any) -> Client:
    return {"role": "take", **options}


def ring(name: str, size: int, **options: Any) -> Situation:
    clients = [{"role": "ring", "size": size, **options}]
    return Situation(
        name, clients, {name: {"ring_size": size}}, {name: {"evicted": "evicted", "there": "there"}},
        also=("ring_losing", "ring_lost_by_consumer", "redelivery_loop", "churn_without_progress", "crash_looping"),
        short=name == "f.ring.0",
    )  # fmt: skip


DROP = {
    "maxSizeBytes": 60_000,
    "pageSizeBytes": 20_000,
    "addressFullMessagePolicy": "DROP",
}
FAIL = {**DROP, "addressFullMessagePolicy": "FAIL"}
PAGE = {**DROP, "addressFullMessagePolicy": "PAGE"}
PAGE_LIMIT = {**PAGE, "pageLimitBytes": 100_000}
SLOW = ("falling_behind", "too_few_consumers")
FULL = ("limit_losing", "rejecting", *SLOW)

FAULTS = (
    Situation(
        "f.xa", [send(20, limit=80), {"role": "xa", "in_doubt": 50, "window": 0}], short=True,
        truth={"f.xa": {"in_doubt": "in_doubt", "there": "sent"}}, raises={"in_doubt": 240},
        also=("no_consumer", "orphaned", "holder_gone"),
    ),
    Situation(
        "f.leak", [send(250), take(mode="individual", leak_every=1000, stay=1, client="leaker")],
        truth={"f.leak": {"buffered": "leaked"}}, raises={"leaking": 300},
        also=("stalled", "hoarding", "settling"),
    ),
    Situation(
        "f.leak.amqp", [send(50), take(protocol="amqp", mode="individual", leak_every=500, stay=1, window=100)],
        truth={"f.leak.amqp": {"buffered": "leaked"}}, raises={"leaking": 300}, also=("stalled", "hoarding"),
    ),
    Situation(
        "f.leak.beside", [send(100), take(mode="individual", stay=1), take(mode="individual", leak_every=100, stay=1)],
        truth={"f.leak.beside": {"buffered": "leaked"}}, raises={"leaking": 300}, also=("stalled", "hoarding"),
        short=True,
    ),
    Situation(
        "f.dup", [send(40, duplicates=1), take()], truth={"": {"duplicate": "duplicates"}},
        wide=("duplicate",), unknown=("duplicate",), raises={"duplicates_dropped": 120}, short=True,
    ),
    Situation(
        "f.dup.anonymous", [send(20, duplicates=1, anonymous=1), take()], truth={"": {"duplicate": "duplicates"}},
        wide=("duplicate",), unknown=("duplicate",), also=("duplicates_dropped",),
    ),
    Situation(
        "f.filter", [send(40, colours="red,blue"), take()], {"f.filter": {"filter_string": "colour='red'"}},
        {"": {"unwanted": "sent - sent:red"}, "f.filter": {"came": "sent:red"}}, raises={"unwanted": 60}, short=True,
    ),
    Situation(
        "f.drop", [send(60, size=1000), take(work_ms=30, window=0)], settings=DROP, short=True,
        # A producer sends between the reads of its number and of the address.
        truth={"": {"dropped": "sent - settled"}, "f.drop": {"came": "settled"}}, also=FULL, wide=("dropped",),
    ),
    Situation(
        "f.drop.ring", [send(60, size=1000), take(work_ms=40, window=0, life_ms=8000, pause_ms=4000)],
        {"f.drop.ring": {"ring_size": 1000}}, settings=DROP,
        truth={"": {"dropped": "sent - settled"}, "f.drop.ring": {"came": "settled"}}, also=(*FULL, "ring_losing"),
    ),
    Situation(
        "f.fail", [send(60, size=1000, refused=1), take(work_ms=30, window=0)], settings=FAIL,
        truth={"": {"rejected": "refused"}}, wide=("rejected",), also=FULL,
    ),
    Situation(
        "f.fail.openwire", [send(40, size=1000, refused=1, protocol="openwire"), take(work_ms=50, window=0)],
        settings=FAIL, truth={"": {"rejected": "refused"}}, wide=("rejected",), unknown=("rejected",), also=FULL,
    ),
    ring("f.ring.0", 3, steps=4, step_ms=2500, pause_ms=2000, seed=1),
    ring("f.ring.1", 3, steps=2, step_ms=350, seed=2),
    ring("f.ring.2", 20, steps=8, step_ms=1500, seed=3),
    ring("f.ring.3", 20, steps=10, step_ms=700, seed=4),
    ring("f.ring.tx", 3, steps=3, step_ms=1500, rollback=1, seed=5),
    Situation(
        "f.crash",
        [send(40), take(client="good"), take(mode="client", hold=19, life_ms=2500, client="crashing")],
        truth={"f.crash": {"given_back": "given_back"}}, settings={"maxDeliveryAttempts": -1}, wide=("given_back",),
        raises={"crash_looping": 60}, also=("churn_without_progress", "redelivery_loop"), short=True,
    ),
    Situation(
        "f.crash.short", [send(20), take(client="good beside"), take(mode="client", hold=1, life_ms=200, pause_ms=600)],
        truth={"f.crash.short": {"given_back": "given_back"}}, also=("crash_looping", "churn_without_progress",
        "redelivery_loop"), settings={"maxDeliveryAttempts": -1}, wide=("given_back",),
    ),
    Situation(
        "f.open", [send(20), take(), send(1, leave_open=200, stay=1)], truth={"": {"uncommitted": "open"}},
        wide=("uncommitted",), also=("producer_transaction_open",), short=True,
    ),
    Situation(
        "f.expiry", [send(40, ttl=1500), take(work_ms=50, window=0)], short=True,
        truth={"f.expiry": {"expired": "sent - settled"}}, also=("expiring", *SLOW),
    ),
    Situation(
        "f.ttl", [send(60, ttl=1), take()], truth={"f.ttl": {"expired": "sent - settled"}}, also=("expiring",),
    ),
    Situation(
        "f.kill", [send(40, poison_every=20), take(mode="transacted")], {"f.kill": {}, "f.kill.dead": {}},
        {
            "f.kill": {"dead_lettered": "poisoned", "given_back": "given_back"},
            "f.kill.dead": {"came": "f.kill@poisoned", "acknowledged": ""},
        }, settings={"deadLetterAddress": "f.kill.dead", "maxDeliveryAttempts": 3, "redeliveryDelay": 0},
        also=("dead_lettering", "redelivery_loop", "no_consumer"), wide=("given_back", "acknowledged"),
        short=True,
    ),
    Situation(
        "f.kill.lost", [send(20, poison_every=20), take(mode="transacted")],
        truth={"f.kill.lost": {"dead_lettered": "poisoned", "given_back": "given_back"}},
        settings={
            "deadLetterAddress": "f.kill.nowhere", "autoCreateDeadLetterResources": False, "maxDeliveryAttempts": 2,
            "redeliveryDelay": 0,
        }, raises={"dead_letters_lost": 60}, also=("dead_lettering", "redelivery_loop"),
        wide=("given_back", "dead_lettered", "acknowledged"),
    ),
    Situation(
        "f.moved", [send(10)], {"f.moved": {}, "f.moved.to": {}},
        {
            "f.moved": {"moved": "moved", "acknowledged": ""},
            "f.moved.to": {"came": "f.moved@moved", "acknowledged": ""},
        },
        operator=(("moveMessages(java.lang.String,java.lang.String)", ("", "f.moved.to")),),
        also=("no_consumer", *SLOW), wide=("moved", "acknowledged"),
    ),
    Situation(
        "f.purged", [send(10)], truth={"f.purged": {"purged": "purged", "acknowledged": ""}},
        operator=(("removeAllMessages()", ()),), also=("no_consumer", "purged", *SLOW),
        wide=("purged", "dead_lettered"),
    ),
    Situation(
        "f.bare", [send(40, protocol="amqp", topic=1)], {"f.bare.beside": {}},
        {"": {"unrouted": "sent"}, "f.bare.beside": {"came": "", "acknowledged": ""}}, short=True,
    ),
    Situation(
        "f.misrouted", [send(40, protocol="amqp", topic=1), take(protocol="amqp")],
        truth={"": {"missing": "sent"}, "f.misrouted": {"came": "", "acknowledged": ""}}, wide=("missing",),
        short=True,
    ),
    Situation(
        "f.page.drop", [send(60, size=1000), take(work_ms=30, window=0)], short=True,
        settings={**PAGE_LIMIT, "pageFullMessagePolicy": "DROP"},
        truth={"": {"dropped": "sent - settled"}, "f.page.drop": {"came": "settled"}},
        also=(*FULL, "depaging_frozen"),
    ),
    Situation(
        "f.page.fail", [send(60, size=1000, refused=1), take(work_ms=30, window=0)], short=True,
        settings={**PAGE_LIMIT, "pageFullMessagePolicy": "FAIL"},
        truth={"": {"rejected": "refused"}}, wide=("rejected",), also=(*FULL, "depaging_frozen"),
    ),
    Situation(
        "f.page.fail.amqp", [send(60, size=1000, refused=1, protocol="amqp"), take(work_ms=30, window=0)],
        settings={**PAGE_LIMIT, "pageFullMessagePolicy": "FAIL"},
        truth={"": {"rejected": "refused"}}, wide=("rejected",), also=(*FULL, "depaging_frozen"),
    ),
    Situation(
        "f.wild.#", [
            *(send(40, size=1000, topic=1, place=f"f.wild.{one}") for one in "ab"),
            take(place="f.wild.sub", work_ms=30, window=0, **{"from": "f.wild.#::f.wild.sub"}),
        ], {"f.wild.sub": {"address": "f.wild.#", "routing_type": "multicast"}},
        {
            "": {"dropped": "f.wild.a@sent + f.wild.b@sent - f.wild.sub@settled"},
            "f.wild.sub": {"came": "f.wild.sub@settled", "acknowledged": "f.wild.sub@settled"},
        }, settings=DROP, also=FULL, short=True,
    ),
    Situation(
        "f.restart", [send(50, fast=1, limit=100, early=1)], loses_at_restart=True,
        truth={
            "f.restart": {
                "there": "sent - lost_at_restart", "acknowledged": "", "lost_at_restart": "lost_at_restart",
            },
        }, wide=("lost_at_restart",), also=("no_consumer", *SLOW), short=True,
    ),
)  # fmt: skip

HEALTHY = (
    Situation("h.auto", [send(1000, fast=1), take()], short=True),
    Situation(
        "h.batch", [send(450, batch=500, rollback_every=3), take(mode="transacted", batch=50)], short=True,
        truth={"": {"rolled_back": "rolled_back"}}, wide=("rolled_back",),
        also=("producer_transaction_open", "producer_rolls_back"),
    ),
    Situation("h.batch.amqp", [send(50), take(protocol="amqp", mode="transacted", batch=20)]),
    Situation("h.client.ack", [send(100), take(mode="client", batch=3000)], short=True),
    Situation("h.dups", [send(100), take(mode="dups")]),
    Situation("h.groups", [send(60, groups=5), take(), take()]),
    Situation(
        "h.last", [send(60, keys=10), take(work_ms=50, window=0)],
        {"h.last": {"last_value": True, "last_value_key": "key"}},
        {"h.last": {"replaced": "sent - settled"}},
    ),
    Situation(
        "h.divert", [send(50), take(), take(place="h.divert.copy")], {"h.divert": {}, "h.divert.copy": {}},
        {"h.divert.copy": {"came": "h.divert@sent"}}, diverts={"h.divert": "h.divert.copy"},
    ),
    Situation(
        "h.topic",
        [send(60, colours="red,blue,green", topic=1), *(
            take(place=f"h.topic.{one}", **{"from": f"h.topic::h.topic.{one}"}) for one in ("red", "blue", "all")
        )],
        {
            "h.topic.red": {"address": "h.topic", "routing_type": "multicast", "filter_string": "colour='red'"},
            "h.topic.blue": {"address": "h.topic", "routing_type": "multicast", "filter_string": "colour='blue'"},
            "h.topic.all": {"address": "h.topic", "routing_type": "multicast"},
        },
        {
            "h.topic.red": {"came": "h.topic@sent:red"}, "h.topic.blue": {"came": "h.topic@sent:blue"},
            "h.topic.all": {"came": "h.topic@sent"},
        }, short=True,
    ),
    Situation("h.rpc", [{"role": "rpc", "rate": 20, "client": "asker"}]),
    Situation(
        "h.paging", [send(100, size=500), take(limit=1000, pause_ms=3000)], settings=PAGE,
        also=(*SLOW, "depaging_frozen"),
    ),
    Situation("h.rollout", [send(50), *(take(life_ms=7000, client=f"roll{n}", numbered=1) for n in range(3))]),
    Situation(
        "h.pollers", [send(300, limit=3000), *(take(limit=3, pause_ms=1000, window=1_000_000) for _ in range(2))],
        also=("churn_without_progress", *SLOW),
    ),
    Situation("h.pool", [send(40), take(mode="individual", shuffle=30)], short=True),
    Situation("h.openwire", [send(50, protocol="openwire"), take(protocol="openwire")], short=True),
    Situation("h.amqp", [send(50, protocol="amqp"), take(protocol="amqp")], short=True),
    Situation("h.stomp", [{"role": "stomp-send", "rate": 30, "client": "s1"}, {"role": "stomp-take", "client": "s2"}],
        short=True),
    Situation(
        "h.mqtt", [
            {"role": "mqtt-send", "rate": 30, "client": "m1"},
            {"role": "mqtt-take", "client": "m2", "topic": "h.mqtt", "place": "m2.h.mqtt"},
        ], {"m2.h.mqtt": {"address": "h.mqtt", "made by": "client"}}, {"m2.h.mqtt": {"came": "h.mqtt@sent"}},
        short=True,
    ),
    Situation("h.xa", [send(10), {"role": "xa", "batch": 10, "stay": 1}], also=("open_transaction",)),
    Situation(
        "h.bridge", [send(60), take(place="h.bridge.out")], {"h.bridge": {}, "h.bridge.out": {}},
        {"h.bridge": {"acknowledged": "sent"}, "h.bridge.out": {"came": "h.bridge@sent"}},
        bridges={"h.bridge": "h.bridge.out"},
    ),
    Situation(
        "h.kept", [send(25, limit=50, early=1), take(late=1)], {"h.kept": {"non_destructive": True}},
        {"h.kept": {"acknowledged": "", "there": "sent"}},
    ),
    Situation("h.behind", [send(80), take(work_ms=13, window=0)], also=SLOW),
    Situation("h.behind.slightly", [send(100), take(work_ms=9)], also=(*SLOW, "leaking")),
    Situation("h.open", [send(40, batch=200, open_ms=15_000), take()], also=("producer_transaction_open",)),
    Situation("h.delayed", [send(20, delay_ms=4000), take()]),
)  # fmt: skip

SITUATIONS = (*FAULTS, *HEALTHY)
