"""Writes polls until it is killed; tells the stamp of each that is safe. Arguments: directory, first stamp."""

import sys
from dataclasses import replace
from pathlib import Path

from history.polls import POLICY, Clock, judged, recorded, writer
from penstock.history.writer import PollRecord

polls = list(judged(recorded("ring-overflow")))
clock = Clock()
clock.now = float(sys.argv[2])
history = writer(Path(sys.argv[1]), clock, publish=20.0)
while True:
    for poll in polls:
        clock.now += 3.0
        snapshot = replace(poll.snapshot, stamp=clock.now)
        history.step(
            PollRecord(POLICY.broker, snapshot, poll.conditions, poll.evicted, 3.0)
        )
        sys.stdout.write(f"{clock.now}\n")
        sys.stdout.flush()
