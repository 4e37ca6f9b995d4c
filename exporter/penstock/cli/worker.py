"""A worker process of `penstock run`, which starts it: `python -m penstock.cli.worker LEVEL FORMAT DESCRIPTOR DIRECTORY`."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

from penstock.agent import process
from penstock.agent.processes.wire import LIMIT
from penstock.agent.processes.worker import WorkerAgent
from penstock.cli import logs

NICENESS = 5
"""The small brokers and whoever asks come first where processors are short."""


async def work(descriptor: int, storage: Path) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=descriptor), limit=LIMIT)
    await WorkerAgent(storage, writer).serve(reader)


def main(level: str, form: str, descriptor: str, storage: str) -> None:
    process.tune()
    process.end_with_parent()
    os.nice(NICENESS)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # the agent gets them too, and says what to do
        signal.signal(number, signal.SIG_IGN)
    logs.set_up(level, form)
    asyncio.run(work(int(descriptor), Path(storage)))


if __name__ == "__main__":
    main(*sys.argv[1:])
