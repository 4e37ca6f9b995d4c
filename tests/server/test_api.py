"""The JSON API and the commands that use it, over a real server and an agent whose broker is made up."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from aiohttp import ClientSession
from click.testing import CliRunner, Result

from agent.test_restart import busy, work, work_once
from agent.test_state_file import Reader, until_polled
from agent.world import World
from penstock import __version__
from penstock.agent import Agent, supervisor
from penstock.brokers.registry import KINDS
from penstock.cli import main
from penstock.conditions.evidence import UNITS
from penstock.core.errors import Hinted
from penstock.insight.explain import NotFound
from penstock.server import make_app, serve
from penstock.server.api import ROUTES, openapi
from penstock.server.parameters import BadRequest
from penstock.server.request_limit import Busy

pytestmark = pytest.mark.asyncio(loop_scope="module")

STRANGE = "a/b %2F c?#&+ü{x}\"'<b>"
RECORDED = Path(__file__).with_name("answers.json")
"""Answers by path, as programs that read them rely on; PENSTOCK_RECORD_ANSWERS=1 writes them again."""
SENTENCES = {"advice": "", "rule": "", "causes": []}
"""What may be worded in another way at any time."""
PATHS = (
    "brokers", "queues", "queues?points=2&limit=2", "queues?condition=unknown", "queues?sort=-rate_in&text=or",
    "queues/b1/orders/orders", "queues/b1/ring/ring?client=none", "queues/b1/orders/orders?client=good",
    "explain?broker=b1&queue=behind", "explain?broker=b1&queue=ring", "explain?broker=b1&queue=forgotten",
    f"explain?broker=b1&queue={quote(STRANGE)}", "explain?broker=b1", "explain?broker=b1&queue=x",
    "clients", "clients?points=2&queue=orders", "consumers", "consumers?sort=consumer&limit=1&offset=1", "conditions",
    "conditions?condition=stalled", "client?broker=b1&client=stuck", "client?broker=b1&client=slow", "client?broker=b2",
    "recent?broker=b1&queue=orders", "recent?broker=b1&queue=forgotten", "events", "events?queue=ring&limit=1",
    "account?broker=b1", "account?broker=b1&name=ring", "account?broker=b1&name=x", "account?name=x",
    "events?since=x", "queues?limit=0", "queues?colour=red", "queues?sort=colour", "queues?broker=b2",
)  # fmt: skip


@dataclass
class Server:
    url: str
    client: ClientSession

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.client.get(self.url + path) as response:
            return response.status, await response.json()


def busy_with_a_strange_name() -> World:
    world = busy()
    world.queue(99, STRANGE, messages=3, added=3)
    return world


@pytest.fixture(scope="module")
def world() -> World:
    """What the server shows; no test changes it."""
    return busy_with_a_strange_name()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(
    tmp_path_factory: pytest.TempPathFactory, world: World
) -> AsyncIterator[Server]:
    """An agent that has polled twenty times, asked by all tests of this module."""
    path = tmp_path_factory.mktemp("api") / "p.yml"
    path.write_text(
        "brokers: [{name: b1, kind: artemis, url: 'http://127.0.0.1:1/', password: secret-word, username: u}]\n"
        "rules: [{match: {queue: forgotten}, owner: payments}, {match: {client: open}, patience: 2h}]\n"
        "judgement: {cold: 60s, trend: 120s}\n"
    )
    running = Agent(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(supervisor, "open_reader", lambda *_: Reader(world))
        patched.setattr(time, "time", lambda: world.now)
        await running.start()
        (poller,) = running.pollers()
        await until_polled(poller)
        for _ in range(20):
            work_once(world)
            await poller.poll()
        async with (
            serve(make_app(running.lookups), ["127.0.0.1:0"]) as (address,),
            ClientSession() as client,
        ):
            yield Server(f"http://127.0.0.1:{address.port}", client)
        await running.stop()


async def penstock(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, arguments)


async def test_answers_are_as_recorded(server: Server) -> None:
    """Keys, what is null and what is absent, integers and floats."""
    answers = {}
    for path in PATHS:
        status, answer = await server.get(f"/api/v1/{path}")
        answers[path] = json.dumps(
            [status, without_sentences(answer)], sort_keys=True
        ).replace(__version__, "VERSION")
    if os.environ.get("PENSTOCK_RECORD_ANSWERS"):
        RECORDED.write_text(json.dumps(answers, indent=0) + "\n")
    recorded = json.loads(RECORDED.read_text())
    assert set(answers) == set(recorded)
    for path, answer in answers.items():
        assert answer == recorded[path], path


def without_sentences(value: Any) -> Any:
    if isinstance(value, list):
        return [without_sentences(one) for one in value]
    if not isinstance(value, dict):
        return value
    masked = {
        name
        for name, sentence in SENTENCES.items()
        if type(value.get(name)) is type(sentence)
    }
    return {
        name: SENTENCES[name] if name in masked else without_sentences(one)
        for name, one in value.items()
    }


async def test_brokers(server: Server) -> None:
    status, answer = await server.get("/api/v1/brokers")
    (broker,) = answer["brokers"]
    assert (status, broker["name"], broker["up"], broker["version"]) == (
        200,
        "b1",
        True,
        "2.44.0",
    )


async def test_queues_the_worst_first(server: Server) -> None:
    _, answer = await server.get("/api/v1/queues")
    queues = answer["queues"]
    severities = [max([("info", "warning", "critical").index(c["severity"]) for c in q["conditions"]], default=-1)
                  for q in queues]  # fmt: skip
    assert severities == sorted(severities, reverse=True)
    assert len(queues) == 5
    owners = {queue["queue"]: queue["owner"] for queue in queues}
    assert owners["forgotten"] == "payments"


@pytest.mark.parametrize(
    ("query", "queues"),
    [
        ("condition=stalled", ["orders"]),
        ("condition=ring_losing&broker=b1", ["ring"]),
        ("condition=hoarding", []),
        ("queue=behind", ["behind"]),
    ],
)
async def test_queues_by_condition_and_name(
    server: Server, query: str, queues: list[str]
) -> None:
    status, answer = await server.get(f"/api/v1/queues?{query}")
    assert (status, [queue["queue"] for queue in answer["queues"]]) == (200, queues)


async def test_queues_by_part_of_a_name_and_in_another_order(server: Server) -> None:
    async def names(query: str) -> list[str]:
        return [
            queue["queue"]
            for queue in (await server.get(f"/api/v1/queues?{query}"))[1]["queues"]
        ]

    assert await names("text=ORD") == ["orders"]
    assert await names("text=payment") == ["forgotten"]  # its owner
    assert await names("text=ring_los") == ["ring"]  # its condition
    assert await names("text=a/b") == [STRANGE]
    ascending = await names("sort=queue")
    assert ascending == sorted(ascending, key=str.casefold)
    assert await names("sort=-queue") == ascending[::-1]
    assert (await names("sort=messages&limit=2"))[::-1] == (
        await names("sort=-messages")
    )[-2:]


async def test_what_is_not_known_comes_last_whichever_way_round(server: Server) -> None:
    for sort in ("rate_in", "-rate_in"):
        rates = [
            queue["rate_in"]
            for queue in (await server.get(f"/api/v1/queues?sort={sort}"))[1]["queues"]
        ]
        known = [rate for rate in rates if rate is not None]
        assert rates[: len(known)] == sorted(known, reverse=sort == "rate_in")


async def test_how_many_there_are(server: Server) -> None:
    _, answer = await server.get("/api/v1/queues?limit=2")
    assert (len(answer["queues"]), answer["total"]) == (2, 5)


async def test_clients_the_worst_first(server: Server) -> None:
    _, answer = await server.get("/api/v1/clients?queue=orders")
    first = answer["clients"][0]
    assert (first["client"], [one["condition"] for one in first["conditions"]]) == (
        "stuck",
        ["stalled"],
    )
    assert first["buffered"] == 100
    assert {client["queue"] for client in answer["clients"]} == {"orders"}
    assert answer["total"] == len(answer["clients"]) > 1


async def test_all_consumers_of_a_client(server: Server, world: World) -> None:
    _, answer = await server.get("/api/v1/consumers?queue=orders&client=stuck")
    (consumer,) = answer["consumers"]
    assert world.consumer_rows[int(consumer["consumer"])][0].client == "stuck"
    assert (consumer["buffered"], consumer["protocol"], consumer["remote_host"]) == (
        100,
        "CORE",
        "h",
    )
    _, answer = await server.get("/api/v1/consumers?sort=consumer")
    assert answer["total"] == len(world.consumers)


async def test_pages(server: Server) -> None:
    _, whole = await server.get("/api/v1/queues")
    pages = [
        (await server.get(f"/api/v1/queues?limit=2&offset={at}"))[1]
        for at in (0, 2, 4, 6)
    ]
    assert [queue for page in pages for queue in page["queues"]] == whole["queues"]
    assert {page["total"] for page in pages} == {5}
    status, answer = await server.get("/api/v1/queues?offset=-1")
    assert (status, answer["hint"]) == (400, "a whole number from 0 to 9999999")


async def test_one_client(server: Server) -> None:
    status, answer = await server.get("/api/v1/client?broker=b1&client=stuck")
    assert set(answer) == set(
        openapi()["components"]["schemas"]["ClientView"]["properties"]
    )
    assert (status, [one["condition"] for one in answer["conditions"]]) == (
        200,
        ["stalled"],
    )
    assert [(one["queue"], one["patience"]) for one in answer["queues"]] == [
        ("orders", 60)
    ]
    status, answer = await server.get("/api/v1/client?broker=b1&client=stuk")
    assert (status, answer["hint"]) == (404, "did you mean stuck?")


async def test_conditions_the_worst_first(server: Server) -> None:
    _, answer = await server.get("/api/v1/conditions")
    found = answer["conditions"]
    _, queues = await server.get("/api/v1/queues")
    assert (
        answer["total"]
        == len(found)
        == sum(len(queue["conditions"]) for queue in queues["queues"])
    )
    assert set(found[0]) == set(
        openapi()["components"]["schemas"]["ListedCondition"]["properties"]
    ) - {"stale"}
    severities = [
        ("info", "warning", "critical").index(one["severity"]) for one in found
    ]
    assert severities == sorted(severities, reverse=True)
    critical = [one["since"] for one in found if one["severity"] == "critical"]
    assert critical == sorted(critical)
    _, explained = await server.get("/api/v1/explain?broker=b1&queue=orders")
    told = [
        {k: v for k, v in one.items() if k not in ("broker", "address", "queue")}
        for one in found
    ]
    assert all({**one, "actions": []} in told for one in explained["conditions"])
    assert any(one["actions"] for one in explained["conditions"])
    _, second = await server.get("/api/v1/conditions?limit=1&offset=1")
    assert second["conditions"] == found[1:2]
    _, of_one = await server.get("/api/v1/conditions?text=STU&condition=stalled")
    assert [one["client"] for one in of_one["conditions"]] == ["stuck"]


async def test_the_last_hour(server: Server) -> None:
    status, answer = await server.get("/api/v1/recent?broker=b1&queue=orders")
    assert status == 200
    assert set(answer) == set(
        openapi()["components"]["schemas"]["Recent"]["properties"]
    )
    course = answer["course"]
    assert (course["step"], len(course["ready"]), len(course["delivering"])) == (
        15,
        240,
        240,
    )
    _, explained = await server.get("/api/v1/explain?broker=b1&queue=orders")
    assert course["ready"][-1] == explained["numbers"]["ready"]
    assert sum(value is not None for value in course["ready"]) == 21
    held = {one["client"]: one["course"]["buffered"][-1] for one in answer["clients"]}
    assert held["stuck"] == 100
    (stalled,) = [one for one in answer["episodes"] if one["condition"] == "stalled"]
    assert (stalled["client"], stalled["to"]) == ("stuck", None)
    assert (
        answer["begin"] <= stalled["since"] <= answer["end"] == answer["begin"] + 3600
    )
    status, answer = await server.get("/api/v1/recent?broker=b1&queue=ordrs")
    assert (status, answer["hint"]) == (404, "did you mean orders?")
    status, answer = await server.get("/api/v1/recent?broker=b1&address=orders")
    assert (status, answer["error"]) == (400, "queue is missing"), (
        "an address is no broker"
    )


async def test_the_last_values_beside_each_row(server: Server) -> None:
    _, answer = await server.get("/api/v1/queues?points=3&text=orders")
    (queue,) = answer["queues"]
    assert [len(queue["recent"][name]) for name in ("ready", "delivering")] == [3, 3]
    assert queue["recent"]["ready"][-1] == queue["ready"]
    _, answer = await server.get("/api/v1/clients?points=2&client=stuck")
    assert answer["clients"][0]["recent"]["buffered"] == [100, 100]
    assert "recent" not in (await server.get("/api/v1/queues"))[1]["queues"][0]


@pytest.mark.parametrize("name", ["queues", "clients", "consumers"])
async def test_an_order_that_is_not_known(server: Server, name: str) -> None:
    status, answer = await server.get(f"/api/v1/{name}?sort=colour")
    assert (status, answer["error"]) == (400, "sort 'colour' is not known")
    assert "worst, " in answer["hint"]


async def test_a_broker_in_numbers(server: Server) -> None:
    _, answer = await server.get("/api/v1/brokers")
    numbers = answer["brokers"][0]["numbers"]
    _, queues = await server.get("/api/v1/queues")
    assert numbers["queues"] == 5
    assert numbers["messages"] == sum(queue["messages"] for queue in queues["queues"])
    told = [
        one["severity"] for queue in queues["queues"] for one in queue["conditions"]
    ]
    assert (numbers["critical"], numbers["warning"]) == (
        told.count("critical"),
        told.count("warning"),
    )


async def test_limits(server: Server) -> None:
    assert len((await server.get("/api/v1/queues?limit=2"))[1]["queues"]) == 2
    for limit in (
        "",
        "0",
        "1001",
        "-1",
        "x",
        "1e3",
        "9" * 30,
        "²",
        "000001000999",
        "000000001" + "0" * 5000,
    ):
        status, answer = await server.get(f"/api/v1/queues?limit={quote(limit)}")
        assert (status, answer["hint"]) == (400, "a whole number from 1 to 1000")


async def test_a_queue_by_any_name(server: Server) -> None:
    name = quote(STRANGE, safe="")
    status, answer = await server.get(f"/api/v1/queues/b1/{name}/{name}")
    assert (status, answer["queue"]) == (200, STRANGE)
    status, answer = await server.get(f"/api/v1/explain?broker=b1&queue={name}")
    assert (status, answer["address"]) == (200, STRANGE)


async def test_a_queue_with_all_that_is_known(server: Server) -> None:
    _, answer = await server.get("/api/v1/queues/b1/orders/orders")
    (stalled,) = [one for one in answer["conditions"] if one["condition"] == "stalled"]
    assert stalled["client"] == "stuck"
    assert stalled["evidence"]["held"] == {"value": 100, "unit": "messages"}
    assert stalled["evidence"]["patience"] == {"value": 60, "unit": "seconds"}
    assert "has acknowledged none of its 100 messages" in stalled["advice"]
    assert [one["state"] for one in stalled["causes"]] == ["possible"] * 8 + [
        "excluded"
    ]
    patience = {client["client"]: client["patience"] for client in answer["clients"]}
    assert patience["open"] == {
        "seconds": 7200,
        "origin": "configured",
        "gaps": 0,
        "why": "rule 2",
    }
    assert (patience["stuck"]["origin"], patience["good"]["origin"]) == (
        "cold",
        "learned",
    )
    assert answer["healthy"] is False
    _, one = await server.get("/api/v1/queues/b1/orders/orders?client=good")
    assert [client["client"] for client in one["clients"]] == ["good"]
    assert "stalled" not in {condition["condition"] for condition in one["conditions"]}


async def test_the_ledger_of_a_ring_in_words(server: Server) -> None:
    _, answer = await server.get("/api/v1/queues/b1/ring/ring")
    assert answer["ring"] == {
        "limit": 100,
        "source": "none",
        "where": "no ring size is set",
        "evicted": 380,
        "ledger": "500 added - 0 acknowledged - 0 expired - 0 killed - 100 there = 400 missing at this"
        " poll, of which 380 were missing at two polls and are counted",
    }


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/api/v1/queues/b1/orders/ordrs", "did you mean orders?"),
        ("/api/v1/queues/b2/orders/orders", "did you mean b1?"),
        ("/api/v1/explain?broker=b1&queue=orders&client=stuk", "did you mean stuck?"),
        ("/api/v1/queues?broker=nope", "brokers: b1"),
    ],
)
async def test_what_is_not_there(server: Server, path: str, hint: str) -> None:
    status, answer = await server.get(path)
    assert (status, answer["hint"]) == (404, hint)
    assert answer["error"]


@pytest.mark.parametrize(
    "path", ["/api/v1/explain", "/api/v1/explain?broker=b1", "/api/v1/events?since=x", "/api/v1/events?since=nan",
             "/api/v1/brokers?x=1", "/api/v1/queues?sort=1"]
)  # fmt: skip
async def test_what_cannot_be_asked(server: Server, path: str) -> None:
    status, answer = await server.get(path)
    assert status == 400
    assert set(answer) == {"error", "hint"}


async def test_events(server: Server) -> None:
    _, answer = await server.get("/api/v1/events")
    told = [(event["change"], event["condition"]) for event in answer["events"]]
    assert told[0] == ("agent_start", "")
    assert ("condition_on", "stalled") in told
    _, last = await server.get("/api/v1/events?limit=1&queue=ring")
    assert [event["queue"] for event in last["events"]] == ["ring"]
    _, none = await server.get("/api/v1/events?since=9999999999")
    assert none["events"] == []


async def test_no_secret_in_any_answer(server: Server) -> None:
    for path in (
        "brokers",
        "queues",
        "events",
        "openapi.json",
        "explain?broker=b1&queue=orders",
    ):
        _, answer = await server.get(f"/api/v1/{path}")
        assert "secret-word" not in json.dumps(answer)


class TooOld(NotFound):
    """A kind of NotFound that the server was not written for."""


class NotNow(Hinted):
    """A refusal that the server was not written for."""


STATUS = [(NotFound, 404), (TooOld, 404), (BadRequest, 400), (NotNow, 400), (Busy, 503)]


@pytest.mark.parametrize(("error", "status"), STATUS)
async def test_every_refusal_has_a_status_and_its_hint(
    server: Server, monkeypatch: pytest.MonkeyPatch, error: type[Hinted], status: int
) -> None:
    def refuse(_: object) -> None:
        raise error("not so", "But so")

    monkeypatch.setattr("penstock.agent.lookups.Lookups.brokers", refuse)
    assert await server.get("/api/v1/brokers") == (
        status,
        {"error": "not so", "hint": "But so"},
    )
    async with server.client.get(f"{server.url}/broker?broker=b1") as page:
        assert page.status == status
        assert "But so" in await page.text()


async def test_the_description_is_that_of_the_routes(server: Server) -> None:
    status, answer = await server.get("/api/v1/openapi.json")
    assert (status, answer) == (200, json.loads(json.dumps(openapi())))
    assert set(answer["paths"]) == {route.path for route in ROUTES}
    assert openapi()["components"]["schemas"]["BrokerState"]["properties"]["kind"][
        "enum"
    ] == list(KINDS)
    _, explained = await server.get("/api/v1/queues/b1/orders/orders")
    assert set(explained) == set(
        openapi()["components"]["schemas"]["Explanation"]["properties"]
    )
    for name, schema in (
        ("queues", "Queue"),
        ("clients", "Client"),
        ("consumers", "Consumer"),
        ("brokers", "BrokerState"),
    ):
        _, listed = await server.get(f"/api/v1/{name}")
        assert set(listed[name][0]) <= set(
            openapi()["components"]["schemas"][schema]["properties"]
        )
    assert set(explained["conditions"][0]) == set(
        openapi()["components"]["schemas"]["Condition"]["properties"]
    )
    async with server.client.get(server.url + "/api") as response:
        page = await response.text()
    assert response.status == 200
    assert all(path in page for path in openapi()["paths"])


# --- the commands


async def test_explain_command(server: Server) -> None:
    result = await penstock("explain", "b1", "orders", "--url", server.url)
    assert result.exit_code == 1
    for text in (
        "  stalled on client stuck\n",
        "  rule      a consumer has acknowledged none of its buffered messages for longer than its stall threshold",
        "buffered 100 messages",
        "stall threshold 1 min",
        "            - possible: a listener that is blocked (",
        "  do 1.     Take two thread dumps of stuck ",
        "  stall threshold  2 h, configured: rule 2\n",
        "learned from ",
    ):
        assert text in result.stdout
    as_json = await penstock(
        "explain", "b1", "orders", "good", "--url", server.url, "--format", "json"
    )
    assert json.loads(as_json.stdout)["clients"][0]["client"] == "good"


async def test_a_healthy_queue_is_said_to_be(server: Server) -> None:
    result = await penstock("explain", "b1", "behind", "slow", "--url", server.url)
    assert "FALLING" not in result.stdout
    healthy = await penstock("explain", "b1", STRANGE, "--url", server.url)
    assert healthy.exit_code == 0
    assert "HEALTHY: " in healthy.stdout
    assert "messages 3, ready 3" in healthy.stdout


async def test_explain_of_what_is_not_there(server: Server) -> None:
    result = await penstock("explain", "b1", "ordrs", "--url", server.url)
    assert result.exit_code == 1
    assert (
        result.stderr
        == "penstock: broker b1 has no queue 'ordrs'; did you mean orders?\n"
    )


async def test_events_command(server: Server) -> None:
    result = await penstock("events", "--url", server.url)
    assert result.exit_code == 0
    assert any(
        "stalled  b1 / orders / stuck, since " in line
        for line in result.stdout.splitlines()
    )
    one = await penstock(
        "events",
        "--url",
        server.url,
        "--queue",
        "ring",
        "--since",
        "1h",
        "--format",
        "json",
    )
    lines = [json.loads(line) for line in one.stdout.splitlines()]
    assert {line["queue"] for line in lines} == {"ring"}
    wrong = await penstock("events", "--since", "yesterday")
    assert wrong.exit_code == 2
    assert "write a time ago" in wrong.stderr


@pytest.mark.parametrize("command", [("explain", "b", "q"), ("events",)])
async def test_no_agent(command: tuple[str, ...]) -> None:
    result = await penstock(*command, "--url", "http://127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "penstock: no agent answers at http://127.0.0.1:1: "
    )
    assert result.stderr.endswith("or name it with --url\n")


# --- words


@pytest.mark.slow  # all answers
async def test_every_evidence_has_its_unit() -> None:
    world = busy_with_a_strange_name()
    work(world, 20)
    assert {
        name for condition in world.conditions for name in condition.evidence
    } <= set(UNITS)
