"""
Writes some polls to a history, publishes and joins them, and kills itself at a given step on the way.

Arguments: directory, step (-1: none), number of the run. Tells the stamp of each poll that is safe, at the end how many
steps there are.
"""

import os
import shutil
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

from history.kills import killed_before
from history.polls import Clock, recorded, writer
from history.steps import POLLS, RUN, condition
from penstock.history.compact import Keep, tidy
from penstock.history.store import Store
from penstock.history.writer import PollRecord

directory = Path(sys.argv[1])
last = int(sys.argv[2])
run = int(sys.argv[3])
steps = count()
polls = recorded("healthy")


# All by which a file comes, grows for good, gets its name, or goes.
for owner, names in (
    (os, ("fsync", "fdatasync")),
    (Path, ("replace", "rename", "unlink", "mkdir", "write_bytes")),
    (shutil, ("rmtree",)),
    (Store, ("delete",)),
):
    for name in names:
        setattr(owner, name, killed_before(getattr(owner, name), steps, last))

clock = Clock()
clock.now = RUN * run
history = writer(directory, clock, publish=400.0)
history.recall()
history._tidied = float("inf")
for number in range(POLLS):
    clock.now = RUN * run + 150.0 * number
    snapshot = replace(polls[number % 3], stamp=clock.now)
    history.step(PollRecord("b", snapshot, condition(number), interval=150.0))
    sys.stdout.write(f"{clock.now}\n")
    sys.stdout.flush()
history.finish()
for _ in range(2):
    tidy(Store(str(directory / "history")), Keep(days=400.0), RUN * (run + 1) - 1)
sys.stdout.write(f"steps {next(steps)}\n")
