"""Canaries in the place of every secret that can be configured: nothing that leaves the agent shows one."""

import base64
import gc
import http.client
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import bcrypt
import pytest
import trustme

from e2e.agent import PENSTOCK, Agent
from penstock.agent import Agent as InProcess
from penstock.config.web import load_web
from penstock.server.authentication import Authentication
from penstock_demo.ports import free_port
from rig.waiting import eventually

KINDS = ("inline", "file", "environment", "url", "found", "jmx", "user", "s3")
PASSWORDS = {kind: f"canary-{kind}-p4ss" for kind in KINDS}
FORMS = (
    str,
    lambda text: quote(text, safe=""),
    lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
)
PAGES = [
    *(
        "/",
        "/metrics",
        "/config",
        "/api",
        "/api/v1/brokers",
        "/api/v1/queues",
        "/api/v1/events",
        "/-/ready",
        "/nothing",
    ),
    *("/api/v1/explain?broker=inline&queue=q", "/api/v1/openapi.json"),
]
_JAVA = """#!{python}
import json, os, sys
told = {{"environ": dict(os.environ), "cmdline": sys.argv, "input": sys.stdin.readline()}}
with open({told!r}, "a") as file:
    file.write(json.dumps(told) + "\\n")
sys.exit("it ends")
"""


def shown(text: str) -> list[str]:
    """The kinds of canary in a text, in any form."""
    text = unescape(text)
    forms = {
        kind: {form(secret) for form in FORMS} for kind, secret in PASSWORDS.items()
    }
    return [kind for kind, found in forms.items() if any(one in text for one in found)]


class Home:
    """A folder with a configuration that holds them all."""

    def __init__(self, folder: Path) -> None:
        self.told = folder / "java.jsonl"
        self.java = folder / "java"
        self.java.write_text(_JAVA.format(python=sys.executable, told=str(self.told)))
        self.java.chmod(self.java.stat().st_mode | stat.S_IXUSR)
        (folder / "secret").write_text(PASSWORDS["file"] + "\n")
        self.found = folder / "found.json"
        dead = {
            "kind": "artemis",
            "url": f"http://127.0.0.1:{free_port()}/console/jolokia/",
            "username": "u",
        }
        in_url = f"http://{{host}}:{free_port()}/${{PENSTOCK_URL_CANARY}}/jolokia/"
        self.profiles = {"mq": {**dead, "url": in_url, "password": PASSWORDS["found"]}}
        self.found.write_text(
            json.dumps({"brokers": [{"name": "found", "host": "127.0.0.1"}]})
        )
        self.brokers = [
            {**dead, "name": "inline", "password": PASSWORDS["inline"]},
            {**dead, "name": "file", "password_file": str(folder / "secret")},
            {**dead, "name": "environment", "password": "${PENSTOCK_CANARY}"},
            {
                **dead,
                "name": "url",
                "url": "http://127.0.0.1:1/x-${PENSTOCK_URL_CANARY}/",
            },
            {**dead, "name": "host", "url": "http://${PENSTOCK_URL_CANARY}.invalid/"},
            {
                **dead,
                "name": "jmx",
                "transport": "jmx",
                "url": "service:jmx:rmi:///jndi/rmi://127.0.0.1:1/jmxrmi",
                "password": PASSWORDS["jmx"],
                "java": str(self.java),
            },
        ]
        self.web = folder / "web.yml"
        authority = trustme.CA()
        self.key = authority.issue_cert("localhost").private_key_pem.bytes().decode()
        self.hashed = bcrypt.hashpw(
            PASSWORDS["user"].encode(), bcrypt.gensalt(4)
        ).decode()
        self.web.write_text(f"basic_auth_users: {{prom: '{self.hashed}'}}\n")
        bucket = f"s3://bucket/x?scheme=http&region=eu&endpoint_override=127.0.0.1:{free_port()}"
        self.configuration: dict[str, Any] = {
            "brokers": self.brokers,
            "discovery": {
                "profiles": self.profiles,
                "files": [{"files": [str(self.found)], "profiles": ["mq"]}],
            },
            "history": {"enabled": True, "url": bucket, "publish": "10s"},
        }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PENSTOCK_CANARY", PASSWORDS["environment"])
    monkeypatch.setenv("PENSTOCK_URL_CANARY", PASSWORDS["url"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PASSWORDS["s3"])
    return Home(tmp_path)


def asked(port: int, path: str, method: str = "GET", user: str = "prom") -> str:
    """Status, headers and body of an answer."""
    login = base64.b64encode(f"{user}:{PASSWORDS['user']}".encode()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers={"Authorization": f"Basic {login}"})
        answer = connection.getresponse()
        return f"{answer.status} {answer.getheaders()} {answer.read().decode()}"
    finally:
        connection.close()


def written(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path, path.read_bytes()


@pytest.mark.slow  # an agent of its own process, asked for all it serves
def test_a_running_agent_tells_none(home: Home, tmp_path: Path) -> None:
    options = ["--web.config.file", str(home.web)]
    with Agent(
        tmp_path / "agent", log_level="debug", options=options, **home.configuration
    ) as agent:
        eventually(lambda: "200 " in asked(agent.port, "/-/ready"), expected=True)
        eventually(home.told.exists, expected=True)
        refused = [
            asked(agent.port, "/config", user=user)
            for user in ("nobody", PASSWORDS["user"])
        ]
        assert [answer[:4] for answer in refused] == ["401 ", "401 "]
        eventually(
            lambda: "login_refused" in asked(agent.port, "/api/v1/events"),
            expected=True,
        )
        answers = [asked(agent.port, page) for page in PAGES] + refused
        assert "<secret>" in answers[PAGES.index("/config")]
        assert "penstock_logins_refused_total 2" in answers[PAGES.index("/metrics")]
        for broken in (
            [{**home.brokers[0], "interval": "x"}],
            [{**home.brokers[0], "url": "ftp://u:p@h"}],
        ):
            agent.configure(**{**home.configuration, "brokers": broken})
            answers.append(asked(agent.port, "/-/reload", "POST"))
        texts = dict(enumerate(answers)) | {"log": agent.log.read_text()}
        command = Path(f"/proc/{agent.pid}/cmdline").read_text()
        home.found.write_text(
            json.dumps(
                {
                    "brokers": [
                        {"name": PASSWORDS["found"], "password": PASSWORDS["found"]}
                    ]
                }
            )
        )
        eventually(
            lambda: (
                "found.json:1: brokers[0].password: belongs into"
                in agent.log.read_text()
            ),
            expected=True,
        )
    texts["log"] += agent.log.read_text()
    assert {name: found for name, text in texts.items() if (found := shown(text))} == {}
    assert shown(command) == []
    files = {
        path.name: shown(content.decode("latin-1"))
        for path, content in written(agent.work)
    }
    assert {name: found for name, found in files.items() if found} == {}
    assert home.hashed not in "".join(map(str, texts.values()))
    for line in home.told.read_text().splitlines():
        child = json.loads(line)
        assert shown(json.dumps([child["environ"], child["cmdline"]])) == []


@pytest.mark.slow  # asks every broker
@pytest.mark.parametrize(
    "command", [["check"], ["check", "--format", "json"], ["once"]]
)
def test_commands_show_none(home: Home, tmp_path: Path, command: list[str]) -> None:
    file = Agent(tmp_path / "agent", **home.configuration).file
    arguments = [str(PENSTOCK), *command, "--config.file", str(file)]
    done = subprocess.run(
        arguments, capture_output=True, text=True, check=False, timeout=60
    )
    assert shown(done.stdout + done.stderr) == []
    if command[0] == "check":
        assert "/x-${PENSTOCK_URL_CANARY}/" in done.stdout


@pytest.fixture
def others_aside() -> Iterator[None]:
    """What other tests left behind is not among the objects."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("others_aside")
async def test_no_object_shows_one_in_its_repr(home: Home, tmp_path: Path) -> None:
    """Neither what was read of the files, nor what was made of it."""
    agent = InProcess(
        Agent(tmp_path / "agent", **home.configuration).file, tmp_path / "data"
    )
    home.web.write_text(
        home.web.read_text()
        + f"tls_server_config: {{cert: x, key: {json.dumps(home.key)}}}\n"
    )
    with pytest.raises(Exception, match="cannot use cert and key") as refused:
        Authentication(home.web)
    web = load_web(home.web)
    await agent.start()
    try:
        ours = [
            one
            for one in gc.get_objects()
            if str(type(one).__module__).startswith("penstock.")
        ]
        texts = [(type(one).__name__, repr(one)) for one in ours]
    finally:
        await agent.stop()
    assert {"Config", "Broker", "JolokiaTarget", "JmxTarget", type(web).__name__} <= {
        name for name, _ in texts
    }
    assert {name for name, text in texts if shown(text)} == set()
    assert not [
        name for name, text in texts if "PRIVATE KEY" in text or home.hashed in text
    ]
    assert "PRIVATE KEY" not in f"{refused.value!r}"
    assert os.environ["PENSTOCK_CANARY"] == PASSWORDS["environment"]
