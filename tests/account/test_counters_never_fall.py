"""No counter of the exposition falls when half of the rows are missing from each second listing."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from account.world import Broker, queue
from penstock.account.fates import FATES
from penstock.core.table import Table
from penstock.exposition.catalogue import CATALOGUE
from rig.day_and_night import by_day_and_night

POLLS = 60
LEAVES = 20
"""The poll after which nothing is sent to the topic, and its producer is gone."""
BEFORE = 25
"""The broker had made so many steps when it was first polled."""
STEP = 40
"""Messages a poll."""
LISTINGS = ("queues", "addresses", "consumers", "senders")
NO_ADDRESSES = ("a1", "a2")
"""Queues whose address has another name."""
Rows = dict[str, Any]


def listings(n: int) -> dict[str, Rows]:
    """At poll `n`: a queue for each fate, and what the broker says of it."""
    came = float(STEP * (n + BEFORE))
    to_topic = float(STEP * (min(n, LEAVES) + BEFORE))
    half = came // 2
    tenth = came // 10
    queues = {
        "plain": queue(came, 0, K=came),
        "ring": queue(came, 10, K=half, ring=10.0),
        "last": queue(came, 10, K=half, last_value=1.0),
        "expires": queue(came, 0, K=half, E=came - half),
        "kills": queue(came, 0, K=came - tenth, X=tenth, dead_letter_address="dead"),
        "dead": queue(tenth, tenth),
        "purged": queue(came, 0, K=half, X=came - half),
        "drops": queue(half, 0, K=half),
        "refuses": queue(half, 0, K=half),
        "filters": queue(half, 0, K=half, filter="x"),
        "twice": queue(half, 0, K=half),
        "rolls": queue(half, 0, K=half),
        "topic": queue(0, 0),
        "a1": queue(half, 0, K=half, address="shared"),
        "a2": queue(half, 0, K=half, address="shared"),
    }

    def routed(messages: float, unrouted: float = 0.0, **said: Any) -> Rows:
        return {
            "messages_added": messages,
            "messages_unrouted": unrouted,
            "policy": "page",
            **said,
        }

    addresses = {
        name: routed(said["A"])
        for name, said in queues.items()
        if "address" not in said
    }
    addresses |= {
        "drops": routed(came, policy="drop", limit_percent=100.0),
        "refuses": routed(came, policy="fail", limit_percent=100.0),
        "filters": routed(came),
        "rolls": routed(came),
        "topic": routed(to_topic),
        "shared": routed(came),
        "bare": routed(0.0, came),
    }
    consumers = {
        f"c.{name}": {
            "queue": name,
            "client": f"reader of {name}",
            "N": said["K"],
            "C": said["K"],
            "T": 0.0,
        }
        for name, said in queues.items()
        if said["K"]
    }
    senders = {f"p.{name}": (name, came) for name in addresses if name != "dead"}
    if n > LEAVES:
        del senders["p.topic"]
    return {
        "queues": queues,
        "addresses": addresses,
        "consumers": consumers,
        "senders": senders,
    }


def half_of(rows: Rows, which: int) -> Rows:
    return {
        name: said for at, (name, said) in enumerate(rows.items()) if at % 2 == which
    }


def counters(tables: Mapping[str, Table[Any]]) -> dict[tuple[Any, ...], float]:
    """All samples of all counters that are shown, by metric and labels."""
    found: dict[tuple[Any, ...], float] = {}
    for family in CATALOGUE:
        if (
            family.type != "counter"
            or family.table not in tables
            or family.column not in tables[family.table]
        ):
            continue
        table = tables[family.table]
        for row, value in zip(table.index, table[family.column].tolist(), strict=True):
            if value == value:  # noqa: PLR0124 - NaN is not shown
                found[
                    family.name,
                    *(str(getattr(row, label, "")) for label in family.label_names),
                ] = value
    return found


class Highest:
    """The highest value of each counter so far."""

    def __init__(self) -> None:
        self._of: dict[tuple[Any, ...], float] = {}
        self.fell: list[str] = []
        """Counters that were lower at a poll than before."""

    def see(self, poll: int, tables: Mapping[str, Table[Any]]) -> None:
        for name, value in counters(tables).items():
            highest = self._of.get(name, 0.0)
            if value < highest:
                self.fell.append(f"poll {poll}: {name} {highest:g} -> {value:g}")
            self._of[name] = max(highest, value)


def see(broker: Broker, said: dict[str, Rows], unlisted: Collection[str]) -> None:
    broker.see(
        said["queues"],
        said["addresses"],
        said["consumers"],
        said["senders"],
        unlisted=unlisted,
    )


def watched(
    broker: Broker, missing: Sequence[str]
) -> tuple[list[str], dict[tuple[Any, ...], float]]:
    """What fell, and all counters in the end. missing: listings of which half is missing at each second poll."""
    highest = Highest()
    for n in range(POLLS):
        said = listings(n)
        if n % 2:
            said |= {name: half_of(said[name], n // 2 % 2) for name in missing}
        see(
            broker,
            said,
            {
                *NO_ADDRESSES,
                *(listings(n)["addresses"].keys() - said["addresses"].keys()),
            },
        )
        highest.see(n, broker.tables)
    for _ in range(4):
        see(broker, listings(POLLS - 1), NO_ADDRESSES)
    return highest.fell, counters(broker.tables)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("missing", [(), LISTINGS, *((name,) for name in LISTINGS)])
def test_no_counter_falls(missing: Sequence[str]) -> None:
    found, now = watched(Broker(), missing)
    assert not found
    fates = {name[-1] for name in now if name[0] == "mq_account_messages_total"}
    assert {
        "acknowledged",
        "expired",
        "evicted",
        "replaced",
        "unrouted",
        "dropped",
        "rejected",
    } <= fates


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("missing", [(), LISTINGS, ("queues",)])
def test_a_queue_that_comes_back_has_the_account_that_it_had(
    missing: Sequence[str],
) -> None:
    """What came and left while no listing had it is counted, and nothing from before the first poll."""
    _, now = watched(Broker(), missing)
    polled = STEP * (POLLS - 1)
    told = {
        name[2:]: value
        for name, value in now.items()
        if name[0] == "mq_account_messages_total"
    }
    assert told["plain", "plain", "acknowledged"] == polled
    assert told["expires", "expires", "expired"] == polled / 2
    assert told["ring", "ring", "evicted"] == polled / 2
    assert told["last", "last", "replaced"] == polled / 2
    assert told["bare", "", "unrouted"] == polled


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    "missing", by_day_and_night([LISTINGS, ("consumers",), ("senders",)])
)
def test_a_client_that_comes_back_has_not_done_all_again(
    missing: Sequence[str],
) -> None:
    _, now = watched(Broker(), missing)
    _, whole = watched(Broker(), ())
    clients = {
        name: value
        for name, value in now.items()
        if name[0].startswith(("mq_client_", "mq_producer_"))
    }
    assert clients
    assert {name: value for name, value in clients.items() if value > whole[name]} == {}


@pytest.mark.slow  # many polls
def test_nothing_is_missing_from_the_account_where_all_is_listed() -> None:
    _, now = watched(Broker(), ())
    fates = {name[-1] for name in now if name[0] == "mq_account_messages_total"}
    assert {*FATES} - fates <= {"lost_at_restart", "moved", "purged"}


@pytest.mark.slow  # many polls
@pytest.mark.parametrize("missing", [LISTINGS, ("senders",)])
def test_what_a_producer_has_sent_is_no_duplicate_when_it_comes_back(
    missing: Sequence[str],
) -> None:
    _, now = watched(Broker(), missing)
    told = {
        name[2:]: value
        for name, value in now.items()
        if name[0] == "mq_account_messages_total"
    }
    duplicates = {name[0] for name in told if name[-1] == "duplicate"}
    assert duplicates <= {"twice"}
