"""The log: one line an event on stderr, as logfmt or JSON."""

import json
import logging
import sys
import warnings
from datetime import UTC, datetime

from penstock.core.visible import visible

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("logfmt", "json")


class LogLine(logging.Formatter):
    """One event in one visible line; a traceback becomes a field of it."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "ts": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        if self._form == "json":
            return visible(json.dumps(fields, ensure_ascii=False))
        return " ".join(f"{name}={_quoted(value)}" for name, value in fields.items())


def _quoted(value: str) -> str:
    plain = value and visible(value) == value and not any(c in ' ="\\' for c in value)
    return value if plain else visible(json.dumps(value, ensure_ascii=False))


def set_up(level: str, form: str) -> None:
    """Log to stderr from now on; libraries only from warnings up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLine(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("penstock").setLevel(level.upper())
    # Numbers that no broker should report may overflow: what comes of them is not finite, and is not shown.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="penstock")
