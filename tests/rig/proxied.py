"""A request to a broker's Jolokia that names another host (`target`): whether the broker opens a connection to it."""

import base64
import contextlib
import http.client
import json
import socket
import threading
from urllib.parse import urlsplit

from penstock_demo.management import Account

ANSWER_SECONDS = 60


def opens_connection(jolokia_url: str, account: Account) -> bool:
    """Whether the broker connects to a port of this test because the account's request names it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        connected = threading.Event()
        waiting = threading.Thread(
            target=_accept_one, args=(listening, connected), daemon=True
        )
        waiting.start()
        target = {"url": f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"}
        read = {
            "type": "read",
            "mbean": "java.lang:type=Memory",
            "attribute": "HeapMemoryUsage",
        }
        answered = _post(jolokia_url, account, {**read, "target": target})
        assert answered == http.HTTPStatus.OK, "Jolokia answers in any case"
        found = connected.is_set()
        socket.create_connection(("127.0.0.1", port)).close()  # ends the thread
        waiting.join()
    return found


def _accept_one(listening: socket.socket, connected: threading.Event) -> None:
    with contextlib.suppress(OSError):
        connection, _ = listening.accept()
        connected.set()
        connection.close()


def _post(url: str, account: Account, request: dict[str, object]) -> int:
    parts = urlsplit(url)
    login = base64.b64encode(f"{account.user}:{account.password}".encode()).decode()
    headers = {
        "Authorization": f"Basic {login}",
        "Origin": "http://127.0.0.1",
        "Content-Type": "application/json",
    }
    connection = http.client.HTTPConnection(
        parts.hostname or "", parts.port, timeout=ANSWER_SECONDS
    )
    with contextlib.closing(connection):
        connection.request("POST", parts.path, json.dumps(request), headers)
        return connection.getresponse().status
