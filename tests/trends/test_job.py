"""The whole job on the generated fleet: its report, and its numbers back in /metrics."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.agent.trends import Trends
from penstock.exposition.body import Exposition
from penstock.exposition.syntax import Format
from penstock.history.store import Store
from penstock.trends import job
from penstock.trends.report import render
from penstock_demo.history import Truth
from trends.conftest import FLEET


@pytest.fixture(scope="module")
def done(spark: Any, fleet: tuple[Store, Truth], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("job")
    job.run(fleet[0].url, str(out), session=spark)
    return out


def test_the_report_needs_nothing_else_and_is_always_the_same(done: Path) -> None:
    page = (done / "report.html").read_text()
    assert not re.findall(r'(?:src|href)="?(?:https?:)?//', page)
    assert "<script src" not in page
    assert page == render(json.loads((done / "facts.json").read_text()))
    assert [int(number) for number in re.findall(r"<h2[^>]*>(\d+) ", page)] == list(range(1, 13))
    assert "None" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL).replace("<p>None.</p>", "")
    assert not re.search(r"\bnan\b", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))


def test_stalls_are_those_imagined(done: Path, fleet: tuple[Store, Truth]) -> None:
    facts = json.loads((done / "facts.json").read_text())
    found = sorted((one["begin"], one["end"]) for one in facts["episodes"] if not one["open"])
    imagined = {since: until for _, since, until in fleet[1].stalls}
    every = FLEET.interval
    told = [1 for _, since, until in fleet[1].stalls if -(-(since + 60) // every) != -(-until // every)]
    assert len(found) >= len(told) - 2 > 0
    assert all(end - imagined[int(begin)] < 300 for begin, end in found)


def test_gauges_come_back_in_metrics(done: Path) -> None:
    trends = Trends(done / "gauges.json")
    trends.refresh()
    shown = Exposition(lambda _: b"")
    shown.set_broker("", trends.blocks)
    text = b"".join(shown.chunks(Format.TEXT, gzip=False)).decode()
    facts = json.loads((done / "facts.json").read_text())
    assert re.search(r"^mq_trend_timestamp_seconds 1[.\d]*e?[+\d]*$", text, re.MULTILINE)
    for queue in facts["queues"]:
        if queue["evicted"]:
            labels = f'{{broker="{queue["broker"]}",address="{queue["address"]}",queue="{queue["queue"]}"}}'
            assert f"mq_trend_ring_loss_ratio{labels} " in text


def test_a_file_that_is_no_such_file_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "gauges.json").write_text('{"version": 2, "rows": []}')
    trends = Trends(tmp_path / "gauges.json")
    trends.refresh()
    trends.refresh()
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/gauges.json cannot be shown: has format 2, this version reads 1; run penstock trends run again"
    ]


def test_no_history_is_said(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(job.JobError, match="holds no history of queues"):
        job.run(str(tmp_path / "nothing"), str(tmp_path / "out"), session=spark)


def test_two_runs_exclude_each_other(spark: Any, tmp_path: Path) -> None:
    with job.locked(Store(str(tmp_path))), pytest.raises(job.JobError, match="another trend job"):
        job.run(str(tmp_path / "x"), str(tmp_path), session=spark)
