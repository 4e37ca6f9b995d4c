"""
The errors that Penstock raises on purpose. Each message says what was tried, what came back and what to do.

PenstockError
├── Hinted             a request cannot be answered
├── ConfigError        the configuration cannot be used (file:line, key, what is allowed)
└── SourceError        a broker could not be read
    ├── Unreachable        no connection, or none in time
    ├── Refused            the broker answered, but refused: credentials, origin, rights, throttling
    ├── BadAnswer          the answer is not what the protocol promises: wrong path, not JSON, too large
    │   ├── OverBudget         a listing is larger than its budget allows
    │   └── NotRecorded        a recording has no answer: another version made it
    └── Unsupported        a broker or version that this reader cannot read
"""


class PenstockError(Exception):
    """Base of all errors raised on purpose; its text is fit for an operator and holds no secret."""


class Hinted(PenstockError):
    """With a `hint` at what is there, is allowed or helps."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(PenstockError):
    """The configuration cannot be used. Each argument is a line."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class SourceError(PenstockError):
    """A broker could not be read."""


class Unreachable(SourceError):
    """No connection, or no answer in time."""


class Refused(SourceError):
    """The broker answered and refused. `retry_after` in seconds, where it said when to come back."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BadAnswer(SourceError):
    """The answer is not what the protocol promises."""


class OverBudget(BadAnswer):
    """A listing is larger than its budget allows."""


class NotRecorded(BadAnswer):
    """A recording has no answer to what is asked: the version that made it did not ask."""


class Unsupported(SourceError):
    """A kind or version of broker that cannot be read."""
