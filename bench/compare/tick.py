"""
`make compare-tick [AGAINST=283a76f]`: CPU and memory of a whole tick of this tree beside another commit's.

Each pair runs `bench.tick` of both trees, one after the other, in changing order; the ratio is the median of all pairs.
Last line: JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
from bench.compare.__main__ import FIRST, ROOT, unpack
from bench.harness import facts


@click.command()
@click.option(
    "--against", default=FIRST, show_default=True, help="The commit to compare with."
)
@click.option("--rounds", default=9, show_default=True, help="Pairs of runs for CPU.")
@click.option(
    "--memory-rounds",
    default=2,
    show_default=True,
    help="Pairs of runs for memory, each 3 min.",
)
@click.option("--runs", default=9, show_default=True, help="Ticks of each run.")
def main(against: str, rounds: int, memory_rounds: int, runs: int) -> None:
    result: dict[str, Any] = {
        "bench": "compare-tick",
        "against": against,
        "rounds": rounds,
        "runs": runs,
    }
    with tempfile.TemporaryDirectory(prefix="penstock-compare-") as folder:
        before = Path(folder)
        unpack(against, before)
        for figure, pairs, memory in (
            ("cpu_s", rounds, "--no-memory"),
            ("rss_mb", memory_rounds, "--memory"),
        ):
            found = []
            for pair in range(pairs):
                trees = [("before", before), ("now", ROOT)][:: 1 if pair % 2 else -1]
                one = {name: tick(tree, runs, memory)[figure] for name, tree in trees}
                found.append((one["before"], one["now"]))
                print(figure, one, flush=True)
            if found:
                result |= compared(figure, found)
    print(json.dumps({**result, **facts()}))


def compared(figure: str, pairs: Sequence[Sequence[float]]) -> dict[str, Any]:
    """
    Medians of before and now, and of the ratios of the pairs.

    Two runs of a pair stand close together: what else the machine does changes both.
    """
    ratios = sorted(now / before for before, now in pairs)
    print(figure, "now / before:", *(f"{ratio:.3f}" for ratio in ratios))
    before, now = (median(values) for values in zip(*pairs, strict=True))
    return {
        f"{figure}_before": round(before, 4),
        f"{figure}_now": round(now, 4),
        f"{figure}_ratio": round(median(ratios), 3),
    }


def tick(tree: Path, runs: int, memory: str) -> dict[str, Any]:
    """What `bench.tick` of that tree prints, without its baseline."""
    path = os.pathsep.join(str(tree / part) for part in ("exporter", "tests", "."))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.tick",
            "--runs",
            str(runs),
            "--baseline-runs",
            "0",
            memory,
        ],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
