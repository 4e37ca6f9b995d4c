"""The signals of `penstock run`, from the first moment of its start."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

STOPS = (signal.SIGTERM, signal.SIGINT)

_early_hangups: list[int] = []
"""One entry for each SIGHUP that came while no event loop took them."""


def take_early_signals() -> None:
    """From now on SIGHUP does not end the process: `Signals` makes a reload of it once there is an agent.

    A signal to stop ends it at once; without this the first process of a container would ignore it. To be called before
    the agent is imported, which takes a second.
    """
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # no other thread may set a handler
        return
    signal.signal(signal.SIGHUP, _note_hangup)
    for number in STOPS:
        signal.signal(number, _end)


def _note_hangup(number: int, _: FrameType | None) -> None:
    _early_hangups.append(number)


def _end(_: int, __: FrameType | None) -> None:
    os._exit(0)  # nothing has begun that would have to be ended


class Signals:
    """What an operator asks of the agent by signals, as events of the event loop that makes this.

    on_stop: called once, when the first signal to stop comes.
    """

    def __init__(self, on_stop: Callable[[], None]) -> None:
        self.stop_asked = asyncio.Event()
        self.reload_asked = asyncio.Event()
        self._on_stop = on_stop
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self.reload_asked.set)
        for number in STOPS:
            loop.add_signal_handler(number, self._stop)
        if _early_hangups:
            _early_hangups.clear()
            self.reload_asked.set()

    def _stop(self) -> None:
        if not self.stop_asked.is_set():
            self._on_stop()
        self.stop_asked.set()
