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
from penstock.core.standard_streams import standard_streams

NICENESS = 5
"""The small brokers, and requests, come first where processors are short."""


async def work(storage: str, descriptor: str) -> None:
    await WorkerAgent(Path(storage), Connection(int(descriptor))).serve()


def main(log_level: str, log_format: str, storage: str, descriptor: str) -> int:
    """The exit status, once the agent has ended the process or it cannot start."""
    process.tune()
    os.nice(NICENESS)
    logs.set_up(log_level, log_format)
    try:
        asyncio.run(work(storage, descriptor))
    except PenstockError as error:
        logging.getLogger(__spec__.name).error("cannot start: %s", error)  # noqa: TRY400 - expected
        return 1
    return 0


if __name__ == "__main__":
    with standard_streams():
        sys.exit(main(*sys.argv[1:]))
