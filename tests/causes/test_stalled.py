"""Causes of `stalled` and `open_transaction`: by the rows of the table, with what looks alike."""

from typing import Any

import pytest

from agent.test_restart import busy, work
from causes.world import MIB, Beside, excluded, possible, proven, states, verdicts
from conditions.openmq_world import openmq, openmq_polls
from conditions.world import START
from penstock.causes.verdict import AGAINST, CauseState
from penstock.conditions.catalogue import on
from penstock.conditions.wording import action as action_text
from penstock.insight.actions import Actions
from penstock.insight.answers import Action
from penstock.model import AcknowledgeMode, TransactionState

NAN = float("nan")
WORKED = {
    "T": 834.0,
    "C": 50.0,
    "N": 884.0,
    "buffered_bytes": 0.98 * MIB,
    "L": START - 40,
    "Ld": START - 38,
}
"""A Core listener that hung at its 51st message, its window is full."""
NEVER = {"T": 881.0, "C": 0.0, "N": 881.0, "buffered_bytes": MIB, "Ld": START - 38}
BEHIND = {"A": 1700.0, "M": 1650.0, "D": 834.0}
"""More waits than is in delivery."""
NONE_WAITS = {"A": 884.0, "M": 834.0, "D": 834.0}


def stalled(
    consumer: dict[str, Any], queue: dict[str, Any] = BEHIND, **more: Any
) -> dict[CauseState, set[str]]:
    return states(
        verdicts(
            "stalled",
            lambda _, __: {
                "queues": {"q": queue},
                "consumers": {"c": consumer},
                **more,
            },
        )
    )


FOREIGN = {
    "CORE": {"puback_missing"},
    "OPENWIRE": {"puback_missing"},
    "AMQP": {"puback_missing", "never_commits"},
    "STOMP": {"puback_missing", "never_commits", "never_receives"},
    "MQTT": {"never_acknowledges", "never_commits", "never_receives"},
    "MQTT5": {"never_acknowledges", "never_commits", "never_receives"},
}
NO_FULL_ADDRESS = {"blocked_in_send"}


OTHERS = [
    pytest.param(
        protocol,
        marks=pytest.mark.slow if protocol in {"OPENWIRE", "STOMP", "MQTT5"} else (),
    )
    for protocol in FOREIGN
]


@pytest.mark.parametrize("protocol", OTHERS)
def test_causes_of_other_protocols_are_excluded(protocol: str) -> None:
    found = stalled({**NEVER, "protocol": protocol}, NONE_WAITS)
    assert found[excluded] == FOREIGN[protocol]
    assert not found[proven]


@pytest.mark.slow  # many polls
def test_a_missing_puback_is_proven_only_where_the_process_is_seen_to_work() -> None:
    """A frozen process sends none either."""

    def said(i: int, now: float) -> dict[str, Any]:
        silent = {**NEVER, "protocol": "MQTT", "connection": 7}
        works = {
            "queue": "r",
            "T": 0.0,
            "C": 9.0 * i,
            "N": 9.0 * i,
            "L": now - 1,
            "Ld": now - 1,
            "connection": 7,
        }
        queues = {"q": NONE_WAITS, "r": {"A": 9.0 * i, "K": 9.0 * i, "M": 0.0}}
        return {"queues": queues, "consumers": {"c": silent, "d": works}}

    assert verdicts("stalled", said)["puback_missing"].state is proven


def hangs(
    each_poll: float, address: dict[str, float] | None = None, **said: Any
) -> Any:
    """One that comes at the second poll, takes so many at three polls, and then none."""

    selector = {"filter": said.pop("filter")} if "filter" in said else {}

    def poll(i: int, now: float) -> dict[str, Any]:
        done = each_poll * min(i, 3)
        last = now - 15 * max(i - 3, 0) - 1
        mine = {"T": 40.0, "C": done, "N": done + 40, "L": last, "Ld": last, **selector}
        other = {"queue": "r", "T": 0.0, "N": 0.0}
        consumers = {"o": other} | ({"c": mine} if i else {})
        numbers = {"A": 2000.0, "K": done, "M": 2000 - done, "D": 40.0, **said}
        queues = {"q": numbers, "r": {"A": 0.0, "M": 0.0}}
        return {
            "queues": queues,
            "consumers": consumers,
            "addresses": {"q": address or {}},
        }

    return verdicts("stalled", poll)


@pytest.mark.slow  # many polls
def test_a_core_listener_that_hangs_after_it_worked_has_received_and_acknowledged() -> (
    None
):
    found = hangs(100.0)
    assert states(found)[excluded] == {
        "never_acknowledges",
        "never_commits",
        "puback_missing",
    }
    none = "nothing was delivered to it for 2 min 1 s while 1660 wait"
    assert found["listener_hangs"].fact == f"it took 300 messages; {none}"
    assert (
        found["never_commits"].fact
        == f"it would go on taking messages, 6.8 each second as before; {none}"
    )


@pytest.mark.slow  # many polls
def test_one_that_takes_longer_for_its_window_may_receive_and_acknowledge_no_more() -> (
    None
):
    found = hangs(2.0)
    assert found["never_acknowledges"].state is possible
    assert found["never_receives"][:2] == (
        possible,
        "it has taken 6 messages before, and may ask for no more since",
    )


@pytest.mark.slow  # many polls
def test_so_may_one_of_which_it_is_not_known_how_fast_it_was() -> None:
    found = stalled(WORKED)
    assert {"never_acknowledges", "never_commits"} <= found[possible]


@pytest.mark.slow  # many polls
def test_one_that_acknowledged_nothing_since_it_came_may_never_have_received() -> None:
    found = verdicts(
        "stalled", lambda _, __: {"queues": {"q": BEHIND}, "consumers": {"c": NEVER}}
    )
    assert states(found)[possible] >= {
        "never_receives",
        "listener_hangs",
        "never_acknowledges",
        "never_commits",
    }
    assert found["never_acknowledges"].fact.startswith(
        "only if it receives less than 2.7 messages each second"
    )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    ("queue", "address"),
    [
        ({"M": 40.0}, {}),
        ({"paused": 1.0}, {}),
        ({}, {"paused": 1.0}),
        ({}, {"paging": 1.0}),
        ({"delivering_bytes": 9e5}, {"paging": 1.0, "page_read_limit_bytes": 1e6}),
        ({"exclusive": 1.0, "consumers": 2.0}, {}),
        ({"groups": 2.0, "consumers": 2.0}, {}),
        ({"groups": NAN, "consumers": 2.0}, {}),
        ({"paused": NAN}, {}),
        ({}, {"paused": NAN}),
        ({}, {"paging": NAN}),
        ({"consumers_before_dispatch": NAN}, {}),
        ({"consumers_before_dispatch": 2.0}, {}),
    ],
)
def test_no_delivery_excludes_nothing_where_the_consumer_had_no_right_to_one(
    queue: dict[str, Any], address: dict[str, float]
) -> None:
    assert hangs(100.0, address, **queue)["never_acknowledges"].state is possible


@pytest.mark.slow  # many polls
def test_paging_below_the_limit_of_reads_holds_nothing_up() -> None:
    address = {"paging": 1.0, "page_read_limit_bytes": 1e7}
    assert (
        hangs(100.0, address, delivering_bytes=9e5)["never_acknowledges"].state
        is excluded
    )


@pytest.mark.slow  # many polls
def test_nor_where_it_chooses_by_a_selector() -> None:
    assert hangs(100.0, filter="k = 1")["never_acknowledges"].state is possible


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(
    "protocol",
    [
        "AMQP",
        *(
            pytest.param(other, marks=pytest.mark.slow)
            for other in ("STOMP", "OPENWIRE")
        ),
    ],
)  # many polls
def test_credit_that_acknowledgements_give_is_used_up_by_a_forgotten_one_too(
    protocol: str,
) -> None:
    assert "never_acknowledges" in stalled({**WORKED, "protocol": protocol})[possible]


@pytest.mark.slow  # many polls
def test_below_a_window_it_is_said_when_it_can_be_decided() -> None:
    """CLIENT_ACKNOWLEDGE, a transaction and DUPS_OK look alike until 1 MiB has been received."""
    found = verdicts("stalled", lambda _, __: {
        "queues": {"q": NONE_WAITS}, "consumers": {"c": {**NEVER, "buffered_bytes": 0.25 * MIB}},
    })  # fmt: skip
    assert found["never_acknowledges"].fact == (
        "decidable when 1 MiB has been received or messages wait; 0.25 MiB are buffered"
    )


def test_more_than_a_window_in_hand_says_that_it_receives() -> None:
    found = verdicts("stalled", lambda i, now: {
        "queues": {"q": NONE_WAITS},
        "consumers": {"c": {**NEVER, "buffered_bytes": (1 + i / 10) * MIB, "T": 900.0 + 90 * i, "Ld": now - 1}},
    })  # fmt: skip
    assert found["never_acknowledges"].state is possible
    assert found["never_acknowledges"].fact.startswith(
        "2.1 MiB are buffered: it receives"
    )


# --- the connection, other clients


@pytest.mark.slow  # many polls
def test_a_sibling_that_works_excludes_a_frozen_process() -> None:
    def said(i: int, now: float) -> dict[str, Any]:
        good = {
            "queue": "r",
            "T": 1.0,
            "C": 20.0 * i,
            "N": 20.0 * i + 1,
            "L": now - 1,
            "Ld": now - 1,
            "connection": 7,
        }
        queues = {
            "q": BEHIND,
            "r": {"A": 20.0 * i + 1, "K": 20.0 * i, "M": 1.0, "D": 1.0},
        }
        return {
            "queues": queues,
            "consumers": {"c": {**WORKED, "connection": 7}, "d": good},
        }

    found = verdicts("stalled", said)
    assert found["frozen"][:2] == (
        excluded,
        "another consumer of its connection works on r",
    )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("other", "fact", "likely"), [
    ({"connection": 7, "L": START - 40.05}, "1 of 1 other consumers of its connection stopped with it", True),
    ({"connection": 7, "L": START - 40.05, "T": 0.0, "N": 50.0, "queue": "r"},
     "no other consumer of its connection shows whether the process works", False),
    pytest.param(
        {"connection": 7, "L": START - 4000},
        f"{AGAINST}none of 1 other consumers of its connection stopped with it",
        False,
        marks=pytest.mark.slow,  # many polls
    ),
    pytest.param(
        {"connection": 8, "L": START - 40.05},
        "no other consumer of its connection shows whether the process works",
        False,
        marks=pytest.mark.slow,
    ),
])  # fmt: skip
def test_siblings_that_stand_too_leave_a_frozen_process_possible(
    other: dict[str, float], fact: str, likely: bool
) -> None:
    found = verdicts("stalled", lambda _, __: {
        "queues": {"q": BEHIND}, "consumers": {"c": {**WORKED, "connection": 7}, "d": {**WORKED, **other}},
    })  # fmt: skip
    assert found["frozen"] == (possible, fact, likely)


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("apart", "fact", "likely"), [
    (0.5, "a1, a2 stopped within 2 s of it", True),
    (5.0, f"{AGAINST}no other client stopped within 2 s of it", False),
])  # fmt: skip
def test_three_clients_that_stop_at_once_wait_for_something_in_common(
    apart: float, fact: str, likely: bool
) -> None:
    world = Beside()
    rows = {
        str(n): {
            **WORKED,
            "T": 10.0,
            "client": f"a{n}",
            "L": START + 5 + apart * n,
            "Ld": START + 5,
        }
        for n in range(3)
    }
    for i in range(12):
        before = {key: {**row, "C": 40.0, "L": START} for key, row in rows.items()}
        world.poll(
            {"q": {**BEHIND, "K": 120.0 if i == 0 else 150.0}},
            before if i == 0 else rows,
        )
    found = {
        one.client: one.verdicts["outside"]
        for one in world.conditions
        if one.name == "stalled"
    }
    assert found["a0"] == (possible, fact, likely)


@pytest.mark.slow  # many polls
def test_a_client_that_goes_on_acknowledging_and_never_commits_has_not_stopped() -> (
    None
):
    world = Beside()
    for i in range(12):
        done = 40.0 + 5.0 * i
        stalled = {
            "queue": "q",
            "client": "stalled",
            "T": 10.0,
            "C": 0.0,
            "N": 10.0,
            "Ld": START + world.step - 1,
        }
        open_transaction = {
            "queue": "other",
            "client": "goes on",
            "W": done,
            "C": done,
            "N": done,
        }
        latest = world.now + world.step - 1
        queues = {
            "q": {"A": 40.0 + i, "M": 40.0 + i, "D": 10.0},
            "other": {"A": done, "M": done, "D": done},
        }
        world.poll(
            queues, {"c": stalled, "d": {**open_transaction, "L": latest, "Ld": latest}}
        )
    found = {one.client: one for one in world.conditions}
    assert found["goes on"].name == "open_transaction"
    assert (
        found["stalled"].verdicts["outside"].fact
        == f"{AGAINST}no other client stopped within 2 s of it"
    )


# --- a send that does not return


def blocked(
    closed_at: int, *, sends: str = "sc", policy: str = "block", **broker: Any
) -> Any:
    """The consumer stops at the fourth poll; nothing comes in to the reply address from poll `closed_at` on."""

    def said(i: int, now: float) -> dict[str, Any]:
        stopped = min(i, 3)
        closed = min(i, closed_at)
        done = 10.0 * (stopped + 1)
        acknowledged = now - 15 * (i - stopped) - 1
        consumer = {
            "T": 20.0,
            "C": done,
            "N": done + 20,
            "L": acknowledged,
            "Ld": acknowledged,
            "connection": 7,
        }
        came = 10.0 * (closed + 1)
        percent = 117.0 if i >= closed_at else 50.0
        return {
            "queues": {"q": {"A": done + 20, "K": done, "M": 20.0, "D": 20.0}, "reply": {"A": came, "M": came}},
            "consumers": {"c": consumer},
            "addresses": {"q": {"limit_percent": 1.0}, "reply": {"limit_percent": percent, "policy": policy}},
        }  # fmt: skip

    producers = {"p": {"address": "reply", "session": sends, "produced": 40}}
    return verdicts("stalled", said, **{"producers": producers, **broker})[
        "blocked_in_send"
    ]


@pytest.mark.slow  # many polls
def test_a_session_that_sends_to_an_address_that_closed_as_it_stopped_is_blocked_by_it() -> (
    None
):
    found = blocked(3)
    assert found[:2] == (
        proven,
        "its session sends to reply (full at 117 %); nothing has come in there for 2 min, since it stopped",
    )


@pytest.mark.slow  # many polls
@pytest.mark.parametrize(("closed_at", "options"), [
    (0, {}),  # it worked on while the address was full
    (8, {}),  # it stopped long before
    (3, {"sends": "another session"}),
    (3, {"producers": None}),
])  # fmt: skip
def test_an_address_that_closed_at_another_time_or_is_anothers_proves_nothing(
    closed_at: int, options: dict[str, Any]
) -> None:
    assert blocked(closed_at, **options).state is possible


@pytest.mark.slow  # many polls
def test_where_no_address_blocks_no_send_does() -> None:
    assert blocked(30).state is excluded


@pytest.mark.slow  # many polls
def test_a_full_disk_blocks_every_send() -> None:
    full = {"disk_used_ratio": 1.0, "disk_limit_ratio": 0.9}
    found = blocked(3, about=full)
    assert (found.state, "the broker's disk is full" in found.fact) == (proven, True)


# --- acknowledged and uncommitted


def uncommitted(
    protocol: str, *, goes_on: bool, each: float = 1160.0, many: float = 50.0
) -> dict[CauseState, set[str]]:
    def said(i: int, now: float) -> dict[str, Any]:
        done = many + (20.0 * i if goes_on else 0.0)
        last = now - 1 if goes_on else START + 15
        consumer = {
            "T": 0.0,
            "W": done,
            "C": done,
            "N": done,
            "L": last,
            "Ld": last,
            "protocol": protocol,
        }
        queue = {"A": 1000.0, "M": 1000.0, "D": done, "delivering_bytes": done * each}
        return {"queues": {"q": queue}, "consumers": {"c": consumer}}

    return states(verdicts("open_transaction", said))


@pytest.mark.parametrize("protocol", ["AMQP", "STOMP", "OPENWIRE"])
def test_one_that_goes_on_acknowledging_works_and_does_not_commit(
    protocol: str,
) -> None:
    assert uncommitted(protocol, goes_on=True) == {
        proven: {"never_commits"}, possible: set(),
        excluded: {"never_acknowledges", "acknowledges_one_by_one", "listener_hangs"},
    }  # fmt: skip


def test_one_that_stopped_may_hang_within_its_transaction() -> None:
    found = uncommitted("AMQP", goes_on=False)
    assert (found[proven], found[possible]) == (
        set(),
        {"never_commits", "listener_hangs"},
    )


def test_core_shows_a_missing_commit_and_a_missing_acknowledge_alike() -> None:
    found = uncommitted("CORE", goes_on=True, each=60_000.0)
    assert (found[proven], found[excluded]) == (set(), {"listener_hangs"})
    assert {"never_commits", "never_acknowledges"} <= found[possible]


def test_a_batch_of_messages_that_were_sent_by_amqp_is_smaller_on_the_broker() -> None:
    """As measured: CLIENT_ACKNOWLEDGE without acknowledge(), 1,714 messages of 228 bytes at once."""
    assert uncommitted("CORE", goes_on=False, each=228.0, many=1714.0)[proven] == set()


def test_core_that_acknowledged_less_than_a_batch_sends_each_acknowledgement() -> None:
    assert uncommitted("CORE", goes_on=False)[proven] == {"acknowledges_one_by_one"}


# --- OpenMQ


@pytest.mark.slow  # many polls
def test_openmq_says_how_a_session_acknowledges() -> None:
    for mode, missing in (
        (AcknowledgeMode.AUTO, False),
        (AcknowledgeMode.CLIENT, True),
    ):
        row = {"N": 50, "T": 50, "acknowledge_mode": mode}
        world = openmq()
        for _ in range(12):
            world.poll({"q": {"A": 100, "K": 0, "M": 100, "D": 50}}, {"c": row})
        assert (
            world.one("stalled").verdicts["never_acknowledges"].state is possible
        ) is missing


@pytest.mark.slow  # many polls
def test_openmq_says_that_a_transaction_has_failed() -> None:
    for state, known in (
        (TransactionState.FAILED, proven),
        (TransactionState.STARTED, excluded),
    ):
        world = openmq(
            transactions={
                "t": {
                    "connection": 7,
                    "state": state,
                    "acknowledgements": 50,
                    "messages": 0,
                }
            }
        )
        openmq_polls(world, 12, lambda _: {
            "queues": {"q": {"A": 100, "K": 0, "M": 100, "D": 100}},
            "consumers": {
                "c": {"N": 100, "T": 100, "acknowledge_mode": AcknowledgeMode.TRANSACTED, "connection": 7},
            },
        })  # fmt: skip
        assert (
            world.one("open_transaction").verdicts["transaction_failed"].state is known
        )


@pytest.mark.slow  # many polls
def test_what_the_broker_does_not_say_is_no_number() -> None:
    """Neither bytes nor times."""
    world = busy()
    work(world, 20)
    facts = [
        verdict.fact for one in world.conditions for verdict in one.verdicts.values()
    ]
    assert len(facts) > 10
    assert not [fact for fact in facts if "nan" in fact]


def offered(condition: str, world: Beside) -> list[Action]:
    one = world.one(condition)
    assert world.read is not None
    found = Actions(world.read, world.state).of(one, on("artemis", condition))
    assert found
    return found


def never_commits(**more: float) -> Beside:
    """Its acknowledgements go on, one by one, and it commits none of them: it does not hang."""
    world = Beside()
    for i in range(14):
        now = START + (i + 1) * world.step
        row = {
            "T": 0.0,
            "W": 5.0 * i,
            "C": 5.0 * i,
            "N": 5.0 * i,
            "L": now - 1,
            "Ld": now - 1,
            **more,
        }
        world.poll(
            {"q": {"A": 200.0, "M": 200.0, "D": 5.0 * i, "delivering_bytes": 1000.0}},
            {"c": row},
        )
    return world


@pytest.mark.slow  # many polls
def test_what_is_done_first_follows_no_cause_that_is_excluded() -> None:
    world = never_commits()
    verdicts = world.one("open_transaction").verdicts
    assert verdicts["listener_hangs"].state is CauseState.EXCLUDED
    actions = offered("open_transaction", world)
    assert actions[0].name == "commit_in_client"
    assert actions[0].do.startswith("It does not hang: ")
    assert not any(
        "f it hangs" in action.do or "thread dumps" in action.do + action.never
        for action in actions
    )
    assert actions[0].check.startswith("Its uncommitted messages fall")


@pytest.mark.slow  # many polls
def test_one_that_buffers_has_these_to_fall() -> None:
    actions = offered("open_transaction", never_commits(T=10.0))
    assert actions[0].check.startswith("Its buffered messages fall")


@pytest.mark.slow  # many polls
def test_where_it_may_hang_the_dumps_come_first_and_the_short_advice_does_not_close_it_before() -> (
    None
):
    world = Beside()
    for i in range(14):
        done = 5.0 * min(i, 2)
        last = START + min(i + 1, 3) * world.step
        row = {"T": 10.0, "W": done, "C": done, "N": done + 10, "L": last, "Ld": last}
        world.poll(
            {"q": {"A": 200.0, "M": 200.0, "D": done + 10, "delivering_bytes": 1000.0}},
            {"c": row},
        )
    actions = offered("open_transaction", world)
    assert actions[0].name == "thread_dump"
    one = world.one("open_transaction")
    assert "before you close its connection" in action_text(
        on("artemis", one.name), one.evidence
    )
