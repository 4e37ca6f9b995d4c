"""What was not read decides nothing: every cause of every condition, with each of its inputs knocked out.

A verdict that is certain while an input is unknown must hold whatever the input is. So each scenario is judged with
one input missing, and with it read long before; then with many values of it: a verdict that is proven or excluded
without the input must be the same with each of the values.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from causes.world import MIB, Beside
from conditions.normal_world import Flow, knowing, steady
from conditions.openmq_world import OpenmqJudged, openmq, openmq_polls
from conditions.test_slowed import usual
from conditions.world import START, Judged
from penstock.causes.case import Case, ConsumerCase
from penstock.causes.evidence import NumberRead
from penstock.causes.verdict import CauseState, OnDemand, Verdicts
from penstock.conditions.catalogue import CONDITIONS
from penstock.conditions.condition import Condition
from penstock.model import AcknowledgeMode, ResourceState
from penstock.rule_engine.reports import decided

POLLS = 14
VALUES = (-1.0, 0.0, 0.5, 1.0, 2.0, 40.0, 100.0, 1e4, 1e12)
READERS = ("queue", "address", "setting", "limit", "broker_number", "consumer")
"""Of `Case`: where a rule asks for a number by its column."""
Said = Callable[[int, float], dict[str, Any]]


def polled(said: Said, polls: int = POLLS, **options: Any) -> Judged:
    world = Beside(**options)
    for i in range(polls):
        world.poll(**said(i, START + (i + 1) * world.step))
    return world


# --- one scenario for each rule


def core_hangs() -> Judged:
    def said(i: int, now: float) -> dict[str, Any]:
        done = 100.0 * min(i, 3)
        last = now - 15 * max(i - 3, 0) - 1
        mine = {
            "T": 40.0,
            "C": done,
            "N": done + 40,
            "L": last,
            "Ld": last,
            "buffered_bytes": 0.3 * MIB,
        }
        idle = {"queue": "r", "T": 0.0, "N": 0.0}
        consumers = {"o": idle} | ({"c": mine} if i else {})
        numbers = {
            "A": 2000.0,
            "K": done,
            "M": 2000 - done,
            "D": 40.0,
            "delivering_bytes": 0.3 * MIB,
        }
        return {
            "queues": {"q": numbers, "r": {"A": 0.0, "M": 0.0}},
            "consumers": consumers,
            "addresses": {"q": {"limit_percent": 1.0}, "r": {"limit_percent": 1.0}},
        }

    return polled(said)


def mqtt_is_silent() -> Judged:
    def said(i: int, now: float) -> dict[str, Any]:
        silent = {
            "T": 9.0,
            "C": 0.0,
            "N": 9.0,
            "Ld": START,
            "protocol": "MQTT",
            "connection": 7,
        }
        works = {
            "queue": "r",
            "T": 0.0,
            "C": 9.0 * i,
            "N": 9.0 * i,
            "L": now - 1,
            "Ld": now - 1,
            "connection": 7,
        }
        queues = {
            "q": {"A": 9.0, "M": 9.0, "D": 9.0},
            "r": {"A": 9.0 * i, "K": 9.0 * i, "M": 0.0},
        }
        return {"queues": queues, "consumers": {"c": silent, "d": works}}

    return polled(said)


def amqp_never_commits() -> Judged:
    def said(i: int, now: float) -> dict[str, Any]:
        more = 5.0 * i
        row = {
            "T": 10.0,
            "W": more,
            "C": more,
            "N": 10 + more,
            "L": now - 1,
            "Ld": now - 1,
            "protocol": "AMQP",
        }
        queue = {"A": 200.0, "M": 200.0, "D": 10 + more, "delivering_bytes": 1000.0}
        return {"queues": {"q": queue}, "consumers": {"c": row}}

    return polled(said)


def comes_back(protocol: str) -> Judged:
    def said(i: int, now: float) -> dict[str, Any]:
        done = 1.0 * i
        back = 10.0 * i
        row = {
            "T": 10.0,
            "C": done + back,
            "N": done + back + 10,
            "L": now - 1,
            "Ld": now - 1,
            "protocol": protocol,
        }
        numbers = {"A": 12 + done, "K": done, "M": 12.0, "D": 10.0, "Att": done}
        return {"queues": {"q": numbers}, "consumers": {"c": row}}

    return polled(said)


def dies(delivered: float, dead: float) -> Judged:
    def said(i: int, now: float) -> dict[str, Any]:
        gone = 5.0 * i
        given = delivered * i
        row = {"T": 1.0, "C": given, "N": given + 1, "L": now - 1, "Ld": now - 1}
        queue = {
            "A": 900.0,
            "X": gone,
            "M": 900 - gone,
            "D": 1.0,
            "Att": given,
            "dead_letter_address": "dead",
        }
        settings = {"max_delivery_attempts": 10.0, "slow_consumer_kills": 0.0}
        return {
            "queues": {"q": queue, "dead": {"A": dead * i, "M": dead * i}},
            "consumers": {"c": row},
            "addresses": {"q": settings, "dead": {"limit_percent": 1.0}},
        }

    return polled(said, 24)


def expires() -> Judged:
    def said(i: int, _: float) -> dict[str, Any]:
        queue = {"A": 900 + 10.0 * i, "E": 5.0 * i, "K": 5.0 * i, "M": 900.0}
        return {"queues": {"q": queue}, "addresses": {"q": {"expiry_delay": -1.0}}}

    return polled(said, 24)


def not_dispatching(protocol: str, selector: str = "") -> Judged:
    def said(i: int, _: float) -> dict[str, Any]:
        idle = {
            "T": 0.0,
            "N": 0.0,
            "C": 0.0,
            "connection": 7,
            "protocol": protocol,
            "filter": selector,
        }
        return {
            "queues": {"q": {"A": 50.0 + i, "M": 50.0 + i, "K": 5.0}},
            "consumers": {"c": idle},
        }

    return polled(said)


def unread() -> Judged:
    def said(i: int, now: float) -> dict[str, Any]:
        there = {"c": {"T": 0.0, "N": 5.0, "C": 5.0, "L": now}} if i < 3 else {}
        return {
            "queues": {"q": {"A": 15.0 + i, "K": 5.0, "M": 10.0 + i}},
            "consumers": there,
        }

    return polled(said, 40, about={"authentication_failures": 0.0})


def paused() -> Judged:
    return polled(lambda _, __: {"queues": {"q": {"A": 9.0, "M": 9.0, "paused": 1.0}}})


def blocked(percent: float, **about: float) -> Judged:
    address = {
        "policy": "block",
        "limit_percent": percent,
        "memory_used_ratio": percent / 100,
        "limit_bytes": 1e5,
    }
    return polled(
        lambda _, __: {
            "queues": {"q": {"A": 9.0, "M": 9.0}},
            "addresses": {"q": address},
        },
        about=about,
    )


def rejects() -> Judged:
    address = {"limit_percent": 117.0, "paging": 1.0, "pages": 0.0, "policy": "drop"}
    return polled(
        lambda _, __: {
            "queues": {"q": {"A": 9.0, "M": 9.0}},
            "addresses": {"q": address},
        }
    )


def grows(**queue: float) -> Judged:
    def said(i: int, now: float) -> dict[str, Any]:
        done = 50.0 * i
        works = {"T": 1.0, "C": done, "N": done + 1, "L": now - 1, "Ld": now - 1}
        numbers = {
            "A": 100.0 * i,
            "K": done,
            "M": 100.0 * i - done,
            "D": 1.0,
            "max_consumers": -1.0,
            **queue,
        }
        return {"queues": {"q": numbers}, "consumers": {"c": works}}

    return polled(said, 24)


def slowed() -> Judged:
    judged = knowing(q=usual(0.05))
    Flow(judged).run(600, 5.0).run(180, 5.0, settles=4.0)
    return judged


def silent() -> Judged:
    judged = knowing(q=steady(20.0))
    Flow(judged).run(600, 20.0).run(600, 0.0)
    return judged


def openmq_hangs() -> Judged:
    return openmq_polls(openmq(), POLLS, lambda _: {
        "queues": {"q": {"A": 500, "K": 50, "M": 450, "D": 100}},
        "consumers": {"c": {"N": 150, "T": 100, "L": START, "flow_paused": 1.0, "connection": 7}},
    })  # fmt: skip


def openmq_transaction() -> Judged:
    world = openmq()
    world.transactions = {
        "t": {"state": 2.0, "acknowledgements": 100.0, "messages": 0.0, "connection": 7}
    }
    mode = AcknowledgeMode.TRANSACTED
    return openmq_polls(world, POLLS, lambda _: {
        "queues": {"q": {"A": 500, "K": 0, "M": 500, "D": 100}},
        "consumers": {"c": {"N": 100, "T": 100, "acknowledge_mode": mode, "connection": 7}},
    })  # fmt: skip


def openmq_loop() -> Judged:
    return openmq_polls(openmq(), POLLS, lambda i: {
        "queues": {"q": {"A": 20, "K": 0, "M": 20, "D": 20}},
        "consumers": {"c": {"N": 20 + 5000 * i, "T": 20, "acknowledge_mode": AcknowledgeMode.TRANSACTED}},
    })  # fmt: skip


def openmq_idle() -> Judged:
    return openmq_polls(openmq(), POLLS, lambda i: {
        "queues": {"q": {"A": 50.0 + i, "M": 50.0 + i, "K": 0}},
        "consumers": {"c": {"T": 0.0, "N": 0.0, "flow_paused": 1.0, "connection": 7}},
    })  # fmt: skip


def openmq_full() -> Judged:
    address = {
        "limit_messages": 50,
        "max_producers": 50,
        "producers": 1,
        "producers_paused": 0.0,
    }
    return openmq_polls(openmq(), POLLS, lambda _: {
        "queues": {"q": {"A": 50, "M": 50, "bytes": 10.0}},
        "addresses": {"q": {"policy": "flow_control", **address}},
    })  # fmt: skip


def openmq_refuses() -> Judged:
    address = {"limit_messages": 200, "message_limit_bytes": 1000.0, "dead_letters": 1}
    refuses = {"K": 500, "M": 10, "bytes": 10.0}
    return openmq_polls(openmq(about={"resource_state": float(ResourceState.GREEN)}), 8, lambda i: {
        "queues": {"q": {"A": 1000 + 20 * i, **refuses}, "takes": {"A": 20 * i, "K": 20 * i, "M": 0}},
        "addresses": {"q": address},
    })  # fmt: skip


def openmq_grows() -> Judged:
    world: OpenmqJudged = openmq()

    def said(i: int) -> dict[str, Any]:
        done = 50.0 * i
        works = {"T": 1.0, "N": done + 1, "L": world.now + 14}
        queue = {
            "A": 100.0 * i,
            "K": done,
            "M": 100.0 * i - done,
            "D": 1.0,
            "active_consumers": 1.0,
        }
        return {"queues": {"q": queue}, "consumers": {"c": works}}

    return openmq_polls(world, 24, said)


SCENARIOS: dict[str, tuple[str, Callable[[], Judged]]] = {
    "core_hangs": ("stalled", core_hangs),
    "mqtt_is_silent": ("stalled", mqtt_is_silent),
    "amqp_never_commits": ("open_transaction", amqp_never_commits),
    "amqp_releases": ("redelivery_loop", lambda: comes_back("AMQP")),
    "core_rolls_back": ("redelivery_loop", lambda: comes_back("CORE")),
    "attempts_are_used_up": ("dead_lettering", lambda: dies(50.0, 5.0)),
    "an_operator_purges": ("dead_lettering", lambda: dies(0.0, 0.0)),
    "messages_expire": ("expiring", expires),
    "amqp_has_no_credit": ("not_dispatching", lambda: not_dispatching("AMQP")),
    "stomp_selects_nothing": (
        "not_dispatching",
        lambda: not_dispatching("STOMP", "k = '1'"),
    ),
    "core_is_not_started": ("not_dispatching", lambda: not_dispatching("CORE")),
    "nobody_reads": ("no_consumer", unread),
    "it_is_paused": ("paused", paused),
    "an_address_is_full": ("producers_blocked", lambda: blocked(117.0)),
    "the_disk_is_full": (
        "producers_blocked",
        lambda: blocked(5.0, disk_used_ratio=0.95),
    ),
    "it_drops": ("rejecting", rejects),
    "it_grows": ("falling_behind", grows),
    "it_is_exclusive": ("falling_behind", lambda: grows(exclusive=1.0)),
    "its_consumers_are_slow": ("slowed", slowed),
    "its_producer_is_silent": ("producer_silent", silent),
    "openmq_hangs": ("stalled", openmq_hangs),
    "openmq_transaction": ("open_transaction", openmq_transaction),
    "openmq_loop": ("redelivery_loop", openmq_loop),
    "openmq_idle": ("not_dispatching", openmq_idle),
    "openmq_full": ("producers_blocked", openmq_full),
    "openmq_refuses": ("rejecting", openmq_refuses),
    "openmq_grows": ("falling_behind", openmq_grows),
}
ELSEWHERE = {"purged", "gone", "dead_letters_lost", "orphaned"}
"""Rules that are tested with the account, the churn, or have no number as input."""


@cache
def active(name: str) -> OnDemand:
    """The causes of the scenario's condition; played once, for they only look at what was polled."""
    condition, world = SCENARIOS[name]
    found = [one for one in world().conditions if one.name == condition]
    assert found, f"{condition} is not active"
    verdicts = found[0].verdicts
    assert isinstance(verdicts, OnDemand)
    return verdicts


class Trial:
    """One condition that is active, and its causes, judged again and again with an input changed."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.condition, self.poll, self.row, self.since = active(name)._decide.args
        self.change: Callable[[str, str, NumberRead], NumberRead] = (
            lambda _, __, reading: reading
        )
        self.asked: dict[tuple[str, str], None] = {}
        for owner, reader in [(Case, one) for one in READERS[:-1]] + [
            (ConsumerCase, READERS[-1])
        ]:
            monkeypatch.setattr(
                owner, reader, self._watched(reader, getattr(owner, reader))
            )

    def _watched(
        self, reader: str, real: Callable[..., NumberRead]
    ) -> Callable[..., NumberRead]:
        def read(case: Case, column: str, name: str) -> NumberRead:
            self.asked[reader, column] = None
            return self.change(reader, column, real(case, column, name))

        return read

    def judged(self, poll: Any = None) -> Verdicts:
        return decided(self.condition, poll or self.poll, self.row, self.since)

    def with_input(
        self, where: tuple[str, str], change: Callable[[NumberRead], NumberRead]
    ) -> Verdicts:
        self.change = lambda reader, column, reading: (
            change(reading) if (reader, column) == where else reading
        )
        try:
            return self.judged()
        finally:
            self.change = lambda _, __, reading: reading


def certain(verdicts: Verdicts) -> dict[str, CauseState]:
    return {
        name: one.state
        for name, one in verdicts.items()
        if one.state is not CauseState.POSSIBLE
    }


def differing(
    without: Verdicts, with_value: Verdicts
) -> dict[str, tuple[CauseState, CauseState]]:
    """Causes that are certain without the input, and another one with a value of it."""
    return {
        name: (state, with_value[name].state)
        for name, state in certain(without).items()
        if name in with_value and with_value[name].state is not state
    }


def facts_with_nan(verdicts: Verdicts) -> list[str]:
    """A number that was not read is never shown as one."""
    facts = [verdict.fact for verdict in verdicts.values()]
    return [fact for fact in facts if re.search(r"\bnan\b", fact)]


BY_DAY = {
    "core_hangs", "amqp_never_commits", "stomp_selects_nothing", "it_is_paused", "openmq_loop", "openmq_transaction",
}  # fmt: skip
"""What `make unit` plays; `make test` plays all."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in BY_DAY else pytest.mark.slow)
        for name in SCENARIOS
    ],
)
def test_an_input_that_was_not_read_decides_no_cause(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(name, monkeypatch)
    trial.judged()
    # Where the settings were read, a limit that is not in them is none.
    limits = {
        ("setting", column) for reader, column in trial.asked if reader == "limit"
    }
    for where in trial.asked.keys() - limits:
        missing = trial.with_input(
            where, lambda reading: reading._replace(value=np.nan)
        )
        stale = trial.with_input(
            where, lambda reading: reading._replace(stale_seconds=600.0)
        )
        assert not facts_with_nan(missing), f"{where} is missing"
        for value in VALUES:
            found = trial.with_input(
                where, partial(NumberRead._replace, value=value, stale_seconds=0.0)
            )
            assert not differing(missing, found), (
                f"{where} is missing, and may be {value}"
            )
            assert not differing(stale, found), (
                f"{where} was read 10 min before, and may be {value}"
            )


def knocked_out(poll: Any) -> Iterator[tuple[str, Any, Any]]:
    """Texts and whole parts that a rule may look at: the poll without it, and with another one."""
    snapshot = poll.snapshot
    for part in ("connections", "producers", "transactions", "addresses"):
        if getattr(snapshot, part) is not None:
            yield (
                part,
                replace(poll, snapshot=replace(snapshot, **{part: None}), _results={}),
                poll,
            )
    consumers = poll.found.consumer.index
    for field, other in (
        ("protocol", "AMQP"),
        ("protocol", "CORE"),
        ("protocol", "MQTT"),
    ):
        yield (
            field,
            with_rows(poll, consumers, **{field: ""}),
            with_rows(poll, consumers, **{field: other}),
        )
    queues = poll.found.queues
    for flag in ("purge_on_no_consumers", "auto_delete"):
        yield (
            flag,
            with_rows(poll, queues, **{flag: None}),
            with_rows(poll, queues, **{flag: True}),
        )
        yield (
            flag,
            with_rows(poll, queues, **{flag: None}),
            with_rows(poll, queues, **{flag: False}),
        )


def with_rows(poll: Any, index: Any, **texts: Any) -> Any:
    """The poll, the rows of one of whose indexes say something else."""
    rows = np.empty(len(index), np.object_)
    for i, row in enumerate(index):
        rows[i] = replace(row, **texts)
    other = type(index)(index.keys, rows, index.origin, None)
    if index is poll.found.queues:
        return replace(poll, found=replace(poll.found, queues=other), _results={})
    return replace(
        poll,
        found=replace(poll.found, consumer=replace(poll.found.consumer, index=other)),
        _results={},
    )


@pytest.mark.slow  # each scenario judged with each of many texts
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_text_or_a_part_that_was_not_read_decides_no_cause(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(name, monkeypatch)
    for what, without, with_it in knocked_out(trial.poll):
        found = differing(trial.judged(without), trial.judged(with_it))
        assert not found, f"{what} is missing"


@pytest.mark.slow  # plays all scenarios, where other workers play them too
def test_every_rule_of_causes_has_a_scenario() -> None:
    rules = {
        one.decide
        for condition in CONDITIONS.values()
        for one in all_kinds(condition)
        if one.decide
    }
    covered = {active(name)._decide.args[0].decide for name in SCENARIOS}
    missing = {f"{rule.__module__}.{rule.__name__}" for rule in rules - covered}
    assert {
        name for name in missing if not any(one in name for one in ELSEWHERE)
    } == set()


def all_kinds(condition: Condition) -> list[Condition]:
    return [condition, *(condition.on(kind) for kind in condition.variants)]


def test_rivals_are_causes_of_the_same_condition() -> None:
    for condition in CONDITIONS.values():
        for one in all_kinds(condition):
            named = {
                *one.rivals,
                *(rival for rivals in one.rivals.values() for rival in rivals),
            }
            assert named <= one.causes.keys(), one.name
