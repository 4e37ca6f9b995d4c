"""The state of an object: one word, and one function that decides it.

Lists, pages, the API, `top`, `explain`, `check` and the metrics all show what this function says, so that no two of
them disagree.
"""

from enum import StrEnum
from itertools import product

import numpy as np
from numpy.typing import NDArray

from penstock.conditions.condition import Severity
from penstock.core.table import Mask

Severities = NDArray[np.int64]
"""(objects,) The worst severity of what concerns each object; `NOTHING` where nothing does."""
NOTHING = -1
Codes = NDArray[np.int64]
"""(objects,) States as numbers: positions in `ORDER`."""


class ObjectState(StrEnum):
    """Of a broker, an address, a queue, a client or a connection.

    down: the broker cannot be read. stale: of what is on such a broker, all is as it was at the last poll. critical,
    warning, notice: the worst that is active. unknown: it was not judged. watching: nothing is active so far, and
    something would be if it lasted. healthy: it was judged, and nothing is active.
    """

    DOWN = "down"
    STALE = "stale"
    CRITICAL = "critical"
    WARNING = "warning"
    UNKNOWN = "unknown"
    NOTICE = "notice"
    WATCHING = "watching"
    HEALTHY = "healthy"


ORDER = tuple(ObjectState)
"""The worst first. Unknown comes before notice: what was not judged may be worse than that."""
CALM = frozenset({ObjectState.NOTICE, ObjectState.WATCHING, ObjectState.HEALTHY})
"""The states in which nothing needs to be done."""
OF_SEVERITY = {
    Severity.CRITICAL: ObjectState.CRITICAL,
    Severity.WARNING: ObjectState.WARNING,
    Severity.INFO: ObjectState.NOTICE,
}


def object_state(
    severity: Severity | None,
    *,
    unknown: bool,
    watched: bool,
    unread: ObjectState | None = None,
) -> ObjectState:
    """Decide the state of an object.

    Args:
        severity: The worst of what is active and concerns it; None where nothing does. Silenced counts as a notice.
        unknown: It was not judged.
        watched: Something of it would be a condition if it lasted.
        unread: `DOWN` or `STALE` where its broker cannot be read now.

    Returns:
        The one state that is shown everywhere.
    """
    if unread is not None:
        return unread
    if severity is not None and severity > Severity.INFO:
        return OF_SEVERITY[severity]
    if unknown:
        return ObjectState.UNKNOWN
    if severity is not None:
        return OF_SEVERITY[severity]
    return ObjectState.WATCHING if watched else ObjectState.HEALTHY


def object_states(severities: Severities, unknown: Mask, watched: Mask) -> Codes:
    """(objects,) The state of each object, where all could be read at this poll.

    severities, unknown, watched: (objects,) as in `object_state`.
    """
    rows = severities - NOTHING  # of `_CODES`: 0 is `NOTHING`
    return _CODES[rows, unknown.astype(np.int64), watched.astype(np.int64)]


def worst_of(states: list[ObjectState]) -> ObjectState:
    """Return the worst state of several objects that are shown as one; there must be one at least."""
    return min(states, key=ORDER.index)


def _codes() -> Codes:
    """(severities, 2, 2) The state by severity (`NOTHING` first), by unknown and by watched."""
    severities = (None, *Severity)
    codes = np.empty((len(severities), 2, 2), np.int64)
    for (row, severity), unknown, watched in product(
        enumerate(severities), (False, True), (False, True)
    ):
        state = object_state(severity, unknown=unknown, watched=watched)
        codes[row, int(unknown), int(watched)] = ORDER.index(state)
    return codes


_CODES = _codes()
