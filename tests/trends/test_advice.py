"""Advice: given where the numbers call for it, with the arithmetic, and not else."""

from typing import Any

import pytest

from penstock.trends.advice import advise, round_up, utilised

NAMES = {"broker": "b", "address": "a", "queue": "q"}
DAYS = 30 * 86400


def client(**numbers: Any) -> dict[str, Any]:
    usual = {
        "client": "app", "protocol": "CORE", "hours": 720, "consumers": 2.0, "held": 1.0, "most_held": 50.0,
        "pace": 10.0, "most_bytes": 50_000.0, "size": 1000.0, "empty_share": 0.9, "settled": 1e6, "limit": None,
    }  # fmt: skip
    return {**NAMES, **usual, **numbers}


def queue(**numbers: Any) -> dict[str, Any]:
    usual = {
        "first": 0, "last": DAYS, "ring": None, "ring_advice": None, "needed": 50.0, "size": 1000.0,
        "busiest_rate": 5.0, "backlog_share": 0.0, "starved_share": None, "added": 1e6,
    }  # fmt: skip
    return {**NAMES, **usual, **numbers}


def subjects(*, of: dict[str, Any] | None = None, on: dict[str, Any] | None = None) -> list[str]:
    return [one["subject"] for one in advise([on or queue()], [of or client()])]


def test_nothing_is_said_of_what_is_well() -> None:
    assert subjects() == []


@pytest.mark.parametrize(
    ("of", "on", "subject", "part"),
    [
        (
            client(most_held=2.0),
            queue(backlog_share=0.2, starved_share=0.4),
            "too little in the buffer",
            "consumerWindowSize 10 kB",
        ),
        (
            client(most_held=20.0, protocol="", pace=400.0),
            queue(backlog_share=0.2, starved_share=0.4),
            "too little in the buffer",
            "limit of 60 messages",  # 1.5 x 400 a second x 50 ms = 30 messages, at 50 %
        ),
        (
            client(),
            queue(backlog_share=0.3, starved_share=0.0, busiest_rate=30.0),
            "too few consumers",
            "4 consumers (30 a second / 10 each",
        ),
        (
            client(most_held=30_000.0, most_bytes=3e7),
            queue(),
            "too much in the buffer",
            "consumerWindowSize 600 kB: 600 messages of 1000 bytes, 60 s of work",
        ),
        (
            client(size=1e6, limit=1000.0, protocol=""),
            queue(),
            "memory of the client",
            "33 messages a consumer keep it",
        ),
        (client(most_held=600.0), queue(ring=1000.0), "buffer beside a ring", "consumerWindowSize 500000 bytes"),
    ],
)
def test_what_was_seen_gives_advice(of: dict[str, Any], on: dict[str, Any], subject: str, part: str) -> None:
    (told,) = advise([on], [of])
    assert told["subject"] == subject
    assert part in told["do"]
    assert (told["broker"], told["queue"], told["client"]) == ("b", "q", "app")


def test_limits_of_queues() -> None:
    ring = {"size": 6000.0, "lost": 900.0, "covers_hours": 0.5, "peak": 5000.0}
    (told,) = advise([queue(ring=5000.0, ring_advice=ring)], [])
    assert told["subject"] == "ring size"
    assert "ring-size 6000" in told["do"]
    assert "covers 30 min" in told["evidence"]
    (told,) = advise([queue(needed=2000.0)], [])
    assert told["do"].startswith("Room for 3000 messages (MaxNumMsgs) or 3000 kB (max-size-bytes)")


def test_less_than_a_day_is_no_evidence() -> None:
    assert subjects(of=client(hours=23, most_held=30_000.0), on=queue(needed=2000.0, last=80_000)) == []


def test_too_much_in_one_buffer_is_none_where_nobody_else_could_have_it() -> None:
    assert subjects(of=client(most_held=30_000.0, consumers=1.0)) == []
    assert "too much in the buffer" not in subjects(of=client(most_held=30_000.0), on=queue(backlog_share=0.3))


def test_use_is_what_comes_over_what_can_be_done() -> None:
    clients = [client(), client(pace=None), client(queue="gone")]
    utilised(clients, [queue()])
    assert [one["utilisation"] for one in clients] == [0.25, None, None]


@pytest.mark.parametrize(("value", "rounded"), [(3.2, 4), (10, 10), (101, 110), (1234, 1300), (99_999, 100_000)])
def test_rounding_up_to_two_digits(value: float, rounded: int) -> None:
    assert round_up(value) == rounded
