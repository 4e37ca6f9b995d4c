"""What leaves a destination of OpenMQ is acknowledged only where something shows it: with what looks alike."""

from typing import Any

import pytest

from account.openmq_world import Openmq, openmq_broker

NAN = float("nan")
SILENT: dict[str, Any] = {"dead_letters": 0}
"""useDMQ=false: what expires goes nowhere."""
SMALL: dict[str, Any] = {"message_limit_bytes": 10e6}
BUSY: dict[str, Any] = {"A": 0.0, "K": 0.0, "M": 5000.0, "D": 0.0, "uncommitted": 0.0}
"""Another queue, whose messages leave and may become dead letters."""


MORE_TORN_ROWS = [(1, 6), (2, 3), (2, 6), (3, 3)]
"""What a row lacks, and at which poll: `make test` has them, each of many polls."""


def full_store(broker: Openmq, *, polls: int = 6, **said: Any) -> Openmq:
    """A consumer has acknowledged 40; then the store is full: each send is refused, and moves both counters by one."""
    broker.see(consumers={"c": (0, 0)}, polls=5).see(
        40, 40, consumers={"c": (40, 0)}, polls=2
    )
    for n in range(1, polls + 1):
        broker.see(
            40 + 10 * n, 40 + 10 * n, consumers={"c": (40, 0)}, idle=True, **said
        )
    return broker


@pytest.mark.slow  # many polls
def test_what_a_full_store_refuses_is_not_acknowledged() -> None:
    broker = full_store(openmq_broker())
    assert broker.left() == {"acknowledged": 40, "left_unacknowledged": 60}
    assert broker.sheet().sums == "100 added = 40 acknowledged + 60 left unacknowledged"


@pytest.mark.slow  # many polls
def test_what_a_full_store_refuses_is_in_the_list_of_losses() -> None:
    assert [sheet.queue for sheet in full_store(openmq_broker()).losses()] == ["q"]


@pytest.mark.parametrize(
    ("torn", "at"),
    [
        (1, 3),
        (3, 6),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE_TORN_ROWS),
    ],
)
def test_a_row_that_was_read_while_it_changed_is_no_loss_for_good(
    torn: int, at: int
) -> None:
    """One poll lacks what the consumer had acknowledged, the next one has it."""
    broker = openmq_broker().see(consumers={"c": (0, 0)}, polls=5)
    for n in range(1, 9):
        lacks = torn if n == at else 0
        broker.see(10 * n, 10 * n, consumers={"c": (10 * n - lacks, 0)})
        wide = {
            "acknowledged": (10 * n - torn, 10 * n),
            "left_unacknowledged": (0, torn),
        }
        assert broker.left() == (wide if lacks else {"acknowledged": 10 * n})
    assert broker.losses() == []


@pytest.mark.slow  # many polls
def test_after_such_a_row_a_loss_is_a_loss() -> None:
    """The store is full: one message each poll leaves alone."""
    broker = openmq_broker().see(consumers={"c": (0, 0)}, polls=5)
    broker.see(10, 10, consumers={"c": (9, 0)}).see(20, 20, consumers={"c": (20, 0)})
    for lost in range(1, 6):
        broker.see(20 + lost, 20 + lost, consumers={"c": (20, 0)}, idle=True)
        low, high = bounds(broker.left()["left_unacknowledged"])
        assert low <= lost <= high
        low, high = bounds(broker.left()["acknowledged"])
        assert low <= 20 <= high
    broker.see(25, 25, consumers={"c": (20, 0)}, idle=True)
    assert broker.left() == {"acknowledged": 20, "left_unacknowledged": 5}


def bounds(value: Any) -> tuple[float, float]:
    return value if isinstance(value, tuple) else (value, value)


@pytest.mark.slow  # many polls
def test_a_queue_that_settles_all_is_in_no_list() -> None:
    broker = openmq_broker().see(consumers={"c": (0, 0)}, polls=5)
    for n in range(1, 7):
        broker.see(10 * n, 10 * n, consumers={"c": (10 * n, 0)})
    assert broker.left() == {"acknowledged": 60}
    assert broker.losses() == []


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    "said",
    [
        {
            "idle": False
        },  # prefetch is off: its counters stand still while it acknowledges
        {
            "idle": True,
            "filter_": "colour='red'",
        },  # another client may have taken what it does not want
    ],
    ids=["prefetch off", "filter"],
)
def test_where_a_consumer_may_have_acknowledged_it_there_are_bounds(
    said: dict[str, Any],
) -> None:
    broker = openmq_broker().see(consumers={"c": (0, 0)}, polls=5, **said)
    for n in range(1, 7):
        broker.see(10 * n, 10 * n, consumers={"c": (0, 0)}, **said)
    assert broker.left() == {"acknowledged": (0, 60), "left_unacknowledged": (0, 60)}
    assert broker.sheet().sums == "60 added = 60 acknowledged or left unacknowledged"


@pytest.mark.slow  # many polls
def test_a_consumer_that_went_with_what_no_poll_saw_may_have_acknowledged_it() -> None:
    broker = openmq_broker().see(100, 0, 100, consumers={"c": (0, 10)}, polls=5)
    broker.see(100, 60, 40, polls=1).see(100, 60, 40, consumers={"d": (0, 10)}, polls=4)
    assert broker.left() == {"acknowledged": (0, 60), "left_unacknowledged": (0, 60)}
    assert "clients that no poll saw" in broker.sheet().reasons["left_unacknowledged"]


@pytest.mark.slow  # many polls
def test_what_was_acknowledged_for_sure_never_falls() -> None:
    broker = full_store(openmq_broker())
    seen = []
    for n in range(8):
        seen.append(broker.left()["acknowledged"])
        broker.see(
            100 + n, 100 + n, consumers={} if n == 3 else {"c": (40, 0)}, idle=True
        )
    least = [value[0] if isinstance(value, tuple) else value for value in seen]
    assert least == sorted(least)


# --- useDMQ=false


def test_without_a_dead_message_queue_acknowledged_or_expired_is_not_known() -> None:
    """Half of what its client let go of may have expired in its buffer."""
    broker = openmq_broker().see(consumers={"c": (0, 0)}, polls=5, **SILENT)
    broker.see(100, 80, 20, consumers={"c": (80, 20)}, polls=3, **SILENT)
    assert broker.left() == {"acknowledged": (0, 80), "expired": (0, 80)}
    assert (
        broker.sheet().sums == "100 added = 20 delivering + 80 acknowledged or expired"
    )
    assert "useDMQ is off" in broker.sheet().reasons["acknowledged"]
    assert [sheet.queue for sheet in broker.losses()] == ["q"]


def test_a_topic_without_a_dead_message_queue_alike() -> None:
    topic = {"topic": 1.0, "uncommitted": 0.0, "delivering": 0.0, "dead_letters": 0.0}
    broker = openmq_broker()
    for n in range(6):
        broker.see(
            others={
                "t": {
                    **topic,
                    "messages_added": 20.0 * n,
                    "removed": 10.0 * n,
                    "messages": 10.0 * n,
                }
            }
        )
    assert broker.sheet("t").left["acknowledged"] == (0, 50)
    assert broker.sheet("t").left["expired"] == (0, 50)


@pytest.mark.parametrize(
    ("use_dmq", "acknowledged"), [(1, 60), (0, (0, 60))], ids=["on", "off"]
)
def test_settings_that_are_read_late_decide_for_what_left_before(
    use_dmq: int, acknowledged: Any
) -> None:
    broker = openmq_broker().see(consumers={"c": (0, 0)}, polls=5, dead_letters=NAN)
    broker.see(40, 40, consumers={"c": (40, 0)}, polls=2, dead_letters=NAN)
    assert broker.left() == {"acknowledged": (0, 40), "expired": (0, 40)}
    broker.see(60, 60, consumers={"c": (60, 0)}, polls=2, dead_letters=use_dmq)
    assert broker.left()["acknowledged"] == acknowledged


@pytest.mark.slow  # many polls
def test_it_stays_unknown_over_a_restart_of_the_agent() -> None:
    broker = openmq_broker().see(consumers={"c": (0, 0)}, polls=5, **SILENT)
    broker.see(100, 100, consumers={"c": (100, 0)}, polls=3, **SILENT)
    broker.restart_agent()
    broker.see(100, 100, consumers={"c": (100, 0)}, polls=4, **SILENT)
    assert broker.left() == {"acknowledged": (0, 100), "expired": (0, 100)}


# --- what never was in it


def arrivals(
    broker: Openmq, *, size: float, refused: int = 10, dead: float = 1.0, **said: Any
) -> Openmq:
    """At each poll 20 come and are acknowledged, and `refused` come and never are in it; another queue works, too."""
    others = {"busy": dict(BUSY)}
    for n in range(9):
        came = (20 + refused) * n
        settled = 20 * n
        others["busy"] |= {"K": 50.0 * n, "M": 5000 - 50.0 * n}
        letters = refused * n * dead
        said |= {"added_bytes": came * size}
        broker.see(
            came,
            settled,
            consumers={"c": (settled, 0)},
            others=others,
            dead=letters,
            **said,
        )
    return broker


def test_small_messages_were_not_too_large() -> None:
    """A clock that is an hour slow: all expire on arrival. 30 messages of 500 bytes have none of 10 MB among them."""
    left = arrivals(openmq_broker(), size=500, **SMALL).left()
    assert left["expired"] == (70, 80), "the last 10 are seen once"
    assert left["acknowledged"] == 160
    low, high = left["too_large"]
    assert (low, high) == (0, 10)


@pytest.mark.slow  # many polls
def test_large_messages_may_have_been_too_large() -> None:
    left = arrivals(openmq_broker(), size=500, message_limit_bytes=400.0).left()
    assert left["too_large"][0] == 0
    assert left["too_large"][1] >= 70
    assert left["expired"][1] >= 70


@pytest.mark.slow  # many polls
def test_what_a_limit_of_the_whole_broker_refuses_is_not_too_large() -> None:
    """The destination is far from its own limit, no dead letter comes, and the messages are small."""
    left = arrivals(openmq_broker(), size=500, dead=0.0, **SMALL).left()
    assert left["rejected"] == (70, 80)
    assert left["too_large"] == (0, 10)


@pytest.mark.slow  # many polls
def test_the_size_says_nothing_where_the_depth_is_not_read_at_each_poll() -> None:
    """What is apart then came at an earlier poll, and its bytes with it."""
    broker = openmq_broker().see(polls=4, message_limit_bytes=400.0, added_bytes=0.0)
    broker.see(
        10, 0, 10, polls=4, carried=True, message_limit_bytes=400.0, added_bytes=5000.0
    )
    for n in (1, 2, 3):
        small = 5000.0 + 10 * 40 * n
        broker.see(10 + 10 * n, 10 * n, 0, message_limit_bytes=400.0, added_bytes=small)
    assert broker.left()["too_large"] == (0, 10)


def test_what_was_seen_once_is_within_the_bounds() -> None:
    """4 of 30 were refused by the count of one poll: the sum closes all the same."""
    broker = openmq_broker().see(polls=4).see(30, 0, 10)
    assert broker.left() == {
        "rejected": (0, 20),
        "too_large": (0, 20),
        "expired": (0, 20),
    }
    assert (
        broker.sheet().sums == "30 added = 10 ready + 20 rejected, too large or expired"
    )
