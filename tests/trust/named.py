"""`penstock` that finds hosts by the file of its first argument, `ADDRESS NAME` a line, as the file is now."""

import socket
import sys
from pathlib import Path
from typing import Any

from penstock.cli import main

_ask = socket.getaddrinfo


def known(file: Path) -> dict[str, str]:
    return {
        name: address for address, name in map(str.split, file.read_text().splitlines())
    }


if __name__ == "__main__":
    hosts = Path(sys.argv.pop(1))

    def ask(host: Any, *arguments: Any, **more: Any) -> Any:
        return _ask(known(hosts).get(host, host), *arguments, **more)

    socket.getaddrinfo = ask
    main()
