"""A real Chromium without a screen, and axe-core in it."""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from penstock_demo.cache import cache_dir, locked

AXE = "axe-playwright-python==0.1.8"
"""Carries axe-core 4.12; what else it is for is not needed, so it is unpacked and not installed."""
CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)
DRIVER = shutil.which("chromedriver")
MISSING = (
    ""
    if CHROMIUM and DRIVER
    else "needs Chromium and its driver: apt-get install chromium chromium-driver"
)


@contextmanager
def chromium(
    *, dark: bool = False, width: int = 1280, scripts: bool = True
) -> Iterator[webdriver.Chrome]:
    """A window `width` pixels wide that prefers dark or light pages."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    # A container has no user namespaces and little shared memory.
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--no-proxy-server",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if not scripts:
        options.add_experimental_option(
            "prefs", {"profile.managed_default_content_settings.javascript": 2}
        )
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        prefers = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [prefers]})
        yield driver
    finally:
        driver.quit()


def violations(driver: webdriver.Chrome) -> list[str]:
    """What axe-core finds on the page, best practices included; a line for each place."""
    driver.execute_script(axe())
    found: dict[str, Any] = driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run().then(done, (error) => done({violations: [{id: String(error), nodes: [{}]}]}));"
    )
    return [
        f"{one['id']}: {place.get('target')} {place.get('failureSummary')}"
        for one in found["violations"]
        for place in one["nodes"]
    ]


def complaints(driver: webdriver.Chrome) -> list[str]:
    """What the browser logged: refused by the policy, not found, thrown."""
    return [json.dumps(line) for line in driver.get_log("browser")]  # type: ignore[no-untyped-call]


@cache
def axe() -> str:
    home = cache_dir() / AXE.replace("==", "-")
    with locked(home):
        if not home.is_dir():
            _fetch(home)
    return (home / "axe.min.js").read_text(encoding="utf-8")


def _fetch(home: Path) -> None:
    new = home.with_name(f"{home.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(new),
        AXE,
    ]
    subprocess.run(command, check=True)
    (wheel,) = new.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (new / "axe.min.js").write_bytes(
            packed.read("axe_playwright_python/axe.min.js")
        )
    new.rename(home)
