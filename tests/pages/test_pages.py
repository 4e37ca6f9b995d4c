"""The status page as HTML: what it shows, what it escapes, where its links go, that it stays small."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
import pytest_asyncio

from agent.test_state_file import Reader
from agent.world import World
from pages.served import (
    EVIL,
    SCRIPT,
    Page,
    Passive,
    Served,
    rests,
    served,
    troubled,
    works,
)
from penstock.conditions.stalled import STALLED
from penstock.core.errors import Unreachable
from penstock.history.ranges import Past
from penstock.insight.answers import SeverityEpisode
from penstock.insight.formatting import formatted
from penstock.insight.lists import ListQuery
from penstock.server.api import openapi
from penstock.server.pages.last_hour import STRIP, percent, strips
from penstock.server.pages.render import STATIC, static_link, with_code
from penstock.server.pages.views import CONDITIONS, ROWS, VIEWS

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVIL_QUEUE = "queue?" + urlencode({"broker": "b1", "address": EVIL, "queue": EVIL})
EVIL_CLIENT = "client?" + urlencode({"broker": "b1", "client": EVIL})
PAGES = ("", "queues", "clients", "events", "broker?broker=b1", "api", "queue?broker=b1&queue=orders",
         "account?broker=b1", "account?broker=b1&name=ring", "queue?broker=b1&queue=ring",
         "client?broker=b1&client=stuck", "address?broker=b1&address=orders", "connection?broker=b1&connection=c1",
         "cluster?cluster=b1", EVIL_QUEUE, EVIL_CLIENT)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    rules = "[{match: {queue: forgotten}, owner: payments}, {match: {client: open}, patience: 2h}]"
    async with served(
        troubled(), tmp_path_factory.mktemp("page"), works, rules=rules
    ) as running:
        yield running


@pytest.mark.slow  # many pages
async def test_the_worst_first_with_evidence_and_advice(page: Served) -> None:
    found = await page.get("")
    listed = page.agent.lookups.conditions("", ListQuery(limit=CONDITIONS)).rows
    assert listed[0].severity == "critical"
    assert len(listed) > 3
    at = [
        found.text.index(f"{one.condition.replace('_', ' ')} on {one.queue[:40]}")
        for one in listed
    ]
    assert at == sorted(at)
    assert "Client stuck on h , connection c1 CORE as u" in found.text
    assert (
        "(normal maximum: 1 min). Take a thread dump before you restart it"
        in found.text
    )
    assert "a listener that is blocked" in found.text
    assert "critical b1 artemis 2.44.0 active" in found.text


async def test_a_stalled_client_is_found_opened_and_explained_by_links(
    page: Served,
) -> None:
    start = await page.get("")
    queue = await page.get(start.link("queue", queue="orders"))
    assert STALLED.when.partition("{")[0] in queue.text
    assert (
        "Client stuck on h , connection c1 CORE as u 200 messages, the oldest has waited for at least"
        in queue.text
    )
    client = await page.get(queue.link("client", client="stuck"))
    assert "stalled on orders" in client.text
    assert "Sends to" not in client.text


@pytest.mark.slow  # many pages
@pytest.mark.parametrize("path", PAGES)
async def test_names_are_text_and_nothing_else(page: Served, path: str) -> None:
    async with page.client.get(page.url + path) as response:
        html = await response.text()
        policy = response.headers["Content-Security-Policy"]
    found = await page.get(path)
    scripts = [given for tag, given in found.tags if tag == "script"]
    assert [set(given) for given in scripts] == [{"src", "defer"}]
    assert SCRIPT not in html
    assert not [
        name
        for _, given in found.tags
        for name in given
        if name.startswith("on") or name == "style"
    ]
    assert "'unsafe" not in policy
    assert "secret-word" not in html
    if path in ("queues", "clients", EVIL_QUEUE, EVIL_CLIENT):
        assert EVIL in found.text


@pytest.mark.slow  # many pages
@pytest.mark.parametrize("path", PAGES)
async def test_every_link_leads_somewhere(page: Served, path: str) -> None:
    found = await page.get(path)
    assert len(set(found.ids)) == len(found.ids)
    for link in {one for one in found.links if not one.startswith("#")}:
        assert not re.match(r"[a-z]+:|/", link), (
            "relative, so that it holds behind a proxy's prefix"
        )
        async with page.client.get(page.url + link) as response:
            assert response.status == 200, link


@pytest.mark.slow  # many pages
async def test_filter_search_and_pages(tmp_path: Path) -> None:
    world = World()
    for key in range(130):
        world.queue(key, f"stock.{key:03d}", messages=key, added=key)
    async with served(world, tmp_path, rests, polls=3) as page:
        first = await page.get("queues")
        assert f"1 to {ROWS} of 130" in first.text
        assert len([one for one in first.links if one.startswith("queue?")]) == ROWS
        second = await page.get(first.link("queues", offset=str(ROWS)))
        assert f"{ROWS + 1} to {2 * ROWS} of 130" in second.text
        last = await page.get(second.link("queues", offset=str(2 * ROWS)))
        assert "101 to 130 of 130" in last.text
        some = await page.get("queues?text=STOCK.12&sort=queue")
        links = [link for link in some.links if link.startswith("queue?")]
        queues = [re.search(r"queue=([\w.]+)", link)[1] for link in links]  # type: ignore[index]
        assert queues == [f"stock.{n}" for n in range(120, 130)]
        (field,) = [
            given
            for tag, given in some.tags
            if tag == "input" and given.get("name") == "text"
        ]
        assert field["value"] == "STOCK.12"
        assert some.link("queues", text="STOCK.12", sort="ready")
        none = await page.get("queues?text=nothing-has-this-name")
        assert "No queue matches the filter." in none.text
        assert (
            "No condition matches the filter."
            in (await page.get("?condition=stalled")).text
        )


@pytest.mark.slow  # many pages
async def test_ranges_of_charts(page: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    here = "queue?broker=b1&queue=orders"
    day = (await page.get(here)).link("queue", range="24h", queue="orders")
    assert (
        "Only the last hour is known: no history is kept" in (await page.get(day)).text
    )
    asked = []

    class Reader:
        def past(self, *given: object) -> Past:
            asked.append(given)
            end = float(str(given[3]))
            stamps = end - np.arange(86400, 600, -300.0)
            return Past(
                {
                    "ready": (stamps, np.full(len(stamps), 77.0)),
                    "rate_in": (stamps, np.full(len(stamps), 3.5)),
                }
            )

    monkeypatch.setattr(page.agent.lookups, "_history", Reader)
    found = await page.get(day)
    assert asked[0][:3] == ("b1", "orders", "orders")
    assert asked[0][4] == 86400
    assert "Ready now 100, lowest 77, highest 100 in the last 1 d" in found.text, (
        "what memory has is newer"
    )
    assert "In, messages per second last known 3.5, lowest 3.5" in found.text
    (current,) = [
        given["href"]
        for tag, given in found.tags
        if tag == "a" and given.get("aria-current") == "true"
    ]
    assert current is not None
    assert "range=24h" in current
    await page.get("broker?broker=b1&range=7d")
    assert asked[-1][:3] == ("b1", "", "")
    assert "One of 1h, 6h, 24h, 7d" in (await page.get(f"{here}&range=2d", 400)).text


@pytest.mark.slow  # many pages
async def test_of_a_healthy_broker(tmp_path: Path) -> None:
    world = World()
    world.queue(1, "calm", messages=0, added=0)
    async with served(world, tmp_path, rests, polls=25) as page:
        found = await page.get("")
        assert found.text.startswith("No active conditions · Penstock")
        assert "healthy No active conditions." in found.text
        assert (
            "conditions, judged at"
            in (await page.get("queue?broker=b1&queue=calm")).text
        )
        assert (
            "It has no consumers."
            in (await page.get("queue?broker=b1&queue=calm")).text
        )


@pytest.mark.slow  # many pages
async def test_the_headline_of_a_young_broker_does_not_call_it_healthy(
    tmp_path: Path,
) -> None:
    world = World()
    world.queue(1, "calm", messages=0, added=0)
    async with served(world, tmp_path, rests, polls=5) as page:
        found = await page.get("")
        assert found.text.startswith("No warnings so far · Penstock")
        assert "No active conditions on what could be read." in found.text


@pytest.mark.slow  # many pages
async def test_of_a_broker_that_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(troubled(), tmp_path, works, polls=6) as page:
        (poller,) = page.agent.pollers()

        async def gone(_: Reader, timeout: float) -> None:
            raise Unreachable("nothing answers there <b>")

        monkeypatch.setattr(Reader, "poll", gone)
        await poller.poll()
        found = await page.get("")
        assert "1 broker down" in found.text
        assert "nothing answers there <b>" in found.text
        poller.assessor.fresh_until = 0
        await poller.poll()
        found = await page.get("")
        assert "Last seen 2026-11-21 00:01:45 UTC" in found.text
        assert "stalled on orders" in found.text, "what was seen last stays"
        assert "warning stale 00:01 stalled on orders" in found.text
        assert "stale 00:01" in (await page.get("queues?broker=b1")).text
        assert "stale 00:01" in (await page.get("clients?broker=b1")).text
        for path in ("queue?broker=b1&queue=orders", "broker?broker=b1", "connection?broker=b1&connection=c1",
                     "client?broker=b1&client=stuck", "client?broker=b1&client=good"):  # fmt: skip
            found = await page.get(path)
            assert " now " not in " ".join(
                given.get("aria-label") or "" for _, given in found.tags
            )
            assert "Broker down since 20" in found.text
            assert (
                ", last seen 2026-11-21 00:01:45 UTC: nothing answers there <b>."
                in found.text
            )
            assert ("span", {"class": "badge healthy"}) not in found.tags
            assert set(
                re.findall(r"since 2026-11-21 00:00:00 UTC \((.*?)\)", found.text)
            ) <= {"1 min 45 s"}


async def test_of_a_broker_that_was_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(_: Reader, timeout: float) -> None:
        raise Unreachable("nothing answers")

    monkeypatch.setattr(Reader, "poll", gone)
    async with served(troubled(), tmp_path, works, polls=1) as page:
        found = await page.get("")
        assert "It has not been read since Penstock first tried." in found.text
        assert "No active conditions on what could be read." in found.text
        assert (
            "nothing is known of broker b1 now"
            in (await page.get("queues?broker=b1", 404)).text.lower()
        )
        broker = await page.get("broker?broker=b1")
        assert "down artemis. It has not been read" in broker.text
        assert "Findings Not read yet." in broker.text
        assert "penstock check" in broker.text
        assert not [
            one
            for one in broker.links
            if one.startswith(("queues?", "clients?", "account?"))
        ], "errors"


@pytest.mark.slow  # many pages
async def test_links_to_runbooks_dashboards_and_consoles(tmp_path: Path) -> None:
    """Each where all its names are known, these percent-encoded."""
    urls = {
        "Runbook": "https://wiki.example/{condition}", "Console": "http://{broker}.example/console",
        "Grafana": "https://grafana.example/d/q?var-queue={queue}&var-broker={broker}#top",
        "Client": "https://wiki.example/clients/{client}",
    }  # fmt: skip
    async with served(troubled(), tmp_path, works, links=urls) as page:
        found = await page.get("")
        assert "https://wiki.example/stalled" in found.links
        assert "http://b1.example/console" in found.links
        assert (
            "https://grafana.example/d/q?var-queue=orders&var-broker=b1#top"
            in found.links
        )
        evil = [
            one
            for one in found.links
            if one.startswith("https://wiki.example/clients/a%2Fb%20%252F%20c")
        ]
        assert evil
        assert not any(set("<>\"' ").intersection(one) for one in evil)
        assert "https://wiki.example/clients/" not in found.links


async def test_an_address_on_all_brokers(page: Served) -> None:
    own = await page.get("address?broker=b1&address=orders")
    everywhere = await page.get(
        next(one for one in own.links if one == "address?address=orders")
    )
    assert "All brokers orders" in everywhere.text
    assert everywhere.link("broker", broker="b1")
    assert "stalled on orders" in everywhere.text


async def test_brokers_that_are_linked_have_a_page(page: Served) -> None:
    linked = await page.get(
        (await page.get("broker?broker=b1")).link("cluster", cluster="b1")
    )
    assert "Links b1 to bridge to-b2 : up, 7 messages wait" in linked.text
    assert linked.link("broker", broker="b1")
    assert (
        "broker 'b2' is in no pair or cluster"
        in (await page.get("cluster?cluster=b2", 404)).text.lower()
    )


@pytest.mark.parametrize(
    "path", ["address?broker=b1&address=orders", "queue?broker=b1&queue=orders"]
)
async def test_what_to_do_is_said_once(page: Served, path: str) -> None:
    """By the incident, or by the condition that is its root; two lists would not be followed."""
    assert (await page.get(path)).text.count("Take two thread dumps of stuck on h") == 1


async def test_a_client_says_what_to_do(page: Served) -> None:
    found = (await page.get("client?broker=b1&client=stuck")).text
    assert "Do this Take two thread dumps of stuck on h" in found


async def test_what_is_between_backticks_is_code_and_stays_text(page: Served) -> None:
    found = await page.get("")
    assert "`jcmd" not in found.text
    assert ("code", {}) in found.tags
    assert (
        with_code(f"`{SCRIPT}` & `")
        == "<code>&lt;script&gt;alert(1)&lt;/script&gt;</code> &amp; `"
    )


async def test_no_more_is_said_than_is_known(page: Served) -> None:
    """A queue that is not judged is no notice, one with a notice is not called healthy."""
    notices = await page.get("queue?broker=b1&queue=ring")
    assert "○ notice User queue" in notices.text
    assert "healthy so far" not in notices.text


async def test_numbers_have_one_unit(page: Served) -> None:
    address = await page.get("address?broker=b1&address=orders")
    assert "used of its limit 20 %" in address.text
    shown = [
        formatted("paused", 0.0),
        formatted("bytes", 61300.0),
        formatted("capacity", 1.0),
        formatted("drain", 90.0),
    ]
    assert shown == ["no", "59.9 KiB", "100 %", "1 min 30 s"]


async def test_only_acts_are_numbered(page: Served) -> None:
    async with page.client.get(page.url) as response:
        shown = await response.text()
    assert "<li>Check: " not in shown
    assert "<p>Check: " in shown


async def test_a_broker_shows_its_incidents(page: Served) -> None:
    assert (
        "stuck acknowledges nothing on queue orders"
        in (await page.get("broker?broker=b1")).text
    )


async def test_incidents_come_before_the_brokers(page: Served) -> None:
    """On a phone, and with many brokers, nothing may be between the headline and what to do."""
    found = await page.get("")
    assert found.text.index("Do this") < found.text.index("Data age")


async def test_a_producer_of_any_address_has_no_link_to_one(page: Served) -> None:
    found = await page.get("client?broker=b1&client=sender")
    assert "addresses named with each message 9 messages" in found.text
    assert not [one for one in found.links if one.startswith("address?")]


async def test_of_a_passive_broker(tmp_path: Path) -> None:
    async with served(Passive(), tmp_path, rests, polls=3) as page:
        found = await page.get("broker?broker=b1")
        assert "it is passive and serves no client" in found.text
        assert "Over time" not in found.text
        assert "No events." in found.text


async def test_the_title_says_what_is_wrong_where(page: Served) -> None:
    async def title(path: str) -> str:
        return (await page.get(path)).text.partition(" · Penstock")[0]

    # Two began together.
    named = re.escape("No consumer on queue forgotten (b1)") + "|a/b .*…"
    assert re.fullmatch(f"2 critical, 2 warnings: ({named})", await title(""))
    assert await title("queue?broker=b1&queue=orders") == "orders: stalled"
    assert (await title(EVIL_QUEUE)).endswith("…")
    assert await title("address?broker=b1&address=orders") == "orders: stalled"


async def test_names_that_are_near_are_links(page: Served) -> None:
    found = await page.get("queue?broker=b1&queue=ordrs&address=orders", 404)
    assert "stalled" in (await page.get(found.link("queue", queue="orders"))).text
    assert (
        "No queue matches" in (await page.get(found.link("queues", text="ordrs"))).text
    )
    found = await page.get("client?broker=b2&client=stuck", 404)
    assert (
        "stalled on orders"
        in (await page.get(found.link("client", broker="b1", client="stuck"))).text
    )


@pytest.mark.slow  # many pages
async def test_where_messages_went(tmp_path: Path) -> None:
    """A ring that lost to arrivals and to the client that closed, and an address that no queue reads all of."""

    def loses(world: World) -> None:
        world.now += 15
        calls.append(1)
        if len(calls) == 3:
            world.queue(1, "audit.ring", messages=3, added=8, ring_limit=3)

    calls: list[int] = []
    world = World()
    world.queue(1, "audit.ring", messages=0, added=0, ring_limit=3)
    world.queue(2, "calm", messages=2, added=2)
    async with served(world, tmp_path, loses, polls=7) as page:
        queue = await page.get("queue?broker=b1&queue=audit.ring")
        assert (
            "Account of its messages The queue 8 added = 3 ready + 5 evicted"
            in queue.text
        )
        assert "evicted lost 5" in queue.text
        assert "Evicted by arrivals 5" in queue.text
        lost = await page.get(
            (await page.get("broker?broker=b1")).link("account", broker="b1")
        )
        assert "Lost messages" in lost.text
        assert lost.link("queue", queue="audit.ring")
        assert "calm" not in lost.text
        calm = await page.get("account?broker=b1&name=calm")
        assert "2 at start = 2 ready" in calm.text
        assert "lost" not in calm.text.replace("All lost messages", "")
        assert (
            "has no address, queue or client"
            in (await page.get("account?broker=b1&name=nope", 404)).text
        )


async def test_the_last_hour_in_words(page: Served) -> None:
    found = await page.get("queue?broker=b1&queue=orders")
    labels = [
        given["aria-label"]
        for tag, given in found.tags
        if tag == "svg" and given.get("role") == "img"
    ]
    # The agent goes on polling by itself while other tests ask it.
    assert re.match(
        r"Ready: now 100, lowest 100, highest 100 in the last \d+ min", str(labels[0])
    )
    assert any(label and label.startswith("stuck: now 100") for label in labels)
    assert re.search(r"stalled · stuck warning since \d\d:\d\d", found.text)
    assert "a value each 15 s" in found.text


async def test_what_has_just_begun_is_seen_at_the_end_of_a_week() -> None:
    ((*_, ((left, width, _),)),) = strips(
        [SeverityEpisode("stalled", "c", "warning", 604_790.0, None)], 0.0, 604_800.0
    )
    assert (left + width, width) == (STRIP, 3.0)
    assert percent([None, 0.25]) == [None, 25.0]


async def test_ring_ledger_and_patience_with_their_arithmetic(page: Served) -> None:
    ring = await page.get("queue?broker=b1&queue=ring")
    assert "0 killed - 100 there = " in ring.text
    orders = await page.get("queue?broker=b1&queue=orders")
    assert "configured: rule 2" in orders.text
    assert "nothing learned yet: judgement.cold, 1 min" in orders.text


async def test_events_the_newest_first(page: Served) -> None:
    found = await page.get("events")
    assert "raised: stalled" in found.text
    stamps = [given["datetime"] for tag, given in found.tags if tag == "time"]
    assert len(stamps) > 3
    assert stamps == sorted(stamps, key=str, reverse=True)
    assert "agent start" not in (await page.get("events?queue=ring")).text


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("queue?broker=b1&queue=ordrs", 404, "Did you mean orders ?"),
        ("queue?broker=b2&queue=orders", 404, "Did you mean b1 ?"),
        ("client?broker=b1&client=stuk", 404, "Did you mean stuck ?"),
        ("broker?broker=b2", 404, "Did you mean b1 ?"),
        ("queue?broker=b1", 400, "queue is missing"),
        ("queues?sort=colour", 400, "sort 'colour' is not known"),
        ("queues?limit=0", 400, "A whole number from 1 to 1000"),
        ("?offset=-1", 400, "offset cannot be used"),
        ("queue?broker=b1&queue=%00%ff%3Cscript%3E", 404, "has no queue"),
    ],
)
async def test_what_cannot_be_shown(
    page: Served, path: str, status: int, told: str
) -> None:
    found = await page.get(path, status)
    assert told.lower() in found.text.lower()
    assert len([tag for tag, _ in found.tags if tag == "script"]) == 1


async def test_parameters_are_named_as_they_are_written(page: Served) -> None:
    assert (
        "The URL needs ?broker=NAME&queue=NAME"
        in (await page.get("queue?broker=b1", 400)).text
    )


async def test_a_path_that_is_no_page_leads_a_browser_to_those_there_are(
    page: Served,
) -> None:
    headers = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    async with page.client.get(page.url + "quueues", headers=headers) as response:
        assert response.status == 404
        found = Page.of(await response.text())
    assert "There is no page here." in found.text
    assert {"./", "queues", "clients", "events"} <= set(found.links)
    async with page.client.get(page.url + "quueues") as response:
        assert (response.status, response.content_type) == (404, "text/plain")


async def test_parameters_that_no_page_has_are_passed_over(page: Served) -> None:
    found = await page.get("queues?path=1&self=2&utm_source=mail")
    assert not [one for one in found.links if "utm" in one or "path" in one]


async def test_reloads_by_itself_without_scripts_unless_told_not_to(
    page: Served,
) -> None:
    def meta(found: Page) -> list[str | None]:
        return [
            given["content"]
            for tag, given in found.tags
            if given.get("http-equiv") == "refresh"
        ]

    found = await page.get("queues?text=a")
    assert meta(found) == ["30"]
    still = await page.get("queues" + found.link("", text="a", reload="off"))
    assert meta(still) == []
    assert ("body", {"data-refresh": "0"}) in still.tags


@pytest.mark.slow  # many pages
async def test_every_part_that_is_refreshed_has_a_name_of_its_own(page: Served) -> None:
    for path in PAGES:
        found = await page.get(path)
        parts = [given.get("id") for _, given in found.tags if "data-part" in given]
        assert len(set(parts)) == len(parts) > 0
        assert None not in parts


async def test_files_are_kept_by_browsers(page: Served) -> None:
    for name, kind in STATIC.items():
        async with page.client.get(page.url + static_link(name)) as response:
            assert response.status == 200
            assert response.content_type == kind
            assert "immutable" in response.headers["Cache-Control"]
    async with page.client.get(page.url) as response:
        assert response.headers["Cache-Control"] == "no-store"


async def test_the_api_is_listed(page: Served) -> None:
    found = await page.get("api")
    assert all(path in found.text for path in openapi()["paths"])


async def test_every_page_is_tried() -> None:
    assert {f"/{path.partition('?')[0]}" for path in PAGES} == set(VIEWS)
