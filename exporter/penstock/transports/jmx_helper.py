"""
The Java program that asks over JMX, as a child process: one JSON line in, one answer out, until its input ends.

It ends by itself when this process does, however that happens, for its input ends then.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from penstock.core.errors import BadAnswer, ConfigError, SourceError

PASSED_ON = ("PATH", "HOME", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "JAVA_HOME",
             "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")  # fmt: skip
"""Variables that a Java process may need; secrets for `${NAME}` of the configuration are among the others."""
JAR = Path(__file__).parent / "jmx-helper.jar"
MAIN = "penstock.jmx.Helper"
_JVM = (
    "-Xms16m", "-Xmx64m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData", "-XX:ReservedCodeCacheSize=16m", "-XX:MaxMetaspaceSize=48m",
    "-Djava.awt.headless=true", "-Dsun.rmi.transport.connectionTimeout=60000",
    "-Dsun.rmi.transport.tcp.handshakeTimeout=10000", "-Dsun.rmi.transport.tcp.responseTimeout=120000",
)  # fmt: skip
_SAID = 2000
"""Characters of what it writes to its error output that are kept."""
_GOODBYE = 1.0
"""Seconds that it gets to end by itself."""


def environment() -> dict[str, str]:
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def find_java(configured: Path | None) -> str:
    """The `java` that is configured, else JAVA_HOME's, else that of PATH. ConfigError when there is none."""
    if configured is not None:
        return str(configured)
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        where = f"there is none at JAVA_HOME={home}" if home else "none is installed"
        raise ConfigError(f"JMX needs a Java 11 or later: {where}; install one, or name it as `java:` of the broker")
    return java


class AnswerKind(StrEnum):
    """What an answer is: the responses, or a text that says what is wrong."""

    ANSWER = "answer"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    BAD = "bad"


class Ended(SourceError):
    """The program is gone."""


class _Head(msgspec.Struct):
    kind: AnswerKind
    length: int


_head = msgspec.json.Decoder(_Head)


class Helper:
    """A running program. Not to be asked twice at once."""

    def __init__(self, process: asyncio.subprocess.Process, max_answer_bytes: int) -> None:
        self._process = process
        self._max = max_answer_bytes
        self._said = ""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, java: str, jars: Sequence[Path], max_answer_bytes: int) -> "Helper":
        """Raises ConfigError when the program is not there or no Java can be started."""
        if not JAR.exists():
            raise ConfigError(
                f"{JAR} is missing: this Penstock was built without a JDK; install one and run pip install again, or"
                " use transport: jolokia"
            )
        classes = ":".join(str(jar) for jar in (JAR, *jars))
        try:
            process = await asyncio.create_subprocess_exec(
                java,
                *_JVM,
                "-cp",
                classes,
                MAIN,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment(),
                start_new_session=True,  # a Control-C is for the agent, which ends it then
            )
        except OSError as error:
            raise ConfigError(
                f"{java} cannot be started: {error.strerror or error}; see `java:` of the broker"
            ) from error
        return cls(process, max_answer_bytes)

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, command: Mapping[str, Any]) -> tuple[AnswerKind, bytes]:
        """The answer to one command; Ended when the program is gone. Cancelled, it is of no more use: kill it."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise Ended("the JMX helper has no pipes")
        try:
            stdin.write(msgspec.json.encode(command) + b"\n")
            await stdin.drain()
            head = _head.decode(await stdout.readuntil(b"\n"))
            if head.length > self._max:
                await self.kill()
                raise BadAnswer(
                    f"JMX: the answer is larger than {self._max} bytes; raise max_answer if the broker is that large"
                )
            body = await stdout.readexactly(head.length + 1)
        except (OSError, asyncio.IncompleteReadError) as error:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await asyncio.shield(self._listening)
            raise Ended(f"the JMX helper has ended: {self._said.strip() or 'it said nothing'}") from error
        except (msgspec.DecodeError, asyncio.LimitOverrunError) as error:
            await self.kill()
            raise Ended(f"the JMX helper does not answer as it should: {error}") from error
        return head.kind, body[:-1]

    async def close(self) -> None:
        """End it: by the end of its input, else by force."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(_GOODBYE):
                await self._process.wait()
        except TimeoutError:
            await self.kill()
        await self._listening

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._listening

    async def _listen(self) -> None:
        """Keep the last of what it writes to its error output, so that its end can be explained."""
        stderr = self._process.stderr
        while stderr is not None and (text := await stderr.read(4096)):
            self._said = (self._said + text.decode(errors="replace"))[-_SAID:]
