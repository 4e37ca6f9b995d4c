"""Who is let in, also while others guess; what is noted of those who are not."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import bcrypt
import pytest
from aiohttp import ClientSession, TCPConnector, encode_basic_auth, web

from penstock.server import passwords, serve
from penstock.server.authentication import Authentication
from penstock.server.passwords import LineFull, Lines, Login, Passwords
from rig.waiting import until

pytestmark = pytest.mark.asyncio

PASSWORD = "correct horse"
HERE = "127.0.0.1"
THERE = "127.0.0.9"


def hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


HASHES = {name: hashed(PASSWORD) for name in ("prom", "grafana", "late")}


def users(**changed: str) -> str:
    lines = [f"  {name}: '{one}'\n" for name, one in {**HASHES, **changed}.items()]
    return "".join(("basic_auth_users:\n", *lines))


class World:
    """A server with users, and what it noted."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "web.yml"
        self.file.write_text(users())
        self.noted: list[tuple[str, bool]] = []
        self.authentication = Authentication(self.file, self._note)
        self.port = 0

    def _note(self, address: str, *, checked: bool) -> None:
        self.noted.append((address, checked))

    async def ask(self, user: str, password: str = PASSWORD, of: str = HERE) -> int:
        connector = TCPConnector(local_addr=(of, 0), force_close=True)
        login = encode_basic_auth(user, password)
        async with (
            ClientSession(connector=connector) as client,
            client.get(
                f"http://127.0.0.1:{self.port}/metrics",
                headers={"Authorization": login},
            ) as answer,
        ):
            return answer.status

    @asynccontextmanager
    async def guessed_at(self, user: str, of: str, many: int) -> AsyncIterator[None]:
        """So many guess, each a new one as soon as it is answered."""

        async def guess(number: int) -> None:
            for attempt in range(100_000):
                assert await self.ask(user, f"guess {number} {attempt}", of) in (
                    401,
                    429,
                )

        guesses = [asyncio.create_task(guess(number)) for number in range(many)]
        try:
            yield
        finally:
            for one in guesses:
                one.cancel()
            await asyncio.gather(*guesses, return_exceptions=True)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.add_routes([web.get("/metrics", hello)])
    found = World(tmp_path)
    async with serve(app, ["127.0.0.1:0"], authentication=found.authentication) as (
        address,
    ):
        found.port = address.port
        yield found


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Passwords that bcrypt looked at, in order; each takes 20 ms."""
    seen: list[bytes] = []
    real = bcrypt.checkpw

    def check(password: bytes, one: bytes) -> bool:
        seen.append(password)
        threading.Event().wait(0.02)
        return real(password, one)

    monkeypatch.setattr(bcrypt, "checkpw", check)
    return seen


@pytest.mark.slow  # passwords are slow to check by design
async def test_who_was_known_stays_known_over_a_renewal_of_the_file(
    world: World, checked: list[bytes]
) -> None:
    """Where the line is full of guesses, and whatever else changed in the file."""
    assert await world.ask("prom") == await world.ask("grafana") == 200
    async with world.guessed_at("prom", HERE, passwords.MAX_WAITING + 20):
        await until(lambda: (HERE, False) in world.noted)
        world.file.write_text(users(grafana=hashed("another"), added=hashed("x")))
        assert not world.authentication.reload_changed()  # plain HTTP: no TLS to renew
        asked = [await world.ask("prom") for _ in range(8)]
    assert asked == [200] * 8
    assert checked.count(PASSWORD.encode()) == 2


@pytest.mark.slow  # passwords are slow to check by design
async def test_who_has_another_password_now_is_known_no_more(world: World) -> None:
    assert await world.ask("prom") == 200
    world.file.write_text(users(prom=hashed("another")))
    world.authentication.reload_changed()
    assert await world.ask("prom") == 401
    assert await world.ask("prom", "another") == 200
    world.file.write_text(f"basic_auth_users: {{grafana: '{HASHES['grafana']}'}}\n")
    world.authentication.reload_changed()
    assert await world.ask("prom") == await world.ask("prom", "another") == 401
    assert await world.ask("grafana") == 200


@pytest.mark.slow  # passwords are slow to check by design
@pytest.mark.parametrize(
    ("guessed", "of"),
    [("nobody", HERE), ("prom", HERE), ("late", THERE)],
    ids=["no user", "another user", "the same user from elsewhere"],
)
async def test_a_right_password_passes_under_guessing(
    world: World, checked: list[bytes], guessed: str, of: str
) -> None:
    """It waits for no more than a check or two of those of each other line."""
    async with world.guessed_at(guessed, of, passwords.MAX_WAITING + 20):
        await until(lambda: (of, False) in world.noted)
        before = len(checked)
        assert await world.ask("late") == 200
    assert checked.index(PASSWORD.encode()) - before <= 4


@pytest.mark.slow  # passwords are slow to check by design
async def test_a_right_password_passes_among_guesses_at_the_same_user_from_the_same_address(
    world: World, checked: list[bytes]
) -> None:
    """At one of a few tries of a second each: behind those that came first none of them would, 100 checks take two."""
    answers: list[int] = []
    async with world.guessed_at("late", HERE, 100):
        await until(lambda: len(checked) > 20)
        while 200 not in answers and len(answers) < 30:
            answers.append(0)
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    answers[-1] = await world.ask("late")
    assert answers[-1] == 200


async def test_many_of_one_user_at_once_are_checked_once(
    world: World, checked: list[bytes]
) -> None:
    assert await asyncio.gather(*(world.ask("prom") for _ in range(8))) == [200] * 8
    assert checked == [PASSWORD.encode()]


async def test_a_guess_is_not_checked_for_a_client_that_is_gone(
    world: World, checked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come and go while the first is checked."""
    check = bcrypt.checkpw
    all_are_gone = threading.Event()

    def check_slowly(password: bytes, one: bytes) -> bool:
        found = check(password, one)
        all_are_gone.wait(60)
        return found

    asked: list[web.Request] = []
    login = Passwords.login

    async def noting_login(self: Passwords, request: web.Request) -> Login:
        asked.append(request)
        return await login(self, request)

    monkeypatch.setattr(Passwords, "login", noting_login)
    monkeypatch.setattr(bcrypt, "checkpw", check_slowly)
    first = asyncio.create_task(world.ask("prom", "a guess"))
    await until(lambda: len(checked) == 1)
    gone = [
        asyncio.create_task(world.ask("prom", f"gone {number}")) for number in range(10)
    ]
    await until(lambda: len(asked) == 11)
    for one in gone:
        one.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    await until(lambda: all(request.transport is None for request in asked[1:]))
    all_are_gone.set()
    assert await first == 401
    assert await world.ask("prom") == 200
    assert checked == [b"a guess", PASSWORD.encode()]


async def test_refused_logins_are_noted_and_no_others(world: World) -> None:
    assert await world.ask("prom") == 200
    assert world.noted == []
    async with (
        ClientSession() as client,
        client.get(f"http://127.0.0.1:{world.port}/metrics") as answer,
    ):
        assert answer.status == 401, "a browser asks so before it asks for a password"
    assert world.noted == []
    assert (
        await world.ask("prom", "wrong", THERE)
        == await world.ask("prom", "wrong", THERE)
        == 401
    )
    assert await world.ask("nobody") == await world.ask("prom", "x" * 73) == 401
    assert world.noted == [(THERE, True), (THERE, True), (HERE, True), (HERE, True)]


# --- the lines


async def test_lines_take_turns_and_in_each_the_newest_is_next() -> None:
    lines = Lines(10)
    order = []

    async def one(key: str, number: int) -> None:
        async with lines.turn(key):
            order.append((key, number))
            await asyncio.sleep(0)

    await asyncio.gather(
        *(
            one(key, number)
            for key, number in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)]
        )
    )
    assert order == [("a", 1), ("a", 3), ("b", 1), ("c", 1), ("a", 2)]
    await asyncio.gather(one("a", 4))
    assert order[-1] == ("a", 4), "nobody has the turn for good"


async def test_the_oldest_of_the_longest_line_makes_room() -> None:
    lines = Lines(3)
    async with lines.turn("first"):
        waiting = {
            name: asyncio.create_task(_turn(lines, name[0]))
            for name in ("a1", "a2", "b1", "a3", "c1")
        }
        for gone in ("a1", "a2"):
            with pytest.raises(LineFull):
                await waiting.pop(gone)
    async with asyncio.timeout(30):
        await asyncio.gather(*waiting.values())
        await _turn(lines, "d")


async def test_whoever_waits_too_long_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "WAIT_SECONDS", 0.05)
    lines = Lines(3)
    async with lines.turn("first"):
        with pytest.raises(LineFull):
            await _turn(lines, "a")
    async with asyncio.timeout(30):
        await _turn(lines, "b")


async def test_who_is_cancelled_keeps_no_turn() -> None:
    lines = Lines(3)
    async with lines.turn("first"):
        waits, next_one = (asyncio.create_task(_turn(lines, "a")) for _ in range(2))
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await next_one
    async with lines.turn("first"):
        given = asyncio.create_task(_turn(lines, "a"))
        await asyncio.sleep(0)
    given.cancel()  # it got the turn and has not begun
    async with asyncio.timeout(30):
        await asyncio.gather(given, return_exceptions=True)
        await _turn(lines, "b")


async def _turn(lines: Lines, key: str) -> None:
    async with lines.turn(key):
        await asyncio.sleep(0)
