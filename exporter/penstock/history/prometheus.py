"""Raw samples out of a Prometheus, or what speaks its API: as they were scraped, nothing filled in."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import ConfigError, PenstockError

TIMEOUT = 120.0


class PrometheusError(PenstockError):
    """It could not be asked, or refused."""


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One series. stamps: seconds since 1970, ascending; values as long."""

    labels: Mapping[str, str]
    stamps: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prometheus:
    """
    url: as a browser opens it, without /api. match: label matchers as PromQL writes them, such as `job="penstock"`.

    The bearer token is kept out of every text.
    """

    url: str
    match: str = ""
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.username or parts.password:
            raise ConfigError("the URL of Prometheus holds credentials; give a token by --bearer-token-file")
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(f"{self.url}: no URL of a Prometheus; such as http://prometheus.example:9090")

    def samples(self, names: Sequence[str], begin: float, end: float) -> list[SampleRow]:
        """All samples of the metrics of these names from `begin` to before `end`. Raises PrometheusError."""
        matchers = ",".join(['__name__=~"{}"'.format("|".join(names)), *([self.match] if self.match else [])])
        # An instant query for a range gives samples with their own times; to some versions its begin is in it.
        seconds = max(round((end - begin) * 1000), 1)
        answer = self._asked({"query": f"{{{matchers}}}[{seconds}ms]", "time": f"{end - 0.001:.3f}"})
        return [_series(one, begin) for one in answer]

    def _asked(self, parameters: Mapping[str, str]) -> list[Any]:
        where = f"{self.url.rstrip('/')}/api/v1/query"
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(where, urlencode(parameters).encode(), headers)  # noqa: S310 - http(s) only
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
                found = json.load(answer)
            result: list[Any] = found["data"]["result"]
        except urllib.error.HTTPError as error:
            raise PrometheusError(f"{where}: refused ({error.code}): {_said(error)}") from None
        except OSError as error:
            why = getattr(error, "reason", None) or error
            raise PrometheusError(f"{where}: cannot be asked: {why}; is this the address of Prometheus?") from None
        except (ValueError, LookupError, TypeError):
            raise PrometheusError(f"{where}: its answer is not that of Prometheus' API; is the path right?") from None
        return result


def secret(file: Path) -> str:
    """The token in a file. Raises ConfigError."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'is not text'}") from None


def _said(error: urllib.error.HTTPError) -> str:
    """What Prometheus says of a query that it refuses."""
    try:
        return str(json.load(error)["error"])[:300]
    except (ValueError, LookupError, TypeError, OSError):
        return error.reason or "no reason given"


def _series(one: Mapping[str, Any], begin: float) -> SampleRow:
    pairs = [(at, float(text)) for at, text in one["values"] if at >= begin]
    return SampleRow(one["metric"], *np.array(pairs, np.float64).reshape(-1, 2).T)
