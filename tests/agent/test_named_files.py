"""Files that brokers name, renewed while an agent runs: what a reload, the log, the events and `/metrics` report."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from click.testing import CliRunner, Result

from agent.interleavings import World, world
from agent.test_reload import body, changes
from penstock.agent import Agent, supervisor
from penstock.agent.factory import LastPassword
from penstock.agent.named_files import NamedFiles, file_faults
from penstock.cli import main
from penstock.config import Broker, load
from penstock.core.errors import ConfigError
from penstock.insight.events import Change
from rig.waiting import until

__all__ = ["world"]

OVER_TLS = {
    "name": "one",
    "kind": "artemis",
    "url": "https://127.0.0.1:1/",
    "username": "exporter",
    "password_file": "password",
    "tls": {"ca_file": "ca.pem", "cert_file": "tls.crt", "key_file": "tls.key"},
}
GOOD = "\npenstock_config_last_reload_successful 1\n"
BAD = "\npenstock_config_last_reload_successful 0\n"
AUTHORITY = trustme.CA()
MISMATCH = "the key is not that of the certificate"


def write_files(folder: Path) -> None:
    AUTHORITY.cert_pem.write_to_path(folder / "ca.pem")
    (folder / "password").write_text("secret-word")
    write_key(folder).cert_chain_pems[0].write_to_path(folder / "tls.crt")


def write_key(folder: Path) -> trustme.LeafCert:
    """A new key; the certificate that belongs to it is given."""
    pair = AUTHORITY.issue_cert("client")
    pair.private_key_pem.write_to_path(folder / "tls.key")
    return pair


def write_configuration(file: Path, *brokers: dict[str, Any], **more: Any) -> None:
    file.write_text(yaml.safe_dump({"interval": "60s", "brokers": brokers or [OVER_TLS], **more}))


def loaded(folder: Path, *brokers: dict[str, Any]) -> tuple[Broker, ...]:
    write_configuration(folder / "p.yml", *brokers)
    return load(folder / "p.yml").brokers


@pytest.fixture
async def running(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Agent]:
    """An agent that looks at files all the time."""
    monkeypatch.setattr(supervisor, "FILE_SECONDS", 0.01)
    write_files(world.folder)
    write_configuration(world.file)
    agent = world.agent()
    await agent.start()
    await until(lambda: agent.lookups.ready()[0] and agent._named_files._before is not None)
    yield agent
    await agent.stop()


async def test_a_reload_is_refused_where_a_file_cannot_be_used(running: Agent, world: World) -> None:
    pair = write_key(world.folder)
    with pytest.raises(ConfigError, match=f"broker one: tls.cert_file .*tls.crt: .*{MISMATCH}"):
        await running.reload()
    assert BAD in body(running)
    pair.cert_chain_pems[0].write_to_path(world.folder / "tls.crt")
    await running.reload()
    await until(lambda: GOOD in body(running))


async def test_without_a_reload_a_fault_is_reported_once_and_so_is_its_end(
    running: Agent, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert GOOD in body(running)
    pair = write_key(world.folder)
    await until(lambda: BAD in body(running))
    assert "penstock_config_reload_failures_total 1" in body(running)
    pair.cert_chain_pems[0].write_to_path(world.folder / "tls.crt")
    await until(lambda: GOOD in body(running))
    assert caplog.text.count(MISMATCH) == 1
    assert "files have changed, and are used from the next poll on: " in caplog.text
    await until(lambda: changes(running)[-2:] == [Change.CONFIG_REFUSED, Change.CONFIG_RELOAD])
    refused = [one for one in running.lookups.events(since=0, limit=9, broker="", queue="") if MISMATCH in one.detail]
    assert [one.detail.endswith("what was read before stays in use") for one in refused] == [True]
    assert "penstock_config_reload_failures_total 1" in body(running)


@pytest.mark.parametrize("name", ["ca.pem", "tls.crt", "tls.key", "password"])
async def test_one_that_is_gone_is_reported_until_it_is_back(running: Agent, world: World, name: str) -> None:
    file = world.folder / name
    file.rename(world.folder / "aside")
    await until(lambda: BAD in body(running))
    (world.folder / "aside").rename(file)
    await until(lambda: GOOD in body(running))


async def test_good_files_make_no_good_configuration(running: Agent, world: World) -> None:
    write_configuration(world.file, intervall="1s")
    with pytest.raises(ConfigError):
        await running.reload()
    write_files(world.folder)
    await until(lambda: changes(running)[-1] is Change.CONFIG_RELOAD)
    assert BAD in body(running)


async def test_a_secret_is_in_no_report(running: Agent, world: World, caplog: pytest.LogCaptureFixture) -> None:
    (world.folder / "password").write_text("another-secret" * 1000)  # larger than a password may be
    await until(lambda: BAD in body(running))
    assert "larger than" in caplog.text
    assert "another-secret" not in caplog.text


def test_one_fault_of_many_brokers_is_one_sentence(tmp_path: Path) -> None:
    write_files(tmp_path)
    write_key(tmp_path)
    brokers = loaded(tmp_path, *({**OVER_TLS, "name": f"b{number}"} for number in range(20)))
    (fault,) = file_faults(brokers)
    assert fault.startswith("broker b0 and 19 more: tls.cert_file ")


def test_a_broker_without_tls_has_no_certificates(tmp_path: Path) -> None:
    plain = {"name": "b", "kind": "artemis", "url": "http://127.0.0.1:1/"}
    assert file_faults(loaded(tmp_path, plain)) == []


def over_jmx(folder: Path, mode: int = 0o755) -> dict[str, Any]:
    (folder / "java").write_text("#!/bin/sh\n")
    (folder / "java").chmod(mode)
    (folder / "imqjmx.jar").write_text("no jar")
    return {"name": "mq", "kind": "openmq", "transport": "jmx", "url": "mq://h:7676", "java": "java"}


def test_programs_and_jars(tmp_path: Path) -> None:
    assert file_faults(loaded(tmp_path, over_jmx(tmp_path))) == []
    (fault,) = file_faults(loaded(tmp_path, over_jmx(tmp_path, 0o644)))
    assert fault.endswith("java: is not a program that can be started")
    (fault,) = file_faults(loaded(tmp_path, {**over_jmx(tmp_path), "imqjmx_jar": "imqjmx.jar"}))
    assert fault.endswith("imqjmx.jar: is not a jar file")


def test_files_of_a_broker_that_is_new_or_gone_are_no_news(tmp_path: Path) -> None:
    write_files(tmp_path)
    (broker,) = loaded(tmp_path, OVER_TLS)
    looking = NamedFiles()
    assert looking.look([]) == looking.look([broker]) == looking.look([broker]) == looking.look([])
    looking.look([broker])
    (tmp_path / "ca.pem").write_bytes((tmp_path / "ca.pem").read_bytes() + b"\n")
    news = looking.look([broker])
    assert (news.changed, news.faults) == ([tmp_path / "ca.pem"], [])


def test_a_password_stays_while_its_file_is_replaced(tmp_path: Path) -> None:
    write_files(tmp_path)
    (broker,) = loaded(tmp_path, OVER_TLS)
    password = LastPassword(broker)
    file = tmp_path / "password"
    assert password() == "secret-word"
    file.write_text("")
    assert password() == "secret-word"
    file.unlink()
    assert password() == "secret-word"
    file.write_text("new")
    assert password() == "new"
    file.unlink()
    with pytest.raises(ConfigError, match="cannot read"):
        LastPassword(broker)()


# --- the command check


def checked(file: Path) -> Result:
    return CliRunner().invoke(main, ["check", "--offline", "--config.file", str(file)])


def test_check_names_files_that_no_longer_fit(tmp_path: Path) -> None:
    write_files(tmp_path)
    write_configuration(tmp_path / "p.yml")
    assert checked(tmp_path / "p.yml").exit_code == 0
    write_key(tmp_path)
    refused = checked(tmp_path / "p.yml")
    assert refused.exit_code == 2
    assert MISMATCH in refused.stderr


def test_check_looks_at_profiles_of_which_no_broker_is_found_yet(tmp_path: Path) -> None:
    write_files(tmp_path)
    write_key(tmp_path)
    profile = {key: value for key, value in OVER_TLS.items() if key != "name"} | {"url": "https://{host}/"}
    discovery = {"profiles": {"mq": profile}, "files": [{"files": ["none*.yml"], "profiles": ["mq"]}]}
    write_configuration(tmp_path / "p.yml", {**over_jmx(tmp_path)}, discovery=discovery)
    refused = checked(tmp_path / "p.yml")
    assert refused.exit_code == 2
    assert MISMATCH in refused.stderr
