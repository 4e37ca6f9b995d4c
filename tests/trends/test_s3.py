"""History and trends on a real S3 server: the agent's writer, its upkeep, the job, all as on a file system."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from history.polls import judged, recorded, rows, write
from penstock.core.errors import PenstockError
from penstock.history.compact import Keep, tidy
from penstock.history.listing import days
from penstock.history.schema import ROW_TYPES
from penstock.history.store import Store
from penstock_demo.history import Truth
from penstock_trends import job
from penstock_trends.report import REPORT
from penstock_trends.tiers import roll_up
from rig.s3 import below, s3_server
from trends.stopped import published


@pytest.fixture(scope="module")
def bucket(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With the credentials that came with Spark."""
    with s3_server(tmp_path_factory.mktemp("s3")) as url:
        yield url


def test_what_is_published_there_is_kept_and_goes_in_time(
    bucket: str, tmp_path: Path
) -> None:
    live = list(judged(recorded("ring-overflow")))
    here = write(tmp_path / "local", live)
    there = write(tmp_path / "s3", live, url=below(bucket, "penstock/history"))
    assert {kind: rows(there, kind) for kind in ROW_TYPES} == {
        kind: rows(here, kind) for kind in ROW_TYPES
    }
    write(tmp_path / "again", live, url=there.url)
    (day,) = days(there)
    assert day.polls == {"recorded": len(live)}
    now = live[-1].snapshot.stamp
    names = [entry.path for entry in there.files()]
    tidy(there, Keep(), now + 86400)
    assert [entry.path for entry in there.files()] == names, (
        "one file of an hour needs no joining"
    )
    assert tidy(there, Keep(days=1.0), now + 5 * 86400) == 1
    assert there.files() == []


@pytest.mark.nightly  # a whole run of Spark; the store has tests of its own by day
def test_the_job_reads_and_writes_there(
    spark: Any, bucket: str, fleet: tuple[Store, Truth], tmp_path: Path
) -> None:
    history = Store(below(bucket, "fleet"))
    for entry in fleet[0].files():
        if "dt=2026-09-01" in entry.path:
            history.write_bytes(entry.path, fleet[0].read_bytes(entry.path) or b"")
    for hours in range(2):  # what was joined goes an hour later
        tidy(history, Keep(days=1000.0), 1_800_000_000.0 + hours * 3600)
    assert {
        entry.path.rpartition("/")[2].partition("-")[0] for entry in history.files()
    } == {"joined"}
    out = Store(below(bucket, "trends"))
    assert job.run(history.url, out.url, session=spark)["window"]["rolled"] == 1
    assert (out.read_bytes(REPORT) or b"").startswith(b"<!doctype html>")
    assert job.run(history.url, out.url, session=spark)["window"]["rolled"] == 0
    here = Store(str(tmp_path / "history"))
    for entry in history.files():
        here.write_bytes(entry.path, history.read_bytes(entry.path) or b"")
    local = Store(str(tmp_path / "out"))
    roll_up(spark, here, local)
    assert published(out) == published(local) != {}


def test_a_bucket_that_is_not_there_is_told(bucket: str) -> None:
    with pytest.raises(PenstockError, match="NO_SUCH_BUCKET"):
        Store(bucket.replace("//bucket", "//none")).write_bytes("x", b"")
