"""
imqConnectionFlowCount, taken as its default as it is not shown, lets too much go before an acknowledgement, or asks a
fast client that hardly acknowledges too often.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.findings.context import FindingContext
from penstock.findings.finding import OPENMQ, FindingRule, FindingScope, Found
from penstock.findings.flow_control import FlowControl
from penstock.findings.limits import CONNECTION_COUNT
from penstock.findings.subjects import FEW, of_connections
from penstock.model import AcknowledgeMode

CONTROL_WAITS_BYTES = 2.0**20
"""More in front of an acknowledgement delays it noticeably."""
CONTROLS = {
    AcknowledgeMode.CLIENT: "CLIENT_ACKNOWLEDGE",
    AcknowledgeMode.AUTO: "AUTO_ACKNOWLEDGE",
    AcknowledgeMode.TRANSACTED: "transactions",
}
"""Modes in which the client waits for answers to its acknowledgements."""
RARELY_CONTROLS = "DUPS_OK_ACKNOWLEDGE, no transactions and consumers that stay"


def find(context: FindingContext) -> Found:
    if (flow := context.flow) is None:
        return
    connections, mean, control = flow.connections, flow.average(flow.mean_bytes), controlled(flow)
    ahead = CONNECTION_COUNT * mean
    churning = connections.came >= FEW
    waits = control.any(axis=0) | churning
    higher = ~waits & (connections.rate >= CONNECTION_COUNT)

    def texts(i: int) -> dict[str, str]:
        if higher[i]:
            return {"why": RARELY_CONTROLS, "change": "higher"}
        modes = [mode for mode, used in zip(CONTROLS.values(), control[:, i], strict=True) if used]
        return {"why": " and ".join(modes + ["consumers that come and go"] * bool(churning[i])), "change": "lower"}

    yield from of_connections(
        RULE,
        flow,
        waits & (ahead >= CONTROL_WAITS_BYTES) | higher,
        order=np.where(higher, connections.rate, ahead),
        texts=texts,
        count=np.full(len(mean), float(CONNECTION_COUNT)),
        mean_bytes=mean,
        ahead_bytes=ahead,
        rate=connections.rate,
        came=connections.came,
        advised=np.where(higher, np.ceil(connections.rate), np.maximum(np.floor(CONTROL_WAITS_BYTES / mean), 1)),
    )


def controlled(flow: FlowControl) -> NDArray[np.bool_]:
    """(CONTROLS, connections): whether one of its consumers uses the mode; one that is not known counts as CLIENT."""
    mode = flow.consumers["acknowledge_mode"]
    rows = [flow.summed((mode == one).astype(np.float64)) > 0 for one in CONTROLS]
    rows[0] |= flow.summed(np.isnan(mode).astype(np.float64)) > 0
    return np.stack(rows)


RULE = FindingRule(
    name="connection_count_advised",
    scope=FindingScope.CONNECTION,
    brokers=OPENMQ,
    find=find,
    when=f"{CONNECTION_COUNT} messages (the default of `imqConnectionFlowCount`) are"
    f" {CONTROL_WAITS_BYTES / 2**20:.0f} MiB or more on a connection that acknowledges each message, has transactions,"
    f" or consumers that come and go; or a connection with none of these gets {CONNECTION_COUNT} messages a second or"
    " more",
    says="imqConnectionFlowCount ({count:.0f} unless it was set) does not suit {why}: {ahead_bytes:.0f} bytes go before"
    " an acknowledgement gets through, at {rate:.3g} messages a second",
    advice="make it {change}, {advised:.0f}",
    arithmetic="bytes in front of an acknowledgement, messages a second; the count that makes"
    f" {CONTROL_WAITS_BYTES / 2**20:.0f} MiB, or one check a second",
    evidence={
        "consumers": ("consumers", "came"),
        "messages": ("count", "advised"),
        "bytes": ("mean_bytes", "ahead_bytes"),
        "messages/second": ("rate",),
    },
)
