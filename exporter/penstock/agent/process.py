"""
How Python is set for a process that works on large columns in one thread and answers requests in another.

Only a program that is nothing but an agent sets this: `penstock run`, and the benches that measure it.
"""

import gc
import os
import sys
import threading

from penstock.core import allocator

YOUNG, OLDER, ALL = 2_000, 5, 5_000
"""
New containers after which Python looks for cycles among them; times that it does so before it looks once more at those
that stayed, and times that it does that before it looks at everything. To look at 10,000 takes 2 ms.
"""
SWITCH_SECONDS = 0.00005
"""For how long a thread that works may keep one waiting that has something to send."""
EXIT_SECONDS = 3.5
"""After a signal to stop the process ends within this time."""


def tune() -> None:
    """
    One heap for all threads, cyclic garbage looked for less often, and the thread that answers let in sooner; to be
    called before there is another thread.

    What is known of a large broker is hundreds of thousands of objects in no cycle: to walk them takes 0.1 s, in which
    no request is answered. What requests leave behind in cycles is little.
    """
    allocator.one_arena()
    gc.set_threshold(YOUNG, OLDER, ALL)
    # A scrape of ten megabytes waits for its turn at every piece: with Python's usual 5 ms for half a second.
    sys.setswitchinterval(SWITCH_SECONDS)


def last_resort() -> threading.Timer:
    """
    Started, it ends the process within EXIT_SECONDS, whatever still works or hangs by then; never to be cancelled.

    What no kill may take back is in the files at any time.
    """
    timer = threading.Timer(EXIT_SECONDS, os._exit, [0])
    timer.daemon = True
    return timer
