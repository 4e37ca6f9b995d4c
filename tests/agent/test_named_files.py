"""Files that brokers name, renewed while an agent runs: what a reload, the log, the events and `/metrics` report."""

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
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
from penstock.agent.named_files import FileNews, NamedFiles, file_faults
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


def put(file: Path, content: bytes) -> None:
    """The file holds the old content or the new one, never a part: the agent may read it at any moment."""
    new = file.with_name(f"{file.name}.new")
    new.write_bytes(content)
    new.replace(file)


def write_files(folder: Path) -> None:
    put(folder / "ca.pem", AUTHORITY.cert_pem.bytes())
    put(folder / "password", b"secret-word")
    write_certificate(folder, write_key(folder))


def write_key(folder: Path) -> trustme.LeafCert:
    """A new key; the certificate that belongs to it is returned."""
    pair = AUTHORITY.issue_cert("client")
    put(folder / "tls.key", pair.private_key_pem.bytes())
    return pair


def write_certificate(folder: Path, pair: trustme.LeafCert) -> None:
    put(folder / "tls.crt", pair.cert_chain_pems[0].bytes())


def write_configuration(file: Path, *brokers: dict[str, Any], **more: Any) -> None:
    file.write_text(
        yaml.safe_dump({"interval": "60s", "brokers": brokers or [OVER_TLS], **more})
    )


def loaded(folder: Path, *brokers: dict[str, Any]) -> tuple[Broker, ...]:
    write_configuration(folder / "p.yml", *brokers)
    return load(folder / "p.yml").brokers


@pytest.fixture
async def running(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Agent]:
    """An agent that looks at files all the time."""
    monkeypatch.setattr(supervisor, "FILE_SECONDS", 0.01)
    write_files(world.folder)
    write_configuration(world.file)
    agent = world.agent()
    await agent.start()
    await until(
        lambda: agent.lookups.ready()[0] and agent._named_files._judged is not None
    )
    yield agent
    await agent.stop()


async def test_a_reload_is_refused_where_a_file_cannot_be_used(
    running: Agent, world: World
) -> None:
    pair = write_key(world.folder)
    with pytest.raises(
        ConfigError, match=f"broker one: tls.cert_file .*tls.crt: .*{MISMATCH}"
    ):
        await running.reload()
    assert BAD in body(running)
    write_certificate(world.folder, pair)
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
    write_certificate(world.folder, pair)
    await until(lambda: GOOD in body(running))
    assert caplog.text.count(MISMATCH) == 1
    assert "files have changed, and are used from the next poll on: " in caplog.text
    await until(
        lambda: changes(running)[-2:] == [Change.CONFIG_REFUSED, Change.CONFIG_RELOAD]
    )
    refused = [
        one
        for one in running.lookups.events(since=0, limit=9, broker="", queue="")
        if MISMATCH in one.detail
    ]
    assert [
        one.detail.endswith("what was read before stays in use") for one in refused
    ] == [True]
    assert "penstock_config_reload_failures_total 1" in body(running)


@pytest.mark.parametrize("name", ["ca.pem", "tls.crt", "tls.key", "password"])
async def test_one_that_is_gone_is_reported_until_it_is_back(
    running: Agent, world: World, name: str
) -> None:
    file = world.folder / name
    file.rename(world.folder / "aside")
    await until(lambda: BAD in body(running))
    (world.folder / "aside").rename(file)
    await until(lambda: GOOD in body(running))


async def test_good_files_make_no_good_configuration(
    running: Agent, world: World
) -> None:
    write_configuration(world.file, intervall="1s")
    with pytest.raises(ConfigError):
        await running.reload()
    write_files(world.folder)
    await until(lambda: changes(running)[-1] is Change.CONFIG_RELOAD)
    assert BAD in body(running)


async def test_a_secret_is_in_no_report(
    running: Agent, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    put(
        world.folder / "password", b"another-secret" * 1000
    )  # larger than a password may be
    await until(lambda: BAD in body(running))
    assert "larger than" in caplog.text
    assert "another-secret" not in caplog.text


@dataclass
class Web:
    """A web configuration: what cannot be taken of it now, and what of that is reported without a reload."""

    refusal: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    async def take_changes(self) -> tuple[str, ...]:
        return self.refusal


async def test_a_reload_is_refused_where_the_web_configuration_cannot_be_taken(
    running: Agent, world: World
) -> None:
    web = running.web_configuration = Web(
        refusal=("web configuration: cannot use server.pem",)
    )
    pair = write_key(world.folder)
    with pytest.raises(ConfigError) as refused:
        await running.reload()
    assert [MISMATCH in refused.value.args[0], refused.value.args[1:]] == [
        True,
        web.refusal,
    ]
    write_certificate(world.folder, pair)
    with pytest.raises(ConfigError, match="cannot use server"):
        await running.reload()
    web.refusal = ()
    await running.reload()


async def test_a_fault_of_the_web_configuration_is_reported_as_one_of_other_files(
    running: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    web = running.web_configuration = Web(
        faults=("web configuration: cannot use server.pem",)
    )
    await until(lambda: BAD in body(running))
    assert (
        caplog.text.count(
            "web configuration: cannot use server.pem; what was read before stays in use"
        )
        == 1
    )
    await until(lambda: changes(running)[-1] is Change.CONFIG_REFUSED)
    web.faults = ()
    await until(lambda: GOOD in body(running))


def test_one_fault_of_many_brokers_is_one_sentence(tmp_path: Path) -> None:
    write_files(tmp_path)
    write_key(tmp_path)
    brokers = loaded(
        tmp_path, *({**OVER_TLS, "name": f"b{number}"} for number in range(20))
    )
    (fault,) = file_faults(brokers)
    assert fault.startswith("broker b0 and 19 more: tls.cert_file ")


def test_a_broker_without_tls_has_no_certificates(tmp_path: Path) -> None:
    plain = {"name": "b", "kind": "artemis", "url": "http://127.0.0.1:1/"}
    assert file_faults(loaded(tmp_path, plain)) == []


def over_jmx(folder: Path, mode: int = 0o755) -> dict[str, Any]:
    (folder / "java").write_text("#!/bin/sh\n")
    (folder / "java").chmod(mode)
    (folder / "imqjmx.jar").write_text("no jar")
    return {
        "name": "mq",
        "kind": "openmq",
        "transport": "jmx",
        "url": "mq://h:7676",
        "java": "java",
    }


def test_programs_and_jars(tmp_path: Path) -> None:
    assert file_faults(loaded(tmp_path, over_jmx(tmp_path))) == []
    (fault,) = file_faults(loaded(tmp_path, over_jmx(tmp_path, 0o644)))
    assert fault.endswith("java: is not a program that can be started")
    (fault,) = file_faults(
        loaded(tmp_path, {**over_jmx(tmp_path), "imqjmx_jar": "imqjmx.jar"})
    )
    assert fault.endswith("imqjmx.jar: is not a jar file")


def test_files_of_a_broker_that_is_new_or_gone_are_no_news(tmp_path: Path) -> None:
    write_files(tmp_path)
    (broker,) = loaded(tmp_path, OVER_TLS)
    looking = NamedFiles()
    assert (
        looking.look([])
        == looking.look([broker])
        == looking.look([broker])
        == looking.look([])
    )
    looking.look([broker])
    (tmp_path / "ca.pem").write_bytes((tmp_path / "ca.pem").read_bytes() + b"\n")
    assert looking.look([broker]) == FileNews((tmp_path / "ca.pem",))


def looked_once(folder: Path) -> tuple[NamedFiles, Sequence[Broker]]:
    """Who looks at the files of a broker, which are as they should be, and has looked once."""
    write_files(folder)
    brokers = loaded(folder, OVER_TLS)
    looking = NamedFiles()
    looking.look(brokers)
    return looking, brokers


@pytest.mark.parametrize("name", ["ca.pem", "tls.crt", "tls.key", "password"])
def test_a_file_that_is_read_while_it_is_written_is_no_fault(
    tmp_path: Path, name: str
) -> None:
    looking, brokers = looked_once(tmp_path)
    file = tmp_path / name
    whole = file.read_bytes() + b"\n"
    for written in (b"", whole[: len(whole) // 2 - 1]):
        file.write_bytes(written)
        assert looking.look(brokers).faults == ()
    file.write_bytes(whole)
    assert looking.look(brokers) == FileNews((file,))


def test_a_key_and_its_certificate_are_not_written_at_the_same_moment(
    tmp_path: Path,
) -> None:
    looking, brokers = looked_once(tmp_path)
    pair = write_key(tmp_path)
    assert looking.look(brokers) == FileNews()
    write_certificate(tmp_path, pair)
    assert looking.look(brokers) == FileNews(
        (tmp_path / "tls.crt", tmp_path / "tls.key")
    )


def test_what_stays_wrong_is_reported_by_the_second_look(tmp_path: Path) -> None:
    looking, brokers = looked_once(tmp_path)
    pair = write_key(tmp_path)
    looking.look(brokers)
    for _ in range(2):
        (fault,) = looking.look(brokers).faults
        assert MISMATCH in fault
    put(tmp_path / "password", b"")  # one more, which may be half of a file
    assert looking.look(brokers).faults == (fault,)
    put(tmp_path / "password", b"secret-word")
    write_certificate(tmp_path, pair)
    assert looking.look(brokers) == FileNews((tmp_path / "tls.crt",))


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


def test_check_looks_at_profiles_of_which_no_broker_is_found_yet(
    tmp_path: Path,
) -> None:
    write_files(tmp_path)
    write_key(tmp_path)
    profile = {key: value for key, value in OVER_TLS.items() if key != "name"} | {
        "url": "https://{host}/"
    }
    discovery = {
        "profiles": {"mq": profile},
        "files": [{"files": ["none*.yml"], "profiles": ["mq"]}],
    }
    write_configuration(tmp_path / "p.yml", {**over_jmx(tmp_path)}, discovery=discovery)
    refused = checked(tmp_path / "p.yml")
    assert refused.exit_code == 2
    assert MISMATCH in refused.stderr
