"""Refused logins are all counted, and told as an event once a minute."""

import asyncio
from pathlib import Path

import pytest

from penstock.agent import Agent, refused_logins
from penstock.agent.refused_logins import RefusedLogins
from penstock.exposition.syntax import Format
from penstock.insight.events import Change


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(refused_logins, "time", made)
    return made


def test_one_event_a_minute_says_how_many(clock: Clock) -> None:
    told: list[str] = []

    def record(detail: str) -> bool:
        told.append(detail)
        return True

    logins = RefusedLogins(record)
    for number in range(600):
        logins.note(f"10.0.0.{number % 200}", checked=number % 3 != 0)
        clock.now += 0.25
    assert told == [
        "1 login, from 10.0.0.0",
        "240 logins, the last from 10.0.0.40",
        "240 logins, the last from 10.0.0.80",
    ]
    assert logins.numbers() == {"logins_refused": 400, "logins_unchecked": 200}


def test_what_cannot_be_recorded_now_is_in_the_next_event(clock: Clock) -> None:
    told: list[str] = []

    def record(detail: str) -> bool:
        told.append(detail)
        return len(told) > 2

    logins = RefusedLogins(record)
    for _ in range(5):
        logins.note("::1", checked=True)
    assert told == [
        "1 login, from ::1",
        "2 logins, the last from ::1",
        "3 logins, the last from ::1",
    ]


def test_an_agent_counts_and_tells_them(tmp_path: Path) -> None:
    """Also before it has started, and while it stops: the server is there before and after it."""
    file = tmp_path / "penstock.yaml"
    file.write_text(
        "brokers: [{name: b, kind: artemis, url: 'http://127.0.0.1:1/console/jolokia'}]\n"
    )

    async def play() -> None:
        agent = Agent(file, tmp_path / "data")
        agent.refused_logins.note("10.0.0.7", checked=True)
        await agent.start()
        agent.refused_logins.note("10.0.0.8", checked=True)
        agent.refused_logins.note("10.0.0.8", checked=False)
        await agent.reload()
        events = agent.lookups.events(since=0.0, limit=10, broker="", queue="")
        assert [e.detail for e in events if e.change is Change.LOGIN_REFUSED] == [
            "2 logins, the last from 10.0.0.8"
        ]
        await agent.stop()
        agent.refused_logins.note("10.0.0.9", checked=True)
        body = b"".join(agent.exposition.chunks(Format.TEXT, gzip=False))
        assert b"penstock_logins_refused_total 3" in body
        assert b"penstock_logins_unchecked_total 1" in body

    asyncio.run(play())
