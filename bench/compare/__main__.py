"""
`make compare [AGAINST=283a76f]`: conditions, causes, explain and /metrics samples beside those of another commit.

Both run over the labelled recordings (with a restart of the agent in the middle, too), the raw recordings, the first
minutes of both demos, and a made-up broker with churn. Every sample, every condition with its times and causes and
every answer of `explain` must be the same, but for samples of families that the other commit does not have or that mean
more now. What the other commit does not print at all is not compared; the last line, JSON, names it.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

from penstock.exposition.catalogue import CATALOGUE

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FIRST = "283a76f"
CHANGED = ("mq_queue_drain_seconds", "mq_queue_oldest_message_timestamp_seconds")
"""Families that say something else than at FIRST: absent where nothing drains; two bounds in place of an estimate."""
SHOWN = 20
ROWS = ("conditions", "causes", "explained")
"""What is printed of a poll as rows that begin with a name; samples are texts."""


@click.command()
@click.option(
    "--against", default=FIRST, show_default=True, help="The commit to compare with."
)
def main(against: str) -> None:
    recordings = ROOT / "tests" / "recordings"
    arguments = [
        str(recordings / "judged"),
        *map(str, sorted(recordings.glob("*.jsonl.gz"))),
    ]
    with tempfile.TemporaryDirectory(prefix="penstock-compare-") as folder:
        before = Path(folder)
        unpack(against, before)
        own = before / "bench" / "compare" / "replayed.py"
        old = started(before, own if own.exists() else HERE / "legacy.py", arguments)
        new = started(ROOT, HERE / "replayed.py", arguments)
        added = families_beyond(before)
        counts = compared(
            without(CHANGED, lines(old)), without([*added, *CHANGED], lines(new))
        )
        failed = old.wait() or new.wait()
    print(
        json.dumps(
            {
                "bench": "compare",
                "against": against,
                **counts,
                "new_families": added,
                "changed_families": CHANGED,
            }
        )
    )
    sys.exit(int(bool(failed or counts["different"])))


def unpack(commit: str, folder: Path) -> None:
    done = subprocess.run(
        ["git", "archive", commit, "exporter", "tests", "bench"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        sys.exit(
            f"commit {commit} cannot be read: {done.stderr.decode().strip()}; fetch the whole history first"
        )
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


def families_beyond(tree: Path) -> list[str]:
    """The families of this tree of which the other does not know the name."""
    files = (
        file
        for file in (tree / "exporter").rglob("*")
        if file.suffix in {".py", ".toml"}
    )
    known = "".join(file.read_text(encoding="utf-8") for file in files)
    return sorted(
        family.name for family in CATALOGUE if f'"{family.name}"' not in known
    )


def without(
    families: Sequence[str], found: Iterator[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    beginnings = tuple(f"{name}{{" for name in families)
    for line in found:
        if "samples" in line:
            # An empty label is none.
            samples = (sample.replace(',client=""', "") for sample in line["samples"])
            line["samples"] = sorted(
                sample for sample in samples if not sample.startswith(beginnings)
            )
        yield line


def started(tree: Path, script: Path, arguments: list[str]) -> subprocess.Popen[str]:
    # Of texts the hash is taken in places; it must be the same in both.
    path = os.pathsep.join(str(tree / part) for part in ("exporter", "tests", "."))
    env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
    )


def lines(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    yield from map(json.loads, process.stdout)


def compared(
    old: Iterator[dict[str, Any]], new: Iterator[dict[str, Any]]
) -> dict[str, Any]:
    differing: set[str] = set()
    counts = {"polls": 0, **dict.fromkeys((*ROWS, "samples"), 0), "different": 0}
    missing: set[str] = set()
    nothing: dict[str, Any] = {"source": "nothing", "poll": 0}
    for before, printed in zip_longest(old, new, fillvalue=nothing):
        counts["polls"] += 1
        if before is not nothing and printed is not nothing:
            missing |= printed.keys() - before.keys()
        now = {part: rows for part, rows in printed.items() if part not in missing}
        for part in (*ROWS, "samples"):
            counts[part] += len(now.get(part, ()))
        if before != now:
            counts["different"] += 1
            differing |= families_of(before, now)
            if counts["different"] == 1:
                show(before, now)
    return {**counts, "differing": sorted(differing), "not_compared": sorted(missing)}


def families_of(before: dict[str, Any], now: dict[str, Any]) -> set[str]:
    """The families, the conditions and the other parts in which two polls differ."""
    samples = set(before.get("samples", ())) ^ set(now.get("samples", ()))
    families = {sample.partition("{")[0] for sample in samples}
    for part in ROWS:
        one = rows_of(before, part)
        other = rows_of(now, part)
        families |= {str(json.loads(row)[0]) for row in one ^ other}
    return families


def rows_of(poll: dict[str, Any], part: str) -> set[str]:
    """Each as JSON, so that they can be in a set."""
    return {json.dumps(row) for row in poll.get(part, ())}


def show(before: dict[str, Any], now: dict[str, Any]) -> None:
    """The first poll at which they differ."""
    print(
        f"{before['source']}, poll {before['poll']} / {now['source']}, poll {now['poll']}"
    )
    for part in (*ROWS, "samples"):
        one = rows_of(before, part)
        other = rows_of(now, part)
        for sign, rows in (("-", sorted(one - other)), ("+", sorted(other - one))):
            for row in rows[:SHOWN]:
                print(sign, row)


if __name__ == "__main__":
    main()
