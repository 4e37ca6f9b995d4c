"""A worker process of `penstock run`, which starts it."""

import signal

if __name__ == "__main__":
    # Before all else, which takes a second to import: the agent may get these too, and says what to do.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

import asyncio
import logging
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from penstock.agent import process
from penstock.agent.processes.worker import WorkerAgent
from penstock.cli import logs
from penstock.core.errors import PenstockError

NICENESS = 5
"""The small brokers, and requests, come first where processors are short."""


async def work(storage: str, descriptor: str) -> None:
    await WorkerAgent(Path(storage), Connection(int(descriptor))).serve()


if __name__ == "__main__":
    process.tune()
    os.nice(NICENESS)
    logs.set_up(*sys.argv[1:3])
    try:
        asyncio.run(work(*sys.argv[3:]))
    except PenstockError as error:
        logging.getLogger(__spec__.name).error("cannot start: %s", error)  # noqa: TRY400 - expected
        sys.exit(1)
