"""Gauges of the trend job on an object store come back into /metrics."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.agent import trends
from penstock.core.errors import ConfigError
from penstock.history.store import Store
from rig.s3 import CREDENTIALS, below, s3_server

GAUGES = {
    "version": 1,
    "rows": [{"table": "trend_run", "labels": {}, "values": {"timestamp": 1.0}}],
}


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow  # starts an S3 server
def test_they_are_read_from_s3_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(trends, "STORED_SECONDS", 0.0)
    with s3_server(tmp_path) as url:
        shown = trends.StoredTrends(below(url, "trends/gauges.json"))
        shown.refresh()  # nothing is there yet: no error
        Store(below(url, "trends")).write_bytes(
            "gauges.json", json.dumps(GAUGES).encode()
        )

        def read() -> object:
            shown.refresh()
            return shown._content

        until(read)
        assert "trend_run" in {
            row["table"] for row in json.loads(shown._content)["rows"]
        }


def test_a_store_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be used as a place"):
        trends.StoredTrends("nowhere://x/gauges.json")


def test_one_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a file is not: the agent's memory is bounded."""
    monkeypatch.setattr(trends, "MAX_BYTES", 10)
    (tmp_path / "gauges.json").write_text('{"version": 1, "rows": []}')
    shown = trends.StoredTrends(f"{tmp_path.as_uri()}/gauges.json")
    shown.refresh()
    until(lambda: "is larger than 10 bytes" in caplog.text)
    assert shown.blocks.published.families == {}
