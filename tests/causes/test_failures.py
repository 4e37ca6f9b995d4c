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


def loop(protocol: str, *, attempts: float, settles: float = 0.0, goes: bool = False) -> Mapping[str, Verdict]:
    """Ten come back at each poll; so many attempts to acknowledge were made in all. goes: with others that had some."""

    def said(i: int, now: float) -> dict[str, Any]:
        done, back = settles * i, 10.0 * i
        row = {"T": 10.0, "C": done + back, "N": done + back + 10, "L": now - 1, "Ld": now - 1, "protocol": protocol}
        queue = {"A": 500.0, "K": done, "M": 500.0 - done, "D": 10.0, "Att": done + attempts * i}
        other = {"T": 5.0, "N": 5.0, "Ld": now - 1, "protocol": protocol}
        return {"queues": {"q": queue}, "consumers": {"c": row} | ({f"g{i // 2}": other} if goes else {})}

    return verdicts("redelivery_loop", said)


def test_an_amqp_release_attempts_no_acknowledgement() -> None:
    found = loop("AMQP", attempts=0.0, settles=1.0)
    assert states(found) == {
        proven: {"releases"}, possible: {"reconnects"}, excluded: {"rolls_back", "recovers", "listener_fails"},
    }  # fmt: skip


def test_what_consumers_had_in_hand_that_went_may_not_have_been_released() -> None:
    found = loop("AMQP", attempts=0.0, settles=1.0, goes=True)
    assert states(found)[possible] == {"releases", "reconnects"}


@pytest.mark.parametrize(
    ("protocol", "open_"),
    [
        ("AMQP", {"releases", "rolls_back", "listener_fails"}),
        ("CORE", {"rolls_back", "recovers", "listener_fails"}),
        ("STOMP", {"rolls_back", "listener_fails"}),
    ],
)
def test_failed_attempts_are_not_separable_but_by_what_the_protocol_knows(protocol: str, open_: set[str]) -> None:
    found = states(loop(protocol, attempts=10.0))
    assert (found[possible], found[proven]) == (open_ | {"reconnects"}, set())


def dies(delivered: float, dead: float, goes: int = 0) -> Mapping[str, Verdict]:
    """Five are killed at each poll; so many are delivered, and so many come to the dead letters. goes: at every so many
    polls a consumer goes with all that it has in hand, and the next one comes.
    """

    def said(i: int, now: float) -> dict[str, Any]:
        gone, given = 5.0 * i, delivered * i
        if goes:
            row = {"T": 40.0, "N": 40.0, "Ld": now - 1}
        else:
            row = {"T": 1.0, "C": given, "N": given + 1, "L": now - 1, "Ld": now - 1}
        queue = {"A": 900.0, "X": gone, "M": 900 - gone, "D": row["T"], "Att": given, "dead_letter_address": "dead"}
        name = f"c{i // goes}" if goes else "c"
        return {"queues": {"q": queue, "dead": {"A": dead * i, "M": dead * i}}, "consumers": {name: row}}

    return verdicts("dead_lettering", said, polls=24)


def test_attempts_are_used_up_where_deliveries_fail_and_dead_letters_come() -> None:
    assert states(dies(50.0, 5.0))[proven] == {"attempts_used_up"}


def test_a_purge_needs_no_delivery_and_sends_nothing_to_the_dead_letters() -> None:
    found = states(dies(0.0, 0.0))
    assert (found[proven], found[excluded]) == ({"purged"}, {"attempts_used_up"})


def test_deliveries_that_fail_while_no_dead_letter_comes_leave_both_possible() -> None:
    assert states(dies(50.0, 0.0))[possible] == {"attempts_used_up", "purged", "reconnects"}


def test_consumers_that_go_with_messages_in_hand_burn_attempts() -> None:
    found = dies(0.0, 5.0, goes=2)["reconnects"]
    assert (found.state, found.likely) == (possible, True)
    assert "consumers went with" in found.fact
    stays = dies(50.0, 5.0)["reconnects"]
    assert (stays.state, stays.likely, stays.fact) == (possible, False, "")


@pytest.mark.parametrize(("delay", "found"), [
    (-1.0, {proven: {"time_to_live"}, possible: set(), excluded: {"expiry_delay"}}),
    (5000.0, {proven: set(), possible: {"time_to_live", "expiry_delay"}, excluded: set()}),
    (float("nan"), {proven: set(), possible: {"time_to_live", "expiry_delay"}, excluded: set()}),
])  # fmt: skip
def test_without_an_expiry_delay_it_is_the_time_to_live(delay: float, found: Any) -> None:
    def said(i: int, _: float) -> dict[str, Any]:
        queues = {"q": {"A": 900.0, "E": 5.0 * i, "M": 900 - 5.0 * i}}
        return {"queues": queues, "addresses": {"q": {"expiry_delay": delay}}}

    assert states(verdicts("expiring", said, polls=24)) == found


@pytest.mark.parametrize(
    ("said", "delay"), [("{}", -1), ('{"expiryDelay": 5000}', 5000), ('{"maxExpiryDelay": 7000}', 7000)]
)
def test_a_message_without_a_time_to_live_gets_either_delay(said: str, delay: float) -> None:
    assert msgspec.json.decode(said, type=AddressSettings).expiry_delay == delay


@pytest.mark.parametrize(("mode", "not_so"), [
    (AcknowledgeMode.TRANSACTED, "recovers"), (AcknowledgeMode.CLIENT, "rolls_back"),
    (AcknowledgeMode.AUTO, "rolls_back"), (np.nan, None),
])  # fmt: skip
def test_openmq_says_how_sessions_acknowledge_and_so_how_messages_come_back(mode: float, not_so: str | None) -> None:
    world = openmq_polls(openmq(), 12, lambda i: {
        "queues": {"q": {"A": 20, "K": 0, "M": 20, "D": 20}},
        "consumers": {"c": {"N": 20 + 5000 * i, "T": 20, "acknowledge_mode": mode}},
    })  # fmt: skip
    found = states(world.one("redelivery_loop").verdicts)
    assert found[excluded] == ({not_so} if not_so else set())
    assert not found[proven]
