"""`make coverage`: which part of each room of the package the tests ran, from coverage's data in `build/coverage`."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path, PurePath

DATA = Path("build") / "coverage"
WATCHED = (
    "agent/journal.py",
    "agent/state_database.py",
    "agent/state_store.py",
    "agent/discovery.py",
    "agent/checkpoint.py",
)
"""Modules shown by themselves: what keeps state, and what finds brokers."""


def line(name: str, lines: int, ran: int) -> str:
    return f"{name:<24}{lines:>8}{ran:>8}{100 * ran / max(lines, 1):>7.1f} %"


def main() -> None:
    command = [
        sys.executable,
        "-m",
        "coverage",
        "json",
        f"--data-file={DATA}",
        "--quiet",
        "-o",
        "-",
    ]
    measured = json.loads(
        subprocess.run(command, check=True, capture_output=True).stdout
    )["files"]
    lines = Counter[str]()
    ran = Counter[str]()
    for file, about in measured.items():
        module = "/".join(PurePath(file).parts[1:]).removeprefix(
            "penstock/"
        )  # after exporter
        room = module.partition("/")[0]
        for name in ("total", room, *(one for one in WATCHED if one == module)):
            lines[name] += about["summary"]["num_statements"]
            ran[name] += about["summary"]["covered_lines"]
    rooms = sorted(
        lines.keys() - {"total", *WATCHED},
        key=lambda name: ran[name] / max(lines[name], 1),
    )
    print(f"{'room':<24}{'lines':>8}{'ran':>8}")
    for name in (*rooms, *WATCHED, "total"):
        print(line(name, lines[name], ran[name]))


if __name__ == "__main__":
    main()
