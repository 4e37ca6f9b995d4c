"""Asking a running agent."""

from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from penstock.errors import PenstockError
from penstock.server import DEFAULT_PORT

DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
TIMEOUT = aiohttp.ClientTimeout(total=15)
MAX_BYTES = 64 * 2**20


async def ask(url: str, path: str, **parameters: str | float | None) -> Any:
    """The answer of the agent at `url`; parameters that are None are left out. PenstockError in the agent's words."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise PenstockError(f"{url!r} is no URL of an agent; write {DEFAULT_URL}")
    given = {name: str(value) for name, value in parameters.items() if value is not None}
    try:
        async with (
            aiohttp.ClientSession(timeout=TIMEOUT) as session,
            session.get(url.rstrip("/") + path, params=given) as response,
        ):
            body = await response.content.read(MAX_BYTES)
            status = response.status
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise PenstockError(
            f"no agent answers at {url}: {reason}; start one with penstock run, or say where it is with --url"
        ) from None
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        raise PenstockError(f"what answers at {url} (status {status}) is no Penstock of this version") from None
    if status != 200:
        raise PenstockError(f"{answer['error']}; {answer['hint']}" if "error" in answer else f"status {status}")
    return answer
