"""The pointers of the days: a small file for each day, `days/DAY.json`, names the files that the day consists of.

The tables of a day are written into directories of their own (`gen=…`), named after the files they are made of. The
pointer is written last, and readers take the files that it lists: they see the whole of an old day or the whole of a
new one, whenever the job is killed. A run that begins again makes the same files.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from penstock.history.compact import DAY, start_of
from penstock.history.publish import ALL_DAY
from penstock.history.store import Store, StoreError
from penstock_trends.kernel import VERSION

DAYS: Final = "days"
LOOK_BACK: Final = 14
"""Days in which the row before a day's first row is looked for; after a longer gap a counter begins again."""
OLD_MANIFEST: Final = "manifest.json"

Inputs = Mapping[str, Sequence[int]]
"""Path of a raw file → size and mtime."""


@dataclass(slots=True)
class Pointer:
    """The content of a day.

    generation: names the hours and days; increases: names i1, which also rests on the days before.
    files: paths by table, such as h1/kind=queue; buckets: the number of files by table (a series is in file number
    `sid % buckets`). polls: their number by kind. damaged: raw files that could not be read, and why. left_out: raw
    files of which some numbers were left out, and which. refused: raw files that came after others of the day were
    removed.
    """

    day: str
    generation: str = ""
    increases: str = ""
    kernel: int = 0
    inputs: dict[str, list[int]] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)
    buckets: dict[str, int] = field(default_factory=dict)
    polls: dict[str, int] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    """Files of generations before, which may still be read until a day after `replaced_at` (seconds since 1970)."""
    replaced_at: float = 0.0

    @property
    def start(self) -> int:
        """Seconds since 1970."""
        return int(start_of(self.day, ALL_DAY))

    @property
    def end(self) -> int:
        """Up to when the day is complete, in seconds since 1970: its end; its start while its last hour is missing."""
        return self.start + DAY if self.is_complete else self.start

    @property
    def is_complete(self) -> bool:
        """Whether the last hour of the day is there, or a file of the whole day."""
        return any(
            f"/hour={ALL_DAY}/" in path or "/hour=23/" in path or "/hour=" not in path
            for path in self.inputs
        )

    def add(self, table: str, parts: Iterable[str], buckets: int = 1) -> None:
        """Make these the files of a table."""
        self.files[table] = sorted(parts)
        self.buckets[table] = buckets

    def part(self, table: str, bucket: int) -> list[str]:
        """Returns the files of a table that hold a bucket. bucket: of at least as many buckets as this day has."""
        name = f"/part-{bucket % self.buckets.get(table, 1):05d}.parquet"
        return [path for path in self.files.get(table, ()) if path.endswith(name)]

    def is_dirty(self, now: Inputs) -> bool:
        """Whether the day is to be made again: a file is new or has changed.

        A day that an older kernel made is made again, too, while all of its files exist. A file that was removed (by
        retention) does not make a day dirty: its polls are counted already.

        now: the raw files that exist.
        """
        if self.kernel < VERSION and self.inputs.keys() <= now.keys():
            return True
        return any(
            list(self.inputs.get(path, [])) != list(size_and_time)
            for path, size_and_time in now.items()
        )


Pointers = dict[str, Pointer]
"""By day, ascending."""


def day_names(out: Store) -> list[str]:
    """Returns the days that have a pointer, ascending."""
    return [
        entry.path.removeprefix(f"{DAYS}/").removesuffix(".json")
        for entry in out.files(DAYS)
    ]


def load(out: Store, days: Iterable[str]) -> Pointers:
    """Returns the pointers of those days that have one. Raises StoreError."""
    known_fields = {field.name for field in fields(Pointer)}
    pointers: Pointers = {}
    for day in sorted(set(days)):
        content = read_json(out, f"{DAYS}/{day}.json")
        if not content:
            continue
        # A newer version may have written further fields.
        values = {name: content[name] for name in content.keys() & known_fields}
        pointers[day] = Pointer(**values)
    return pointers


def plausible(days: Iterable[str], now: float) -> list[str]:
    """Returns the days, ascending, up to the first that is implausible: a clock was set ahead when it was recorded.

    A day is implausible if it is in the future and does not follow right on the one
    before it. now: seconds since 1970.
    """
    kept: list[str] = []
    for day in sorted(days):
        start = start_of(day, ALL_DAY)
        if kept and start > max(now, start_of(kept[-1], ALL_DAY) + DAY):
            break
        kept.append(day)
    return kept


def read_json(out: Store, path: str) -> dict[str, Any]:
    """Returns the content of a file; empty where there is none. Raises StoreError."""
    try:
        content: dict[str, Any] = json.loads(out.read_bytes(path) or b"{}")
    except ValueError as error:
        raise StoreError(
            f"{out.path(path)}: damaged ({error}); remove it and run again, it is made again"
        ) from None
    return content


def publish(out: Store, pointer: Pointer) -> None:
    """Write the pointer of a day: from now on, readers see the files that it names."""
    text = json.dumps(asdict(pointer), sort_keys=True, indent=1)
    out.write_bytes(f"{DAYS}/{pointer.day}.json", text.encode())


def generation(*parts: object) -> str:
    """Returns a name that follows from the parts that something is made of: equal parts give the same name."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def replaced(out: Store, pointer: Pointer) -> list[str]:
    """Returns the files of a day that its pointer does not name.

    They are of earlier generations, and of runs that were killed.
    """
    named = {path for paths in pointer.files.values() for path in paths}
    stored = {
        entry.path
        for table in pointer.files
        for entry in out.files(f"{table}/dt={pointer.day}")
    }
    return sorted(stored - named)


def clean(out: Store, pointers: Pointers, now: float) -> None:
    """Remove files that were replaced more than a day ago: until then a reader of the old pointer may read them."""
    for pointer in pointers.values():
        if pointer.replaced and pointer.replaced_at < now - DAY:
            for path in pointer.replaced:
                out.delete(path)
            pointer.replaced = []
            publish(out, pointer)


def files_of(
    pointers: Pointers, table: str, days: Iterable[str] | None = None
) -> list[str]:
    """Returns the files of a table, such as `i1/kind=queue`, of all days or of some."""
    chosen = pointers if days is None else days
    return [path for day in chosen for path in pointers[day].files.get(table, [])]


def within(days: Sequence[str], before: str, span: int) -> list[str]:
    """Returns those of the days that are in the `span` calendar days before a day."""
    end = start_of(before, ALL_DAY)
    begin = end - span * DAY
    return [day for day in days if begin <= start_of(day, ALL_DAY) < end]


def by_day(paths: Iterable[str]) -> dict[str, list[str]]:
    """Returns the paths by the day in their names (`…/dt=DAY/…`)."""
    paths_by_day: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        day = path.partition("dt=")[2].partition("/")[0]
        paths_by_day[day].append(path)
    return paths_by_day
