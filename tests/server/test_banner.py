"""
An answer to what is no HTTP must not show an attacker which versions run here. aiohttp has no public option for it:
`penstock.server.listen` sets a name of one of its modules. These tests fail when aiohttp no longer reads it.
"""

import asyncio

import pytest
from aiohttp import web, web_response

from penstock.server.listen import hide_versions


async def answer_to_garbage() -> bytes:
    """What aiohttp itself answers, without anything of ours before it."""

    async def never(_: web.BaseRequest) -> web.StreamResponse:
        raise AssertionError

    server = await asyncio.get_running_loop().create_server(
        web.Server(never), "127.0.0.1", 0
    )
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"no http\x01 at all\r\n\r\n")
        told = await reader.read()
        writer.close()
    return told


async def test_why_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once this fails aiohttp no longer shows versions, and the module can go."""
    monkeypatch.setattr(
        web_response,
        "SERVER_SOFTWARE",
        web.StreamResponse.__module__ + "/3.14 Python/3",
    )
    assert (
        b"Server: aiohttp.web_response/3.14 Python/3\r\n" in await answer_to_garbage()
    )


async def test_it_works_with_this_aiohttp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        web_response, "SERVER_SOFTWARE", "aiohttp/3 Python/3"
    )  # as it is, and is put back
    hide_versions()
    told = await answer_to_garbage()
    assert told.startswith(b"HTTP/1.0 400 ")
    assert b"Server: penstock\r\n" in told
    assert b"aiohttp" not in told.lower()
    assert b"python" not in told.lower()
