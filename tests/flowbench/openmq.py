"""
FlowBench of OpenMQ: labelled situations on a real broker, all at once, played by real JMS and STOMP clients and judged
by a real agent. `make flowbench-openmq`. Prints a line a scenario and a JSON object.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import yaml

from flowbench.advice import OPENMQ, wrong
from penstock.agent import Poller
from penstock.cli.polling import open_poller
from penstock.conditions.condition import Severity
from penstock.config import load
from penstock.transports.recording import RecordingFile
from penstock_demo.cache import require_java
from penstock_demo.openmq import GUEST, OpenMQBroker

CLIENT = Path(__file__).parents[1] / "java" / "OpenMqClient.java"
PACKAGE = "com.sun.messaging.jms.server"
LIMITED = {
    "imqConnectionFlowLimitEnabled": "true",
    "imqConnectionFlowLimit": 200,
    "imqConnectionFlowCount": 100,
}

Options = Mapping[str, Any]


def consume(**options: Any) -> tuple[str, Options]:
    return "consume", options


def produce(**options: Any) -> tuple[str, Options]:
    return "produce", options


@dataclass(frozen=True, slots=True)
class Scenario:
    """
    need: of each group one condition must come. also: may come. roles: of clients, on the queue of the scenario's name
    unless they name another. settings: of the queue. pauses: what of it an operator
    pauses, CONSUMERS or PRODUCERS. own: its consumers run in a process of their
    own, which is frozen after 20 s.
    """

    name: str
    roles: Sequence[tuple[str, Options]]
    need: Sequence[Sequence[str]] = ()
    also: Sequence[str] = ()
    settings: Options = field(default_factory=dict)
    topic: bool = False
    own: bool = False
    stomp: bool = False
    pauses: str = ""
    queues: Sequence[str] = ()


STALLED = [["stalled"]]
HEALTHY = ()
FAULTS = (
    Scenario("stuck_listener", [produce(count=3000), consume(listener="true", hang=240, delay=2)], STALLED),
    Scenario("one_stuck_of_three", [
        produce(rate=40), consume(delay=10, hang=60), consume(delay=10), consume(delay=10)], STALLED),
    Scenario("shared_member_stuck", [
        consume(shared="sub", durable="sub", hang=11), consume(shared="sub", durable="sub", delay=20),
        produce(rate=10)], STALLED, topic=True),
    Scenario("client_ack_never", [produce(rate=20), consume(ack="client", acknowledge=0)], STALLED),
    Scenario("open_transaction", [
        produce(count=200), consume(ack="transacted", commit=0, hang=50)], [["open_transaction", "stalled"]]),
    Scenario("failed_transaction", [produce(count=500), consume(ack="transacted", commit=0)], [["open_transaction"]]),
    Scenario("rollback_loop", [
        produce(rate=2), consume(ack="transacted", rollback=1, delay=5)], [["redelivery_loop"]]),
    Scenario("connection_limit", [
        produce(count=2000), produce(queue="connection_limit_fed", rate=5),
        consume(connection="limited", hang=10, **LIMITED),
        consume(connection="limited", queue="connection_limit_fed", **LIMITED),
    ], [["connection_paused"], ["stalled"]], queues=("connection_limit", "connection_limit_fed")),
    Scenario("hoarding", [
        produce(count=900), consume(delay=500), consume(delay=500, wait=8000), consume(delay=500, wait=8000)],
        [["hoarding"]]),
    Scenario("frozen_process", [produce(rate=20), consume(delay=5)], STALLED, ["no_consumer"], own=True),
    Scenario("never_receives", [produce(rate=20), consume(receive="never")], STALLED),
    Scenario("not_started", [produce(rate=5), consume(start="false")], [["not_dispatching"]]),
    Scenario("selector_mismatch", [produce(rate=5), consume(selector="colour='red'")], [["not_dispatching"]]),
    Scenario("blocked_producers", [produce(rate=100)], [["producers_blocked"]], ["no_consumer"],
             {"LimitBehavior": "FLOW_CONTROL", "MaxNumMsgs": 1000}),
    Scenario("remove_oldest", [
        produce(rate=30, count=2500), consume(delay=100, imqConsumerFlowLimit=10)], [["limit_losing"]],
        ["falling_behind"], {"LimitBehavior": "REMOVE_OLDEST", "MaxNumMsgs": 500}),
    Scenario("reject_newest", [produce(rate=30), consume(delay=100)], [["rejecting"]], ["falling_behind"],
             {"LimitBehavior": "REJECT_NEWEST", "MaxNumMsgs": 200}),
    Scenario("no_consumer", [produce(rate=5), consume(leave=50)], [["no_consumer"]]),
    Scenario("paused_destination", [produce(rate=5), consume()], [["paused"]], pauses="CONSUMERS"),
    Scenario("producer_uncommitted", [produce(count=300, commit=0)], [["producer_transaction_open"]]),
    Scenario("stomp_no_ack", [produce(rate=5)], STALLED, stomp=True),
)  # fmt: skip
LOOKALIKES = (
    Scenario("fast", [produce(rate=200), consume()]),
    Scenario("slow_paused_at_every_poll", [produce(count=20_000), consume(delay=5)]),
    Scenario("bursty", [produce(burst=200, every=7000), consume(delay=2)]),
    Scenario("batches", [produce(rate=20), consume(ack="client", acknowledge=100)]),
    Scenario("commits", [produce(rate=20, commit=50), consume(ack="transacted", commit=60)]),
    Scenario("prefetch_off_idle", [produce(burst=1, every=20_000), consume(imqConsumerFlowLimitPrefetch="false")]),
    Scenario("durable_offline", [
        consume(durable="d", clientid="bench", leave=20), produce(rate=10, count=20)], topic=True),
    Scenario("delayed", [produce(count=300, later=3_600_000), consume()]),
    Scenario("expiry", [produce(rate=20, ttl=2000), consume(delay=200)]),
    Scenario("throttled_producers", [produce(rate=0), consume(delay=10)], (), (),
             {"LimitBehavior": "FLOW_CONTROL", "MaxNumMsgs": 1000}),
    Scenario("reconnects", [produce(rate=20), consume(cycle=4000)]),
)  # fmt: skip
SCENARIOS = (*FAULTS, *LOOKALIKES)
BACK = {
    "imqReconnectEnabled": "true",
    "imqReconnectAttempts": -1,
    "imqReconnectInterval": 1000,
}
RESTARTED = (
    Scenario("restart_fast", [produce(rate=50, **BACK), consume(**BACK)]),
    Scenario("restart_backlog", [produce(count=4000, persistent="true", **BACK), consume(delay=20, **BACK)]),
    Scenario("restart_durable", [
        produce(rate=10, persistent="true", **BACK), consume(durable="d", clientid="back", **BACK)], topic=True),
)  # fmt: skip
"""Healthy ones on a broker of their own, which is restarted."""
RESTART_AFTER = 70.0


# --- clients


class Clients:
    """Roles in one Java process; a context manager. The password goes through its stdin."""

    def __init__(
        self,
        broker: OpenMQBroker,
        classes: Path,
        roles: Sequence[tuple[str, Options]],
        log: Path,
    ) -> None:
        said = [
            word
            for kind, options in roles
            for word in (kind, *(f"{k}={v}" for k, v in options.items()))
        ]
        jars = ":".join(map(str, (*broker.client_jars, classes)))
        small = ["-Xmx256m", "-Xss256k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        with log.open("ab") as errors:
            self._child = subprocess.Popen(
                [require_java(), *small, "-cp", jars, CLIENT.stem, f"mq://{broker.host}:{broker.port}/jms", GUEST.user,
                 *said], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                start_new_session=True,  # else who is frozen goes on as soon as the shell of the bench has ended
            )  # fmt: skip
        self._ask(GUEST.password)

    def _ask(self, line: str) -> str:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline().strip()
        if not answer:
            raise RuntimeError("the Java clients ended; see their log")
        return answer

    def counts(self) -> dict[str, int]:
        pairs = (word.split("=") for word in self._ask("counts").split())
        return {name: int(value) for name, value in pairs}

    def freeze(self) -> None:
        os.kill(self._child.pid, signal.SIGSTOP)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()
        for end in (self._child.stdin, self._child.stdout):
            if end is not None:
                end.close()


def compiled(broker: OpenMQBroker, classes: Path) -> Path:
    """The folder `classes` with the clients in it."""
    jars = ":".join(map(str, broker.client_jars))
    subprocess.run(
        ["javac", "-nowarn", "-cp", jars, "-d", str(classes), str(CLIENT)], check=True
    )
    return classes


def entry(broker: OpenMQBroker) -> dict[str, Any]:
    """The configuration of a broker whose Jolokia lets everybody do everything."""
    mapper = f"{broker.host}:{broker.port}"
    return {
        "name": broker.name,
        "kind": "openmq",
        "url": broker.jolokia_url,
        "port_mapper": mapper,
    }


def roles_of(scenario: Scenario) -> list[tuple[str, Options]]:
    kind = "topic" if scenario.topic else "queue"
    named = [
        (role, {kind: scenario.name, "name": f"{scenario.name}-{i}", **options})
        for i, (role, options) in enumerate(scenario.roles)
    ]
    # Who consumes is there first: what it does not take it could have taken.
    return sorted(named, key=lambda one: one[0] == "produce")


@contextmanager
def stomp_reader(broker: OpenMQBroker, queue: str, ack: str) -> Iterator[None]:
    """A STOMP consumer that reads and acknowledges nothing; with `ack` auto the broker's bridge does."""
    with socket.create_connection((broker.host, broker.stomp_port), 10) as connection:
        connection.sendall(
            f"CONNECT\nlogin:{GUEST.user}\npasscode:{GUEST.password}\n\n\0".encode()
        )
        time.sleep(0.5)
        connection.sendall(
            f"SUBSCRIBE\nid:1\ndestination:/queue/{queue}\nack:{ack}\n\n\0".encode()
        )
        reader = threading.Thread(target=_read, args=(connection,), daemon=True)
        reader.start()
        yield


def _read(connection: socket.socket) -> None:
    try:
        while connection.recv(65536):
            pass
    except OSError:
        pass


def manage(broker: OpenMQBroker, **request: Any) -> Any:
    data = json.dumps(request).encode()
    call = urllib.request.Request(broker.jolokia_url, data)  # noqa: S310 - loopback
    with urllib.request.urlopen(call, timeout=20) as answer:  # noqa: S310 - loopback
        said = json.load(answer)
    if said["status"] != 200:
        raise RuntimeError(str(said.get("error")))
    return said.get("value")


def create_queue(broker: OpenMQBroker, name: str, settings: Options) -> None:
    manager = f"{PACKAGE}:type=DestinationManager,subtype=Config"
    create = "create(java.lang.String,java.lang.String)"
    manage(broker, type="exec", mbean=manager, operation=create, arguments=["q", name])
    for attribute, value in settings.items():
        mbean = destination(name)
        manage(broker, type="write", mbean=mbean, attribute=attribute, value=value)


def pause(broker: OpenMQBroker, name: str, what: str) -> None:
    """`what`: CONSUMERS, PRODUCERS or ALL."""
    operation = "pause(java.lang.String)"
    manage(
        broker,
        type="exec",
        mbean=destination(name),
        operation=operation,
        arguments=[what],
    )


def destination(name: str) -> str:
    return f'{PACKAGE}:type=Destination,subtype=Config,desttype=q,name="{name}"'


# --- judge


@dataclass(slots=True)
class Notes:
    """Seconds from the begin to each condition, by scenario, and those that alarmed; what was measured at the end."""

    first: dict[str, dict[str, float]] = field(default_factory=dict)
    alarms: dict[str, set[str]] = field(default_factory=dict)
    evicted: float = np.nan
    polls: int = 0
    paused: dict[str, int] = field(default_factory=dict)
    limits: dict[str, tuple[float, float]] = field(default_factory=dict)
    filling: set[str] = field(default_factory=set)
    advised: dict[str, set[str]] = field(default_factory=dict)

    def advice(self, poller: Poller, scenarios: Sequence[Scenario]) -> None:
        """Notes what is told wrongly of causes, and wrong advice."""
        for one in scenarios:
            need = {name for group in one.need for name in group}
            queues = {one.name, *one.queues}
            said = wrong(poller, need, queues, OPENMQ.get(one.name, ""))
            self.advised.setdefault(one.name, set()).update(said)

    def take(self, poller: Poller, begin: float) -> None:
        state = poller.assessor.state
        view = poller.assessor.view
        if view is None:
            return
        self.polls += 1
        for one in state.judgement.conditions:
            of = scenario_of(one.address)
            self.first.setdefault(of, {}).setdefault(one.name, time.time() - begin)
            if one.severity is not Severity.INFO:
                self.alarms.setdefault(of, set()).add(one.name)
        eviction = view.tables["eviction"]
        for row, value in zip(
            eviction.index, eviction["evicted"].tolist(), strict=True
        ):
            self.evicted = value if row.queue == "remove_oldest" else self.evicted
        consumers = view.tables["consumer"]
        for i, row in enumerate(consumers.index):
            if consumers["flow_paused"][i] > 0:
                self.paused[row.address] = self.paused.get(row.address, 0) + 1
            limit = (
                float(consumers["flow_limit"][i]),
                float(consumers["flow_resume"][i]),
            )
            if not np.isnan(limit[0]):
                self.limits[row.address] = limit
        self.filling |= {row.client for row in view.tables["connection_cause"].index}


def scenario_of(address: str) -> str:
    return "connection_limit" if address.startswith("connection_limit") else address


def observed(
    broker: OpenMQBroker, folder: Path, each: Callable[[Poller], None], interval: float, seconds: float, cold: float,
    **configuration: Any,
) -> None:  # fmt: skip
    """Polls the broker for so many seconds; `each` is called after each poll. configuration: more of the agent's."""
    file = folder / "penstock.yaml"
    judgement = {"cold": f"{cold:g}s", "trend": "60s"}
    said = {
        "interval": f"{interval:g}s",
        "judgement": judgement,
        "brokers": [entry(broker)],
        **configuration,
    }
    file.write_text(yaml.safe_dump(said))
    asyncio.run(_observed(file, each, time.time() + seconds))


async def _observed(file: Path, each: Callable[[Poller], None], end: float) -> None:
    config = load(file)
    (broker,) = config.brokers
    poller = open_poller(
        config, broker, RecordingFile(file.with_name("openmq.jsonl.gz"))
    )
    try:
        while time.time() < end:
            started = time.monotonic()
            await poller.poll()
            each(poller)
            await asyncio.sleep(
                max(0.0, started + config.interval_of(broker) - time.monotonic())
            )
    finally:
        await poller.close()


def lines(scenarios: Sequence[Scenario], notes: Notes) -> Iterator[tuple[str, bool]]:
    for one in scenarios:
        told = notes.first.get(one.name, {})
        lawful = {name for group in one.need for name in group} | set(one.also)
        missing = [
            " or ".join(group) for group in one.need if not set(group) & set(told)
        ]
        false = sorted(notes.alarms.get(one.name, set()) - lawful)
        label = ", ".join(" or ".join(group) for group in one.need) or "healthy"
        said = (
            ", ".join(f"{name} {seconds:.0f} s" for name, seconds in told.items())
            or "nothing"
        )
        trouble = [
            *(f"missing {name}" for name in missing),
            *(f"FALSE {name}" for name in false),
        ]
        trouble += [
            f"WRONG ADVICE {what}" for what in sorted(notes.advised.get(one.name, ()))
        ]
        yield (
            f"| {one.name} | {label} | {said} | {'; '.join(trouble) or 'right'} |",
            not trouble,
        )


def prepare(broker: OpenMQBroker, scenarios: Sequence[Scenario]) -> None:
    """Make the queues that have settings of their own."""
    for one in scenarios:
        if one.settings or one.pauses:
            create_queue(broker, one.name, one.settings)
        if one.pauses:
            pause(broker, one.name, one.pauses)


@contextmanager
def clients_of(
    broker: OpenMQBroker, scenarios: Sequence[Scenario], classes: Path, log: Path
) -> Iterator[Clients]:
    """All clients at work, those that freeze are frozen; gives those that can be asked for their counts."""
    with ExitStack() as stack:
        roles = [
            (one.own and kind == "consume", (kind, said))
            for one in scenarios
            for kind, said in roles_of(one)
        ]
        clients = stack.enter_context(
            Clients(broker, classes, [role for own, role in roles if not own], log)
        )
        alone = [
            stack.enter_context(Clients(broker, classes, [role], log))
            for own, role in roles
            if own
        ]
        for one in scenarios:
            if one.stomp:
                stack.enter_context(stomp_reader(broker, one.name, "client"))
        time.sleep(20)
        for process in alone:
            process.freeze()
        yield clients


@contextmanager
def prepared(
    folder: Path, scenarios: Sequence[Scenario]
) -> Iterator[tuple[OpenMQBroker, Path]]:
    """A broker that has what the scenarios need, and the folder of the compiled clients."""
    broker = OpenMQBroker.create(folder / "broker", read_only=False, heap_mb=512)
    try:
        broker.start()
        classes = compiled(broker, folder / "classes")
        prepare(broker, scenarios)
        yield broker, classes
    finally:
        broker.kill()


def play(
    scenarios: Sequence[Scenario],
    folder: Path,
    interval: float,
    seconds: float,
    cold: float,
    *,
    restart: bool = False,
) -> dict[str, Any]:
    """All of them at once; restart: of the broker, after RESTART_AFTER seconds."""
    notes = Notes()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        broker, classes = stack.enter_context(prepared(folder, scenarios))
        begin = time.time()

        def each(poller: Poller) -> None:
            notes.take(poller, begin)
            notes.advice(poller, scenarios)

        said = broker, folder, each, interval, seconds, cold
        run = threading.Thread(target=observed, args=said)
        run.start()
        time.sleep(2 * interval)
        clients = stack.enter_context(
            clients_of(broker, scenarios, classes, folder / "clients.log")
        )
        if restart:
            run.join(RESTART_AFTER)
            broker.restart()
        run.join(seconds)
        counts = clients.counts()
        run.join()
    told = list(lines(scenarios, notes))
    for line, _ in told:
        say(line)
    return {
        "scenarios": len(told),
        "right": sum(right for _, right in told),
        "polls": notes.polls,
        "slow_paused_polls": notes.paused.get("slow_paused_at_every_poll", 0),
        "limits": {name: list(limit) for name, limit in sorted(notes.limits.items())},
        "connection_filled_by": sorted(notes.filling),
        "evicted": None if np.isnan(notes.evicted) else notes.evicted,
        "lost": lost(counts),
    }


def lost(counts: Mapping[str, int]) -> int | None:
    """Sent and never got, when all has been worked off."""
    if "remove_oldest-0.sent" not in counts:
        return None
    return counts["remove_oldest-0.sent"] - counts["remove_oldest-1.distinct"]


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the result


def arguments(program: str, seconds: float) -> argparse.Namespace:
    """What the command line says. seconds: how long a run takes by default."""
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument(
        "--interval", type=float, default=5.0, help="seconds between polls"
    )
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument(
        "--cold", type=float, default=45.0, help="patience before anything is learned"
    )
    parser.add_argument("--only", default="", help="parts of names, by commas")
    parser.add_argument("--keep", type=Path, help="a folder for the recording and logs")
    return parser.parse_args()


def main() -> int:
    wanted = arguments("flowbench.openmq", 200.0)
    chosen, anew = (
        [
            one
            for one in all_of
            if any(part in one.name for part in wanted.only.split(","))
        ]
        for all_of in (SCENARIOS, RESTARTED)
    )
    with ExitStack() as stack:
        folder = wanted.keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-openmq-"))
        )
        how = wanted.interval, wanted.seconds, wanted.cold
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(play, chosen, folder / "run", *how)] if chosen else []
            runs += (
                [pool.submit(play, anew, folder / "restarted", *how, restart=True)]
                if anew
                else []
            )
        results = [run.result() for run in runs]
    for told in results:
        say(json.dumps(told))
    return int(any(told["right"] != told["scenarios"] for told in results))


if __name__ == "__main__":
    sys.exit(main())
