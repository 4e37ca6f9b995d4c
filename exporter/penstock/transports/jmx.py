"""JMX over RMI: one persistent connection, held by a small Java process; every failure says what to do."""

import asyncio
import contextlib
import os
import shutil
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from penstock.core.errors import (
    BadAnswer,
    ConfigError,
    Refused,
    SourceError,
    Unreachable,
)
from penstock.core.watched_files import Contents, FileContents
from penstock.transports.portmapper import ask_port_mapper
from penstock.transports.transport import Answer, Request, Target, check_size

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


def find_java(configured: Path | None) -> str:
    """The `java` that is configured, else JAVA_HOME's, else that of PATH. ConfigError when there is none."""
    if configured is not None:
        return str(configured)
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        where = f"there is none at JAVA_HOME={home}" if home else "none is installed"
        raise ConfigError(
            f"JMX needs a Java 11 or later: {where}; install one, or name it as `java:` of the broker"
        )
    return java


def program_fault(java: str, jars: Sequence[Path]) -> str:
    """Why these files are no program that can be started, as while they are replaced; empty where they are one."""
    if not os.access(java, os.X_OK):
        return f"java {java}: is not a program that can be started"
    broken = next((jar for jar in jars if not zipfile.is_zipfile(jar)), None)
    return "" if broken is None else f"imqjmx_jar {broken}: is not a jar file"


AnswerKind = Literal["answer", "refused", "unreachable", "bad"]
"""The responses, or a text that says what is wrong."""


class Ended(SourceError):
    """The program is gone."""


class _Head(msgspec.Struct):
    kind: AnswerKind
    length: int


_head = msgspec.json.Decoder(_Head)


class Helper:
    """A running program. Not to be asked twice at once."""

    def __init__(
        self, process: asyncio.subprocess.Process, max_answer_bytes: int
    ) -> None:
        self._process = process
        self._max = max_answer_bytes
        self._said = ""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(
        cls, java: str, jars: Sequence[Path], max_answer_bytes: int
    ) -> "Helper":
        """Raises ConfigError when the program is not there or no Java can be started."""
        if not JAR.exists():
            hint = "install one and run pip install again, or use transport: jolokia"
            raise ConfigError(
                f"{JAR} is missing: this Penstock was built without a JDK; {hint}"
            )
        classes = ":".join(str(jar) for jar in (JAR, *jars))
        command = (java, *_JVM, "-cp", classes, MAIN)
        pipe = asyncio.subprocess.PIPE
        passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        try:
            # In a session of its own: a Control-C is for the agent, which ends it then.
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=passed_on,
                start_new_session=True,
            )
        except OSError as error:
            why = error.strerror or error
            raise ConfigError(
                f"{java} cannot be started: {why}; see `java:` of the broker"
            ) from error
        return cls(process, max_answer_bytes)

    @property
    def pid(self) -> int | None:
        """Process id, None once it has ended."""
        return self._process.pid if self._process.returncode is None else None

    async def ask(self, command: Mapping[str, object]) -> tuple[AnswerKind, bytes]:
        """The answer to one command; Ended when the program is gone. Cancelled, it is of no more use: kill it."""
        stdin = self._process.stdin
        stdout = self._process.stdout
        if stdin is None or stdout is None:
            raise Ended("the JMX helper has no pipes")
        try:
            stdin.write(msgspec.json.encode(command) + b"\n")
            await stdin.drain()
            head = _head.decode(await stdout.readuntil(b"\n"))
            if head.length > self._max:
                await self.kill()
            check_size("JMX", head.length, self._max)
            body = await stdout.readexactly(head.length + 1)
        except (OSError, asyncio.IncompleteReadError) as error:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await asyncio.shield(self._listening)
            raise Ended(
                f"the JMX helper has ended: {self._said.strip() or 'it said nothing'}"
            ) from error
        except (msgspec.DecodeError, asyncio.LimitOverrunError) as error:
            await self.kill()
            raise Ended(
                f"the JMX helper does not answer as it should: {error}"
            ) from error
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


FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds between two starts of a helper that ends, doubled from the first to the longest."""
PORT_MAPPER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class JmxTarget(Target):
    """url: service:jmx:…, or mq://HOST:PORT of an OpenMQ port mapper, which names the former at each connection."""

    java: Path | None = None
    jars: Sequence[Path] = ()


class JmxTransport:
    """Asks the MBeans of a broker. Raises only `SourceError`s, and ConfigError where no Java can be started."""

    def __init__(self, target: JmxTarget) -> None:
        self._target = target
        self._java = find_java(target.java)
        self._files = (Path(self._java), *target.jars)
        self._contents = FileContents()
        self._started_with: Contents = {}
        """What the program and its jars held when the helper was started."""
        self._helper: Helper | None = None
        self._connected = False
        self._started = -LONGEST_PAUSE
        self._pause = 0.0
        self._why = "the JMX helper has ended"

    @property
    def pid(self) -> int | None:
        return self._helper.pid if self._helper else None

    async def begin_poll(self) -> None:
        """A helper whose Java or jars were replaced meanwhile is ended; the next request starts one of the new."""
        if self._helper is None or self._contents.of(self._files) == self._started_with:
            return
        if not program_fault(self._java, self._target.jars):
            await self._drop()

    async def close(self) -> None:
        helper = self._helper
        self._helper = None
        if helper is not None:
            await helper.close()

    async def ask(self, requests: Sequence[Request], timeout: float) -> Answer:
        """As `Transport.ask`. A helper that ended in between is started again once."""
        deadline = time.monotonic() + timeout
        try:
            async with asyncio.timeout(timeout):
                try:
                    return await self._ask(requests, deadline)
                except Ended as ended:
                    self._why = str(ended)
                    await self._drop()
                    return await self._ask(requests, deadline)
        except Ended as error:
            raise Unreachable(f"{self._target.url}: {error}") from error
        except TimeoutError as error:
            await self._drop()  # what it would still answer has no reader
            raise Unreachable(
                f"{self._target.url}: no answer within {timeout:.1f} s"
            ) from error
        except asyncio.CancelledError:
            await self._drop()
            raise

    async def _ask(self, requests: Sequence[Request], deadline: float) -> Answer:
        """Send the requests to the helper, which is started first where it does not run."""
        helper = await self._connection(deadline)
        began = time.monotonic()
        wall = time.time()
        kind, body = await helper.ask({"requests": requests})
        seconds = time.monotonic() - began
        self._raise(kind, body)
        self._pause = 0.0
        return Answer(body, wall + seconds / 2, seconds)

    async def _connection(self, deadline: float) -> Helper:
        """A helper that is connected."""
        if self._helper is not None and self.pid and self._connected:
            return self._helper
        url = await service_url(
            self._target.url, min(PORT_MAPPER_SECONDS, deadline - time.monotonic())
        )
        if not self.pid:
            await self._start()
        helper = self._helper
        if helper is None:
            raise Ended("the JMX helper was closed")
        password = self._target.password() if self._target.password else None
        kind, body = await helper.ask(
            {
                "connect": {
                    "url": url,
                    "user": self._target.username,
                    "password": password,
                }
            }
        )
        self._raise(kind, body)
        self._connected = True
        return helper

    async def _start(self) -> None:
        """Start a helper, unless the one before was started too short a time ago."""
        await self._drop()
        wait = self._started + self._pause - time.monotonic()
        if wait > 0:
            raise Unreachable(
                f"{self._target.url}: {self._why}; it is started again in {wait:.0f} s"
            )
        self._pause = min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
        self._started = time.monotonic()
        self._started_with = self._contents.of(self._files)
        self._helper = await Helper.start(
            self._java, self._target.jars, self._target.max_answer_bytes
        )

    def _raise(self, kind: AnswerKind, body: bytes) -> None:
        """A SourceError unless the helper answered."""
        if kind == "answer":
            return
        text = body.decode(errors="replace")
        with contextlib.suppress(msgspec.DecodeError):
            text = msgspec.json.decode(body, type=str)
        text = text[:400]
        url = self._target.url
        user = self._target.username
        if kind == "bad":
            raise BadAnswer(f"{url}: JMX: {text}")
        self._connected = False
        if kind == "refused":
            subject = f"user {user!r}" if user else "no user"
            raise Refused(
                f"{url}: JMX refuses {subject}: {text}; {self._target.hint.refused_jmx}"
            )
        if "MQRMIClientSocketFactory" in text:
            text += "; the broker runs with imq.hostname: give its lib/imqjmx.jar as imqjmx_jar"
        raise Unreachable(f"{url}: JMX: {text}")

    async def _drop(self) -> None:
        """End the helper; the next poll starts another one."""
        helper = self._helper
        self._helper = None
        self._connected = False
        if helper is not None:
            await helper.kill()


async def service_url(url: str, timeout: float) -> str:
    """The JMX URL; that of an OpenMQ is asked of its port mapper, as it may be another one after each start."""
    parts = urlsplit(url)
    if parts.scheme != "mq":
        return url
    port_map = await ask_port_mapper(parts.hostname or "", parts.port or 0, timeout)
    if not port_map.jmx_url:
        why = "the broker is starting, or imq.jmx.enabled is false"
        raise Unreachable(f"{url}: the port mapper names no JMX connector: {why}")
    return port_map.jmx_url
