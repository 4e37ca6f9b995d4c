"""Logins that the server refused: all are counted, and an event a minute has the count, without a name or password."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

log = logging.getLogger(__name__)

EVENT_SECONDS = 60.0


@dataclass(slots=True)
class RefusedLogins:
    """record: writes an event with this detail; false where the agent writes none now."""

    record: Callable[[str], bool]
    _wrong: int = 0
    _unchecked: int = 0
    _recorded: int = 0
    """Of both."""
    _recorded_at: float = -math.inf

    def note(self, address: str, *, checked: bool) -> None:
        """One from this address; not checked: too many waited. Called in the event loop."""
        self._wrong += checked
        self._unchecked += not checked
        if time.monotonic() - self._recorded_at < EVENT_SECONDS:
            return
        new = self._wrong + self._unchecked - self._recorded
        detail = (
            f"1 login, from {address}"
            if new == 1
            else f"{new} logins, the last from {address}"
        )
        if self.record(detail):
            log.warning("refused: %s", detail)
            self._recorded += new
            self._recorded_at = time.monotonic()

    def numbers(self) -> Mapping[str, float]:
        return {
            "logins_refused": float(self._wrong),
            "logins_unchecked": float(self._unchecked),
        }
