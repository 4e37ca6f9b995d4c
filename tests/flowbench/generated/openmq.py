"""Plays situations on an OpenMQ. Its clients begin with what they do all along: a fault comes after some messages."""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from flowbench.generated.grammar import Situation
from flowbench.openmq import (
    Options,
    Scenario,
    clients_of,
    compiled,
    consume,
    observed,
    prepare,
    produce,
)
from penstock.agent import Poller
from penstock_demo.openmq import OpenMQBroker

BROKER = "openmq"
BEFORE = 30.0
"""Seconds after which what comes after some messages comes."""
FROZEN = 20.0
"""As `clients_of` freezes them."""
Counts = Mapping[str, int]


def scenario_of(one: Situation) -> Scenario:
    dice = random.Random(one.seed)  # noqa: S311
    many = dice.randint(2, 3) if one.neighbours == "pool" else 1
    rate = round(one.rate)
    later = int(BEFORE * rate)
    said = {"ack": one.mode, "delay": int(300 / rate)}
    broken: dict[str, Options] = {
        "hang": {"hang": later // many},
        "never commits": {"commit": 0},
        "never acknowledges": {"acknowledge": 0},
        "rejects": {"rollback": 1},
        "gone": {"leave": later // many},
        "wrong selector": {"selector": "colour='red'"},
        "not started": {"start": "false"},
        "never receives": {"receive": "never"},
    }
    sends = {
        "rate": rate,
        **({"count": later} if one.failure == "idle producer" else {}),
    }
    consumers = [
        consume(
            **{
                **said,
                **(
                    broken.get(one.failure, {})
                    if one.truth.whole or number == 0
                    else {}
                ),
            }
        )
        for number in range(many)
    ]
    return Scenario(
        one.name,
        [produce(**sends), *consumers],
        own=one.failure == "frozen",
        pauses="CONSUMERS" if one.failure == "paused" else "",
    )


def begin_of(one: Situation, ready: float) -> float:
    """When the fault began, about. ready: when the clients were."""
    later = {"hang": BEFORE, "gone": BEFORE, "idle producer": BEFORE, "frozen": FROZEN}
    return ready + later.get(one.failure, 0.0)


def untrue(one: Situation, counts: Counts) -> list[str]:
    """What the clients' counts contradict. Those of a frozen process cannot be asked."""

    def of(name: str) -> list[int]:
        return [
            value
            for key, value in counts.items()
            if key.startswith(f"{one.name}-") and key.endswith(f".{name}")
        ]

    sent = sum(of("sent"))
    got = of("got")
    done = of("done")
    many = len(got)
    holds = {
        "none": sum(done) >= 0.8 * sent - 20,
        "hang": 0 < done[0] < 0.8 * sent if done else False,
        "never commits": bool(done) and done[0] == 0 < got[0],
        "never acknowledges": bool(done) and done[0] == 0 < got[0],
        "rejects": bool(done) and done[0] == 0 and got[0] > 20,
        "idle producer": sent <= BEFORE * round(one.rate)
        and sum(done) >= 0.8 * sent - 5,
        "gone": many > 0 and sum(done) < 0.8 * sent,
        "wrong selector": sum(got) == 0,
        "not started": sum(got) == 0,
        "never receives": sum(got) == 0,
        "paused": sum(got) < 0.5 * sent,
        "frozen": True,
    }
    found = (
        []
        if holds[one.failure]
        else [f"clients say sent {sent}, got {got}, done {done}"]
    )
    return found + ([] if sent > 20 else ["few messages are sent"])


def play(
    chosen: Sequence[Situation], folder: Path, each: Callable[[Poller], None], interval: float, seconds: float,
    cold: float, **configuration: Any,
) -> tuple[float, Counts]:  # fmt: skip
    """All of them at once; gives when the clients were ready, and their counts at the end."""
    scenarios = [scenario_of(one) for one in chosen]
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        broker = OpenMQBroker.create(
            folder / "broker", read_only=False, heap_mb=384, name=BROKER
        )
        stack.callback(broker.kill)
        broker.start()
        classes = compiled(broker, folder / "classes")
        prepare(broker, scenarios)
        said = broker, folder, each, interval, seconds, cold
        run = threading.Thread(
            target=observed, args=said, kwargs=configuration, name="openmq"
        )
        run.start()
        ready = time.time() + 5
        clients = stack.enter_context(
            clients_of(broker, scenarios, classes, folder / "clients.log")
        )
        run.join(seconds - (time.time() - ready) - 15)
        counts = clients.counts()
        run.join()
    return ready, counts
