"""The poll loop of one broker against a reader that is slow, fails, hangs or raises."""

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import things
from core.things import snapshot, table
from penstock.agent import Agent, Assessor, Poller, Result, assessor, poller
from penstock.agent.fleet import SPREAD_SECONDS
from penstock.assessment.assess import assess
from penstock.config import Broker
from penstock.core.errors import ConfigError, Refused, Unreachable
from penstock.exposition.body import Exposition
from penstock.exposition.render import BrokerBlocks
from penstock.exposition.syntax import Format
from penstock.model import Collector, Snapshot
from penstock.settings.policy import Policy


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 10_000.0

    def time(self) -> float:
        return self.now

    monotonic = time

    async def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.0)
        await asyncio.tasks.sleep(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (assessor, poller):
        monkeypatch.setattr(module, "time", clock)
    return clock


class Reader:
    """Takes `seconds` and does what it is told, the last thing for ever."""

    def __init__(self, clock: Clock, *acts: Any, seconds: float = 0.5) -> None:
        self.clock = clock
        self.acts = list(acts)
        self.seconds = seconds
        self.began: list[float] = []
        self.under_way = 0
        self.closed = False

    async def poll(self, timeout: float) -> Snapshot:  # noqa: ARG002 - the reader's
        self.began.append(self.clock.now)
        self.under_way += 1
        assert self.under_way == 1
        await self.clock.sleep(self.seconds)
        self.under_way -= 1
        act = self.acts.pop(0) if len(self.acts) > 1 else self.acts[0]
        if isinstance(act, BaseException):
            raise act
        made: Snapshot = act(self.clock.now)
        return made

    async def close(self) -> None:
        self.closed = True


def orders(stamp: float, failed: tuple[str, ...] = ()) -> Snapshot:
    if "queues" in failed:
        return snapshot(stamp, failed=failed)
    return snapshot(
        stamp,
        failed=failed,
        queues=table([things.queue("orders")], messages=[7], added=[9]),
    )


def watching(reader: Reader, interval: float = 10.0) -> Poller:
    return Poller(reader, Assessor(Policy("b"), interval), interval - 0.5)


def shown(one: Poller) -> dict[str, str]:
    """Series → value, of the broker."""
    body = Exposition(lambda _: b"")
    body.set_broker("b", one.assessor.blocks)
    lines = b"".join(body.chunks(Format.TEXT, gzip=False)).decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def polls(one: Poller) -> dict[str, int]:
    found = shown(one)
    return {
        r: int(float(found[f'penstock_polls_total{{broker="b",result="{r}"}}']))
        for r in Result
    }


UP = 'mq_up{broker="b"}'
MESSAGES = 'mq_queue_messages{broker="b",address="orders",queue="orders"}'


async def run_until(
    one: Poller, clock: Clock, end: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop until the clock stands at `end`."""

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        if clock.now >= end:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await one.run()


@pytest.mark.parametrize(
    ("seconds", "began", "skipped"),
    [
        (0.5, [0, 10, 20, 30, 40, 50], 0),
        (4.0, [0, 10, 20, 30, 40, 50], 0),
        (6.0, [0, 20, 40], 3),  # as long a rest as it took
        (12.0, [0, 30], 4),
    ],
)
async def test_polls_never_overlap_and_what_is_not_made_is_counted(
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    began: list[float],
    skipped: int,
) -> None:
    reader = Reader(clock, orders, seconds=seconds)
    one = watching(reader)
    await run_until(one, clock, 10_060, monkeypatch)
    assert [at - 10_000 for at in reader.began] == began
    await one.poll()
    assert polls(one) == {
        "ok": len(began) + 1,
        "partial": 0,
        "failed": 0,
        "skipped": skipped,
    }


@pytest.mark.parametrize(
    ("retry_after", "second"), [(None, 70), (7.0, 70), (95.0, 100)]
)
async def test_a_refusal_pauses(
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    retry_after: float | None,
    second: float,
) -> None:
    reader = Reader(clock, Refused("no", retry_after=retry_after), orders)
    one = watching(reader)
    await run_until(one, clock, 10_110, monkeypatch)
    assert reader.began[1] - 10_000 == second


async def test_a_surprise_does_not_end_the_loop(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = watching(Reader(clock, orders, ZeroDivisionError("what"), orders))
    await run_until(one, clock, 10_050, monkeypatch)
    await one.poll()
    assert polls(one)["failed"] == 1
    assert polls(one)["ok"] == 5
    assert "please report" in caplog.text


async def test_a_surprise_while_assessing_does_not_end_the_loop(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = watching(Reader(clock, orders))
    await one.poll()

    def broken(*_: object) -> None:
        raise KeyError("x")

    with monkeypatch.context() as patched:
        patched.setattr(assessor, "assess", broken)
        outcome = await one.poll()
    assert outcome.result is Result.FAILED
    assert "unexpected KeyError" in outcome.error
    assert shown(one)[UP] == "0"
    assert shown(one)[MESSAGES] == "7"
    assert (await one.poll()).result is Result.OK


async def test_a_surprise_while_rendering_is_told_once_and_the_loop_goes_on(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = watching(Reader(clock, orders, seconds=0))
    await one.poll()
    with monkeypatch.context() as patched:
        patched.setattr(BrokerBlocks, "update", lambda *_: 1 / 0)
        await run_until(one, clock, 10_030, monkeypatch)
    assert one.last is not None
    assert one.last.error.startswith("unexpected ZeroDivisionError")
    assert sum(record.exc_info is not None for record in caplog.records) == 1
    assert (await one.poll()).result is Result.OK
    assert shown(one)[UP] == "1"


async def test_what_cannot_be_rendered_anew_goes_in_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = watching(Reader(clock, orders, seconds=0))
    await one.poll()
    update = BrokerBlocks.update

    def only_small(blocks: BrokerBlocks, tables: Any, label_length: int) -> None:
        if "queue" in tables:
            raise MemoryError
        update(blocks, tables, label_length)

    monkeypatch.setattr(BrokerBlocks, "update", only_small)
    await run_until(one, clock, 10_080, monkeypatch)
    assert (shown(one)[UP], MESSAGES in shown(one)) == ("0", False)


async def test_a_new_policy_during_a_poll_is_taken_at_the_next(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = 'mq_queue_messages{broker="b",address="reply",queue="reply"}'

    def answer(stamp: float) -> Snapshot:
        return snapshot(stamp, queues=table([things.temporary("reply")], messages=[7]))

    one = watching(Reader(clock, answer))
    new = Policy("b", sum_temporary=False)

    def reloaded(*arguments: Any) -> Any:
        one.assessor.next_policy = new
        return assess(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(assessor, "assess", reloaded)
        await one.poll()
    assert (
        one.assessor.policy == new,
        one.assessor.next_policy == new,
        reply in shown(one),
    ) == (False, True, False)
    await one.poll()
    assert (one.assessor.policy == new, reply in shown(one)) == (True, True)


async def test_a_hanging_poll_ends_with_its_task(clock: Clock) -> None:
    reader = Reader(clock, orders)

    async def hang(timeout: float) -> Snapshot:
        await asyncio.Event().wait()
        raise AssertionError

    reader.poll = hang  # type: ignore[method-assign]
    task = asyncio.create_task(watching(reader).poll())
    await asyncio.tasks.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(("interval", "keep"), [(10.0, 60.0), (30.0, 90.0)])
async def test_what_was_read_stays_for_a_while_and_then_only_the_agents_own(
    clock: Clock, interval: float, keep: float
) -> None:
    one = watching(Reader(clock, orders, Unreachable("gone"), seconds=0), interval)
    await one.poll()
    assert (shown(one)[UP], shown(one)[MESSAGES]) == ("1", "7")
    clock.now += keep
    await one.poll()
    assert (shown(one)[UP], shown(one)[MESSAGES]) == ("0", "7")
    clock.now += 1
    await one.poll()
    left = shown(one)
    assert left[UP] == "0"
    assert {
        name.partition("{")[0] for name in left if not name.startswith("penstock_")
    } == {"mq_up"}
    assert 'penstock_polls_total{broker="b",result="failed"}' in left
    assert 'penstock_poll_timestamp_seconds{broker="b"}' not in left
    assert one.assessor.snapshot is None


async def test_a_failed_part_is_told_and_its_last_numbers_stay(clock: Clock) -> None:
    one = watching(
        Reader(clock, orders, lambda stamp: orders(stamp, ("queues",)), seconds=0)
    )
    await one.poll()
    clock.now += 10
    outcome = await one.poll()
    assert (outcome.result, outcome.error) == (Result.PARTIAL, "queues: no answer")
    assert shown(one)[MESSAGES] == "7"
    assert (
        shown(one)['penstock_collector_success{broker="b",collector="queues"}'] == "0"
    )
    assert shown(one)[UP] == "1"
    clock.now += 51
    await one.poll()
    assert MESSAGES not in shown(one)


async def test_what_was_read_goes_also_during_a_long_pause(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader(clock, orders, Refused("no", retry_after=3600.0), seconds=0)
    one = watching(reader)
    gone_at: list[float] = []
    one.assessor.on_change = lambda _: (
        None if one.assessor.snapshot else gone_at.append(clock.now)
    )
    await run_until(one, clock, 11_000, monkeypatch)
    assert gone_at == [10_060]
    assert (len(reader.began), shown(one)[UP], MESSAGES in shown(one)) == (
        2,
        "0",
        False,
    )


async def test_parts_that_are_not_read_at_every_poll_stay_in_the_tables(
    clock: Clock,
) -> None:
    def less(stamp: float) -> Snapshot:
        found = orders(stamp)
        return replace(found, collectors={"broker": found.collectors["broker"]})

    def passive(stamp: float) -> Snapshot:
        return replace(less(stamp), broker=things.PASSIVE)

    one = watching(Reader(clock, orders, less, passive))
    queues = 'penstock_collector_success{broker="b",collector="queues"}'
    for there in (True, True, False):
        await one.poll()
        assert (queues in shown(one)) is there


async def test_only_changes_are_logged(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock")
    one = watching(
        Reader(clock, orders, orders, Unreachable("gone"), Unreachable("gone"), orders)
    )
    for _ in range(5):
        await one.poll()
    assert [record.getMessage() for record in caplog.records] == [
        "broker b: polled", "broker b: poll failed: gone", "broker b: polled, all parts again",
    ]  # fmt: skip


# --- the agent


RECORDING = Path(__file__).parent.parent / "recordings" / "artemis-2.44.0.jsonl.gz"


def config(path: Path, *names: str, extra: str = "") -> Path:
    lines = [
        f'  - {{name: "{name}", kind: artemis, transport: recording, url: "recording:{RECORDING}"}}'
        for name in names
    ]
    path.write_text("\n".join(["interval: 60s", "brokers:", *lines, extra]) + "\n")
    return path


async def first_polls(agent: Agent) -> None:
    async with asyncio.timeout(SPREAD_SECONDS + 20):
        while not agent.lookups.ready()[0]:
            await asyncio.tasks.sleep(0.02)


def body(agent: Agent) -> str:
    return b"".join(agent.exposition.chunks(Format.TEXT, gzip=False)).decode()


@pytest.mark.slow  # many polls
async def test_a_reload_disturbs_only_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.agent.fleet.SPREAD_SECONDS", 0.1)
    path = config(tmp_path / "p.yaml", "one", "two")
    agent = Agent(path)
    assert agent.lookups.ready() == (True, "ready")
    await agent.start()
    try:
        assert agent.lookups.ready() == (
            False,
            "waiting for the first poll of one, two",
        )
        await first_polls(agent)
        assert 'mq_up{broker="one"} 1' in body(agent)
        assert 'mq_up{broker="two"} 1' in body(agent)
        tasks = {name: polled.task for name, polled in agent._fleet.polled.items()}

        path.write_text("interval: 1 fortnight\n")
        with pytest.raises(ConfigError):
            await agent.reload()
        assert {
            name: polled.task for name, polled in agent._fleet.polled.items()
        } == tasks
        assert 'mq_up{broker="two"} 1' in body(agent)
        assert "penstock_config_last_reload_successful 0" in body(agent)

        config(
            path, "one", "three", extra="rules: [{match: {queue: orders}, owner: me}]"
        )
        await agent.reload()
        await first_polls(agent)
        assert agent._fleet.polled["one"].task is tasks["one"]
        assert tasks["two"].cancelled()
        assert 'broker="two"' not in body(agent)
        assert 'mq_up{broker="three"} 1' in body(agent)
        assert 'owner="me"' in body(agent)
        assert "\npenstock_config_last_reload_successful 1\n" in body(agent)
        assert [(state.name, state.up) for state in agent.lookups.brokers()] == [
            ("one", True),
            ("three", True),
        ]
    finally:
        await agent.stop()
    assert all(task.done() for task in tasks.values())


async def test_what_was_opened_is_closed_when_a_later_broker_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    first = Reader(clock, orders)

    def opened(_: object, broker: Broker, *__: object) -> Reader:
        if broker.name == "two":
            raise ConfigError("no")
        return first

    monkeypatch.setattr("penstock.agent.supervisor.open_reader", opened)
    agent = Agent(config(tmp_path / "p.yaml", "one", "two"))
    with pytest.raises(ConfigError, match="no"):
        await agent.start()
    await agent.stop()
    assert first.closed


async def test_the_end_of_a_broken_loop_does_not_hinder_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Poller, "run", broken)
    agent = Agent(config(tmp_path / "p.yaml", "one", "two"))
    await agent.start()
    await asyncio.sleep(0)
    await agent.stop()
    assert agent._fleet.polled == {}
    assert caplog.text.count("its polling did not end as it should") == 2


# --- polls in between, while clients buffer more than a ring has room for


def held(stamp: float, delivering: float = 3.0) -> Snapshot:
    ring = table([things.queue("ring")], messages=[4], added=[4], acknowledged=[0], expired=[0], killed=[0],
                 scheduled=[0], delivering=[delivering], ring_limit=[3], last_value=[0])  # fmt: skip
    return snapshot(stamp, queues=ring, consumers=table([]))


def held_in_part(stamp: float) -> Snapshot:
    """By an account that may not list the prepared transactions."""
    found = held(stamp)
    refused = Collector(0.01, stamp, "not granted")
    return replace(found, collectors={**found.collectors, "transactions": refused})


@pytest.mark.parametrize(
    ("seconds", "act", "interval", "between"),
    [
        (0.01, held, 10.0, True),
        pytest.param(
            0.01, held_in_part, 10.0, True, marks=pytest.mark.slow
        ),  # many polls
        (0.06, held, 10.0, False),  # more than a tenth of the time
        (0.01, lambda stamp: held(stamp, delivering=0.0), 10.0, False),
        (0.01, held, 0.5, False),  # not below what is configured
    ],
)
async def test_a_broker_is_read_faster_only_while_a_ring_is_held(
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    act: Any,
    interval: float,
    *,
    between: bool,
) -> None:
    reader = Reader(clock, act, seconds=seconds)
    one = Poller(reader, Assessor(Policy("b"), interval), interval - 0.1)
    judged: list[float] = []
    one.assessor.on_poll = lambda found, _: judged.append(found.stamp)
    await run_until(one, clock, 10_000 + 4 * interval, monkeypatch)
    steps = [
        later - before
        for before, later in zip(reader.began, reader.began[1:], strict=False)
    ]
    assert (min(steps) < interval - 0.1) is between
    assert min(steps) >= min(poller.GLANCE, interval) - 0.1
    assert (one.glances > 10) is between
    assert len(judged) == sum(one.polls.values()) <= 5, (
        "nothing else is told of what is read in between"
    )
    assert (
        max(later - before for before, later in itertools.pairwise(judged))
        < interval + 0.6
    )


async def test_what_fails_in_between_waits_for_the_next_poll(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for failure in (Refused("no"), ZeroDivisionError("what")):
        reader = Reader(clock, held, held, failure, held, seconds=0.01)
        one = watching(reader)
        await run_until(one, clock, clock.now + 9, monkeypatch)
        assert (len(reader.began), one.glances, one.polls[Result.FAILED]) == (3, 1, 0)
