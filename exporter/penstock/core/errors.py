"""The errors that Penstock raises on purpose. Each message says what was tried, what came back and what to do."""

from importlib.metadata import requires

EXTRAS = {
    "pyarrow": "history",
    "pandas": "trends",
    "py4j": "trends",
    "pyspark": "trends",
    "textual": "top",
}
"""By package, the extra of penstock that installs it."""


class PenstockError(Exception):
    """Base of all errors raised on purpose; its text is fit for an operator and holds no secret."""


class Hinted(PenstockError):
    """A request cannot be answered; `hint`: what is there, is allowed or helps."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint

    def __reduce__(self) -> tuple[type["Hinted"], tuple[str, str]]:
        return type(self), (str(self), self.hint)


class ConfigError(PenstockError):
    """The configuration cannot be used. Each argument is a line: file:line, key, what is allowed."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


def how_to_install(package: str) -> str:
    """Return how to install a missing package, with all others of its extra.

    It names the packages, not `penstock[…]`: on PyPI that name belongs to another project.
    """
    extra = f"; extra == '{EXTRAS[package]}'"
    requirements = " ".join(
        repr(requirement.removesuffix(extra))
        for requirement in requires("penstock") or ()
        if requirement.endswith(extra)
    )
    return f"needs {package}, please: pip install {requirements}"


class SourceError(PenstockError):
    """A broker could not be read."""


class Unreachable(SourceError):
    """No connection, or no answer in time."""


class Refused(SourceError):
    """The broker refused: credentials, origin, rights, throttling. retry_after: seconds, where it said them."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BadAnswer(SourceError):
    """The answer is not what the protocol promises: wrong path, not JSON, too large."""


class OverBudget(BadAnswer):
    """A listing is larger than its budget allows."""


class NotRecorded(BadAnswer):
    """A recording has no answer to what is asked: the version that made it did not ask."""


class Unsupported(SourceError):
    """A kind or version of broker that cannot be read."""
