"""The status page in a real Chromium, of the real demo broker and of one that is made up."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from pages.browser import MISSING, chromium, complaints, violations
from pages.served import EVIL, Served, served, troubled, works
from pages.test_pages import PAGES
from penstock.agent import Agent
from penstock.server import make_app, serve
from penstock_demo.run import Scenario

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

SECONDS = 180
"""For faults to be told: patience is 45 s before anything is learned."""


class Background:
    """An asynchronous context in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    @contextmanager
    def entered(self, context: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        self._thread.start()
        try:
            found = asyncio.run_coroutine_threadsafe(
                context.__aenter__(), self.loop
            ).result(60)
            try:
                yield found
            finally:
                asyncio.run_coroutine_threadsafe(
                    context.__aexit__(None, None, None), self.loop
                ).result(60)
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(10)
            self.loop.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Of a made-up broker with an evil queue."""
    with Background().entered(
        served(troubled(), tmp_path_factory.mktemp("made"), works, polls=8)
    ) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with chromium() as driver:
        yield driver


def names(driver: Chrome, within: str) -> list[str]:
    return [
        one.text for one in driver.find_elements(By.CSS_SELECTOR, f"{within} a.name")
    ]


def clicked(driver: Chrome, within: str, text: str) -> None:
    """One click on the link of that text."""
    next(
        one
        for one in driver.find_elements(By.CSS_SELECTOR, f"{within} a")
        if one.text == text
    ).click()


def focused(driver: Chrome) -> WebElement:
    return driver.switch_to.active_element


@pytest.mark.broker
def test_a_stalled_client_of_the_demo_is_found_opened_and_explained_in_three_clicks(
    tmp_path: Path, browser: Chrome
) -> None:
    with Scenario(tmp_path / "broker") as scenario:
        config = tmp_path / "penstock.yaml"
        config.touch(mode=0o600)
        config.write_text(scenario.config_yaml(interval="2s"))
        background = Background()
        agent = Agent(config)
        with background.entered(serve(make_app(agent.lookups), ["127.0.0.1:0"])) as (
            address,
        ):
            asyncio.run_coroutine_threadsafe(agent.start(), background.loop).result(60)
            try:
                browser.get(f"http://{address}/")
                wait = WebDriverWait(browser, SECONDS, 1)
                wait.until(
                    lambda driver: "stock-service" in names(driver, "#conditions")
                )  # by its own refreshing
                clicked(browser, "nav", "Clients")
                clicked(browser, "#rows", "stock-service")
                told = browser.find_element(By.ID, "state").text
                assert "stalled on stock.updates" in told
                assert "normal maximum: 45 s" in told
                assert "Do this" in told
                clicked(browser, "#state", "stock.updates")
                browser.find_element(By.CSS_SELECTOR, "#state summary").click()
                assert (
                    "a listener that is blocked"
                    in browser.find_element(By.ID, "state").text
                )
                assert "Delivering: now" in labels(browser)
                assert violations(browser) == []
                scenario.broker.kill()
                browser.get(f"http://{address}/")
                wait.until(lambda driver: "1 broker down" in driver.title)
                assert violations(browser) == []
                assert complaints(browser) == []
            finally:
                asyncio.run_coroutine_threadsafe(agent.stop(), background.loop).result(
                    60
                )


def labels(driver: Chrome) -> str:
    return " ".join(
        str(one.get_attribute("aria-label"))
        for one in driver.find_elements(By.CSS_SELECTOR, "svg[role=img]")
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_accessible_at_any_width_and_nothing_is_refused(
    made: Served, *, dark: bool
) -> None:
    found: list[str] = []
    for width in (1280, 390):
        with chromium(dark=dark, width=width) as driver:
            for path in (
                *PAGES,
                "queue?broker=b1&queue=nope",
                "queues?text=nothing-like-it",
            ):
                driver.get(made.url + path)
                found += [
                    f"{width} px, {path[:60]}: {one}" for one in violations(driver)
                ]
                if driver.execute_script(
                    "return document.documentElement.scrollWidth > innerWidth"
                ):
                    found.append(f"{path[:60]} is wider than the window of {width} px")
            found += [one for one in complaints(driver) if "404" not in one]
    assert found == []


def test_names_do_nothing_in_a_browser(made: Served, browser: Chrome) -> None:
    """A script in a name would open a dialogue, which fails the next command."""
    for path in PAGES:
        browser.get(made.url + path)
        assert browser.title.endswith("Penstock")
    browser.get(made.url + "queues")
    assert EVIL[:30] in browser.find_element(By.ID, "rows").text


def test_refreshing_keeps_focus_and_what_was_typed(
    made: Served, browser: Chrome
) -> None:
    browser.get(made.url)
    field = browser.find_element(By.ID, "text")
    field.send_keys("half a na")
    refreshed(browser)
    assert field.get_attribute("value") == "half a na"
    assert focused(browser) == field
    browser.get(made.url)
    link = browser.find_element(By.CSS_SELECTOR, "#conditions a.name")
    where = link.get_attribute("href")
    browser.execute_script(
        "arguments[0].focus(); arguments[0].dataset.old = 'yes';", link
    )
    advance(made)
    refreshed(browser)
    assert focused(browser).get_attribute("href") == where
    assert focused(browser).get_attribute("data-old") is None, (
        "it stands in a part that was replaced"
    )


def advance(made: Served) -> None:
    """A poll, so that the page has changed."""
    (poller,) = made.agent.pollers()
    asyncio.run_coroutine_threadsafe(poller.poll(), made.agent._loop).result(60)


def refreshed(driver: Chrome) -> None:
    """Once the page has looked again: its time is another."""
    before = driver.find_element(By.ID, "updated").text
    WebDriverWait(driver, 30, 0.2).until(lambda one: looked(one) != before)


def looked(driver: Chrome) -> str:
    driver.execute_script("document.dispatchEvent(new Event('visibilitychange'))")
    return str(driver.find_element(By.ID, "updated").text)


def test_refreshing_can_be_paused(made: Served, browser: Chrome) -> None:
    browser.get(made.url)
    button = browser.find_element(By.ID, "pause")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    before = looked(browser)
    browser.execute_script(
        "window.fetch = () => { document.title = 'asked'; return Promise.reject(); }"
    )
    looked(browser)
    assert browser.title != "asked"
    browser.refresh()
    button = browser.find_element(By.ID, "pause")
    assert button.get_attribute("aria-pressed") == "true", (
        "it stays paused on the next page"
    )
    button.click()
    WebDriverWait(browser, 30, 0.2).until(lambda one: looked(one) != before)


def test_an_agent_that_is_gone_is_told(tmp_path: Path, browser: Chrome) -> None:
    with Background().entered(served(troubled(), tmp_path, works, polls=1)) as running:
        browser.get(running.url)
    looked(browser)
    offline = browser.find_element(By.ID, "offline")
    WebDriverWait(browser, 30, 0.2).until(
        lambda _: "No answer from the agent since" in offline.text
    )
    assert browser.find_element(By.ID, "conditions").text, "what was known stays"
    browser.get_log("browser")  # type: ignore[no-untyped-call]


def test_by_keyboard_alone(made: Served, browser: Chrome) -> None:
    browser.get(made.url)
    ActionChains(browser).send_keys(Keys.TAB).perform()
    assert focused(browser).text == "Skip to content"
    focused(browser).send_keys(Keys.ENTER)
    assert focused(browser).get_attribute("id") == "content"
    for _ in range(30):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        if "queue?" in str(focused(browser).get_attribute("href")):
            break
    outline = browser.execute_script(
        "return getComputedStyle(document.activeElement).outlineStyle"
    )
    assert outline == "solid", "where the focus is can be seen"
    focused(browser).send_keys(Keys.ENTER)
    assert "queue?" in browser.current_url


def test_it_reads_without_scripts(made: Served) -> None:
    with chromium(scripts=False) as driver:
        driver.get(made.url)
        assert "normal maximum: 1 min" in driver.find_element(By.ID, "conditions").text
        assert not driver.find_element(By.ID, "pause").is_displayed()
        assert "reloads every 30 s" in driver.find_element(By.TAG_NAME, "footer").text
        driver.find_element(By.ID, "text").send_keys("forgot", Keys.ENTER)
        WebDriverWait(driver, 30, 0.2).until(
            lambda one: "text=forgot" in one.current_url
        )
        assert names(driver, "#conditions") == ["forgotten"]


def keys(driver: Chrome, *pressed: str) -> None:
    ActionChains(driver).send_keys(*pressed).perform()


def test_the_slash_goes_to_the_filter_and_what_is_typed_filters(
    made: Served, browser: Chrome
) -> None:
    browser.get(made.url + "queues")
    keys(browser, "/", "orde")
    field = browser.find_element(By.ID, "text")
    assert focused(browser) == field
    wait = WebDriverWait(browser, 30, 0.5, [StaleElementReferenceException])
    wait.until(lambda one: names(one, "#rows") == ["orders"])
    assert browser.current_url.endswith("queues?text=orde"), (
        "it can be sent to a colleague"
    )
    keys(browser, "/")
    assert field.get_attribute("value") == "orde/", "in a field it is a letter"
    wait.until(lambda one: "No queue matches the filter." in one.page_source)
    field.send_keys(*[Keys.BACKSPACE] * len("orde/"))
    wait.until(lambda one: len(names(one, "#rows")) > 3)


def test_the_values_of_a_chart_by_pointer_and_by_keys(
    made: Served, browser: Chrome
) -> None:
    browser.get(made.url + "queue?broker=b1&queue=orders")
    chart = browser.find_element(By.CSS_SELECTOR, ".chart")
    assert chart.get_attribute("role") == "slider"
    ActionChains(browser).move_to_element_with_offset(
        chart, chart.size["width"] // 2 - 2, 0
    ).perform()
    shown = browser.find_element(By.CSS_SELECTOR, ".readout")
    assert shown.text.endswith(" UTC: 100")
    browser.execute_script("arguments[0].focus()", chart)
    last = chart.get_attribute("aria-valuetext")
    keys(browser, Keys.ARROW_LEFT)
    assert chart.get_attribute("aria-valuetext") != last
    assert shown.text == chart.get_attribute("aria-valuetext")
    keys(browser, Keys.HOME)
    assert shown.text.endswith(": not read")
    advance(made)
    refreshed(browser)
    assert focused(browser).get_attribute("class") == "chart", "it stays where it is"


def test_details_that_were_opened_stay_open(made: Served, browser: Chrome) -> None:
    browser.get(made.url)
    summary = browser.find_element(By.CSS_SELECTOR, "#incidents summary")
    browser.execute_script("arguments[0].parentElement.dataset.old = 'yes'", summary)
    summary.click()
    advance(made)
    refreshed(browser)
    first = browser.find_element(By.CSS_SELECTOR, "#incidents details")
    assert first.get_attribute("data-old") is None, (
        "it stands in a part that was replaced"
    )
    assert first.get_attribute("open") is not None


def test_names_are_copied(made: Served, browser: Chrome) -> None:
    browser.get(made.url + "queue?broker=b1&queue=orders")
    browser.execute_script(
        "navigator.clipboard.writeText = async (text) => { window.copied = text; }"
    )
    button = browser.find_element(By.CSS_SELECTOR, "h1 .copy")
    assert button.get_attribute("aria-label") == "Copy orders"
    button.click()
    assert button.text == "Copied"
    assert browser.execute_script("return window.copied") == "orders"


def test_local_time_stands_beside_utc(made: Served) -> None:
    with chromium() as driver:
        driver.execute_cdp_cmd(
            "Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"}
        )
        driver.get(made.url + "queue?broker=b1&queue=orders")
        where = driver.find_element(By.CSS_SELECTOR, ".card .where").text
        assert "since 2026-11-21 00:00:00 UTC (09:00:00 " in where
        driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
        driver.get(made.url + "queue?broker=b1&queue=orders")
        assert not driver.find_elements(By.CSS_SELECTOR, ".local")


def test_rows_are_cards_on_a_phone(made: Served) -> None:
    with chromium(width=390) as driver:
        driver.get(made.url + "queues")
        cell = driver.find_element(By.CSS_SELECTOR, "#rows tbody td.number")
        said = driver.execute_script(
            "return getComputedStyle(arguments[0], '::before').content", cell
        )
        assert said == '"Ready"'
        assert cell.location["x"] + cell.size["width"] <= 390
        assert (
            driver.execute_script("return document.documentElement.scrollWidth") <= 390
        )
