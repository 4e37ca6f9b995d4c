"""What `check` says about Jolokia's proxy, by what Jolokia answers; on real brokers: trust/test_proxied.py."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from penstock.cli.jolokia_proxy import proxy_notes
from penstock.config import Broker, load
from transports.test_jolokia import serving

JOLOKIA_2 = {"agent": "2.2.8", "protocol": "8.0", "config": {"agentId": "a"}}
JOLOKIA_1 = {
    "agent": "1.7.0",
    "protocol": "7.2",
    "info": {"product": "jetty", "vendor": "Eclipse"},
}
REFUSING = "org.jolokia.http.Jsr160ProxyNotEnabledByDefaultAnymoreDispatcher"
OPENING = "org.jolokia.jsr160.Jsr160RequestDispatcher"


def of_version(value: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"request": {"type": "version"}, "value": value, "status": 200}]


ON = "proxy is switched on"
UNKNOWN = "it is not known whether Jolokia's proxy is switched off"
ANSWERS: dict[str, tuple[object, str]] = {
    "2, on": (of_version({**JOLOKIA_2, "info": {"proxy": {}, "jmx": {}}}), ON),
    "2, off": (of_version({**JOLOKIA_2, "info": {"jmx": {}}}), ""),
    "2, without its handlers": (of_version(JOLOKIA_2), UNKNOWN),
    "1, on": (of_version({**JOLOKIA_1, "config": {"dispatcherClasses": OPENING}}), ON),
    "1, on beside another": (
        of_version({**JOLOKIA_1, "config": {"dispatcherClasses": f"a.B,{OPENING}"}}),
        ON,
    ),
    "1, off": (
        of_version({**JOLOKIA_1, "config": {"dispatcherClasses": REFUSING}}),
        "",
    ),
    "1, without its dispatchers": (of_version(JOLOKIA_1), UNKNOWN),
    "refused": (
        [{"status": 403, "error": "no version"}],
        f"{UNKNOWN}: Jolokia answers .* with status 403",
    ),
    "another form": ([{"status": 200, "value": "2.2.8"}], UNKNOWN),
    "no answer": ([], UNKNOWN),
    "no list": ({}, UNKNOWN),
}


def configured(folder: Path, **broker: object) -> Broker:
    file = folder / "penstock.yaml"
    file.write_text(
        json.dumps(
            {"interval": "60s", "brokers": [{"name": "b", "kind": "artemis", **broker}]}
        )
    )
    return load(file).brokers[0]


@pytest.mark.parametrize("name", ANSWERS)
async def test_what_is_said_of_the_proxy(tmp_path: Path, name: str) -> None:
    answer, said = ANSWERS[name]
    asked = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.json_response(answer)

    async with serving(handler) as url:
        notes = list(await proxy_notes(configured(tmp_path, url=url), timeout=5))
    assert asked == [[{"type": "version"}]], "no request names another host"
    assert [re.search(said, note) is not None for note in notes] == [True] * bool(said)


async def test_a_broker_that_is_not_asked_over_jolokia_has_none(tmp_path: Path) -> None:
    recording = Path(__file__).parent.parent / "recordings" / "demo-artemis.jsonl.gz"
    broker = configured(tmp_path, transport="recording", url=f"recording:{recording}")
    assert list(await proxy_notes(broker, timeout=5)) == []
