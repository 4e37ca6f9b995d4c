"""What of the facts goes back into /metrics: rows by table and column of the catalogue, no metric names."""

from typing import TYPE_CHECKING, Any, Final

from penstock.trends.growth import WEEK

if TYPE_CHECKING:
    from collections.abc import Sequence

Plain = dict[str, Any]
HORIZONS: Final = {"1d": 24, "7d": WEEK}
MOST: Final = 200
"""Queues for which a forecast is shown, the busiest."""


def gauges(facts: Plain, now: float) -> Plain:
    """now: seconds since 1970, of the run. A number that is not known is left out, one that never comes is "never"."""
    queues: Sequence[Plain] = facts["queues"]
    busiest = sorted(queues, key=lambda queue: -(queue["added"] or 0.0))[:MOST]
    return {
        "version": 1,
        "rows": [
            {"table": "trend_run", "labels": {}, "values": {"timestamp": now}},
            *(row for queue in busiest for row in _forecasts(queue)),
            *(row for queue in queues for row in _queue(queue)),
            *(row for broker in facts["brokers"] for row in _limits(broker)),
        ],
    }


def _labels(queue: Plain, **more: str) -> dict[str, str]:
    return {name: queue[name] for name in ("broker", "address", "queue")} | more


def _forecasts(queue: Plain) -> list[Plain]:
    made = queue["forecasts"]["messages"]
    if not made or not made["shown"]:
        return []
    return [
        {
            "table": "trend_forecast",
            "labels": _labels(queue, horizon=horizon, bound=bound),
            "values": {"messages": max(made[column][: HORIZONS[horizon]])},
        }
        for horizon in HORIZONS
        for bound, column in (("low", "low"), ("mean", "values"), ("high", "high"))
    ]


def _queue(queue: Plain) -> list[Plain]:
    values = {}
    if queue["traffic"]["clear"] and queue["traffic"]["relative"] is not None:
        values["growth"] = queue["traffic"]["relative"]
    if queue["evicted"] is not None and queue["added"]:
        values["ring_loss"] = queue["evicted"] / queue["added"]
    return [{"table": "trend_queue", "labels": _labels(queue), "values": values}] if values else []


def _limits(broker: Plain) -> list[Plain]:
    return [
        {
            "table": "trend_limit",
            "labels": {"broker": broker["broker"], "limit": name, "bound": bound},
            "values": {"seconds": days if days == "never" else days * 86400.0},
        }
        for name, limit in broker["limits"].items()
        for bound in ("low", "high")
        if (days := limit[f"days_{bound}"]) is not None
    ]
