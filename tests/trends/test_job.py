"""The whole job on the generated fleet: its report, and its numbers back in /metrics."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from penstock.agent.trends import Trends
from penstock.cli import main
from penstock.core.errors import PenstockError
from penstock.exposition.body import Exposition
from penstock.exposition.syntax import Format
from penstock.history.profiles import read_profiles
from penstock.history.store import Store, StoreError
from penstock_demo.history import Truth
from penstock_trends import job
from penstock_trends.report import pages
from penstock_trends.session import settings_of
from trends.conftest import FLEET
from trends.test_rollup import SUMS, with_numbers

if TYPE_CHECKING:
    from penstock_trends.wanted import Wanted


@pytest.fixture(scope="module")
def done(
    spark: Any, fleet: tuple[Store, Truth], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("job")
    job.run(fleet[0].url, str(out), session=spark)
    return out


def test_the_report_needs_nothing_else_and_is_always_the_same(done: Path) -> None:
    made = pages(json.loads((done / "facts.json").read_text()))
    assert {name: (done / name).read_text() for name in made} == made
    assert len([*(done / "brokers").iterdir()]) == FLEET.brokers
    others = {
        path.stat().st_mode & 0o044 for path in (done / "brokers", done / "report.html")
    }
    assert len(others) == 1, "who may read the one may read the other"
    for name, page in made.items():
        assert not re.findall(r'(?:src|href)="?(?:https?:)?//', page)
        assert "<script" not in page
        assert "None" not in page.replace("<p>None.</p>", "").replace("<p>None was", "")
        assert not re.search(r"\bnan\b", page)
        links = [
            (done / name).parent / link for link in re.findall('href="([^"]*)"', page)
        ]
        assert {link.resolve() for link in links} <= {
            (done / other).resolve() for other in made
        }
        assert links
    page = made["report.html"]
    assert [int(number) for number in re.findall(r"<h2[^>]*>(\d+) ", page)] == list(
        range(1, 13)
    )


def test_stalls_are_those_imagined(done: Path, fleet: tuple[Store, Truth]) -> None:
    rows = pq.read_table(done / "episodes.parquet").to_pylist()
    found = sorted(
        (one["begin"].timestamp(), one["end"].timestamp())
        for one in rows
        if not one["open"]
    )
    imagined = {since: until for _, since, until in fleet[1].stalls}
    every = FLEET.interval
    told = [
        1
        for _, since, until in fleet[1].stalls
        if -(-(since + 60) // every) != -(-until // every)
    ]
    assert len(found) >= len(told) - 2 > 0
    assert {one["condition"] for one in rows} == {"stalled"}
    assert all(end - imagined[int(begin)] < 300 for begin, end in found)


def test_gauges_come_back_in_metrics(done: Path) -> None:
    trends = Trends(done / "gauges.json")
    trends.refresh()
    shown = Exposition(lambda _: b"")
    shown.set_broker("", trends.blocks)
    text = b"".join(shown.chunks(Format.TEXT, gzip=False)).decode()
    facts = json.loads((done / "facts.json").read_text())
    assert re.search(
        r"^mq_trend_timestamp_seconds 1[.\d]*e?[+\d]*$", text, re.MULTILINE
    )
    for queue in facts["queues"]:
        if queue["evicted"]:
            labels = f'{{broker="{queue["broker"]}",address="{queue["address"]}",queue="{queue["queue"]}"}}'
            assert f"mq_trend_ring_loss_ratio{labels} " in text


def test_limits_of_addresses_come_back_in_metrics(tmp_path: Path) -> None:
    row = {
        "broker": "b",
        "address": "orders",
        "limit_name": "messages",
        "low": 2.0,
        "high": None,
    }
    made = job.gauges({"queues": [], "brokers": [], "addresses": [row]}, 1.0)
    (tmp_path / "gauges.json").write_text(json.dumps(made))
    trends = Trends(tmp_path / "gauges.json")
    trends.refresh()
    shown = Exposition(lambda _: b"")
    shown.set_broker("", trends.blocks)
    text = b"".join(shown.chunks(Format.TEXT, gzip=False)).decode()
    name = "mq_forecast_address_limit_seconds"
    assert [line for line in text.splitlines() if line.startswith(name)] == [
        f'{name}{{broker="b",address="orders",limit="messages",bound="low"}} 172800'
    ]


def test_profiles_come_back_to_agents(done: Path) -> None:
    profiles = read_profiles(done / "profiles.parquet")
    facts = json.loads((done / "facts.json").read_text())
    names = {
        (broker, *name)
        for broker, profile in profiles.items()
        for name in profile.flows.names
    }
    assert {
        (queue["broker"], queue["address"], queue["queue"]) for queue in facts["queues"]
    } <= names


def test_a_file_that_is_no_such_file_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "gauges.json").write_text('{"version": 2, "rows": []}')
    trends = Trends(tmp_path / "gauges.json")
    trends.refresh()
    trends.refresh()
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/gauges.json cannot be shown: has format 2, this version reads 1; run penstock trends run again"
    ]


def test_nothing_new_is_no_work_but_for_the_time_of_the_run(
    done: Path, fleet: tuple[Store, Truth], spark: Any
) -> None:
    def seen() -> dict[str, int]:
        return {
            file.name: file.stat().st_mtime_ns
            for file in done.iterdir()
            if file.is_file()
        }

    before = seen()
    gauges = json.loads((done / "gauges.json").read_text())["rows"]
    job.run(fleet[0].url, str(done), session=spark)
    changed = {name for name, when in seen().items() if before[name] != when}
    assert changed <= {"gauges.json", "run.json", "_lock"}
    after = json.loads((done / "gauges.json").read_text())["rows"]
    assert after[1:] == gauges[1:]
    assert after[0]["values"]["timestamp"] > gauges[0]["values"]["timestamp"]


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # files that a kill leaves open
@pytest.mark.nightly  # several runs of Spark
def test_killed_before_its_end_or_torn_the_next_run_makes_all_of_it(
    done: Path, fleet: tuple[Store, Truth], spark: Any
) -> None:
    """What cannot be read is named, with what to do: after that, all is as before."""

    def made() -> dict[str, bytes]:
        return {
            file.name: file.read_bytes()
            for file in (*done.glob("*.parquet"), done / "facts.json")
        }

    whole = made()
    for file in (*done.glob("*.parquet"), done / "facts.json"):
        if file.name != "series.parquet":
            file.unlink()
    torn = next(done.glob("i1/kind=queue/dt=2026-09-02/*/*.parquet"))
    torn.write_bytes(torn.read_bytes()[:200])
    day = done / "days" / "2026-09-02.json"
    with pytest.raises(PenstockError) as said:
        job.run(fleet[0].url, str(done), session=spark)
    assert str(said.value).startswith(f"{torn}: ")
    assert str(said.value).endswith(
        f"; remove {day} and run again: what is lost is made again"
    )
    assert "Traceback" not in str(said.value)
    day.unlink()
    job.run(fleet[0].url, str(done), session=spark)
    assert made() == whole


def test_weekly_totals_are_what_came(done: Path, fleet: tuple[Store, Truth]) -> None:
    """By an independent query of the raw history."""
    with duckdb.connect() as database:
        wanted = dict(database.execute(SUMS.format(fleet[0].root)).fetchall())
    rows = pq.read_table(done / "weeks.parquet").to_pylist()
    assert {row["sid"]: row["added"] for row in rows} == wanted
    assert {row["back"] for row in rows} == {0}
    assert max(row["hours"] for row in rows) <= 24 * FLEET.days


def test_flow_is_the_time_without_the_stalls(done: Path) -> None:
    held: dict[tuple[str, str], set[int]] = {}
    for one in pq.read_table(done / "episodes.parquet").to_pylist():
        begin, end = (round(one[name].timestamp()) for name in ("begin", "end"))
        held.setdefault((one["broker"], one["queue"]), set()).update(range(begin, end))
    rows = pq.read_table(done / "flow.parquet").to_pylist()
    assert len(rows) == FLEET.brokers * FLEET.queues
    for row in rows:
        away = len(held.get((row["broker"], row["queue"]), ()))
        assert row["without_flow"] == pytest.approx(away, abs=2)
        assert row["availability"] == pytest.approx(1 - away / row["seen"], abs=1e-5)
    facts = json.loads((done / "facts.json").read_text())
    missed = [row for row in rows if row["availability"] < facts["flow"]["target"]]
    assert facts["flow"]["missed"] == len(missed) > 0
    for row in facts["flow"]["worst"]:
        assert row["budget"] == pytest.approx((1 - row["availability"]) / 0.001)
    assert facts["periods"] == {}, "four days are no week"


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (
            ["spark.sql.session.timeZone=Europe/Berlin"],
            "days of the tables are those of UTC; leave it out",
        ),
        (["driver.memory=2g"], "not a setting of Spark"),
        (["spark.driver.memory"], "write it as KEY=VALUE"),
    ],
)
def test_a_setting_that_would_change_the_numbers_is_refused(
    pairs: list[str], said: str
) -> None:
    with pytest.raises(PenstockError, match=said):
        settings_of(None, pairs)
    assert settings_of(None, ["spark.sql.session.timeZone=UTC"]) == {
        "spark.sql.session.timeZone": "UTC"
    }


def test_the_example_of_the_documentation_reads_the_tables(
    done: Path, spark: Any
) -> None:
    """Word for word, in the reader's own Spark."""
    page = (Path(__file__).parents[2] / "docs" / "trends.md").read_text()
    for example in page.split("```python\n")[1:]:
        exec(example.split("```")[0].replace("OUT", str(done)), {"spark": spark})  # noqa: S102


def test_no_history_is_said(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(job.JobError, match="holds no history of queues"):
        job.run(str(tmp_path / "nothing"), str(tmp_path / "out"), session=spark)


def test_spark_submit_takes_rules_as_the_command_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Wanted] = []

    def run(*_: object, wanted: "Wanted", **__: object) -> dict[str, Any]:
        taken.append(wanted)
        return {"fleet": {"queues": 0}, "window": {"days": 0, "rolled": 0}}

    monkeypatch.setattr(job, "run", run)
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules: [{match: {queue: orders}, team: shop}]\n")
    arguments = [
        "--history",
        "h",
        "--out",
        "o",
        "--rules",
        str(rules),
        "--flow-target",
        "99",
    ]
    assert job.main(arguments) == 0
    assert CliRunner().invoke(main, ["trends", "run", *arguments]).exit_code == 0
    assert [one.flow_target for one in taken] == [0.99] * 2
    assert [one.owner({"broker": "b", "queue": "orders"}) for one in taken] == [
        "shop"
    ] * 2
    assert job.main(arguments[:4]) == 0
    assert taken[-1].flow_target == 0.999
    rules.write_text("rules: 5\n")
    assert job.main(arguments) == 2, "an error is said, not raised"


@pytest.mark.nightly  # a run of Spark
def test_a_counter_that_cannot_be_stops_no_report(
    spark: Any, own_fleet: Store, tmp_path: Path
) -> None:
    path, *_ = [entry.path for entry in own_fleet.files("raw/kind=queue/dt=2026-09-03")]
    with_numbers(own_fleet, path, "added", 2**60)
    facts = job.run(own_fleet.url, str(tmp_path), session=spark)
    assert facts["unread"][path].endswith("of added")
    assert facts["fleet"]["queues"] == FLEET.brokers * FLEET.queues
    assert (
        "numbers that cannot be are left out" in (tmp_path / "report.html").read_text()
    )


def test_two_runs_exclude_each_other(spark: Any, tmp_path: Path) -> None:
    with (
        job.locked(Store(str(tmp_path))),
        pytest.raises(job.JobError, match="another trend job"),
    ):
        job.run(str(tmp_path / "x"), str(tmp_path), session=spark)


@pytest.mark.parametrize("name", ["run.json", "facts.json", "days/2026-09-01.json"])
def test_a_torn_file_of_its_own_is_named(
    done: Path, fleet: tuple[Store, Truth], spark: Any, name: str
) -> None:
    file = done / name
    whole = file.read_bytes()
    file.write_bytes(whole[:9])
    try:
        with pytest.raises(
            StoreError, match=f"{name}: damaged .* remove it and run again"
        ):
            job.run(fleet[0].url, str(done), session=spark)
    finally:
        file.write_bytes(whole)
