"""Whether a user's password is right: bcrypt checked one at a time, in a line that guesses cannot fill."""

import asyncio
import base64
import binascii
import hmac
import secrets
from collections import deque
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


class Login(Enum):
    RIGHT = "a user and the right password"
    WRONG = "another password, no such user, or nothing that can be read"
    MISSING = "neither user nor password"
    UNCHECKED = "too many wait to be checked"


class Passwords:
    """
    Passwords against their bcrypt hashes, in a thread beside the loop.

    What a user was let in with is remembered as long as the hash is the same, and needs no further check.
    """

    def __init__(self, hashes: Mapping[str, bytes]) -> None:
        self._hashes = hashes
        self._key = secrets.token_bytes(32)
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock-users")
        self._lines = Lines(MAX_WAITING)
        self._right: dict[str, bytes] = {}
        """By user, a digest of user, hash and password."""
        self._wrong: dict[bytes, None] = {}
        """Such digests, the latest last."""

    def replace(self, hashes: Mapping[str, bytes]) -> None:
        """From now on these; from any thread. Of a user whose hash has changed nothing that was known fits any more."""
        self._hashes = hashes

    async def login(self, request: web.Request) -> Login:
        header = request.headers.get(hdrs.AUTHORIZATION)
        if header is None:
            return Login.MISSING
        sent = _credentials(header)
        if sent is None:
            return Login.WRONG
        user, password = sent
        hashed = self._hashes.get(user, UNKNOWN_USER)
        digest = hmac.digest(self._key, b"\0".join((user.encode(), hashed, password)), "sha256")
        if (known := self._known(user, digest)) is not None:
            return known
        try:
            # Guesses for a user, or from an address, delay one another.
            async with self._lines.turn((user if user in self._hashes else None, request.remote)):
                if (known := self._known(user, digest)) is not None or request.transport is None:
                    return known or Login.MISSING
                return await self._checked(user, hashed, password, digest)
        except LineFull:
            return Login.UNCHECKED

    def _known(self, user: str, digest: bytes) -> Login | None:
        if self._right.get(user) == digest:
            return Login.RIGHT
        return Login.WRONG if digest in self._wrong else None

    async def _checked(self, user: str, hashed: bytes, password: bytes, digest: bytes) -> Login:
        loop = asyncio.get_running_loop()
        right = await loop.run_in_executor(self._executor, bcrypt.checkpw, password, hashed)
        if right and self._hashes.get(user) == hashed:  # the file may have changed meanwhile
            self._right[user] = digest
            return Login.RIGHT
        self._wrong[digest] = None
        if len(self._wrong) > WRONG_KEPT:
            del self._wrong[next(iter(self._wrong))]
        return Login.WRONG

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


class LineFull(Exception):
    """Too many wait."""


class Lines:
    """One has the turn; those that wait for it stand in a line by key. The lines take turns, each in its order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = False
        self._lines: dict[object, deque[asyncio.Future[None]]] = {}
        """None is empty; the one whose turn was last comes last."""

    @asynccontextmanager
    async def turn(self, key: object) -> AsyncIterator[None]:
        """Wait for it, and have it while the context lasts. LineFull: for this one, or to let another line grow."""
        if self._taken:
            await self._wait(key)
        self._taken = True
        try:
            yield
        finally:
            self._next()

    async def _wait(self, key: object) -> None:
        self._make_room(key)
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(key, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled() and mine.exception() is None:  # it had the turn just now
                self._next()
            raise

    def _make_room(self, key: object) -> None:
        """The last of the longest line goes, where that is not this one's own."""
        if sum(map(len, self._lines.values())) < self._most:
            return
        longest = max(self._lines, key=lambda one: len(self._lines[one]))
        line = self._lines[longest]
        if len(self._lines.get(key, ())) >= len(line):
            raise LineFull
        last = line.pop()
        if not line:
            del self._lines[longest]
        if not last.done():
            last.set_exception(LineFull())

    def _next(self) -> None:
        while self._lines:
            key = next(iter(self._lines))
            line = self._lines.pop(key)
            first = line.popleft()
            if line:
                self._lines[key] = line
            if not first.done():
                first.set_result(None)
                return
        self._taken = False


def _credentials(header: str) -> tuple[str, bytes] | None:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        name = user.decode()
    except (binascii.Error, ValueError):
        return None
    usable = colon and len(password) <= MAX_PASSWORD_BYTES and b"\0" not in password
    return (name, password) if usable else None
