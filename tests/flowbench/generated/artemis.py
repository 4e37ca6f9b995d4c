"""Plays situations on an Artemis: healthy first, then comes what the grammar says; what the clients log proves it."""

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from flowbench.core import CoreProcess
from flowbench.generated.clients import Faults, counted, opened
from flowbench.generated.grammar import Situation
from flowbench.scene import Label, Place, Scenario, Scene
from penstock_demo.broker import Endpoint
from penstock_demo.errors import DemoError
from penstock_demo.load import paced
from penstock_demo.management import Account
from rig.drivers import AmqpProducer, ClientError, StompProducer
from rig.proxy import Fault, Proxy

WARM = (45.0, 70.0)
"""Seconds for which a situation is healthy, and of those that begin early."""
EARLY = (15.0, 25.0)
LATE = (115.0, 130.0)
"""Of those against whose pace before it is judged."""
RING = 300
KEYS = 50
"""Of a last-value queue."""
BUSY = 0.3
"""Share of the time that one consumer needs for what comes."""
FRESH = 60.0
"""Who works has acknowledged within so many seconds."""


def scenario_of(one: Situation) -> Scenario:
    """As `flowbench.bench` plays it."""
    return Scenario(
        one.name,
        Label(),
        Place.FAULTS,
        lambda scene: FAILURES[one.failure](Play(scene, one)),
    )


class Sender:
    """Sends at the situation's rhythm until it is stopped."""

    def __init__(self, scene: Scene, one: Situation, times: float = 1.0) -> None:
        self.sent = 0
        self._one = one
        self._stopped = threading.Event()
        dice = random.Random(one.seed)  # noqa: S311
        address = one.name
        endpoint = scene.load.endpoint
        topic = one.queue == "subscription"
        by_stomp = dice.random() < 0.4
        name = f"{one.name}-producer{times:g}"
        self.client: Any = scene.load.running.enter_context(
            StompProducer(
                endpoint,
                address,
                client_id=name,
                routing_type="MULTICAST" if topic else "ANYCAST",
            )
            if by_stomp
            else AmqpProducer(endpoint, address, client_id=name, topic=topic)
        )
        each, rate = {
            "steady": (1, one.rate),
            "bursts": (int(10 * one.rate), 0.1),
            "trickle": (1, 0.25),
        }[one.rhythm]
        run = threading.Thread(
            target=self._run,
            args=(each, times * rate),
            name=f"sender {one.name}",
            daemon=True,
        )
        run.start()
        scene.load.running.callback(run.join, 15)
        scene.load.running.callback(self._stopped.set)

    def stop(self) -> None:
        self._stopped.set()

    def _run(self, each: int, rate: float) -> None:
        with contextlib.suppress(DemoError, ClientError, OSError):
            for _ in paced(rate, self._stopped):
                for number in range(self.sent, self.sent + each):
                    self._send(number)
                self.sent += each

    def _send(self, number: int) -> None:
        named = {}
        if self._one.queue == "selector":
            named = {"kind": "a"}
        elif self._one.queue == "last-value":
            named = {"_AMQ_LVQ_NAME": f"k{number % KEYS}"}
        group = f"g{number % 4}" if self._one.queue == "groups" else ""
        if isinstance(self.client, StompProducer):
            self.client.send(
                headers={**named, **({"JMSXGroupID": group} if group else {})}
            )
        else:
            self.client.send(
                properties=named, wait=False, **({"group_id": group} if group else {})
            )


class Play:
    """One situation: its queue, its consumers at work, its producer."""

    def __init__(self, scene: Scene, one: Situation) -> None:
        self.scene = scene
        self.one = one
        self.dice = random.Random(one.seed)  # noqa: S311
        self.many = self.dice.randint(2, 3) if one.neighbours == "pool" else 1
        self.work = BUSY / (one.rate if one.rhythm != "trickle" else 1.0)
        if one.failure == "overload":
            self.work = 0.7 * self.many / one.rate
        self.endpoint: Endpoint = scene.load.endpoint
        self._make_queue()
        self.clients = (
            [self.open(number) for number in range(self.many)]
            if not one.truth.early
            else []
        )
        if one.truth.early and one.failure != "leak":
            self.clients = [self.open(number) for number in range(self.many)]
        if self.clients:
            self.sender = Sender(scene, one)

    def _make_queue(self) -> None:
        name = self.one.name
        kind = self.one.queue
        settings: dict[str, Any] = {}
        self.scene.queues.append(name)
        if kind == "ring":
            settings = {"ring_size": RING}
        elif kind == "last-value":
            settings = {"last_value": True}
        elif kind == "exclusive":
            settings = {"exclusive": True}
        if kind != "subscription":
            self.scene.broker.manage.create_queue(name, **settings)
        if self.one.failure == "rejects":
            self.scene.settings(name, maxDeliveryAttempts=-1)

    def open(
        self,
        number: int,
        *,
        endpoint: Endpoint | None = None,
        process: CoreProcess | None = None,
        **faults: Any,
    ) -> Any:
        faults = {"work": self.work, **faults}
        return opened(
            self.scene,
            self.one,
            number,
            Faults(**faults),
            endpoint or self.endpoint,
            process,
        )

    def warm(self) -> None:
        """All works for a while."""
        self.scene.until("all is delivered", lambda: self.sum("acknowledged") > 0)
        self.scene.wait(
            self.dice.uniform(
                *(
                    EARLY
                    if self.one.truth.early
                    else LATE
                    if self.one.failure == "slow"
                    else WARM
                )
            )
        )

    def deploy(self, *, whole: bool = False, **broken: Any) -> Any:
        """A version with a fault, in place of the first consumer, or of all; gives the first."""
        together = whole or self.one.queue in ("exclusive", "groups")
        at = range(self.many) if together else range(1)
        for number in at:
            self.clients[number].close()
        for number in at:
            self.clients[number] = self.open(
                number, **(broken if whole or number == 0 else {})
            )
        return self.clients[0]

    def sum(self, name: str) -> float:
        return sum(counted(client, name) for client in self.clients)

    def works(self, clients: list[Any]) -> bool:
        return all(counted(one, "last_ack") > time.time() - FRESH for one in clients)

    def attest_idle(self, what: str, client: Any, acknowledged: float) -> None:
        """To the end: it has acknowledged no more, its peers work, and messages are sent."""
        sent = self.sender.sent
        self.scene.rest()
        self.scene.attest(what, counted(client, "acknowledged") <= acknowledged)
        self.scene.attest("messages are sent", self.sender.sent > sent + 5)
        if self.many > 1 and self.one.queue not in ("exclusive", "groups"):
            self.scene.attest(
                "a peer works", any(self.works([peer]) for peer in self.clients[1:])
            )


FAILURES: dict[str, Callable[[Play], None]] = {}


def failure(name: str) -> Callable[[Callable[[Play], None]], Callable[[Play], None]]:
    def register(play: Callable[[Play], None]) -> Callable[[Play], None]:
        FAILURES[name] = play
        return play

    return register


# --- healthy


@failure("none")
def healthy(play: Play) -> None:
    play.warm()
    play.scene.rest()
    attest_healthy(play)


@failure("rollout")
def rollout(play: Play) -> None:
    """Each consumer is replaced by another of the same version."""
    play.warm()
    for number, client in enumerate(play.clients):
        client.close()
        play.scene.wait(play.dice.uniform(1, 5))
        play.clients[number] = play.open(number)
        play.scene.wait(5)
    play.scene.rest()
    attest_healthy(play)


def attest_healthy(play: Play) -> None:
    working = [client for client in play.clients if counted(client, "acknowledged")]
    play.scene.attest("messages are sent", play.sender.sent > 20)
    play.scene.attest(
        "consumers work to the end",
        bool(working) and any(play.works([one]) for one in working),
    )
    play.scene.attest("nothing is given back", play.sum("returned") == 0)


# --- who settles nothing


@failure("hang")
def hang(play: Play) -> None:
    play.warm()
    after = play.dice.randint(3, 15)
    client = play.deploy(hangs_after=after)
    play.scene.until(
        "it hangs", lambda: counted(client, "received") > after, timeout=150
    )
    play.scene.begin()
    play.attest_idle("it settles nothing any more", client, after)


@failure("never commits")
@failure("never acknowledges")
def never_settles(play: Play) -> None:
    play.warm()
    client = play.deploy(settles=False)
    play.scene.until("it gets a message", lambda: counted(client, "received") > 0)
    play.scene.begin()
    play.attest_idle("nothing is settled", client, 0)


@failure("never receives")
def never_receives(play: Play) -> None:
    play.warm()
    client = play.deploy(receives=False)
    play.scene.begin()
    play.attest_idle("nothing is settled", client, 0)


@failure("full target")
def full_target(play: Play) -> None:
    play.warm()
    reply = f"{play.one.name}.reply"
    play.scene.settings(
        reply,
        maxSizeBytes=200_000,
        pageSizeBytes=100_000,
        addressFullMessagePolicy="BLOCK",
    )
    play.scene.broker.manage.create_queue(reply)
    play.scene.queues.append(reply)
    client = play.deploy(reply=reply)
    play.scene.until("it blocks", lambda: still(play, client, 10), timeout=120)
    play.scene.begin(at=counted(client, "last_ack"))
    play.attest_idle(
        "nothing is settled any more", client, counted(client, "acknowledged")
    )


def still(play: Play, client: Any, seconds: float) -> bool:
    return 0 < counted(client, "last_ack") < time.time() - seconds


@failure("frozen")
def frozen(play: Play) -> None:
    process = play.scene.own_process()
    play.clients[0].close()
    play.clients[0] = client = play.open(0, process=process)
    play.warm()
    acknowledged = counted(client, "acknowledged")
    process.pause()
    play.scene.begin()
    sent = play.sender.sent
    play.scene.rest()
    process.resume()
    play.scene.attest("it worked before", acknowledged > 0)
    play.scene.attest("messages are sent", play.sender.sent > sent + 5)


@failure("cut")
def cut(play: Play) -> None:
    """What the broker answers does not reach the client any more."""
    proxy = play.scene.load.running.enter_context(
        Proxy((play.endpoint.host, play.endpoint.port))
    )
    play.clients[0].close()
    play.clients[0] = client = play.open(
        0, endpoint=replace(play.endpoint, host=proxy.host, port=proxy.port)
    )
    play.warm()
    proxy.fault = Fault.HANG
    play.scene.begin()
    play.scene.wait(20)  # it works through what it has
    play.attest_idle(
        "it settles nothing any more", client, counted(client, "acknowledged")
    )


# --- who comes and goes, leaves some, gives all back


@failure("crash loop")
def crash_loop(play: Play) -> None:
    """It gets messages, fails, and is started again."""
    play.warm()
    play.clients[0].close()
    play.scene.begin()
    got = 0.0
    for round_ in count():
        with contextlib.suppress(DemoError, ClientError):
            client = play.open(0, settles=False, work=600.0)
            ends = not play.scene.wait(play.dice.uniform(3, 6))
            got += counted(client, "received")
            (client.drop if hasattr(client, "drop") and round_ % 2 else client.close)()
            if ends or not play.scene.wait(2):
                break
    play.scene.attest("it came again and again", round_ > 10)
    play.scene.attest("it got messages", got > 5)


@failure("leak")
def leak(play: Play) -> None:
    """Of some sixty to hundred messages one is never acknowledged."""
    skips = play.dice.randint(60, 110)
    client = play.open(0, skips=skips)
    play.clients = [client]
    play.sender = Sender(play.scene, play.one)
    play.scene.until("it leaks", lambda: counted(client, "received") > skips)
    play.scene.begin()
    play.scene.rest()
    left = counted(client, "received") - counted(client, "acknowledged")
    play.scene.attest("some are left", left > 3)
    play.scene.attest("it works", play.works([client]))


@failure("rejects")
def rejects(play: Play) -> None:
    play.warm()
    client = play.deploy(returns=True, work=max(play.work, 0.1))
    play.scene.until("one comes back", lambda: counted(client, "returned") > 0)
    play.scene.begin()
    play.scene.rest()
    play.scene.attest("they come back to the end", counted(client, "returned") > 100)
    play.scene.attest("it settles nothing", counted(client, "acknowledged") == 0)


# --- all of a pool


@failure("slow")
def slow(play: Play) -> None:
    play.warm()
    play.deploy(whole=True, work=3 * play.many / play.one.rate)
    play.scene.begin()
    sent = play.sender.sent
    settled = play.sum("acknowledged")
    play.scene.rest()
    ratio = (play.sum("acknowledged") - settled) / max(play.sender.sent - sent, 1)
    play.scene.attest("they work, and too slowly", 0.1 < ratio < 0.7)


@failure("overload")
def overload(play: Play) -> None:
    play.warm()
    more = Sender(play.scene, play.one, times=1.5)
    play.scene.begin()
    sent = play.sender.sent
    settled = play.sum("acknowledged")
    play.scene.rest()
    came = play.sender.sent + more.sent - sent
    play.scene.attest(
        "more comes than they can do",
        0.2 < (play.sum("acknowledged") - settled) / max(came, 1) < 0.8,
    )


@failure("idle producer")
@failure("gone producer")
def silent_producer(play: Play) -> None:
    play.warm()
    play.sender.stop()
    if play.one.failure == "gone producer":
        play.sender.client.close()
    play.scene.begin()
    sent = play.sender.sent
    play.scene.rest()
    play.scene.attest("nothing is sent", play.sender.sent - sent <= 1)
    play.scene.attest("all was processed", play.sum("acknowledged") >= 0.8 * sent - 5)


@failure("refused login")
def refused_login(play: Play) -> None:
    play.warm()
    close_all(play)
    play.scene.begin()
    wrong = replace(
        play.endpoint, account=Account(play.endpoint.account.user, "not-the-password")
    )
    refused = 0
    while True:
        try:
            play.open(0, endpoint=wrong)
        except (DemoError, ClientError):
            refused += 1
        if not play.scene.wait(8):
            break
    play.scene.attest("its login is refused", refused > 10)


@failure("gone")
def gone(play: Play) -> None:
    play.warm()
    close_all(play)
    play.scene.begin()
    sent = play.sender.sent
    play.scene.rest()
    play.scene.attest("messages are sent", play.sender.sent > sent + 5)


def close_all(play: Play) -> None:
    for client in play.clients:
        client.close()


@failure("wrong selector")
@failure("not started")
@failure("no credit")
def gets_nothing(play: Play) -> None:
    play.warm()
    wrong = (
        {"selector": "kind = 'nothing'"}
        if play.one.failure == "wrong selector"
        else {"started": False}
    )
    play.deploy(whole=True, **wrong)
    play.scene.begin()
    sent = play.sender.sent
    play.scene.rest()
    play.scene.attest("messages are sent", play.sender.sent > sent + 5)
    play.scene.attest("none gets one", play.sum("received") == 0)


@failure("paused")
def paused(play: Play) -> None:
    play.warm()
    play.scene.broker.manage.pause_queue(play.one.name)
    play.scene.begin()
    play.scene.wait(10)
    settled = play.sum("acknowledged")
    play.scene.rest()
    play.scene.attest("nothing flows", play.sum("acknowledged") - settled < 100)
