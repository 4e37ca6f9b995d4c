"""The tiers when a run is stopped: what readers see then, and what the next run makes of it."""

import hashlib
import re
from typing import Any

import pytest

from penstock.history.store import Store
from penstock_trends import days as pointers
from penstock_trends import tables
from penstock_trends.tiers import roll_up


def published(out: Store) -> dict[str, str]:
    """What readers see: each file that a pointer lists, by its name without the generation."""
    found = {}
    for pointer in pointers.load(out, pointers.day_names(out)).values():
        for path in (path for paths in pointer.files.values() for path in paths):
            content = out.read_bytes(path)
            assert content is not None, "a reader would miss it"
            found[re.sub("gen=[^/]*/", "", path)] = hashlib.sha256(content).hexdigest()
    return found


def of_day(found: dict[str, str], day: str) -> dict[str, str]:
    return {path: content for path, content in found.items() if day in path}


def stopped_at_each_step(
    spark: Any,
    history: Store,
    out: Store,
    whole: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> int:
    """Roll up what comes late, stopped before each step in turn (a table, or a pointer). How many steps there were.

    out, whole: empty. Readers see each day as it was, or as the whole new day; in the end all is as in a run alone.
    """
    late = [
        entry.path
        for entry in history.files("raw")
        if re.search("dt=2026-09-0[34]/hour=2", entry.path)
    ]
    kept = {path: history.read_bytes(path) or b"" for path in late}
    for path in late:
        history.delete(path)
    roll_up(spark, history, out)
    old = published(out)
    for path, content in kept.items():
        history.write_bytes(path, content)
    roll_up(spark, history, whole)
    new = published(whole)
    steps = [0]

    def counted(work: Any) -> Any:
        def step(*arguments: Any) -> Any:
            if steps[0] == 0:
                raise KeyboardInterrupt
            steps[0] -= 1
            return work(*arguments)

        return step

    monkeypatch.setattr(tables, "write", counted(tables.write))
    monkeypatch.setattr(pointers, "publish", counted(pointers.publish))
    stops = 0
    while True:
        steps[0] = stops
        try:
            roll_up(spark, history, out)
        except KeyboardInterrupt:
            stops += 1
            seen = published(out)
            for day in pointers.day_names(out):
                assert of_day(seen, day) in (of_day(old, day), of_day(new, day)), (
                    f"{day}, stopped at step {stops}"
                )
            continue
        break
    assert published(out) == new
    steps[0] = 0  # whatever would be written now stops it
    assert roll_up(spark, history, out).days == []
    return stops
