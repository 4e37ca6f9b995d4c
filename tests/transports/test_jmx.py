"""The helper of JMX is started again when its Java or its jars were replaced; a program plays the part of Java."""

import sys
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.transports import jmx
from penstock.transports.jmx import JmxTarget, JmxTransport

PROGRAM = f"""#!{sys.executable}
import json, sys
for line in sys.stdin:
    body = json.dumps("NAME")
    print(json.dumps({{"kind": "answer", "length": len(body)}}), body, sep="\\n", flush=True)
"""


def write_java(file: Path, name: str) -> None:
    """A program of which every answer is its name."""
    beside = file.with_name("beside")
    beside.write_text(PROGRAM.replace("NAME", name))
    beside.chmod(0o755)
    beside.replace(file)


def write_jar(file: Path, text: str) -> None:
    with zipfile.ZipFile(file, "w") as jar:
        jar.writestr("it", text)


@pytest.fixture
async def transport(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[JmxTransport]:
    monkeypatch.setattr(jmx, "JAR", tmp_path / "jmx-helper.jar")
    (tmp_path / "jmx-helper.jar").touch()
    write_java(tmp_path / "java", "one")
    write_jar(tmp_path / "imqjmx.jar", "old")
    target = JmxTarget(
        "service:jmx:rmi:///jndi/rmi://h:1/x",
        java=tmp_path / "java",
        jars=(tmp_path / "imqjmx.jar",),
    )
    made = JmxTransport(target)
    yield made
    await made.close()


async def polled(transport: JmxTransport) -> tuple[bytes, int | None]:
    """The answer, and which process gave it."""
    await transport.begin_poll()
    body = (await transport.ask([], 20)).body
    return body, transport.pid


async def test_a_helper_stays_while_nothing_changes(transport: JmxTransport) -> None:
    assert await polled(transport) == await polled(transport)


async def test_another_java_is_started(transport: JmxTransport, tmp_path: Path) -> None:
    assert (await polled(transport))[0] == b'"one"'
    write_java(tmp_path / "java", "two")
    assert (await polled(transport))[0] == b'"two"'


async def test_a_helper_with_another_jar_is_started(
    transport: JmxTransport, tmp_path: Path
) -> None:
    _, first = await polled(transport)
    write_jar(tmp_path / "imqjmx.jar", "new")
    _, second = await polled(transport)
    assert first != second


@pytest.mark.parametrize("name", ["java", "imqjmx.jar"])
@pytest.mark.parametrize("gone", [True, False])
async def test_what_is_being_replaced_leaves_the_helper(
    transport: JmxTransport, tmp_path: Path, name: str, gone: bool
) -> None:
    before = await polled(transport)
    file = tmp_path / name
    if gone:
        file.unlink()
    else:
        half = file.read_bytes()[:20]
        file.chmod(0o644)
        file.write_bytes(half)
    assert await polled(transport) == before
