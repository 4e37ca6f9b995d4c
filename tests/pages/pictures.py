"""
`make pictures`: the pictures of README and docs, made of the demo as it is.

`--check` names those that are older than what they show; a release is refused with one.
"""

import asyncio
import hashlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SOURCES = PICTURES / "sources.json"
SHOWS = {
    "page.png": (
        "exporter/penstock/server/pages",
        "exporter/demo/penstock_demo/run.py",
    ),
    "top.svg": (
        "exporter/penstock/tui",
        "exporter/penstock/insight/text.py",
        "exporter/penstock/insight/templates",
        "exporter/demo/penstock_demo/run.py",
    ),
}
"""Picture → files and folders that decide how what it shows looks."""
WIDTH = 1100
TERMINAL = (112, 30)
FRAME_SECONDS = 4
FAULTS = frozenset({"stalled", "open_transaction", "ring_losing"})
SECONDS = 240


def digest(places: Iterable[str], root: Path = ROOT) -> str:
    """Of all files of these places, their names included."""
    found = hashlib.sha256()
    for place in places:
        path = root / place
        files = (
            sorted(one for one in path.rglob("*") if one.is_file())
            if path.is_dir()
            else [path]
        )
        for file in files:
            if "__pycache__" not in file.parts:
                found.update(f"{file.relative_to(root)}\n".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def old(root: Path = ROOT) -> list[str]:
    """The pictures that were made of other files than those there are."""
    made = json.loads((root / SOURCES.relative_to(ROOT)).read_text(encoding="utf-8"))
    return [
        name for name, places in SHOWS.items() if made.get(name) != digest(places, root)
    ]


async def make() -> None:
    """Start the demo, take all pictures, stop it."""
    from penstock.agent import Agent  # noqa: PLC0415 - `--check` needs none of these
    from penstock.cli.client import AgentClient  # noqa: PLC0415
    from penstock.insight.answers import ConditionList  # noqa: PLC0415
    from penstock.server import make_app, serve  # noqa: PLC0415
    from penstock_demo.run import Scenario  # noqa: PLC0415

    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Scenario() as scenario:
        config = Path(folder) / "penstock.yaml"
        config.touch(mode=0o600)
        config.write_text(scenario.config_yaml(), encoding="utf-8")
        agent = Agent(config)
        async with serve(make_app(agent.lookups), ["127.0.0.1:0"]) as (address,):
            await agent.start()
            try:
                async with AgentClient(url := f"http://{address}") as client:
                    await asyncio.sleep(20)  # until there is something to see
                    frames = [await terminal(client)]
                    deadline = time.monotonic() + SECONDS
                    while time.monotonic() < deadline:
                        found = await client.get("/api/v1/conditions", ConditionList)
                        if {one.condition for one in found.rows} >= FAULTS:
                            break
                        await asyncio.sleep(1)
                    else:
                        raise SystemExit(
                            f"the demo did not show {', '.join(FAULTS)} within {SECONDS} s"
                        )
                    await asyncio.sleep(60)  # for curves
                    frames += [await terminal(client), await terminal(client, "e")]
                    (PICTURES / "top.svg").write_text(
                        animated(frames), encoding="utf-8"
                    )
                    await asyncio.to_thread(page, url, PICTURES / "page.png")
            finally:
                await agent.stop()
    made = {name: digest(places) for name, places in SHOWS.items()}
    SOURCES.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


async def terminal(client: object, *keys: str) -> str:
    """What `penstock top` shows of the demo after these keys, as an SVG."""
    from penstock.tui.app import Top  # noqa: PLC0415

    top = Top(client.get, "http://127.0.0.1:19771", 2.0, "demo")  # type: ignore[attr-defined]
    async with top.run_test(size=TERMINAL) as pilot:
        await top.workers.wait_for_complete()
        await pilot.press(*keys)
        await top.workers.wait_for_complete()
        await pilot.pause()
        return top.export_screenshot(title="penstock top")


def animated(frames: Sequence[str]) -> str:
    """One SVG that shows these in turn, and fetches nothing: fonts are those of the reader."""
    boxes = [str(re.findall(r'viewBox="([^"]+)"', frame)[0]) for frame in frames]
    total = FRAME_SECONDS * len(frames)
    share = 100 / len(frames)
    style = (
        f"@keyframes shown {{0%, {share:.2f}% {{visibility: visible}}"
        f" {share + 0.01:.2f}%, 100% {{visibility: hidden}}}}"
        f".frame {{visibility: hidden; animation: shown {total}s step-end infinite}}"
        "@media (prefers-reduced-motion: reduce) {.frame {animation: none} .last {visibility: visible}}"
    )
    shown = []
    for number, frame in enumerate(frames):
        still = re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", frame, flags=re.DOTALL)
        last = " last" if number == len(frames) - 1 else ""
        shown.append(
            f'<g class="frame{last}" style="animation-delay: {number * FRAME_SECONDS}s">{still}</g>'
        )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{boxes[0]}">',
        f"<style>{style}</style>",
        *shown,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def page(url: str, file: Path) -> None:
    """The top of the overview."""
    from pages.browser import chromium  # noqa: PLC0415

    with chromium(width=WIDTH) as driver:
        driver.get(f"{url}/")
        height = driver.execute_script("return document.documentElement.scrollHeight")
        size = {
            "width": WIDTH,
            "height": min(height, 900),
            "deviceScaleFactor": 1,
            "mobile": False,
        }
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.save_screenshot(str(file))


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(
            f"older than what they show: {', '.join(names)}; run make pictures"
            if (names := old())
            else 0
        )
    asyncio.run(make())
