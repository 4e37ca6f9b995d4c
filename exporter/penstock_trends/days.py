"""Which days there are and which files they consist of: one small file a day, `days/DAY.json`, which is written last.

A day's tables are written into directories of their own (`gen=…`), named after what they are made of. Readers take
the files that the day's pointer lists: they see the whole of an old day or the whole of a new one, whenever the job is
killed, and a run that begins again makes the same files.
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
    """What a day consists of. generation: of the hours and days; increases: of i1, which also rests on days before.

    files: paths by table, such as h1/kind=queue; buckets: of how many a file is one (`sid % buckets`), by table.
    polls: counted, by kind. damaged: raw files that could not be read, and why. left_out: raw files of which some
    numbers were left out, and which. refused: raw files that came when others of the day were gone already.
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
        return int(start_of(self.day, ALL_DAY))

    @property
    def end(self) -> int:
        """Up to when the day is whole, seconds since 1970: its begin as long as nothing of its last hour is there."""
        unfinished = all(
            "/hour=" in path and f"/hour={ALL_DAY}/" not in path for path in self.inputs
        )
        return self.start + DAY * (
            not unfinished or any("/hour=23/" in path for path in self.inputs)
        )

    def add(self, table: str, parts: Iterable[str], buckets: int = 1) -> None:
        """These are now the files of a table."""
        self.files[table], self.buckets[table] = sorted(parts), buckets

    def part(self, table: str, bucket: int) -> list[str]:
        """The files of a table that hold a bucket, of a number of them that is no less than this day's."""
        name = f"/part-{bucket % self.buckets.get(table, 1):05d}.parquet"
        return [path for path in self.files.get(table, ()) if path.endswith(name)]

    def is_dirty(self, now: Inputs) -> bool:
        """Whether a file is new or another one. Days of an older kernel are, too, while all of their files are there;
        one that is gone (retention) makes no day dirty.
        """
        older = self.kernel < VERSION and self.inputs.keys() <= now.keys()
        return older or any(
            list(self.inputs.get(path, ())) != list(of) for path, of in now.items()
        )


Pointers = dict[str, Pointer]
"""By day, ascending."""


def day_names(out: Store) -> list[str]:
    """The days that there are, ascending."""
    return [
        entry.path.removeprefix(f"{DAYS}/").removesuffix(".json")
        for entry in out.files(DAYS)
    ]


def load(out: Store, days: Iterable[str]) -> Pointers:
    """The pointers of those days that have one. Raises StoreError."""
    names = {name.name for name in fields(Pointer)}
    found: Pointers = {}
    for day in sorted(set(days)):
        content = read_json(out, f"{DAYS}/{day}.json")
        if content:
            found[day] = Pointer(
                **{name: value for name, value in content.items() if name in names}
            )
    return found


def plausible(days: Iterable[str], now: float) -> list[str]:
    """Without the days of a clock that was set ahead: in the future, and not right after a day before them."""
    found: list[str] = []
    for day in sorted(days):
        start = start_of(day, ALL_DAY)
        if found and start > max(now, start_of(found[-1], ALL_DAY) + DAY):
            break
        found.append(day)
    return found


def read_json(out: Store, path: str) -> dict[str, Any]:
    """Empty where it is not there. Raises StoreError."""
    try:
        found: dict[str, Any] = json.loads(out.read_bytes(path) or b"{}")
    except ValueError as error:
        raise StoreError(
            f"{out.path(path)}: damaged ({error}); remove it and run again, it is made again"
        ) from None
    return found


def publish(out: Store, pointer: Pointer) -> None:
    out.write_bytes(
        f"{DAYS}/{pointer.day}.json",
        json.dumps(asdict(pointer), sort_keys=True, indent=1).encode(),
    )


def generation(*parts: object) -> str:
    """A name that follows from what something is made of."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def replaced(out: Store, pointer: Pointer) -> list[str]:
    """Files of a day that its pointer does not name: of generations before, and of runs that were killed."""
    named = {path for paths in pointer.files.values() for path in paths}
    folders = [f"{table}/dt={pointer.day}" for table in pointer.files]
    return sorted(
        {entry.path for folder in folders for entry in out.files(folder)} - named
    )


def clean(out: Store, pointers: Pointers, now: float) -> None:
    """Remove files that were replaced a day ago; until then they can be read by those who read them when it was."""
    for pointer in pointers.values():
        if pointer.replaced and pointer.replaced_at < now - DAY:
            for path in pointer.replaced:
                out.delete(path)
            pointer.replaced = []
            publish(out, pointer)


def files_of(
    pointers: Pointers, table: str, days: Iterable[str] | None = None
) -> list[str]:
    """The files of a table, such as `i1/kind=queue`."""
    return [
        name
        for day in (pointers if days is None else days)
        for name in pointers[day].files.get(table, [])
    ]


def within(days: Sequence[str], before: str, span: int) -> list[str]:
    """Of the days, those in the `span` calendar days before a day."""
    end = start_of(before, ALL_DAY)
    return [day for day in days if end - span * DAY <= start_of(day, ALL_DAY) < end]


def by_day(paths: Iterable[str]) -> dict[str, list[str]]:
    """Paths by the day in their names."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        found[path.partition("dt=")[2].partition("/")[0]].append(path)
    return found
