"""Whether the Jolokia of a broker opens connections to hosts that a request names (`target`).

Jolokia's answer to `version` lists what handles requests, so that this asks for no connection.
"""

from collections.abc import Iterable, Mapping

import msgspec

from penstock.agent.factory import jolokia
from penstock.config import Broker, Transport
from penstock.core.errors import PenstockError
from penstock.setup.artemis import PROXY

_VERSION = {"type": "version"}
_IN_JOLOKIA_1 = "Jsr160RequestDispatcher"
"""The class that opens connections there; without it, Jolokia 1.5 and later name one that refuses."""
_OPEN = (
    "Jolokia's proxy is switched on: a client with this account's password can make the broker open a connection to"
    f" any host; switch it off with disabledServices={PROXY} (Artemis: -Djolokia.disabledServices=… in JAVA_ARGS of"
    " etc/artemis.profile), as penstock init does"
)
_UNKNOWN = "it is not known whether Jolokia's proxy is switched off"


class _Version(msgspec.Struct):
    """info: in Jolokia 2 by the name of each handler of requests. config: in Jolokia 1 with the dispatchers."""

    agent: str = ""
    info: Mapping[str, object] = {}
    config: Mapping[str, object] = {}


class _Reply(msgspec.Struct):
    status: int
    value: _Version | None = None


async def proxy_notes(broker: Broker, timeout: float) -> Iterable[str]:
    """What is to be said about the proxy; nothing where it is off, or where the broker is not asked over Jolokia."""
    if broker.transport is not Transport.JOLOKIA:
        return []
    try:
        is_open = _is_open(await _version(broker, timeout))
    except (PenstockError, msgspec.DecodeError) as error:
        return [f"{_UNKNOWN}: {broker.mask(str(error))}"]
    if is_open is None:
        return [f"{_UNKNOWN}: this version of Jolokia does not say it"]
    return [_OPEN] if is_open else []


async def _version(broker: Broker, timeout: float) -> _Version:
    """Raises PenstockError, DecodeError."""
    transport = jolokia(broker)
    try:
        answer = await transport.ask([_VERSION], timeout)
    finally:
        await transport.close()
    replies = msgspec.json.decode(answer.body, type=list[_Reply])
    if not replies:
        raise PenstockError("Jolokia answers the request for its version with nothing")
    if replies[0].value is None:
        raise PenstockError(
            f"Jolokia answers the request for its version with status {replies[0].status}"
        )
    return replies[0].value


def _is_open(version: _Version) -> bool | None:
    """Whether requests with a target are passed on; None where that cannot be read."""
    if version.agent.startswith("1."):
        dispatchers = version.config.get("dispatcherClasses")
        return _IN_JOLOKIA_1 in dispatchers if isinstance(dispatchers, str) else None
    if "proxy" in version.info:
        return True
    return False if "jmx" in version.info else None
