"""
`python -m bench.broker`: a `World` behind HTTP, in a process of its own so that its cost is not the agent's.

Prints its URL. `POST /` is Jolokia; `POST /step`, `/rest` and `/tick` let a poll's time pass; with `--live` every
new poll does.
"""

import asyncio
import contextlib
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import click
import msgspec
from aiohttp import web
from bench.world import World

SECONDS_A_ROW = 17e-6
"""What a row of a listing costs Artemis; see `_SPACED`."""
_SPACED = ("listConnections", "listSessions", "listProducers")
"""The agent asks these the less often the longer they take: they take as long as in earnest."""
_FIRST_OF_A_POLL = b'"mbean":"org.apache.activemq.artemis:broker=*"'


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker process under way."""

    url: str

    def step(self) -> None:
        """Let a poll's time pass in which the broker works."""
        self._post("step")

    def rest(self) -> None:
        """Let a poll's time pass, by the end of which everything is consumed and settled."""
        self._post("rest")

    def tick(self) -> None:
        """Let a poll's time pass in which nothing happens."""
        self._post("tick")

    def steps(self) -> int:
        """How many polls' time has passed."""
        with urllib.request.urlopen(self.url + "steps") as answer:  # noqa: S310 - our own, on loopback
            return int(answer.read())

    def _post(self, path: str) -> None:
        with urllib.request.urlopen(self.url + path, b""):  # noqa: S310 - our own, on loopback
            pass


@contextlib.contextmanager
def running(
    queues: int,
    consumers: int,
    *,
    churn: float = 0.01,
    active: float = 0.2,
    live: bool = False,
) -> Iterator[Broker]:
    """A broker in another process, as long as the context lasts."""
    options = [
        f"--queues={queues}",
        f"--consumers={consumers}",
        f"--churn={churn}",
        f"--active={active}",
    ]
    command = [
        sys.executable,
        "-m",
        "bench.broker",
        *options,
        *(["--live"] if live else []),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise SystemExit(
                    "the broker of the bench did not start; its error stands above"
                )
            yield Broker(url)
        finally:
            process.terminate()


@click.command()
@click.option("--queues", default=10_000)
@click.option("--consumers", default=50_000)
@click.option("--churn", default=0.01)
@click.option("--active", default=0.2)
@click.option(
    "--live", is_flag=True, help="Each new poll finds the broker a step further."
)
def main(
    queues: int, consumers: int, churn: float, active: float, *, live: bool
) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(World(queues, consumers, active=active), churn, live=live))


async def _serve(world: World, churn: float, *, live: bool) -> None:
    async def jolokia(request: web.Request) -> web.Response:
        asked = await request.read()
        if live and _FIRST_OF_A_POLL in asked:
            world.step(churn)
        requests = msgspec.json.decode(asked)
        if str(requests[0].get("operation")).startswith(_SPACED):
            await asyncio.sleep(
                SECONDS_A_ROW * min(requests[0]["arguments"][2], world.consumers)
            )
        return web.Response(
            body=world.answer(requests), content_type="application/json"
        )

    async def step(_: web.Request) -> web.Response:
        world.step(churn)
        return web.Response()

    async def tick(_: web.Request) -> web.Response:
        world.tick()
        return web.Response()

    async def rest(_: web.Request) -> web.Response:
        world.rest()
        return web.Response()

    async def steps(_: web.Request) -> web.Response:
        return web.Response(text=str(world.steps))

    app = web.Application(client_max_size=2**30)
    app.add_routes(
        [
            web.post("/", jolokia),
            web.post("/step", step),
            web.post("/tick", tick),
            web.post("/rest", rest),
            web.get("/steps", steps),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    print(f"http://{host}:{port}/", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    main()
