"""A real broker, the clients of all situations in one Java process, and agents that poll it, each at its interval."""

import contextlib
import http
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from click.testing import CliRunner

from account.live.situations import Situation
from e2e.agent import Agent, Scrape, entry
from flowbench.core import CoreProcess
from penstock.cli import main
from penstock_demo.artemis import VERSION, ArtemisBroker
from penstock_demo.errors import DemoError
from rig.embedded import VERSION as NEWEST
from rig.embedded import embedded_broker

if TYPE_CHECKING:
    from penstock_demo.broker import Broker

MAIN = Path(__file__).parents[2] / "java" / "AccountClients.java"
DRAINED = 60.0
"""Seconds at most until consumers have taken what was sent."""
FIRST = frozenset({"send", "stomp-send", "mqtt-send", "rpc", "ring"})
"""Roles that stop before the others, so that nothing comes any more."""

AWAY = 8.0
"""Seconds between the kill of an agent and its start."""

AHEAD = 3.0
"""Seconds by which consumers are ahead of producers."""

Counts = Mapping[tuple[str, str], int]
"""By place, and what the clients did there."""
Sheet = Mapping[str, Any]


@dataclass(frozen=True)
class Watch:
    """An agent that polls each so many seconds; killed: midway, with SIGKILL."""

    interval: float
    killed: bool = False

    @property
    def name(self) -> str:
        return f"each {self.interval:g} s" + (", killed" if self.killed else "")


class Stage:
    """All situations on one broker. The clients log what they did; the agents are real processes."""

    def __init__(
        self,
        folder: Path,
        situations: Sequence[Situation],
        watches: Sequence[Watch],
        version: str = VERSION,
    ) -> None:
        self._version = version
        self._folder = folder
        self.situations = situations
        self._stack = ExitStack()
        self._clients: list[tuple[str, Mapping[str, Any]]] = []
        self.trouble: list[str] = []
        self.watches = watches

    def __enter__(self) -> Self:
        # Java compiles it while the broker starts.
        self._process = self._stack.enter_context(
            CoreProcess(self._folder / "clients", main=MAIN, heap_mb=384)
        )
        folder = self._folder / "broker"
        newest = self._version == NEWEST
        self.broker: Broker = (
            embedded_broker(folder, heap_mb=768)
            if newest
            else ArtemisBroker.create(
                folder, version=self._version, heap_mb=768, edit=self._with_settings
            )
        )
        self._stack.callback(self.broker.kill)
        self.broker.start()
        for situation in self.situations:
            self._prepare(situation)
        self.agents = [
            self._stack.enter_context(self._agent(watch)) for watch in self.watches
        ]
        for agent in self.agents:  # which know the queues before a message
            agent.until(
                lambda scrape: bool(scrape.find("mq_queue_messages")),
                expected=True,
                timeout=60,
            )
        self.settle(2)
        endpoint = self.broker.endpoint()
        account = endpoint.account
        self._process.ask(
            "broker", endpoint.host, str(endpoint.port), account.user, account.password
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _with_settings(self, broker_xml: str) -> str:
        """2.28 takes no settings as JSON."""
        for situation in self.situations:
            said = {dashed(name): value for name, value in situation.settings.items()}
            texts = {
                name: str(value).lower() if isinstance(value, bool) else value
                for name, value in said.items()
            }
            lines = "".join(
                f"<{name}>{value}</{name}>" for name, value in texts.items()
            )
            one = f'<address-settings><address-setting match="{situation.name}">{lines}</address-setting>'
            broker_xml = (
                broker_xml.replace("<address-settings>", one) if said else broker_xml
            )
        return broker_xml

    def _agent(self, watch: Watch) -> Agent:
        return Agent(
            self._folder / f"agent {watch.name}", interval=f"{watch.interval:g}s",
            timeout=f"{watch.interval * 900:.0f}ms", brokers=[entry(self.broker)],
        )  # fmt: skip

    def _prepare(self, situation: Situation) -> None:
        manage = self.broker.manage
        if situation.settings and self._version == NEWEST:
            manage.add_settings(situation.name, **situation.settings)
        for queue, options in situation.of_queues.items():
            if "made by" not in options:
                manage.create_queue(queue, **options)
        for source, target in situation.diverts.items():
            manage.create_divert(f"to.{target}", source, target)
        for source, target in situation.bridges.items():
            self._bridge(source, target)

    def _bridge(self, source: str, target: str) -> None:
        manage = self.broker.manage
        account = self.broker.admin
        url = f"tcp://{self.broker.host}:{self.broker.port}"
        with contextlib.suppress(DemoError):  # it is there
            manage.call(
                manage.broker,
                "addConnector(java.lang.String,java.lang.String)",
                "itself",
                url,
            )
        bridge = {
            "name": f"to.{target}", "queue-name": source, "forwarding-address": target, "user": account.user,
            "password": account.password, "static-connectors": ["itself"], "confirmation-window-size": 1_000_000,
        }  # fmt: skip
        manage.call(manage.broker, "createBridge(java.lang.String)", json.dumps(bridge))

    def begin(self) -> None:
        """Consumers first, so that nothing is sent to a topic that has none; but for those that are early or late."""
        for sends in (False, True):
            for situation in self.situations:
                for number, options in enumerate(situation.clients):
                    if last(options) is sends:
                        self._start(
                            f"{situation.name}#{number}",
                            {"place": situation.name, "seed": number + 1, **options},
                        )
            time.sleep(0 if sends else AHEAD)

    def _start(self, client: str, said: Mapping[str, Any]) -> None:
        self._process.ask(
            "start", client, *(f"{key}={value}" for key, value in said.items())
        )
        self._clients.append((client, said))

    def operate(self) -> dict[tuple[str, str], int]:
        """What operators do; so many messages, by place and operation."""
        done: dict[tuple[str, str], int] = {}
        for situation in self.situations:
            for operation, arguments in situation.operator:
                mbean = self.broker.manage.queue_mbean(situation.name)
                what = "moved" if operation.startswith("move") else "purged"
                done[situation.name, what] = int(
                    self.broker.manage.call(mbean, operation, *arguments)
                )
        return done

    def end(self) -> None:
        """Producers stop, consumers take what is left and stop, too; all is at rest."""
        first = [
            one
            for one, said in self._clients
            if said["role"] in FIRST or {"hold", "limit"} & said.keys()
        ]
        self._stop(first)
        self._drain()
        self._stop([one for one, _ in self._clients if one not in first])

    def _stop(self, clients: Sequence[str]) -> None:
        """All at once: each comes back when it is at rest."""
        with ThreadPoolExecutor(max(len(clients), 1)) as pool:
            for client, said in zip(
                clients,
                pool.map(lambda one: self._process.ask("stop", one), clients),
                strict=True,
            ):
                self.trouble += [f"{client}: {said[0]}"] if said and said[0] else []

    def _drain(self) -> None:
        deadline = time.monotonic() + DRAINED
        longest = max(int(said.get("pause_ms", 0)) / 1000 for _, said in self._clients)
        before: Counts = {}
        while (now := self.truth()) != before and time.monotonic() < deadline:
            before = now
            time.sleep(1 + longest)

    def truth(self) -> Counts:
        said = (one.rpartition("=") for one in self._process.ask("truth") if one)
        return {tuple(key.split(" ", 1)): int(value) for key, _, value in said}  # type: ignore[misc]

    # --- the agents

    def settle(self, polls: int = 5) -> None:
        """So many polls of each agent, which poll at the same time."""
        slowest = max(watch.interval for watch in self.watches)
        for agent, watch in zip(self.agents, self.watches, strict=True):
            if watch.interval == slowest:
                self._polls(agent, polls, slowest)
        for agent, watch in zip(self.agents, self.watches, strict=True):
            self._polls(
                agent,
                max(polls - round((polls - 1) * slowest / watch.interval), 1),
                watch.interval,
            )

    def _polls(self, agent: Agent, polls: int, interval: float) -> None:
        for _ in range(polls):
            agent.fresh(self.broker.name, timeout=3 * interval + 15)

    def kill_agents(self) -> None:
        """Those that are to be killed; they run again after a while."""
        killed = [
            agent
            for agent, watch in zip(self.agents, self.watches, strict=True)
            if watch.killed
        ]
        for agent in killed:
            agent.kill()
        time.sleep(AWAY if killed else 0)
        for agent in killed:
            agent.run()

    def sheets(self, agent: Agent, name: str, *, by_command: bool) -> Iterator[Sheet]:
        """Of an address and its queues: from `penstock account`, or from the API."""
        if by_command:
            url = f"http://127.0.0.1:{agent.port}"
            said = CliRunner().invoke(
                main,
                ["account", self.broker.name, name, "--format", "json", "--url", url],
            )
            yield from (
                json.loads(said.output)["accounts"] if said.exit_code == 0 else ()
            )
        else:
            path = (
                f"/api/v1/account?broker={quote(self.broker.name)}&name={quote(name)}"
            )
            status, body = agent.request(path)
            yield from (
                json.loads(body)["accounts"] if status == http.HTTPStatus.OK else ()
            )

    def sentence(self, agent: Agent) -> str:
        """What `penstock account BROKER` says."""
        url = f"http://127.0.0.1:{agent.port}"
        return (
            CliRunner().invoke(main, ["account", self.broker.name, "--url", url]).output
        )

    def scrape(self, agent: Agent) -> Scrape:
        return agent.fresh(self.broker.name, timeout=60)

    def raised(self, agent: Agent) -> list[Mapping[str, Any]]:
        """Events of conditions that were raised."""
        status, body = agent.request("/api/v1/events?limit=1000")
        assert status == 200, body
        return [
            one for one in json.loads(body)["events"] if one["change"] == "condition_on"
        ]


def last(options: Mapping[str, Any]) -> bool:
    """Whether a client begins with the producers."""
    return "late" in options or (
        options["role"].endswith("send") and "early" not in options
    )


def dashed(name: str) -> str:
    """Of a setting: its name in broker.xml, by that in JSON."""
    return re.sub("[A-Z]", lambda found: "-" + found[0].lower(), name).replace(
        "-message-policy", "-policy"
    )
