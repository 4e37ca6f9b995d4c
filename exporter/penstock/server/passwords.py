"""Whether a user's password is right: bcrypt checked one at a time, in lines that guesses cannot fill."""

import asyncio
import base64
import binascii
import hmac
import os
import secrets
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from enum import Enum

import bcrypt
from aiohttp import hdrs, web

UNKNOWN_USER = b"$2b$10$Ip3e9TomvyOhjUzY1pCuGOjiTxJlmYTtux.g5RkZsFDDPLt.hwZQ6"
"""Checked for an unknown user, so that the time taken does not show which users exist."""

MAX_PASSWORD_BYTES = 72
"""bcrypt looks at no more."""
WRONG_KEPT = 100
"""Wrong ones that are remembered, the latest: a client that has one sends it again and again."""
MAX_WAITING = 128
"""In all lines; each check takes some 50 ms of CPU."""
NICE = 5
"""Of the thread that checks: a crowd of guesses keeps it busy."""
WAIT_SECONDS = 30.0
"""For a check to begin. Longer than clients wait: each guess that is refused is soon another new one."""


class Login(Enum):
    RIGHT = "a user and the right password"
    WRONG = "another password, no such user, or nothing that can be read"
    MISSING = "neither user nor password"
    UNCHECKED = "too many wait to be checked"


class Passwords:
    """Passwords against their bcrypt hashes, in a thread beside the loop; what a user was let in with is remembered."""

    def __init__(self, hashes: Mapping[str, bytes]) -> None:
        self._hashes = hashes
        self._key = secrets.token_bytes(32)
        self._executor = ThreadPoolExecutor(1, "penstock-users", initializer=_give_way)
        self._lines = Lines(MAX_WAITING)
        self._right: dict[str, bytes] = {}
        """By user, a digest of user, hash and password."""
        self._wrong: dict[bytes, None] = {}
        """Such digests, the latest last."""

    def replace(self, hashes: Mapping[str, bytes]) -> None:
        """From now on these; from any thread. Of a user whose hash has changed nothing that was known fits any more."""
        self._hashes = hashes

    async def login(self, request: web.Request) -> Login:
        """Check the user and password of a request. Known ones are answered at once; others wait for their turn."""
        header = request.headers.get(hdrs.AUTHORIZATION)
        if header is None:
            return Login.MISSING
        sent = _credentials(header)
        if sent is None:
            return Login.WRONG
        user, password = sent
        hashed = self._hashes.get(user, UNKNOWN_USER)
        digest = hmac.digest(
            self._key, b"\0".join((user.encode(), hashed, password)), "sha256"
        )
        if (login := self._known(user, digest)) is not None:
            return login
        try:
            # Guesses at a user, or from an address, delay one another.
            async with self._lines.turn(
                (user if user in self._hashes else None, request.remote)
            ):
                if (
                    login := self._known(user, digest)
                ) is not None or request.transport is None:
                    return login or Login.MISSING
                return await self._checked(user, hashed, password, digest)
        except LineFull:
            return Login.UNCHECKED

    def _known(self, user: str, digest: bytes) -> Login | None:
        if self._right.get(user) == digest:
            return Login.RIGHT
        return Login.WRONG if digest in self._wrong else None

    async def _checked(
        self, user: str, hashed: bytes, password: bytes, digest: bytes
    ) -> Login:
        """Compare a password with its hash in a thread, and remember the result."""
        loop = asyncio.get_running_loop()
        right = await loop.run_in_executor(
            self._executor, bcrypt.checkpw, password, hashed
        )
        if (
            right and self._hashes.get(user) == hashed
        ):  # the file may have changed meanwhile
            self._right[user] = digest
            return Login.RIGHT
        self._wrong[digest] = None
        if len(self._wrong) > WRONG_KEPT:
            del self._wrong[next(iter(self._wrong))]
        return Login.WRONG

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


def _give_way() -> None:
    """Let polls and answers have a core before this thread."""
    if sys.platform == "linux":  # elsewhere a priority is the whole process's
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


class LineFull(Exception):
    """Too many wait, or it took too long."""


class Lines:
    """One has the turn; those that wait for it are in a line by key, and the lines take turns.

    In its line the newest is the next: a crowd of which each waits for its answer must not delay one that comes now.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = False
        self._lines: dict[object, list[asyncio.Future[None]]] = {}
        """None is empty; the one whose turn was last comes last."""

    @asynccontextmanager
    async def turn(self, key: object) -> AsyncIterator[None]:
        """Wait for it, and have it while the context lasts. Raises LineFull at once, or after WAIT_SECONDS."""
        if self._taken:
            await self._wait(key)
        self._taken = True
        try:
            yield
        finally:
            self._next()

    async def _wait(self, key: object) -> None:
        """Wait for the turn in the line of `key`. Raises LineFull when it takes too long, or the line is too long."""
        if sum(map(len, self._lines.values())) >= self._most:
            longest = max(self._lines, key=lambda one: len(self._lines[one]))
            _refuse(self._taken_from(longest, 0))
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        self._lines.setdefault(key, []).append(mine)
        too_long = loop.call_later(WAIT_SECONDS, _refuse, mine)
        try:
            await mine
        except asyncio.CancelledError:
            if (
                mine.done() and not mine.cancelled() and mine.exception() is None
            ):  # it had the turn just now
                self._next()
            raise
        finally:
            too_long.cancel()

    def _next(self) -> None:
        """Give the turn to the newest of the line that is next."""
        while self._lines:
            newest = self._taken_from(next(iter(self._lines)), -1)
            if not newest.done():
                newest.set_result(None)
                return
        self._taken = False

    def _taken_from(self, key: object, place: int) -> asyncio.Future[None]:
        """Out of this line, which then comes last."""
        line = self._lines.pop(key)
        waiting = line.pop(place)
        if line:
            self._lines[key] = line
        return waiting


def _refuse(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_exception(LineFull())


def _credentials(header: str) -> tuple[str, bytes] | None:
    """Return user and password of an Authorization header; None where they cannot be used."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(
            encoded.strip(), validate=True
        ).partition(b":")
        name = user.decode()
    except (binascii.Error, ValueError):
        return None
    usable = colon and len(password) <= MAX_PASSWORD_BYTES and b"\0" not in password
    return (name, password) if usable else None
