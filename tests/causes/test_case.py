"""A condition that is active, and what was read of it: numbers, when they were read, and what is around it."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conditions.inputs import changed
from conditions.pairs import NOW, openmq, plain, two_consumers, two_queues, with_values
from penstock.causes import silence, surroundings
from penstock.causes.case import Case, ConsumerCase, positions_of_addresses, siblings_of
from penstock.causes.evidence import NumberRead, Truth, known, unread
from penstock.causes.verdict import AGAINST, CauseState
from penstock.core.table import Index, Table
from penstock.model import (
    ANONYMOUS,
    AddressRow,
    BrokerKind,
    Collector,
    LeftOut,
    ProducerRow,
)
from penstock.observation.poll import RuleInputs

INTERVAL = 15.0
SECOND = 1
STAMP = plain().snapshot.stamp


def case(poll: RuleInputs, *, row: int = SECOND, seconds: float = 100.0) -> Case:
    """Of a condition that has been active for so long."""
    return Case(poll, row, NOW - seconds)


# --- whose it is, and its numbers


def test_a_case_of_a_queue() -> None:
    poll = with_values(two_queues(), {"snapshot.queues.messages": [5, 7]})
    here = case(poll)
    assert (here.queue_at, here.queue_row.name) == (1, "r")
    assert here.queue("messages", "the depth") == NumberRead("the depth", 7)
    assert here.consumers.tolist() == [1]
    assert [row.id for row in here.rows_of(here.consumers)] == ["d"]
    assert here.snapshot is poll.snapshot
    assert here.broker is poll.broker


def test_a_case_of_a_consumer() -> None:
    poll = with_values(
        two_queues(),
        {"snapshot.consumers.delivered": [5, 7], "found.consumer.queue": [1, 0]},
    )
    here = ConsumerCase(poll, SECOND, NOW)
    assert (here.queue_at, here.queue_row.name, here.consumer_row.id) == (0, "q", "d")
    assert here.consumer("delivered", "deliveries") == NumberRead("deliveries", 7)
    assert here.protocol == "CORE"


def test_what_is_not_there_was_not_read() -> None:
    poll = changed(two_queues(), snapshot__addresses=None)
    here = case(poll)
    assert not here.address("pages", "pages").is_known
    assert here.address_row is None
    assert positions_of_addresses(poll) == {}
    assert not case(two_queues()).address_named("other", "pages", "pages").is_known


def test_numbers_of_addresses() -> None:
    poll = with_values(two_queues(), {"snapshot.addresses.pages": [5, 7]})
    here = case(poll)
    assert here.address("pages", "pages") == NumberRead("pages", 7)
    assert here.fullness("pages", "pages") == NumberRead("pages", 7)
    assert here.address_named("q", "pages", "pages") == NumberRead("pages", 5)
    assert here.address_row is not None
    assert here.address_row.name == "r"
    assert positions_of_addresses(poll) == {"q": 0, "r": 1}


def test_an_address_that_is_not_listed_has_no_numbers() -> None:
    listed = Table(
        Index.of([AddressRow("other", "page"), AddressRow("another", "page")]),
        {"pages": np.array([5.0, 7.0])},
    )
    here = case(changed(two_queues(), snapshot__addresses=listed))
    assert here.address_row is None
    assert not here.address("pages", "pages").is_known
    assert not here.address_named("r", "pages", "pages").is_known


def test_the_first_address_is_one() -> None:
    here = case(two_queues(), row=0)
    assert here.address_row is not None
    assert here.address_row.name == "q"


def test_classic_shows_with_the_settings_how_full_an_address_is() -> None:
    classic = changed(two_queues(), broker__kind=BrokerKind.CLASSIC)
    assert (
        case(classic).fullness("pages", "pages").source == "the settings of its address"
    )


def test_settings_are_read_with_the_settings_of_the_address() -> None:
    poll = with_values(two_queues(), {"snapshot.addresses.limit_bytes": [5, np.nan]})
    limit = case(poll, row=0).limit("limit_bytes", "its limit")
    assert limit == NumberRead("its limit", 5, 0.0, "the settings of its address")
    assert (
        case(poll).setting("limit_bytes", "its limit").lack == "its limit was not read"
    )
    assert case(poll).limit("limit_bytes", "its limit").value == np.inf
    never = with_values(poll, {"snapshot.addresses.settings_stamp": np.nan})
    assert np.isnan(case(never).limit("limit_bytes", "its limit").value)


def test_numbers_of_the_broker() -> None:
    poll = changed(plain(), broker__memory_used_bytes=5.0)
    assert case(poll, row=0).broker_number("memory_used_bytes", "memory") == NumberRead(
        "memory", 5
    )


# --- when it was read


@pytest.mark.parametrize(
    ("since", "age"), [(NOW - 100, 100), (NOW, 0), (NOW + 5, 0), (np.nan, 0)]
)
def test_how_long_it_is_active(since: float, age: float) -> None:
    assert Case(plain(), 0, since).age == age


@pytest.mark.parametrize(
    ("seconds_ago", "active_for", "stale"),
    [
        (0.0, 100.0, 0.0),
        (100.0 + INTERVAL, 100.0, 0.0),
        (100.0 + INTERVAL + 1, 100.0, 1.0),
        (100.0, 0.0, 100.0 - INTERVAL),
        (np.nan, 100.0, np.inf),
    ],
)
def test_settings_are_stale_by_how_long_before_it_began_they_were_read(
    seconds_ago: float, active_for: float, stale: float
) -> None:
    """It may have begun at any time after the poll before."""
    poll = with_values(
        two_queues(),
        {"snapshot.addresses.settings_stamp": [np.nan, STAMP - seconds_ago]},
    )
    assert case(poll, seconds=active_for).settings_stale == stale


@pytest.mark.parametrize(
    ("interval", "stale"), [(INTERVAL, 85), (np.nan, 100), (-1.0, 100)]
)
def test_without_an_interval_it_began_at_the_poll(
    interval: float, stale: float
) -> None:
    poll = with_values(two_queues(), {
        "snapshot.addresses.settings_stamp": STAMP - 100,
        "found.interval": interval,
    })  # fmt: skip
    assert case(poll, seconds=0.0).settings_stale == stale


def test_a_part_that_was_read_is_fresh() -> None:
    assert case(plain(), row=0).part_is_fresh("producers", "the list") == known(True)
    never = changed(plain(), snapshot__producers=None)
    assert case(never, row=0).part_is_fresh("producers", "the list") == unread(
        "the list"
    )
    assert case(never, row=0).stale("producers") == np.inf
    assert not case(never, row=0).was_ever_read("producers")


def test_addresses_that_were_read_before_it_began_are_stale() -> None:
    collectors = {"addresses": Collector(0.1, STAMP - 500, "")}
    here = case(changed(two_queues(), snapshot__collectors=collectors))
    stale = 500 - 100 - INTERVAL
    assert here.stale("addresses") == stale
    assert here.address("pages", "pages").stale_seconds == stale
    assert here.address_named("q", "pages", "pages").stale_seconds == stale
    fresh = here.part_is_fresh("addresses", "the addresses")
    assert fresh.lacks == ("the addresses: last read 6 min 25 s before this began",)


# --- the whole broker

FULL = Truth.YES
ROOM = Truth.NO
NOT_READ = Truth.UNKNOWN


@pytest.mark.parametrize(
    ("memory", "disk", "is_full"),
    [
        ((9.0, 9.0), (0.1, 0.9), FULL),
        ((1.0, 9.0), (0.9, 0.9), FULL),
        ((1.0, 9.0), (0.1, 0.9), ROOM),
        ((np.nan, 9.0), (0.1, 0.9), NOT_READ),
        ((np.nan, 9.0), (0.9, 0.9), FULL),
        ((1.0, 9.0), (0.1, np.nan), NOT_READ),
    ],
)
def test_a_broker_is_full(
    memory: tuple[float, float], disk: tuple[float, float], is_full: Truth
) -> None:
    about = {
        "broker__memory_used_bytes": memory[0],
        "broker__memory_limit_bytes": memory[1],
        "broker__disk_used_ratio": disk[0],
        "broker__disk_limit_ratio": disk[1],
    }
    poll = changed(plain(), **about)
    assert case(poll, row=0).broker_is_full.truth is is_full
    assert surroundings.has_room(poll.broker) is (is_full is ROOM)
    assert bool(surroundings.full_broker(poll.broker)) is (is_full is FULL)


def test_what_was_not_read_of_the_broker_is_named() -> None:
    nothing = changed(
        plain(),
        broker__memory_used_bytes=np.nan,
        broker__memory_limit_bytes=np.nan,
        broker__disk_used_ratio=np.nan,
        broker__disk_limit_ratio=np.nan,
    )
    here = case(nothing, row=0)
    assert here.memory_is_full == unread(
        "the broker's memory use", "the broker's memory limit"
    )
    assert here.disk_is_full == unread("the disk use", "max-disk-usage")


# --- consumers


def test_why_it_is_not_known_what_all_consumers_want() -> None:
    not_counted = with_values(plain(), {"snapshot.queues.consumers": np.nan})
    assert case(not_counted, row=0).all_consumers_are_listed == unread(
        "the number of consumers"
    )
    one_more = with_values(plain(), {"snapshot.queues.consumers": 2})
    unlisted = "what consumers want that are not listed, as those of a bridge,"
    assert case(one_more, row=0).all_consumers_are_listed == unread(unlisted)


@pytest.mark.parametrize(
    ("counted", "left_out", "truth"),
    [
        (1.0, (), Truth.YES),
        (0.0, (), Truth.YES),
        (2.0, (), Truth.UNKNOWN),
        (np.nan, (), Truth.UNKNOWN),
        (1.0, (LeftOut("consumers", 1, 2),), Truth.UNKNOWN),
    ],
)
def test_all_consumers_are_listed(counted: float, left_out: Any, truth: Truth) -> None:
    poll = changed(
        with_values(plain(), {"snapshot.queues.consumers": counted}), left_out=left_out
    )
    assert case(poll, row=0).all_consumers_are_listed.truth is truth
    assert case(poll, row=0).left_out is bool(left_out)


def test_old_versions_list_consumers_without_numbers() -> None:
    assert case(plain(), row=0).consumers_show_numbers == known(True)
    old = changed(plain(), found__counted=False)
    assert case(old, row=0).consumers_show_numbers == unread(
        "what each consumer buffers"
    )


def test_protocols_are_without_their_version() -> None:
    rows = np.array(
        [SimpleNamespace(protocol=name) for name in ("MQTT5", "X5", "")], object
    )
    index = SimpleNamespace(rows=rows)
    poll: Any = SimpleNamespace(
        found=SimpleNamespace(consumer=SimpleNamespace(index=index))
    )
    assert [*Case(poll, 0).protocols(np.array([0, 1, 2]))] == ["MQTT", "X", ""]
    assert ConsumerCase(poll, 0).protocol == "MQTT"


@pytest.mark.parametrize(
    ("keys", "siblings", "is_known"),
    [([7, 7, 8], [0], True), ([7, 8, 8], [2], True), ([7, 8, 9], [], True), ([7, -1, -1], [], False), ([], [], False),
     ([0, 0, 8], [0], True)],
)  # fmt: skip
def test_the_other_consumers_of_its_connection(
    keys: list[int], siblings: list[int], is_known: bool
) -> None:
    snapshot: Any = SimpleNamespace(consumer_connection=np.array(keys, np.int64))
    assert siblings_of(snapshot, SECOND).tolist() == siblings
    poll: Any = SimpleNamespace(snapshot=snapshot)
    here = ConsumerCase(poll, SECOND)
    assert here.siblings.tolist() == siblings
    assert here.connection_is_known == (
        known(True) if is_known else unread("its connection")
    )


def test_one_consumer_alone_has_a_connection() -> None:
    snapshot: Any = SimpleNamespace(consumer_connection=np.array([7]))
    poll: Any = SimpleNamespace(snapshot=snapshot)
    assert ConsumerCase(poll, 0).connection_is_known == known(True)
    assert siblings_of(snapshot, 0).dtype == np.intp


# --- what is around it


def test_consumers_of_a_queue() -> None:
    poll = with_values(two_queues(), {"found.consumer.queue": [1, 1]})
    assert surroundings.consumers_of(poll, 1).tolist() == [0, 1]
    assert surroundings.consumers_of(poll, 0).tolist() == []


@pytest.mark.parametrize(
    ("since", "acknowledged", "names"),
    [
        ([NOW, NOW + 2], [np.nan, np.nan], ["other"]),
        ([NOW, NOW - 2], [np.nan, np.nan], ["other"]),
        ([NOW, NOW + 2.1], [np.nan, np.nan], []),
        ([NOW, NOW], [np.nan, NOW + 2], ["other"]),
        ([NOW, NOW], [np.nan, NOW + 2.1], []),
        ([NOW, np.nan], [np.nan, np.nan], []),
    ],
)
def test_other_clients_that_stopped_with_it(
    since: list[float], acknowledged: list[float], names: list[str]
) -> None:
    poll = with_values(two_consumers(), {
        "unacked.unacked_since": since,
        "found.consumer.last_acknowledgement": acknowledged,
    })  # fmt: skip
    rows = np.array([SimpleNamespace(client=name) for name in ("app", "other")], object)
    index = poll.found.consumer.index
    named: Index[Any] = Index(index.keys, rows, index.origin, None)
    assert (
        surroundings.stopped_with(changed(poll, found__consumer__index=named), 0)
        == names
    )


def addresses(percent: list[float], paging: list[float], **broker: float) -> RuleInputs:
    """Of two addresses "q" and "r", where the broker has room unless it is said."""
    room = {
        "memory_used_bytes": 1.0,
        "memory_limit_bytes": 9.0,
        "disk_used_ratio": 0.1,
        "disk_limit_ratio": 0.9,
    }
    columns = {
        "snapshot.addresses.limit_percent": percent,
        "snapshot.addresses.paging": paging,
    }
    poll = with_values(two_queues(), columns)
    return changed(
        poll, **{f"broker__{name}": value for name, value in (room | broker).items()}
    )


@pytest.mark.parametrize(
    ("poll", "full"),
    [
        (addresses([100, 0], [0, 0]), {"q": "full at 100 %"}),
        (addresses([117.2, 100], [0, 1]), {"q": "full at 117 %"}),
        (addresses([89, 0], [0, 0]), {}),
        (addresses([90, 0], [0, 0]), None),
        (addresses([np.nan, 0], [0, 0]), None),
        (addresses([100, 0], [np.nan, 0]), None),
        (addresses([0, 0], [0, 0], memory_used_bytes=np.nan), None),
        (addresses([0, 0], [0, 0], disk_used_ratio=0.9), {
            "q": "the broker's disk is full",
            "r": "the broker's disk is full",
        }),
        (addresses([0, 0], [0, 0], memory_used_bytes=9.0), {}),
        (changed(addresses([0, 0], [0, 0]), left_out=(LeftOut("queues", 1, 2),)), None),
        (changed(addresses([0, 0], [0, 0]), snapshot__addresses=None), None),
    ],
)  # fmt: skip
def test_addresses_whose_producers_wait(
    poll: RuleInputs, full: dict[str, str] | None
) -> None:
    """None where that is not known of all."""
    assert surroundings.full_addresses(poll) == full


def test_where_memory_is_full_those_wait_that_write_no_pages() -> None:
    poll = addresses([0, 0], [0, 1], memory_used_bytes=9.0)
    listed = poll.snapshot.addresses
    assert listed is not None
    rows = Index.of([AddressRow("q", "block"), AddressRow("r", "block")])
    blocking = changed(poll, snapshot__addresses=Table(rows, listed.columns))
    assert surroundings.full_addresses(blocking) == {"q": "the broker's memory is full"}


@pytest.mark.parametrize(("error", "full"), [("", {}), ("no answer", None)])
def test_addresses_that_were_not_read_now_are_not_known(
    error: str, full: dict[str, str] | None
) -> None:
    collectors = {"addresses": Collector(0.1, STAMP, error)}
    poll = changed(addresses([0, 0], [0, 0]), snapshot__collectors=collectors)
    assert surroundings.full_addresses(poll) == full


def test_it_is_said_what_of_the_broker_is_full() -> None:
    assert (
        surroundings.full_broker(
            addresses([0, 0], [0, 0], memory_used_bytes=9.0).broker
        )
        == "memory"
    )
    assert (
        surroundings.full_broker(addresses([0, 0], [0, 0], disk_used_ratio=0.9).broker)
        == "disk"
    )


def sends(poll: RuleInputs, *rows: tuple[str, str, float]) -> RuleInputs:
    """Address, session and what it has sent, of each producer."""
    producers = [
        ProducerRow(f"p{at}", address, "app", session)
        for at, (address, session, _) in enumerate(rows)
    ]
    produced = np.array([number for *_, number in rows])
    return changed(
        poll, snapshot__producers=Table(Index.of(producers), {"produced": produced})
    )


def test_sessions_that_sent_to_a_full_address() -> None:
    full = changed(
        addresses([100, 0], [0, 0]), timers__blocked=np.array([NOW - 50, NOW])
    )
    poll = sends(full, ("q", "one", 5.0), ("q", "two", 0.0), ("r", "three", 5.0))
    assert surroundings.sends_to(poll) == {"one": ("q", NOW - 50)}
    assert surroundings.sends_to(changed(full, snapshot__producers=None)) == {}
    assert (
        surroundings.sends_to(sends(addresses([0, 0], [0, 0]), ("q", "one", 5.0))) == {}
    )


# --- silence

GETS_AS_MUCH = {
    "usual.arrival": [NOW - 900, NOW],
    "usual.began": [np.nan, NOW - 900],
    "trend.rate_in": [0, 2],
    "usual.expected.low": 2,
    "usual.expected.inflow": 2 * 3600,
    "usual.expected.weeks": 0,
}


@pytest.mark.parametrize(
    ("values", "to"),
    [
        ({}, "r"),
        ({"usual.began": [np.nan, NOW - 300]}, "r"),
        ({"usual.began": [np.nan, NOW - 1500]}, "r"),
        ({"usual.began": [np.nan, NOW - 299]}, ""),
        ({"trend.rate_in": [0, 1]}, "r"),
        ({"trend.rate_in": [0, 0.9]}, ""),
        ({"trend.rate_in": [0, 4]}, "r"),
        ({"trend.rate_in": [0, 4.1]}, ""),
        ({"trend.rate_in": [0, 0], "usual.expected.low": 0}, ""),
        ({"usual.expected.weeks": [0, 1]}, ""),
    ],
)
def test_another_queue_gets_as_much_since(values: dict[str, Any], to: str) -> None:
    poll = with_values(two_queues(), {**GETS_AS_MUCH, **values})
    assert silence.moved(poll, 0) == to
    verdict = silence.silent(case(poll, row=0))["moved"]
    assert verdict.state is CauseState.POSSIBLE
    assert verdict.likely is bool(to)
    assert verdict.fact == (
        f"{to} gets as much since"
        if to
        else f"{AGAINST}no other queue of this broker began to get as much"
    )


def test_of_two_others_the_first_is_named() -> None:
    poll = with_values(
        two_queues(), GETS_AS_MUCH | {"usual.began": NOW - 900, "trend.rate_in": 2}
    )
    assert silence.moved(poll, 1) == ""
    assert silence.moved(poll, 0) == "q"


POSSIBLE = CauseState.POSSIBLE
EXCLUDED = CauseState.EXCLUDED


@pytest.mark.parametrize(
    ("rows", "gone", "idle"),
    [
        ([], POSSIBLE, EXCLUDED),
        ([("q", "s", 0.0)], EXCLUDED, POSSIBLE),
        ([(ANONYMOUS, "s", 0.0)], POSSIBLE, POSSIBLE),
        ([("r", "s", 0.0)], POSSIBLE, EXCLUDED),
    ],
)
def test_producers_are_gone_or_idle(
    rows: list[tuple[str, str, float]], gone: CauseState, idle: CauseState
) -> None:
    verdicts = silence.silent(case(sends(two_queues(), *rows), row=0))
    assert verdicts["producer_gone"].state is gone
    assert verdicts["producer_idle"].state is idle
    own, others = (
        sum(row[0] == address for row in rows) for address in ("q", ANONYMOUS)
    )
    fact = f"{own} producers of q are connected, and {others} that name an address with each message"
    assert verdicts["producer_gone"].fact == fact


def test_where_producers_were_not_read_both_are_open() -> None:
    for poll in (
        changed(two_queues(), snapshot__producers=None),
        changed(two_queues(), left_out=(LeftOut("x", 1, 2),)),
    ):
        verdicts = silence.silent(case(poll, row=0))
        assert verdicts["producer_gone"].state is POSSIBLE
        assert verdicts["producer_idle"].state is POSSIBLE
        assert "the list of producers was not read" in verdicts["producer_gone"].fact


def test_openmq_shows_how_full_an_address_is_at_each_poll() -> None:
    poll = with_values(openmq(), {"snapshot.addresses.limit_messages": 7})
    assert case(poll, row=0).fullness("limit_messages", "its limit").source == ""
