"""
57 situations side by side on one Artemis, 32 of them faults: every message in the account, by its true reason.

`make test-account` prints a table of truth against told, by two agents that poll at 2 s and at 10 s and are killed
once each, and the same with the broker killed once. The last line is JSON; exit code 1: something is wrong.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from account.live.compare import (
    Lawful,
    Result,
    as_metrics,
    compared,
    conditions,
    of_broker,
)
from account.live.situations import SITUATIONS, Situation
from account.live.stage import Counts, Stage, Watch
from penstock_demo.artemis import VERSION
from rig.embedded import VERSION as NEWEST

INTERVALS = (2.0, 10.0)
RESTARTED = 150.0
"""Seconds at most where the broker is killed."""
LAZY = "h.dups"
"""Its client does not know which of its acknowledgements were on their way as the broker was killed."""
SAFE = "no message was lost"
"""What `penstock account BROKER` must not say beside any fault."""
UNDER_WAY = 6.0
"""Seconds that a poll may be late, or take, on a busy machine."""


def play(
    folder: Path,
    situations: Sequence[Situation],
    seconds: float,
    watches: Sequence[Watch],
    *,
    restart: bool = False,
    version: str = VERSION,
) -> tuple[dict[str, list[Result]], dict[str, Any]]:
    """The results by agent, and figures of the run. restart: the broker is killed midway."""
    with Stage(folder, situations, watches, version) as stage:
        began = time.monotonic()
        stage.begin()
        until(began + seconds / 3)
        operated = stage.operate()
        until(began + seconds / 2)
        stage.kill_agents()
        lost: dict[tuple[str, str], int] = {}
        if restart:
            lost = lost_by_the_kill(stage)
            stage.broker.kill()
            stage.broker.start()
        until(began + seconds)
        sending = time.monotonic() - began
        load = os.getloadavg()[0]
        stage.end()
        counts: Counts = {**stage.truth(), **operated, **lost}
        if restart:  # no transaction that was open outlives the broker
            counts = {key: n for key, n in counts.items() if key[1] != "open"}
        stage.settle()
        results = {
            watch.name: judged(stage, number, counts, sending, restart=restart)
            for number, watch in enumerate(watches)
        }
        sent = sum(n for (_, what), n in counts.items() if what == "sent")
        return results, {
            "sent": sent,
            "per_second": round(sent / sending),
            "load": load,
            "trouble": stage.trouble,
        }


def lost_by_the_kill(stage: Stage) -> dict[tuple[str, str], int]:
    """By place, what a situation has sent and the broker does not keep over its end."""
    sent = stage.truth()
    names = [one.name for one in stage.situations if one.loses_at_restart]
    return {(name, "lost_at_restart"): sent.get((name, "sent"), 0) for name in names}


def until(moment: float) -> None:
    time.sleep(max(moment - time.monotonic(), 0))


def judged(
    stage: Stage, number: int, counts: Counts, seconds: float, *, restart: bool
) -> list[Result]:
    """By the command for the first agent, by the API for the others. seconds: of sending."""
    agent = stage.agents[number]
    watch = stage.watches[number]
    found = []
    missed = 0.0 if number or restart else seconds
    lawful = Lawful(watch.killed)
    if restart:
        lawful = Lawful(
            cut=True,
            unsure=unsure(counts),
            unseen=(watch.interval + UNDER_WAY) / seconds,
        )
    shown = {
        (labels["address"], labels["queue"], labels["fate"]): value
        for labels, value in stage.scrape(agent).find("mq_account_messages_total")
    }
    raised = stage.raised(agent)
    for situation in stage.situations:
        addresses = {
            situation.name,
            *(
                options.get("address", queue)
                for queue, options in situation.of_queues.items()
            ),
        }
        sheets = {
            sheet["queue"]: sheet
            for address in [*sorted(addresses - {situation.name}), situation.name]
            for sheet in stage.sheets(agent, address, by_command=number == 0)
        }
        result = compared(situation, counts, list(sheets.values()), lawful)
        conditions(result, raised, missed)
        result.wrong += as_metrics(iter(sheets.values()), shown)
        found.append(result)
    if SAFE in stage.sentence(agent):
        found[0].wrong.append(f"the broker: {SAFE}")
    due = {
        name
        for situation in stage.situations
        for name in (*situation.raises, *situation.also)
    }
    found[0].wrong += [
        f"{name} on the broker" for name in sorted(of_broker(raised).keys() - due)
    ]
    return found


def unsure(counts: Counts) -> dict[str, float]:
    """By place, what was under way as the broker was killed: sent or acknowledged without an answer."""
    found: dict[str, float] = {}
    for (place, what), n in counts.items():
        if what in {"tried", "unsure", "cut"}:
            found[place] = found.get(place, 0) + n
        elif what == "sent" and (place, "tried") in counts:
            found[place] = found.get(place, 0) - n
    return found


def report(results: dict[str, list[Result]]) -> None:
    for name, of in results.items():
        print(  # noqa: T201
            f"\nPolled {name}\n\n| situation | truth/told | unexplained | | |\n|---|---|---|---|---|"
        )
        for result in of:
            print(result.line())  # noqa: T201


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=360)
    parser.add_argument("--only", default="", help="parts of names, by commas")
    parser.add_argument(
        "--intervals", default=",".join(f"{one:g}" for one in INTERVALS)
    )
    parser.add_argument(
        "--variant",
        choices=["agent", "broker", "both"],
        default="both",
        help="what is killed midway",
    )
    parser.add_argument(
        "--version",
        default=VERSION,
        help=f"of the broker; {NEWEST} is embedded, and has fewer protocols",
    )
    said = parser.parse_args()
    wanted = [one for one in said.only.split(",") if one]
    chosen = [
        one
        for one in SITUATIONS
        if not wanted or any(part in one.name for part in wanted)
    ]
    missing = {NEWEST: {"mqtt", "openwire"}, VERSION: set[str]()}.get(
        said.version, {"mqtt"}
    )  # 2.28 names queues otherwise
    chosen = [one for one in chosen if not one.protocols & missing]
    watches = [Watch(float(one)) for one in said.intervals.split(",")]
    figures: dict[str, Any] = {}
    for variant in ("agent", "broker") if said.variant == "both" else (said.variant,):
        restart = variant == "broker"
        played = [one for one in chosen if not (restart and one.name == LAZY)]
        with tempfile.TemporaryDirectory(prefix="penstock-account-") as folder:
            results, run = play(
                Path(folder), played, min(said.seconds, RESTARTED) if restart else said.seconds,
                watches if restart else [*watches, Watch(watches[0].interval, killed=True)], restart=restart,
                version=said.version,
            )  # fmt: skip
        print(f"\nKilled: {variant}")  # noqa: T201
        report(results)
        figures[variant] = run | {
            "situations": len(played),
            "faults": sum(not one.healthy for one in played),
            "wrong": {
                name: [one.situation.name for one in of if not one.right]
                for name, of in results.items()
            },
            "not_told": sorted(
                {name for of in results.values() for one in of for name in one.untold}
            ),
        }
    figures["ok"] = not any(
        wrong for run in figures.values() for wrong in run["wrong"].values()
    )
    print(json.dumps(figures))  # noqa: T201
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
