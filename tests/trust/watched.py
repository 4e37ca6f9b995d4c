"""
`penstock` with a look inside: at SIGUSR1 it writes what it holds, as JSON, to the file of its first argument.

The product has no such endpoint, and needs none: this runs its command as it is.
"""

import asyncio
import gc
import json
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

from penstock.cli import main


def look(file: Path) -> None:
    """Written beside and renamed, so that a reader never sees half of it."""
    gc.collect()
    objects = gc.get_objects()
    kinds = Counter(type(one).__name__ for one in objects)
    held = {
        "objects": len(objects),
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "blocks": sys.getallocatedblocks(),
        "kinds": dict(kinds.most_common(25)),
    }
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps(held))
    beside.replace(file)


if __name__ == "__main__":
    target = Path(sys.argv.pop(1))
    signal.signal(signal.SIGUSR1, lambda *_: look(target))
    main()
