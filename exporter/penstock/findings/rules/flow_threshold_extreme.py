"""A measured resume level next to nothing, or next to the limit."""

import numpy as np

from penstock.core.table import Column
from penstock.findings.context import FindingContext
from penstock.findings.finding import OPENMQ, FindingRule, FindingScope, Found
from penstock.findings.flow_control import FlowControl
from penstock.findings.limits import DEFAULT_THRESHOLD
from penstock.findings.subjects import FEW, of_client
from penstock.observation.flow_window import STEPS

EXTREME = 0.1
"""A resume level of so much of the limit or less, or of all but so much."""
SURE = 2 * STEPS
"""Moves between pauses until a measured limit is called extreme: a wrong one is by then as good as impossible."""
RUNS_DRY = "the client has run dry before the next batch comes"
SMALL_BATCHES = "batches are small, each with a request of its own, and nothing is won by it"


def find(context: FindingContext) -> Found:
    if (flow := context.flow) is None:
        return
    windows, clients = flow.windows, flow.clients
    limits, resumes = windows.limits()
    share = resumes / limits
    extreme = (limits >= FEW) & (windows.steps >= SURE) & ((share <= EXTREME) | (share >= 1 - EXTREME))
    for i in np.flatnonzero(extreme).tolist():
        (at,) = clients.source.positions(windows.index.keys[i : i + 1])
        member = int(clients.member[at]) if at >= 0 else -1
        if member < 0:
            continue
        evidence = {
            "limit": float(limits[i]),
            "resume": float(resumes[i]),
            "threshold": float(100 * share[i]),
            "batch": float(limits[i] - resumes[i]),
            "starved": of_member(flow, member, flow.shares.starved),
            "at_limit": of_member(flow, member, flow.shares.at_limit),
        }
        effect = RUNS_DRY if share[i] <= EXTREME else SMALL_BATCHES
        yield of_client(RULE, clients.index.rows[member], evidence, {"effect": effect})


def of_member(flow: FlowControl, member: int, values: Column) -> float:
    if flow.shares.clients.index is not flow.clients.index or member >= len(values):
        return np.nan
    return float(values[member])


RULE = FindingRule(
    name="flow_threshold_extreme",
    scope=FindingScope.CLIENT,
    brokers=OPENMQ,
    find=find,
    when=f"the resume level, as measured, is {100 * EXTREME:.0f} % of the limit or less, or"
    f" {100 - 100 * EXTREME:.0f} % or more, of a limit of {FEW} at least. After {SURE} pauses",
    says="the client asks for more when {resume:.0f} of {limit:.0f} messages are left (imqConsumerFlowThreshold"
    " {threshold:.0f} %): {effect}",
    advice=f"without a specific need leave imqConsumerFlowThreshold at {DEFAULT_THRESHOLD}: it asks for"
    " {limit:.0f} - {resume:.0f} = {batch:.0f} messages at least",
    arithmetic="limit, resume level, the least batch (limit - resume level); share of polls at which the client was"
    " starved, at its limit",
    evidence={
        "messages": ("limit", "resume", "batch"),
        "percent": ("threshold",),
        "of the polls": ("starved", "at_limit"),
    },
)
