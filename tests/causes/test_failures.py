"""Causes of `redelivery_loop`, `dead_lettering` and `expiring`."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from causes.world import excluded, possible, proven, states, verdicts
from conditions.openmq_world import openmq, openmq_polls
from penstock.brokers.artemis.answers import AddressSettings
from penstock.causes.verdict import Verdict
from penstock.model import AcknowledgeMode


def loop(
    protocol: str,
    *,
    attempts: float,
    settles: float = 0.0,
    goes: bool = False,
    messages: float = 500.0,
    **queue: Any,
) -> Mapping[str, Verdict]:
    """Ten come back at each poll; so many attempts to acknowledge were made in all. goes: with others that had some.
    messages: in the queue; a loop among few brings back the same ones.
    """

    def said(i: int, now: float) -> dict[str, Any]:
        done = settles * i
        back = 10.0 * i
        row = {
            "T": 10.0,
            "C": done + back,
            "N": done + back + 10,
            "L": now - 1,
            "Ld": now - 1,
            "protocol": protocol,
        }
        numbers = {
            "A": messages + done,
            "K": done,
            "M": messages,
            "D": 10.0,
            "Att": done + attempts * i,
            **queue,
        }
        other = {"T": 5.0, "N": 5.0, "Ld": now - 1, "protocol": protocol}
        return {
            "queues": {"q": numbers},
            "consumers": {"c": row} | ({f"g{i // 2}": other} if goes else {}),
        }

    return verdicts("redelivery_loop", said)


def test_an_amqp_release_attempts_no_acknowledgement() -> None:
    found = loop("AMQP", attempts=0.0, settles=1.0, messages=12.0)
    assert states(found) == {
        proven: {"releases"}, possible: set(),
        excluded: {"undeliverable_here", "rolls_back", "recovers", "listener_fails", "reconnects"},
    }  # fmt: skip


@pytest.mark.slow  # many polls
def test_a_message_that_is_set_down_comes_back_once() -> None:
    """modified(undeliverable-here) is no attempt either, and the message is never given to that consumer again."""
    found = loop("AMQP", attempts=0.0, settles=1.0)
    assert states(found)[possible] == {"releases", "undeliverable_here"}
    assert (
        "it may as well be AMQP modified(undeliverable-here)" in found["releases"].fact
    )


@pytest.mark.slow  # many polls
def test_without_the_number_of_attempts_no_release_is_proven() -> None:
    found = loop("AMQP", attempts=0.0, settles=1.0, messages=12.0, Att=float("nan"))
    assert states(found)[possible] == {"releases", "rolls_back", "listener_fails"}
    assert found["releases"].fact.endswith("AcknowledgeAttempts was not read")


@pytest.mark.slow  # many polls
def test_what_consumers_had_in_hand_that_went_may_not_have_been_released() -> None:
    found = loop("AMQP", attempts=0.0, settles=1.0, goes=True, messages=12.0)
    assert {"releases", "reconnects"} <= states(found)[possible]


@pytest.mark.parametrize(
    ("protocol", "open_"),
    [
        ("AMQP", {"releases", "rolls_back", "listener_fails"}),
        ("CORE", {"rolls_back", "recovers", "listener_fails"}),
        ("STOMP", {"rolls_back", "listener_fails"}),
    ],
)
def test_failed_attempts_are_not_separable_but_by_what_the_protocol_knows(
    protocol: str, open_: set[str]
) -> None:
    found = states(loop(protocol, attempts=10.0, messages=12.0))
    assert (found[possible], found[proven]) == (open_, set())


def dies(
    delivered: float,
    dead: float,
    goes: int = 0,
    *,
    protocol: str = "CORE",
    address: Any = None,
    **options: Any,
) -> Mapping[str, Verdict]:
    """Five are killed at each poll; so many are delivered, and so many come to the dead letters. goes: at every so many
    polls a consumer goes with all that it has in hand, and the next one comes.
    """

    def said(i: int, now: float) -> dict[str, Any]:
        gone = 5.0 * i
        given = delivered * i
        if goes:
            row = {"T": 40.0, "N": 40.0, "Ld": now - 1}
        else:
            row = {"T": 1.0, "C": given, "N": given + 1, "L": now - 1, "Ld": now - 1}
        queue = {
            "A": 900.0,
            "X": gone,
            "M": 900 - gone,
            "D": row["T"],
            "Att": given,
            "dead_letter_address": "dead",
        }
        name = f"c{i // goes}" if goes else "c"
        return {
            "queues": {"q": queue, "dead": {"A": dead * i, "M": dead * i}},
            "consumers": {name: {**row, "protocol": protocol}},
            "addresses": {
                "q": {**TEN_ATTEMPTS, **(address or {})},
                "dead": {"limit_percent": 1.0},
            },
        }

    return verdicts("dead_lettering", said, polls=24, **options)


TEN_ATTEMPTS = {"max_delivery_attempts": 10.0, "slow_consumer_kills": 0.0}
KILLS = {"slow_consumer_kills": 1.0, "slow_consumer_rate": 5.0}


@pytest.mark.slow  # many polls
def test_attempts_are_used_up_where_deliveries_fail_and_dead_letters_come() -> None:
    assert states(dies(50.0, 5.0))[proven] == {"attempts_used_up"}


@pytest.mark.slow  # many polls
def test_a_purge_needs_no_delivery_and_sends_nothing_to_the_dead_letters() -> None:
    found = states(dies(0.0, 0.0))
    assert (found[proven], found[possible]) == ({"purged"}, set())


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("purges", "likely"), [(True, True), (None, False)])
def test_a_queue_that_purges_itself_is_not_purged_by_an_operator(
    purges: bool | None, likely: bool
) -> None:
    """No counter tells the two apart."""
    found = dies(0.0, 0.0, purges=purges)
    assert states(found)[possible] == {"purged", "purge_on_no_consumers"}
    assert found["purge_on_no_consumers"].likely is likely


@pytest.mark.slow  # many polls
def test_dead_letters_without_their_attempts_may_be_of_a_client_that_rejects() -> None:
    found = dies(5.0, 5.0, protocol="AMQP")
    assert not states(found)[proven]
    assert (found["rejected"].state, found["rejected"].likely) == (possible, True)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("delivered", "dead"), [(0.0, 5.0), (50.0, 5.0), (50.0, 0.0), (0.0, 0.0)]
)
@pytest.mark.parametrize("goes", [0, 2])
def test_a_broker_that_closes_slow_consumers_is_no_operator_and_no_failure(
    delivered: float, dead: float, goes: int
) -> None:
    """Its consumers come and go between polls: the same policy showed a purge, and minutes later used-up attempts."""
    found = dies(delivered, dead, goes, address=KILLS)
    if dead:
        assert not states(found)[proven]
        assert found["slow_consumer_killed"].likely


@pytest.mark.slow  # many polls
def test_settings_that_are_older_than_the_condition_prove_nothing() -> None:
    found = dies(50.0, 5.0, settings_age=500.0)
    assert not states(found)[proven]
    assert "the settings of its address: last read" in found["attempts_used_up"].fact


@pytest.mark.slow  # many polls
def test_deliveries_that_fail_while_no_dead_letter_comes_used_up_no_attempts() -> None:
    """A dead-letter address with room gets each one that did."""
    assert dies(50.0, 0.0)["attempts_used_up"].state is excluded


@pytest.mark.slow  # many polls
def test_a_full_dead_letter_address_shows_nothing() -> None:
    def said(i: int, now: float) -> dict[str, Any]:
        row = {"T": 1.0, "C": 50.0 * i, "N": 50.0 * i + 1, "L": now - 1, "Ld": now - 1}
        queue = {
            "A": 900.0,
            "X": 5.0 * i,
            "M": 900 - 5.0 * i,
            "D": 1.0,
            "dead_letter_address": "dead",
        }
        return {
            "queues": {"q": queue, "dead": {"A": 9.0, "M": 9.0}},
            "consumers": {"c": row},
            "addresses": {"q": TEN_ATTEMPTS, "dead": {"limit_percent": 100.0}},
        }

    found = verdicts("dead_lettering", said, polls=24)
    assert {"attempts_used_up", "purged"} <= states(found)[possible]


@pytest.mark.slow  # many polls
def test_consumers_that_go_with_messages_in_hand_burn_attempts() -> None:
    found = dies(0.0, 5.0, goes=2)["reconnects"]
    assert (found.state, found.likely) == (possible, True)
    assert "consumers went with" in found.fact
    assert dies(50.0, 5.0)["reconnects"].state is excluded


def expires(
    delay: float, *, waits: float = 900.0, added: float = 10.0, **options: Any
) -> Mapping[str, Verdict]:
    """Five expire at each poll, and so many come."""

    def said(i: int, _: float) -> dict[str, Any]:
        queue = {
            "A": waits + added * i,
            "E": 5.0 * i,
            "K": (added - 5.0) * i if added else 0.0,
            "M": waits,
        }
        return {"queues": {"q": queue}, "addresses": {"q": {"expiry_delay": delay}}}

    return verdicts("expiring", said, polls=24, **options)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("delay", "found"), [
    (-1.0, {proven: {"time_to_live"}, possible: set()}),
    (5000.0, {proven: set(), possible: {"time_to_live", "expiry_delay"}}),
    (float("nan"), {proven: set(), possible: {"time_to_live", "expiry_delay"}}),
])  # fmt: skip
def test_without_an_expiry_delay_it_is_the_time_to_live(
    delay: float, found: Any
) -> None:
    told = states(expires(delay))
    assert {state: told[state] for state in (proven, possible)} == found


@pytest.mark.slow  # many polls
def test_an_expiry_delay_that_was_read_long_before_may_be_another_now() -> None:
    assert states(expires(-1.0, settings_age=600.0))[possible] == {
        "time_to_live",
        "expiry_delay",
    }


@pytest.mark.slow  # many polls
def test_what_expires_and_is_never_added_had_expired_when_it_came() -> None:
    """The clock of its producer is slow; a consumer waits for each."""
    found = expires(-1.0, waits=0.0, added=0.0)
    assert (found["time_to_live"].state, found["expired_on_arrival"].likely) == (
        possible,
        True,
    )


@pytest.mark.parametrize(
    ("said", "delay"),
    [("{}", -1), ('{"expiryDelay": 5000}', 5000), ('{"maxExpiryDelay": 7000}', 7000)],
)
def test_a_message_without_a_time_to_live_gets_either_delay(
    said: str, delay: float
) -> None:
    assert msgspec.json.decode(said, type=AddressSettings).expiry_delay == delay


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("mode", "not_so"), [
    (AcknowledgeMode.TRANSACTED, "recovers"), (AcknowledgeMode.CLIENT, "rolls_back"),
    (AcknowledgeMode.AUTO, "rolls_back"), (np.nan, None),
])  # fmt: skip
def test_openmq_says_how_sessions_acknowledge_and_so_how_messages_come_back(
    mode: float, not_so: str | None
) -> None:
    world = openmq_polls(openmq(), 12, lambda i: {
        "queues": {"q": {"A": 20, "K": 0, "M": 20, "D": 20}},
        "consumers": {"c": {"N": 20 + 5000 * i, "T": 20, "acknowledge_mode": mode}},
    })  # fmt: skip
    found = states(world.one("redelivery_loop").verdicts)
    assert found[excluded] == ({not_so} if not_so else set())
    assert not found[proven]
