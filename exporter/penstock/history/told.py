"""What an agent wrote last of each broker's conditions, in a file: the next agent writes what has ended since."""

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from penstock.conditions.condition import ActiveCondition
from penstock.core.safe_files import replace_file
from penstock.history.exported import Exported
from penstock.incidents.incident import key_of

log = logging.getLogger(__name__)

_Saved = dict[str, tuple[float, list[ActiveCondition]]]
"""Broker → stamp and the conditions active then."""
_saved = msgspec.msgpack.Decoder(_Saved)


def save(told: Mapping[str, Exported], file: Path) -> None:
    """Write it beside `file` and rename. Raises OSError."""
    saved = {
        of: (one.stamp, [c._replace(verdicts={}) for c in one.standing.values()])
        for of, one in told.items()
    }
    replace_file(file, msgspec.msgpack.encode(saved))


def load(file: Path) -> dict[str, Exported]:
    """What an earlier agent wrote; where that cannot be read, nothing, and what has ended since is not known."""
    try:
        saved = _saved.decode(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        log.warning(
            "%s cannot be read; the history does not show what ended while the agent was away: %s",
            file,
            error,
        )
        return {}
    return {
        broker: Exported(stamp, {key_of(c): c for c in standing})
        for broker, (stamp, standing) in saved.items()
    }
