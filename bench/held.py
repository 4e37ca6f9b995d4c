"""
`make bench-held`: which lines of the agent keep Python's lock for long while a broker of 100,000 queues is polled.

A thread of the agent's own process wakes every millisecond. Where it is late by more than `--least`, and one of the
other threads worked meanwhile, the line at which that one stands now held the lock. Counted are CPU seconds of that
thread, so that other work on the machine adds little. Collections of garbage are told apart. The last line is JSON.
"""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import click
from bench.broker import running
from bench.harness import facts, print_table

import penstock.cli

WAKES = 0.001
OURS = re.compile(r"penstock/(?!core/tasks)(.*\.py)$")


@click.command()
@click.option(
    "--queues",
    default=100_000,
    show_default=True,
    help="Of the broker, each with a consumer.",
)
@click.option("--interval", default=15, show_default=True)
@click.option(
    "--seconds",
    default=150.0,
    show_default=True,
    help="For which it is looked, after the first polls.",
)
@click.option("--least", default=2.0, show_default=True, help="Milliseconds.")
@click.option("--shown", default=40, show_default=True, help="Lines.")
def main(
    *, queues: int, interval: int, seconds: float, least: float, shown: int
) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(running(queues, queues, live=True))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "penstock.yaml").write_text(
            f'interval: {interval}s\nbrokers:\n  - {{name: large, kind: artemis, url: "{broker.url}"}}\n'
        )
        out = folder / "held.json"
        command = [
            sys.executable,
            "-m",
            "bench.held",
            "agent",
            str(out),
            str(least / 1000),
            str(3.2 * interval),
        ]
        command += [
            "run",
            "--config.file",
            str(folder / "penstock.yaml"),
            "--web.listen-address",
            "127.0.0.1:0",
        ]
        with subprocess.Popen(
            [*command, "--storage.path", str(folder / "data")], env=dict(os.environ)
        ) as process:
            time.sleep(3.2 * interval + seconds)
            process.send_signal(signal.SIGUSR1)
            time.sleep(2)
            process.terminate()
        found = json.loads(out.read_text())
    rows = {line: [f"{v:g}" for v in values] for line, values in found["lines"][:shown]}
    print_table(rows, ["held by", "times", "max ms", "all ms"])
    del found["lines"]
    print(json.dumps({"bench": "held", "queues": queues, **found, **facts()}))


class Watch:
    """The thread that wakes, and what it found."""

    def __init__(self, least: float) -> None:
        self.least = least
        self.found: dict[str, list[float]] = defaultdict(list)
        self.collected: dict[str, list[float]] = defaultdict(list)
        self.began = time.monotonic()
        self._collection = 0.0
        self._cpu = 0.0

    def run(self) -> None:
        gc.callbacks.append(self._garbage)
        me = threading.get_ident()
        clocks: dict[int, int] = {}
        before: dict[int, float] = {}
        while True:
            for thread in threading.enumerate():
                if thread.ident and thread.ident != me:
                    clocks.setdefault(
                        thread.ident, time.pthread_getcpuclockid(thread.ident)
                    )
            for ident, clock in list(clocks.items()):
                try:
                    before[ident] = time.clock_gettime(clock)
                except OSError:
                    del clocks[ident]
            asleep = time.perf_counter()
            time.sleep(WAKES)
            late = time.perf_counter() - asleep - WAKES
            if late < self.least:
                continue
            used = {}
            for ident, clock in clocks.items():
                try:
                    used[ident] = time.clock_gettime(clock) - before.get(ident, 0.0)
                except OSError:
                    continue
            ident = max(used, key=used.__getitem__)
            held = min(late, used[ident])
            if held >= self.least:
                self.found[_line(sys._current_frames().get(ident))].append(held)  # noqa: SLF001 - to see others

    def _garbage(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._cpu = time.thread_time()
        else:
            self.collected[str(info["generation"])].append(
                time.thread_time() - self._cpu
            )

    def clear(self) -> None:
        self.found.clear()
        self.collected.clear()
        self.began = time.monotonic()

    def told(self) -> dict[str, Any]:
        found = dict(self.found)
        lines = [
            (line, (len(held), round(1000 * max(held), 1), round(1000 * sum(held), 1)))
            for line, held in found.items()
        ]
        held = sorted(one for some in found.values() for one in some)
        return {
            "lines": sorted(lines, key=lambda one: -one[1][2]),
            "seconds": round(time.monotonic() - self.began, 1),
            "held": len(held),
            "held_ms": round(1000 * sum(held), 1),
            **{
                f"held_over_{ms}_ms": sum(one > ms / 1000 for one in held)
                for ms in (5, 10, 20, 50)
            },
            "max_ms": round(1000 * max(held, default=0.0), 1),
            "garbage_ms": {
                generation: [
                    len(some),
                    round(1000 * max(some), 1),
                    round(1000 * sum(some), 1),
                ]
                for generation, some in self.collected.items()
            },
        }


def _line(frame: FrameType | None) -> str:
    """The innermost line of the package, with what it was called by."""
    names: list[str] = []
    while frame is not None and len(names) < 3:
        ours = OURS.search(frame.f_code.co_filename)
        if ours:
            names.append(f"{ours[1]}:{frame.f_lineno} {frame.f_code.co_name}")
        elif not names:
            names.append(
                f"({Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name})"
            )
        frame = frame.f_back
    return " < ".join(names) or "?"


def _agent(out: str, least: str, warm: str) -> None:
    """`penstock` with the watch in it. SIGUSR1 writes what was found since `warm` seconds after the start."""
    watch = Watch(float(least))
    threading.Thread(target=watch.run, daemon=True).start()
    clear = threading.Timer(float(warm), watch.clear)
    clear.daemon = True
    clear.start()
    signal.signal(
        signal.SIGUSR1,
        lambda *_: Path(out).write_text(json.dumps(watch.told())) and None,
    )
    penstock.cli.main()


if __name__ == "__main__":
    if sys.argv[1:2] == ["agent"]:
        told = sys.argv[2:5]
        sys.argv[1:] = sys.argv[5:]
        _agent(*told)
    else:
        main()
