"""Tidies a history twice and kills itself at a given step on the way. Arguments: directory, now, step."""

import os
import sys
from itertools import count
from pathlib import Path

from history.kills import killed_before
from penstock.history.compact import Keep, tidy
from penstock.history.store import Store

steps = count()
last = int(sys.argv[3])


# all by which a file comes, gets its name, or goes
os.fsync = killed_before(os.fsync, steps, last)
Path.replace = killed_before(Path.replace, steps, last)  # type: ignore[method-assign]
Path.rename = killed_before(Path.rename, steps, last)  # type: ignore[method-assign]
Store.delete = killed_before(Store.delete, steps, last)  # type: ignore[method-assign]

for _ in range(2):  # joined, and an hour later what was joined goes
    tidy(Store(sys.argv[1]), Keep(days=30.0), float(sys.argv[2]))
sys.stdout.write(f"{next(steps)}\n")
