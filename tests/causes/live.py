"""
Situations whose true cause is known, on a real Artemis: what is proven, possible and excluded of each condition.

`make test-causes` plays all of them at once and prints the table: a cause that is proven and not true, or true and
excluded, is wrong.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from flowbench.advice import wrong
from flowbench.bench import Run, play
from flowbench.faults import Releasing
from flowbench.scene import Label, Place, Scenario, Scene
from penstock.agent import Poller
from penstock.causes.verdict import CauseState, Verdict
from penstock_demo.management import Account
from rig.drivers import (
    AmqpConsumer,
    AmqpHolder,
    AmqpProducer,
    AmqpTransaction,
    ClientError,
    StompConsumer,
    StompProducer,
)
from rig.mqtt import MqttHolder

COLD, TREND, INTERVAL, SECONDS = 40.0, 60.0, 3.0, 140.0
"""Patience before anything is learned, window of trends, seconds between polls, and for which all play."""
PROOF = 15.0


@dataclass(frozen=True, slots=True)
class Truth:
    """proves: what has to be proven; the others of `true` have to be possible at least."""

    condition: str
    true: frozenset[str]
    proves: frozenset[str]
    place: Place = Place.FAULTS


@dataclass(slots=True)
class Found:
    """What was known of the causes, at the last poll at which the condition was active; all that was ever wrong."""

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)
    polls: int = 0


Play = Callable[[Scene], None]
TRUTHS: dict[str, Truth] = {}
PLAYS: dict[str, Play] = {}


def situation(
    condition: str, *true: str, proves: tuple[str, ...] = (), place: Place = Place.FAULTS
) -> Callable[[Play], Play]:
    def register(play: Play) -> Play:
        name = play.__name__.replace("_", "-")
        TRUTHS[name], PLAYS[name] = Truth(condition, frozenset(true), frozenset(proves), place), play
        return play

    return register


def sends(scene: Scene, queue: str, rate: int = 20, size: int = 200) -> None:
    scene.jms(queue, mode="produce", rate=rate, size=size)


def begins(scene: Scene, queue: str, rate: int = 20, size: int = 200) -> None:
    """Messages come from now on."""
    sends(scene, queue, rate, size)
    scene.begin()


# --- stalled


@situation("stalled", "listener_hangs")
def core_hangs(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, stuck_after=50, url="consumerWindowSize=10000")
    begins(scene, queue)


@situation("stalled", "listener_hangs")
def core_hangs_with_a_large_window(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, stuck_after=20)
    begins(scene, queue, 20, 2000)


@situation("stalled", "listener_hangs")
def core_hangs_at_its_first_message(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, stuck_after=0)
    begins(scene, queue, 20, 2000)


@situation("stalled", "listener_hangs")
def core_hangs_beside_one_that_works(scene: Scene) -> None:
    queue, other = scene.queue(), scene.queue()
    sends(scene, other)
    scene.jms(queue, stuck_after=20, beside=other, url="consumerWindowSize=10000")
    begins(scene, queue)


@situation("stalled", "long_job")
def core_works_long(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, work=200_000, url="consumerWindowSize=10000")
    begins(scene, queue)


@situation("stalled", "never_receives")
def core_never_receives(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, idle=1)
    begins(scene, queue, 20, 2000)


@situation("stalled", "never_acknowledges")
def core_never_acknowledges(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="client", batch=0)
    begins(scene, queue, 5)


@situation("stalled", "never_acknowledges")
def core_never_acknowledges_one_by_one(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="individual", batch=0)
    begins(scene, queue, 40, 1000)


@situation("stalled", "never_acknowledges")
def core_never_acknowledges_and_is_slow(scene: Scene) -> None:
    """Its window is full although it receives: it asks for more when it has worked through half of it."""
    queue = scene.queue()
    scene.jms(queue, mode="individual", batch=0, work=3000, url="consumerWindowSize=20000")
    begins(scene, queue)


@situation("stalled", "never_acknowledges")
def core_acknowledges_no_more_and_is_slow(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="individual", settles=5, work=3000, url="consumerWindowSize=20000")
    begins(scene, queue)


@situation("stalled", "never_commits")
def core_never_commits(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="transacted", batch=0)
    begins(scene, queue, 5)


@situation("stalled", "blocked_in_send", proves=("blocked_in_send",))
def core_blocked_in_send(scene: Scene) -> None:
    queue, reply = scene.queue(), scene.queue()
    scene.settings(reply, maxSizeBytes=200_000, pageSizeBytes=100_000, addressFullMessagePolicy="BLOCK")
    scene.jms(queue, reply=reply, size=5000, url="consumerWindowSize=10000&producerWindowSize=10000")
    begins(scene, queue)


@situation("stalled", "listener_hangs")
def core_hangs_though_an_address_is_full(scene: Scene) -> None:
    """Filled by another, long before."""
    queue, reply = scene.queue(), scene.queue()
    scene.settings(reply, maxSizeBytes=200_000, pageSizeBytes=100_000, addressFullMessagePolicy="BLOCK")
    sends(scene, reply, 200, 5000)
    scene.wait(15)
    scene.jms(queue, stuck_after=100, work=20, url="consumerWindowSize=10000")
    begins(scene, queue)


@situation("stalled", "frozen")
def core_is_frozen(scene: Scene) -> None:
    queue = scene.queue()
    process = scene.own_process()
    client = scene.jms(queue, process=process, work=20, url="consumerWindowSize=10000&connectionTTL=600000")
    begins(scene, queue)
    scene.until("it works", lambda: client.counts()["acknowledged"] > 20)
    process.pause()
    scene.rest()
    process.resume()


@situation("stalled", "listener_hangs")
def openwire_hangs(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, stuck_after=20, url="jms.prefetchPolicy.all=20")
    begins(scene, queue)


@situation("stalled", "never_receives")
def openwire_never_receives(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, idle=1, url="jms.prefetchPolicy.all=20")
    begins(scene, queue)


@situation("stalled", "never_acknowledges")
def openwire_never_acknowledges(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, mode="individual", batch=0)
    begins(scene, queue)


@situation("stalled", "never_acknowledges")
def openwire_acknowledges_by_client_never(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, mode="client", batch=0, url="jms.prefetchPolicy.all=20")
    begins(scene, queue)


@situation("stalled", "never_commits")
def openwire_never_commits(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, mode="transacted", batch=0)
    begins(scene, queue)


@situation("redelivery_loop", "rolls_back")
def openwire_rolls_back(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=-1)
    scene.jms(
        queue, openwire=1, mode="transacted", returns=1, work=100, url="jms.redeliveryPolicy.maximumRedeliveries=-1"
    )
    begins(scene, queue, 2)


@situation("not_dispatching", "selector")
def openwire_selector(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, selector="kind = 'nothing'")
    begins(scene, queue, 3)


@situation("stalled", "never_receives")
def openwire_not_started(scene: Scene) -> None:
    """The broker delivers all the same, up to the prefetch."""
    queue = scene.queue()
    scene.jms(queue, openwire=1, stopped=1, idle=1)
    begins(scene, queue, 3)


@situation("not_dispatching", "never_receives")
def openwire_asks_for_none(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, openwire=1, idle=1, url="jms.prefetchPolicy.all=0")
    begins(scene, queue, 3)


@situation("stalled", "never_acknowledges")
def amqp_never_settles(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpHolder, queue, credit=30)
    begins(scene, queue)


@situation("stalled", "never_acknowledges")
def amqp_settles_no_more(scene: Scene) -> None:
    queue = scene.queue()
    begins(scene, queue)
    holder = scene.open(AmqpHolder, queue, credit=60)
    scene.until("it holds some", lambda: holder.counts.received >= 50)
    holder.acknowledge(50)


@situation("stalled", "never_acknowledges")
def stomp_never_acknowledges(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(StompConsumer, queue, acknowledge=False)
    begins(scene, queue)


@situation("stalled", "puback_missing", proves=("puback_missing",))
def mqtt_without_puback(scene: Scene) -> None:
    topic = scene.name().replace(".", "")
    client = f"m{topic}"
    scene.load.running.enter_context(MqttHolder(scene.load.endpoint, topic, client_id=client))
    scene.queues.append(f"{client}.{topic}")
    scene.load.client(topic, AmqpProducer, topic, client_id=f"{topic}.p", topic=True).run(10)
    scene.begin()


@situation("stalled", "outside", "listener_hangs")
def three_wait_for_something_outside(scene: Scene) -> None:
    """One process with three clients, frozen in place of their common database."""
    queues = [scene.queue() for _ in range(3)]
    for number, queue in enumerate(queues):
        scene.jms(queue, client_id=f"{queue}.{number}", stuck_after=100, url="consumerWindowSize=10000")
        sends(scene, queue)
    scene.begin()


@situation("stalled", "listener_hangs")
def core_hangs_in_a_pool_of_one_connection(scene: Scene) -> None:
    """Raised after 15 s of evidence, not after patience."""
    queue = scene.queue()
    begins(scene, queue, 50)
    client = scene.jms(queue, stuck_after=20, beside=queue, beside_work=50, url="consumerWindowSize=5000")
    scene.until("it hangs", lambda: client.counts()["stuck_since"] > 0)
    scene.wait(PROOF + 5 * INTERVAL)
    active = scene.poller.assessor.state.judgement.conditions
    scene.attest("raised before patience is over", any(one.queue == queue for one in active))


# --- open_transaction


@situation("open_transaction", "never_commits", "acknowledges_one_by_one", proves=("acknowledges_one_by_one",))
def core_transaction_with_a_batch_of_none(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="transacted", batch=0, url="transactionBatchSize=0")
    begins(scene, queue, 5)


@situation("open_transaction", "never_commits")
def core_transaction_beyond_a_batch(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="transacted", batch=0)
    begins(scene, queue, 50, 1000)


@situation("open_transaction", "never_acknowledges")
def core_client_acknowledge_beyond_a_batch(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="client", batch=0)
    begins(scene, queue, 50, 1000)


@situation("open_transaction", "listener_hangs", "acknowledges_one_by_one")
def core_hangs_within_a_transaction(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, mode="transacted", batch=0, stuck_after=50, url="transactionBatchSize=0")
    begins(scene, queue)


@situation("open_transaction", "never_commits", proves=())
def amqp_never_commits(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpTransaction, queue, credit=30)
    begins(scene, queue)


# --- not_dispatching


@situation("not_dispatching", "selector")
def amqp_selector(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpConsumer, queue, selector="kind = 'nothing'")
    begins(scene, queue, 3)


@situation("not_dispatching", "selector", proves=("selector",))
def stomp_selector(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(StompConsumer, queue, selector="kind = 'nothing'")
    begins(scene, queue, 3)


@situation("not_dispatching", "selector")
def core_selector(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, selector="kind = 'nothing'")
    begins(scene, queue, 3)


@situation("not_dispatching", "no_credit", proves=("no_credit",))
def amqp_without_credit(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpHolder, queue, credit=0)
    begins(scene, queue, 3)


@situation("not_dispatching", "not_started")
def core_not_started(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, stopped=1, idle=1)
    begins(scene, queue, 3)


@situation("not_dispatching", "never_receives")
def core_asks_for_none(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, idle=1, url="consumerWindowSize=0")
    begins(scene, queue, 3)


@situation("not_dispatching", "never_receives", proves=("never_receives",))
def core_asks_for_none_beside_one_that_works(scene: Scene) -> None:
    queue, other = scene.queue(), scene.queue()
    sends(scene, other)
    scene.jms(queue, idle=1, beside=other, url="consumerWindowSize=0")
    begins(scene, queue, 3)


@situation("not_dispatching", "consumers_before_dispatch", proves=("consumers_before_dispatch",))
def waits_for_more_consumers(scene: Scene) -> None:
    queue = scene.queue(consumers_before_dispatch=3)
    scene.open(AmqpConsumer, queue)
    begins(scene, queue, 3)


# --- senders, failures, backlogs


def full(scene: Scene, policy: str) -> None:
    queue = scene.queue()
    scene.settings(queue, maxSizeBytes=200_000, pageSizeBytes=100_000, addressFullMessagePolicy=policy)
    scene.begin()
    if policy == "BLOCK":
        sends(scene, queue, 20, 5000)
    else:
        scene.open(StompProducer, queue, client="producer", size=5000).run(20)


@situation("producers_blocked", "address_full", proves=("address_full",))
def address_blocks(scene: Scene) -> None:
    full(scene, "BLOCK")


@situation("rejecting", "address_full", proves=("address_full",))
def address_drops(scene: Scene) -> None:
    full(scene, "DROP")


@situation("rejecting", "address_full", proves=("address_full",))
def address_fails(scene: Scene) -> None:
    full(scene, "FAIL")


@situation("redelivery_loop", "releases", proves=("releases",))
def amqp_releases(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(Releasing, queue, credit=10, work=0.2)
    begins(scene, queue, 2)


@situation("redelivery_loop", "rolls_back")
def core_rolls_back(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=-1)
    scene.jms(queue, mode="transacted", returns=1, work=100)
    begins(scene, queue, 2)


@situation("dead_lettering", "attempts_used_up")
def attempts_are_used_up(scene: Scene) -> None:
    queue, dead = scene.queue(), scene.queue()
    scene.settings(queue, maxDeliveryAttempts=2, deadLetterAddress=dead)
    scene.jms(queue, mode="transacted", returns=1, work=50)
    begins(scene, queue, 5)


@situation("dead_lettering", "attempts_used_up", "reconnects")
def reconnects_with_messages_in_hand(scene: Scene) -> None:
    """It acknowledges a few each time, and so is no client that makes no progress."""
    queue, dead = scene.queue(), scene.queue()
    scene.settings(queue, maxDeliveryAttempts=3, deadLetterAddress=dead, redeliveryDelay=0)
    begins(scene, queue, 20)
    while scene.wait(1):
        holder = AmqpHolder(scene.load.endpoint, queue, credit=40, client_id=f"{queue}.consumer")
        scene.wait(4)
        holder.acknowledge(min(5, holder.counts.received))
        scene.wait(1)
        holder.drop()


@situation("dead_lettering", "attempts_used_up", "reconnects")
def core_reconnects_with_messages_in_hand(scene: Scene) -> None:
    queue, dead = scene.queue(), scene.queue()
    scene.settings(queue, maxDeliveryAttempts=3, deadLetterAddress=dead, redeliveryDelay=0)
    begins(scene, queue, 20)
    while scene.wait(1):
        scene.jms(queue, mode="individual", settles=5, url="consumerWindowSize=20000")
        scene.wait(5)
        scene.broker.manage.close_connections(queue)


@situation("dead_lettering", "purged", proves=("purged",))
def an_operator_purges(scene: Scene) -> None:
    queue = scene.queue()
    begins(scene, queue, 5)
    while scene.wait(4):
        scene.broker.manage.call(scene.broker.manage.queue_mbean(queue), "removeAllMessages()")


@situation("expiring", "time_to_live", proves=("time_to_live",))
def messages_outlive_their_time(scene: Scene) -> None:
    queue = scene.queue()
    producer = scene.open(AmqpProducer, queue, client="producer")
    scene.begin()
    while scene.wait(1):
        producer.send(5, ttl=1.0)


@situation("expiring", "expiry_delay")
def the_settings_limit_their_life(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, expiryDelay=1000)
    producer = scene.open(AmqpProducer, queue, client="producer")
    scene.begin()
    while scene.wait(1):
        producer.send(5)


@situation("falling_behind", "too_few_consumers")
def a_pool_is_too_small(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpConsumer, queue, credit=20, work=0.25)
    begins(scene, queue, 10)


@situation("falling_behind", "exclusive", proves=("exclusive",))
def an_exclusive_queue_has_one_worker(scene: Scene) -> None:
    queue = scene.queue(exclusive=True)
    for _ in range(2):
        scene.open(AmqpConsumer, queue, credit=20, work=0.25)
    begins(scene, queue, 10)


@situation("falling_behind", "groups", proves=("groups",))
def groups_stay_with_the_first(scene: Scene) -> None:
    """20 groups, three further consumers: what has groups goes on to the one that came first."""
    queue = scene.queue()
    scene.open(AmqpConsumer, queue, credit=1000, work=0.2)
    producer = scene.open(AmqpProducer, queue, client="producer")
    for group in range(20):
        producer.send(5, group_id=f"g{group}")
    for _ in range(3):
        scene.open(AmqpConsumer, queue, credit=1000, work=0.2)
    scene.begin()
    while scene.wait(1):
        for group in range(20):
            producer.send(group_id=f"g{group}")


@situation("falling_behind", "selector", proves=("selector",))
def selectors_leave_the_rest(scene: Scene) -> None:
    queue = scene.queue()
    producer = scene.open(AmqpProducer, queue, client="producer")
    for _ in range(2):
        scene.open(AmqpConsumer, queue, selector="kind = 'one'")
    scene.begin()
    while scene.wait(1):
        producer.send(1, properties={"kind": "one"})
        producer.send(9, properties={"kind": "other"})


@situation("falling_behind", "max_consumers", proves=("max_consumers",))
def no_more_consumers_are_let_in(scene: Scene) -> None:
    queue = scene.queue(max_consumers=1)
    scene.open(AmqpConsumer, queue, credit=20, work=0.25)
    begins(scene, queue, 10)


@situation("falling_behind", "holders", proves=("holders",))
def one_of_two_holds(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpHolder, queue, credit=20)
    scene.open(AmqpConsumer, queue, credit=20, work=0.25)
    begins(scene, queue, 10)


@situation("hoarding", "prefetch")
def one_prefetched_all(scene: Scene) -> None:
    queue = scene.queue()
    scene.jms(queue, work=600)
    with AmqpProducer(scene.load.endpoint, queue, size=500) as producer:
        producer.send(400)
    scene.polls(3)
    for _ in range(2):
        scene.open(AmqpConsumer, queue, client="peer")
    scene.begin()


@situation("depaging_frozen", "page_limit")
def pages_are_read_no_more(scene: Scene) -> None:
    queue = scene.queue()
    small = {"maxSizeBytes": 200_000, "pageSizeBytes": 100_000, "maxReadPageBytes": 400_000}
    scene.settings(queue, addressFullMessagePolicy="PAGE", **small)
    scene.open(AmqpHolder, queue, credit=5000, client="holder")
    with AmqpProducer(scene.load.endpoint, queue, size=1000) as producer:
        for _ in range(30):
            producer.send(100)
    scene.open(AmqpConsumer, queue, client="peer")
    scene.begin()


@situation("not_dispatching", "exclusive", "no_credit")
def an_exclusive_consumer_asks_for_none(scene: Scene) -> None:
    queue = scene.queue(exclusive=True)
    scene.open(AmqpHolder, queue, credit=0)
    scene.wait(1)
    scene.open(AmqpHolder, queue, credit=0, client="standby")
    begins(scene, queue, 3)


@situation("redelivery_loop", "recovers")
def core_recovers(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=-1)
    scene.jms(queue, mode="client", returns=1, work=100)
    begins(scene, queue, 2)


@situation("redelivery_loop", "listener_fails")
def core_listener_fails(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=-1)
    scene.jms(queue, fails=1, work=100)
    begins(scene, queue, 2)


# --- who does not read


def reads(scene: Scene, queue: str) -> AmqpConsumer:
    consumer: AmqpConsumer = scene.open(AmqpConsumer, queue)
    sends(scene, queue, 10)
    scene.until("it reads", lambda: consumer.counts.acknowledged > 20)
    return consumer


@situation("no_consumer", "application_down")
def the_application_is_down(scene: Scene) -> None:
    queue = scene.queue()
    reads(scene, queue).close()
    scene.begin()


@situation("no_consumer", "other_queue")
def it_reads_another_queue(scene: Scene) -> None:
    queue, other = scene.queue(), scene.queue()
    reads(scene, queue).close()
    scene.load.client(other, AmqpConsumer, other, client_id=f"{queue}.consumer")
    scene.begin()


@situation("no_consumer", "login_refused")
def its_login_is_refused(scene: Scene) -> None:
    queue = scene.queue()
    reads(scene, queue).close()
    scene.begin()
    wrong_password = replace(scene.load.endpoint, account=Account("billing", "no longer"))
    while scene.wait(5):
        with suppress(ClientError):
            AmqpConsumer(wrong_password, queue).close()


@situation("no_consumer", "meant_for_nobody")
def nobody_was_meant_to_read_it(scene: Scene) -> None:
    queue = scene.queue()
    begins(scene, queue, 5)


@situation("holder_gone", "connection_died")
def the_connection_of_a_holder_dies(scene: Scene) -> None:
    queue = scene.queue()
    holder = AmqpHolder(scene.load.endpoint, queue, credit=30, client_id=f"{queue}.holder")
    begins(scene, queue, 5)
    scene.wait(COLD)
    holder.drop()


@situation("holder_gone", "consumer_closed")
def a_holder_closes_its_consumer(scene: Scene) -> None:
    queue = scene.queue()
    holder = scene.open(AmqpHolder, queue, credit=30)
    begins(scene, queue, 5)
    scene.wait(COLD)
    holder.unsubscribe()


@situation("churn_without_progress", "reconnects")
def it_comes_again_and_again(scene: Scene) -> None:
    queue = scene.queue()
    begins(scene, queue, 2)
    while scene.wait(1):
        holder = AmqpHolder(scene.load.endpoint, queue, credit=10, client_id=f"{queue}.consumer")
        scene.wait(4)
        holder.drop()


@situation("crash_looping", "crashes")
def one_crashes_beside_one_that_works(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpConsumer, queue, client="works", credit=5, work=0.05)
    begins(scene, queue, 20)
    while scene.wait(1):
        holder = AmqpHolder(scene.load.endpoint, queue, credit=10, client_id=f"{queue}.crashes")
        scene.wait(4)
        holder.drop()


# --- operators, losses


@situation("paused", "paused", proves=("paused",))
def an_operator_pauses_the_queue(scene: Scene) -> None:
    queue = scene.queue()
    reads(scene, queue)
    scene.broker.manage.pause_queue(queue)
    scene.begin()


@situation("paused", "paused", proves=("paused",))
def an_operator_pauses_the_address(scene: Scene) -> None:
    queue = scene.queue()
    reads(scene, queue)
    scene.broker.manage.pause_address(queue)
    scene.begin()


@situation("disabled", "operator")
def an_operator_disables_the_queue(scene: Scene) -> None:
    queue = scene.queue()
    reads(scene, queue)
    scene.broker.manage.call(scene.broker.manage.queue_mbean(queue), "disable()")
    scene.begin()


@situation("dead_letters_lost", "no_dead_letter_queue", proves=("no_dead_letter_queue",))
def dead_letters_have_no_queue(scene: Scene) -> None:
    queue = scene.queue()
    scene.settings(queue, maxDeliveryAttempts=2, deadLetterAddress=f"{queue}.nowhere")
    scene.jms(queue, mode="transacted", returns=1, work=50)
    begins(scene, queue, 5)


@situation("dead_letters_lost", "dead_letter_address_full", proves=("dead_letter_address_full",))
def dead_letters_are_dropped(scene: Scene) -> None:
    queue, dead = scene.queue(), scene.queue()
    scene.settings(dead, maxSizeBytes=30_000, pageSizeBytes=10_000, addressFullMessagePolicy="DROP")
    scene.settings(queue, maxDeliveryAttempts=2, deadLetterAddress=dead)
    scene.jms(queue, mode="transacted", returns=1, work=50)
    begins(scene, queue, 5, 1000)


@situation("unheld", "dead_letter_address_full")
def dead_letters_are_refused(scene: Scene) -> None:
    queue, dead = scene.queue(), scene.queue()
    scene.settings(dead, maxSizeBytes=30_000, pageSizeBytes=10_000, addressFullMessagePolicy="FAIL")
    scene.settings(queue, maxDeliveryAttempts=1, deadLetterAddress=dead)
    with AmqpProducer(scene.load.endpoint, queue, size=1000) as producer:
        producer.send(300)
    client = scene.jms(queue, mode="transacted", returns=1, batch=10)
    scene.begin()
    scene.until("it is full", lambda: scene.count(dead, "MessageCount") > 5)
    scene.wait(10)
    client.close()


@situation("ring_losing", "ring_too_small")
def a_ring_is_too_small(scene: Scene) -> None:
    queue = scene.queue(ring_size=10)
    scene.open(AmqpConsumer, queue, credit=2, work=0.5)
    begins(scene, queue, 20)


@situation("ring_lost_by_consumer", "returned")
def a_consumer_returns_more_than_its_ring_takes(scene: Scene) -> None:
    queue = scene.queue(ring_size=10)
    holder = AmqpHolder(scene.load.endpoint, queue, credit=30, client_id=f"{queue}.holder")
    with AmqpProducer(scene.load.endpoint, queue) as producer:
        producer.send(30)
        scene.until("it holds them", lambda: holder.counts.received == 30)
        producer.send(10)
        scene.polls(3)
    scene.begin()
    holder.drop()


@situation("producers_blocked", "disk_full", proves=("disk_full",), place=Place.DISK)
def the_disk_is_full(scene: Scene) -> None:
    queue = scene.queue()
    scene.open(AmqpConsumer, queue)
    scene.open(AmqpProducer, queue, client="producer").run(2)
    scene.begin()


# --- play


def take(found: Found, truth: Truth, poller: Poller, queues: Collection[str]) -> None:
    """What is known of the causes after this poll, and what is advised."""
    for one in poller.assessor.state.judgement.conditions:
        if one.name == truth.condition and one.queue in queues:
            found.verdicts, found.polls = one.verdicts, found.polls + 1
    found.wrong |= set(wrong(poller, (truth.condition,), queues, " ".join(sorted(truth.true))))


def conclude(found: Found, truth: Truth) -> None:
    found.wrong |= {f"{one} is not proven" for one in truth.proves - {*named(found, CauseState.PROVEN)}}
    if not found.polls:
        found.wrong.add(f"{truth.condition} did not come")


def played(only: str, seconds: float, cold: float, folder: Path) -> dict[str, Found]:
    chosen = {name: truth for name, truth in TRUTHS.items() if any(part in name for part in only.split(","))}
    known = {name: Found() for name in chosen}

    def scenario(name: str, truth: Truth) -> Scenario:
        def go(scene: Scene) -> None:
            scene.each_poll = lambda poller: take(known[name], truth, poller, scene.queues)
            PLAYS[name](scene)

        return Scenario(name, Label(), truth.place, go)

    run = Run(1, INTERVAL, seconds, cold, TREND, start=5.0)
    for result in play([scenario(*one) for one in chosen.items()], run, folder):
        known[result.name].wrong |= set(result.untrue)
    for name, truth in chosen.items():
        conclude(known[name], truth)
    return known


def named(found: Found, state: CauseState) -> list[str]:
    return [name for name, one in found.verdicts.items() if one.state is state]


def report(known: Mapping[str, Found], truths: Mapping[str, Truth], *, facts: bool) -> int:
    """Prints the table; facts: also that of each cause. 1 if something is wrong."""
    lines = ["| situation | condition | true | proven | possible | excluded | |\n|---|---|---|---|---|---|---|"]
    for name, found in known.items():
        truth = truths[name]
        states = (", ".join(named(found, state)) or "-" for state in CauseState)
        right = "; ".join(sorted(found.wrong)) or "right"
        lines.append(
            f"| {name} | {truth.condition} | {', '.join(sorted(truth.true))} | {' | '.join(states)} | {right} |"
        )
    bad = sum(bool(found.wrong) for found in known.values())
    lines.append(f"\n{len(known) - bad} of {len(known)} situations are right")
    for name, found in known.items() if facts else ():
        lines += [f"{name}: {cause}: {one.state}: {one.fact}" for cause, one in found.verdicts.items()]
    print("\n".join(lines))  # noqa: T201 - the result
    return int(bad > 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="causes")
    parser.add_argument("--only", default="", help="parts of names, by commas")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--facts", action="store_true", help="also the fact of each cause")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-causes-") as folder:
        known = played(wanted.only, wanted.seconds, COLD, Path(folder))
    return report(known, TRUTHS, facts=wanted.facts)


if __name__ == "__main__":
    sys.exit(main())
