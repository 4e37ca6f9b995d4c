"""
Scores what the trends conclude against known truths; the last line is one JSON object.

Rows: one kind each, those marked * beyond the shapes on which the methods were made.
"""

import json
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from bench.harness import print_table
from bench.truths import (
    LIMIT,
    SEED,
    Fill,
    Traffic,
    fills,
    growing,
    jumping,
    paces,
    second_worlds,
    steady,
    wave,
)

from penstock.history.schema import UNSEEN
from penstock_trends import tables
from penstock_trends.analysis import idle_hours, profile, whole_days
from penstock_trends.changes import change_points, pace, week_over_week
from penstock_trends.growth import growth
from penstock_trends.limits import outlook
from penstock_trends.session import spark_session
from penstock_trends.what_if import Setting, better_ring, replay, steps

DRAWS = 8
Figures = dict[str, float]


def by_kind(cases: Sequence[Any]) -> dict[str, list[Any]]:
    found = defaultdict(list)
    for case in cases:
        found[case.kind + (" *" if getattr(case, "own", False) else "")].append(case)
    return found


def share(flags: Sequence[bool]) -> float:
    return round(float(np.mean(flags)), 4) if len(flags) else float("nan")


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def limits() -> Figures:
    """Truth in the range, error of the day, what is not reported; and of what never fills, what is."""
    everything: dict[str, list[Any]] = defaultdict(list)
    rows = {}
    for kind, cases in by_kind(list(fills())).items():
        found = [
            drawn(case, number, draw)
            for number, case in enumerate(cases)
            for draw in range(DRAWS)
        ]
        given = [
            one for one in found if one[0].state == "rising"
        ]  # "met" is what was seen, no forecast
        if cases[0].meets:
            inside = [one.low <= truth <= one.high for one, truth in given]
            errors = [abs(one.days - truth) / truth for one, truth in given]
            everything["inside"] += inside
            everything["errors"] += errors
            missed = [one.state not in ("rising", "met") for one, _ in found]
            everything["missed"] += missed
            rows[kind] = [str(len(found)), percent(share(inside)), percent(float(np.median(errors or [np.nan]))),
                          percent(share(missed)), "", states(found)]  # fmt: skip
        else:
            everything["false"] += [one.state in ("rising", "met") for one, _ in found]
            rows[kind] = [
                str(len(found)),
                "",
                "",
                "",
                percent(len(given) / len(found)),
                states(found),
            ]
    print_table(
        rows,
        [
            "limits",
            "draws",
            "in range",
            "median error",
            "not reported",
            "false",
            "states",
        ],
    )
    return {
        "limit_in_range": share(everything["inside"]),
        "limit_median_error": round(float(np.median(everything["errors"])), 4),
        "limit_not_reported": share(everything["missed"]),
        "limit_false": share(everything["false"]),
    }


def drawn(case: Fill, number: int, draw: int) -> tuple[Any, float]:
    random = np.random.default_rng([SEED, draw, number, hash_of(case.kind)])
    return outlook(case.history(random), LIMIT), case.truth()


def hash_of(text: str) -> int:
    return zlib.crc32(text.encode())


def states(found: Sequence[tuple[Any, float]]) -> str:
    names = [one.state for one, _ in found]
    return ", ".join(f"{names.count(name)} {name}" for name in sorted(set(names)))


def growths() -> Figures:
    """Whether the limits hold the truth, and how far the share is off."""
    rows = {}
    held = []
    errors = []
    clear = []
    for kind, cases in by_kind(list(growing())).items():
        inside = []
        off = []
        sure = []
        for number, case in enumerate(cases):
            for draw in range(5 * DRAWS):
                found = growth(
                    case.daily(
                        np.random.default_rng([SEED, draw, number, hash_of(kind)])
                    )
                )
                sure.append(found.clear)
                if np.isfinite(found.per_week):
                    inside.append(found.low <= case.growth <= found.high)
                    off.append(abs(found.per_week - case.growth))
        unknown = percent(1 - len(inside) / len(sure))
        rows[kind] = [
            percent(share(inside)),
            f"{100 * float(np.median(off)):.2f}",
            percent(share(sure)),
            unknown,
        ]
        held += inside
        errors += off
        clear += sure if cases[0].growth == 0 else []
    print_table(
        rows,
        ["growth a week", "limits hold", "median error, points", "clear", "unknown"],
    )
    return {"growth_held": share(held), "growth_median_error": round(float(np.median(errors)), 4),
            "growth_false": share(clear)}  # fmt: skip


def jumps() -> Figures:
    """Whether the last jump is dated within a day, its size; and what is found where none is."""
    rows = {}
    right = []
    wrong = []
    for kind, cases in by_kind(list(jumping())).items():
        dated = []
        off = []
        for number, case in enumerate(cases):
            for draw in range(2 * DRAWS):
                daily = case.daily(
                    np.random.default_rng([SEED, draw, number, hash_of(kind)])
                )
                near = [
                    one
                    for one in change_points(daily)
                    if abs(one.day - (case.days - case.ago)) <= 1
                ]
                dated.append(bool(near) and (near[-1].ratio > 0) == (case.jump > 0))
                off += [abs(one.ratio - case.jump) for one in near]
        rows[kind] = [
            percent(share(dated)),
            f"{100 * float(np.median(off or [np.nan])):.1f}",
            "",
        ]
        right += dated
    for kind, cases in by_kind(list(steady())).items():
        found = [
            bool(
                change_points(
                    case.daily(
                        np.random.default_rng([SEED, draw, number, hash_of(kind)])
                    )
                )
            )
            for number, case in enumerate(cases)
            for draw in range(4 * DRAWS)
        ]
        rows[kind] = ["", "", percent(share(found))]
        wrong += found
    print_table(rows, ["changes", "dated within a day", "size off, points", "false"])
    return {"change_dated": share(right), "change_false": share(wrong)}


def weeks() -> Figures:
    """Last week beside those before: a jump is flagged, a steady series is not."""
    flagged = {}
    for jump, ago in ((0.0, 0), (0.5, 3), (0.8, 3), (0.3, 7), (0.2, 7)):
        found = [
            week_over_week(
                Traffic("", jump=jump, ago=ago).daily(
                    np.random.default_rng([SEED, draw, ago])
                )
            )
            for draw in range(20 * DRAWS)
        ]
        flagged[f"{100 * jump:+.0f} % since {ago} days"] = [
            percent(share([clear for _, clear in found]))
        ]
    print_table(flagged, ["week over week", "flagged"])
    return {}


def consumers() -> Figures:
    """The pace of a consumer now, and its change in 30 days."""
    rows = {}
    errors = []
    for case in paces():
        off = []
        held = []
        for draw in range(2 * DRAWS):
            found = pace(
                **case.hours(np.random.default_rng([SEED, draw, hash_of(case.kind)]))
            )
            off.append(abs(found.rate / case.truth - 1))
            held.append(
                found.low <= (1 + case.change) / (1 + case.change / 2) - 1 <= found.high
            )
        rows[case.kind] = [
            percent(float(np.median(off))),
            percent(max(off)),
            percent(share(held)),
        ]
        errors += off
    print_table(rows, ["pace", "median error", "worst", "limits of change hold"])
    return {"pace_worst_error": round(max(errors), 4)}


RINGS = (1000, 2000, 4000, 8000, 16_000, 32_000)


def rings() -> Figures:
    """Losses of other ring sizes by replay of polls, against a queue run by seconds; in shares of all messages."""
    rows: dict[str, list[str]] = {}
    worst = {15: 0.0, 60: 0.0}
    for name, world in second_worlds().items():
        truth = {ring: world.run(ring)[0] for ring in RINGS}
        present = 8 if "trickle" in name else RINGS[0]
        _, added, left, depth = world.run(present)
        for every, so_far in worst.items():
            at = np.arange(0, len(added), every)
            of = steps(
                at.astype(float),
                np.zeros(len(at), np.int64),
                added[at],
                left[at],
                depth[at],
            )
            off = [
                abs(replay(of, Setting(ring=ring)).lost - lost) / added[-1]
                for ring, lost in truth.items()
            ]
            advice = better_ring(of, present)
            rows[f"{name}, {every} s"] = [*map(percent, off), ring_text(advice, world)]
            worst[every] = max(so_far, *off)
    print_table(
        rows,
        [
            "rings",
            *(f"{ring:,}" for ring in RINGS),
            "advice: ring, lost by replay, in truth",
        ],
    )
    return {f"ring_error_{every}s": round(error, 5) for every, error in worst.items()}


def ring_text(advice: Any, world: Any) -> str:
    if advice is None or advice.setting is None:
        return "none needed" if advice is None else "no size helps"
    ring = advice.setting.ring
    return f"{ring:,.0f}: {advice.outcome.lost:,.0f}, {world.run(ring)[0]:,}"


def looks() -> Figures:
    """One look a day for 60 days at what never fills up: how often a date is given all the same. Of waves apart: in
    the first period nothing tells them from a ramp.
    """
    rows = {}
    flags = []
    for kind, cases in by_kind([case for case in fills() if not case.meets]).items():
        found = []
        for number, case in enumerate(cases[:2]):
            random = np.random.default_rng([SEED, number, hash_of(kind)])
            whole = replace(case, days=150).history(random, 60.0)
            ends = [len(whole) - 24 * back for back in range(60)]
            found += [
                outlook(whole[end - 24 * case.days : end], LIMIT).state == "rising"
                for end in ends
            ]
        rows[kind] = [str(len(found)), percent(share(found))]
        flags += found
    young = Fill("", wave(14), 0.01, meets=False, days=150)
    whole = young.history(np.random.default_rng([SEED, 1]), 60.0)
    for name, begin, end in (
        ("wave of 14 days, first 14 seen", 1, 15),
        ("wave of 14 days, next 30", 15, 45),
    ):
        found = [
            outlook(whole[: 24 * day], LIMIT).state == "rising"
            for day in range(begin, end)
        ]
        rows[name] = [str(len(found)), percent(share(found))]
    print_table(rows, ["one look a day", "looks", "dated"])
    return {"looks_false": share(flags)}


def healed() -> Figures:
    """Episodes of rows made by hand: of some the end was seen, of others only silence says that they ended."""
    at = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
    random = np.random.default_rng(SEED)
    rows = []
    truth = []
    for number in range(200):
        begin = float(random.integers(0, 20 * 86400))
        end = begin + float(random.integers(90, 3 * 86400))
        away = number % 4 == 3  # the agent is killed a while after the begin
        seen = begin + (end - begin) / 2 if away else end
        names = {"broker": "b", "address": "a", "queue": f"q{number}", "client": "c"}
        names |= {"condition": "stalled", "severity": "critical"}
        hours = np.arange(np.ceil(begin / 3600) * 3600, seen, 3600).tolist()
        events = [
            ("enter", begin),
            *(("hold", hour) for hour in hours),
            *([] if away else [("leave", end)]),
        ]
        for event, when in events:
            times = {
                "stamp": moment(at + when),
                "since": moment(at + begin),
                "seen": moment(at + when),
            }
            rows.append({**names, "event": event, **times})
        truth.append((at + begin, at + (max([begin, *hours]) if away else end), away))
    session = spark_session("local[1]")
    polled = [
        ("b", int(at) + 3600 * hour, int(at) + 3600 * hour + 3590)
        for hour in range(30 * 24)
    ]
    session.createDataFrame(
        polled, "broker string, start long, t1 long"
    ).createOrReplaceTempView("polls")
    types = ", ".join(
        f"{name} {'timestamp' if name in ('stamp', 'since', 'seen') else 'string'}"
        for name in rows[0]
    )
    session.createDataFrame(
        [tuple(row.values()) for row in rows], types
    ).createOrReplaceTempView("condition")
    made = session.sql(tables.sql("episodes", unseen=UNSEEN)).collect()
    session.stop()
    found = {int(one.queue[1:]): one for one in made}
    right = [
        (
            found[number].begin.timestamp(),
            found[number].end.timestamp(),
            found[number].open,
        )
        == (begin, end, False)
        and found[number].end_known != away
        and len(made) == len(truth)
        for number, (begin, end, away) in enumerate(truth)
    ]
    print_table(
        {"episodes": [str(len(right)), percent(share(right))]},
        ["", "made", "begin and end exact"],
    )
    return {"episodes_exact": share(right)}


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def unseen() -> Figures:
    """What was not seen is unknown and no zero: share of the conclusions that say so."""
    nothing = np.full(2000, np.nan)
    gone = np.append(np.full(2000, 5.0), np.full(300, np.nan))
    daily = np.append(np.full(70, 100.0), np.full(8, np.nan))
    first = 1_788_220_800
    checks = {
        "limit": outlook(nothing, 10.0).state == outlook(gone, 10.0).state == "unknown",
        "growth": bool(np.isnan(growth(np.full(84, np.nan)).per_week)),
        "last week": bool(np.isnan(week_over_week(daily)[0])),
        "no jump to nothing": change_points(daily) == [],
        "pace": bool(np.isnan(pace(nothing, nothing, nothing).rate)),
        "idle": idle_hours(seen_hours(gone)) == 0
        and idle_hours(seen_hours(np.append(gone, 0.0))) == 1,
        "profile": bool(np.isnan(profile(nothing, first)).all()),
        "days": bool(np.isnan(whole_days(nothing, first)).all()),
    }
    print_table(
        {name: [str(right)] for name, right in checks.items()}, ["unseen", "is unknown"]
    )
    return {"unseen_is_unknown": share(list(checks.values()))}


def seen_hours(hourly: "np.ndarray[Any, Any]") -> dict[str, Any]:
    """As rows of i1: of an hour that was not seen there is none."""
    at = np.flatnonzero(np.isfinite(hourly))
    rows = dict.fromkeys(("added", "acknowledged"), hourly[at])
    return (
        rows
        | {f"gap_{name}": np.zeros(len(at)) for name in rows}
        | {"start": 3600 * at}
    )


PARTS: dict[str, Callable[[], Figures]] = {
    "limits": limits,
    "growth": growths,
    "changes": jumps,
    "weeks": weeks,
    "pace": consumers,
    "rings": rings,
    "looks": looks,
    "episodes": healed,
    "unseen": unseen,
}


def main() -> int:
    wanted = sys.argv[1:] or list(PARTS)
    figures: Figures = {}
    for name in wanted:
        began = time.process_time()
        figures |= PARTS[name]()
        print(f"{name}: {time.process_time() - began:.1f} s CPU\n")
    print(json.dumps({"bench": "conclusions", **figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
