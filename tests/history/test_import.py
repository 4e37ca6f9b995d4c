"""History out of a real Prometheus: one that scraped the agent, and one that holds what the JMX exporter gives."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from e2e.agent import Agent
from history.test_agent import RECORDING
from penstock.cli import main
from penstock.history.backfill import Prometheus as Source
from penstock.history.backfill import PrometheusError, SeriesLives
from penstock.history.compact import read
from penstock.history.listing import days
from penstock.history.schema import ROW_TYPES
from penstock.history.store import Store
from penstock_demo.history import Fleet, generate
from rig.prometheus import Prometheus, tool
from trends import rows

pytestmark = pytest.mark.prometheus

NAMES = {
    "messages": "message_count", "delivering": "delivering_count", "consumers": "consumer_count",
    "added": "messages_added", "acknowledged": "messages_acknowledged", "killed": "messages_killed",
    "ring_limit": "ring_size",
}  # fmt: skip
"""As the JMX exporter's example for Artemis names them."""
LAST = int(time.time()) // 86400 * 86400 - 86400
FLEET = Fleet(brokers=1, queues=10, days=1, interval=120, seed=8, gaps=0.0, start=LAST)


def exported(table: Any) -> Iterator[str]:
    """Rows of queues as samples with their times; -1 stands for no limit."""
    wanted = table.select(["stamp", "broker", "address", "queue", *NAMES]).to_pylist()
    for column, name in NAMES.items():
        yield f"# TYPE artemis_{name} gauge\n"
        for row in wanted:
            labels = f'{{host="{row["broker"]}",address="{row["address"]}",queue="{row["queue"]}"}}'
            value = -1 if row[column] is None else row[column]
            yield f"artemis_{name}{labels} {value} {row['stamp'].timestamp():.3f}\n"
    yield "# EOF\n"


@pytest.fixture(scope="module")
def imagined(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(str(tmp_path_factory.mktemp("imagined")))
    generate(store, FLEET)
    return store


def queue_rows(store: Store) -> Any:
    return read(
        store,
        [entry.path for entry in store.files("raw/kind=queue")],
        ROW_TYPES["queue"],
    )


@pytest.fixture(scope="module")
def scraped(
    imagined: Store, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Store]]:
    """A Prometheus with a day of the JMX exporter's names, that also scraped an agent; and that agent's own history."""
    folder = tmp_path_factory.mktemp("prometheus")
    with (folder / "samples").open("w") as file:
        file.writelines(exported(queue_rows(imagined)))
    blocks = [str(tool("promtool")), "tsdb", "create-blocks-from", "openmetrics"]
    subprocess.run(
        [*blocks, str(folder / "samples"), str(folder / "data")],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    broker = {
        "name": "b1",
        "kind": "artemis",
        "transport": "recording",
        "url": f"recording:{RECORDING}",
    }
    watching = Agent(folder / "agent", brokers=[broker], history={"enabled": True})
    with watching as agent, Prometheus(folder, f"127.0.0.1:{agent.port}") as prometheus:
        prometheus.wait_for(
            "count_over_time(mq_queue_consumers[1m]) >= 4",
            lambda series: len(series) == 6,
        )
        agent.terminate(timeout=30)
        yield prometheus.url, Store(str(agent.work / "data" / "history"))


def imported(url: str, directory: Path, *options: str) -> Store:
    ran = CliRunner().invoke(
        main,
        [
            "history",
            "import",
            "--prometheus",
            url,
            "--history",
            str(directory),
            *options,
        ],
        catch_exceptions=False,
    )
    assert ran.exit_code == 0, ran.output
    return Store(str(directory))


def test_what_was_scraped_of_the_agent_is_what_it_keeps_itself(
    scraped: tuple[str, Store], tmp_path: Path
) -> None:
    url, own = scraped
    found = queue_rows(imported(url, tmp_path, "--match", 'job="penstock"'))
    last = {row["sid"]: row for row in queue_rows(own).sort_by("stamp").to_pylist()}
    assert {row["sid"] for row in found.to_pylist()} == set(last)
    shown = (
        "messages",
        "delivering",
        "consumers",
        "added",
        "acknowledged",
        "expired",
        "killed",
        "ring_limit",
    )
    for row in found.to_pylist():
        own_row = last[row["sid"]]
        assert {name: row[name] for name in shown} == {
            name: own_row[name] for name in shown
        }
        assert (row["broker"], row["address"], row["queue"]) == (
            "b1",
            own_row["address"],
            own_row["queue"],
        )
    assert len(found) >= 4 * len(last)
    assert {round(every) for every in found["interval"].to_pylist()} == {1}


@pytest.mark.nightly  # a broker with the JMX exporter, and a Prometheus
def test_the_names_of_the_jmx_exporter_are_known(
    scraped: tuple[str, Store], imagined: Store, tmp_path: Path
) -> None:
    store = imported(scraped[0], tmp_path, "--match", 'host="broker-1"')
    order = [("sid", "ascending"), ("stamp", "ascending")]
    found = queue_rows(store).sort_by(order)
    wanted = queue_rows(imagined).sort_by(order)
    for name in ("stamp", "sid", *NAMES):
        assert found[name].to_pylist() == wanted[name].to_pylist(), name
    # a life begins where a counter falls, also over the hour
    assert (
        len(set(zip(found["sid"].to_pylist(), found["inc"].to_pylist(), strict=True)))
        >= 10
    )
    assert total(store) == pytest.approx(total(imagined), rel=0.01)
    (day,) = days(store)
    assert day.polls == {"broker-1": 720}
    before = {entry.path: store.read_bytes(entry.path) for entry in store.files()}
    imported(scraped[0], tmp_path, "--match", 'host="broker-1"')
    assert {
        entry.path: store.read_bytes(entry.path) for entry in store.files()
    } == before


def total(store: Store) -> dict[int, float]:
    """What each queue's counter grew, by the trends."""
    return rows.total(
        rows.hours_of(
            store, "queue", [entry.path for entry in store.files("raw/kind=queue")]
        )
    )


def test_counters_that_fall_begin_a_life(tmp_path: Path) -> None:
    lives = SeriesLives()
    name = ("b", "a", "q")
    seen = [
        lives.of(name, at, {"added": added})
        for at, added in ((10, 5.0), (20, 9.0), (30, 2.0), (40, 3.0))
    ]
    assert seen == [10_000, 10_000, 30_000, 30_000]
    assert lives.of(name, 50, {"messages": 1.0}) == 30_000, (
        "a counter that is not told has not fallen"
    )


@pytest.mark.parametrize(
    ("url", "said", "status"),
    [
        ("http://127.0.0.1:1", "cannot be asked", 1),
        ("http://user:secret@127.0.0.1:1", "holds credentials", 2),
        ("127.0.0.1:9090", "no URL of a Prometheus", 2),
    ],
)
def test_what_cannot_be_asked_is_told(
    url: str, said: str, status: int, tmp_path: Path
) -> None:
    ran = CliRunner().invoke(
        main, ["history", "import", "--prometheus", url, "--history", str(tmp_path)]
    )
    assert ran.exit_code == status
    assert said in ran.output
    assert "secret" not in ran.output


def test_what_is_refused_is_told(scraped: tuple[str, Store]) -> None:
    with pytest.raises(PrometheusError, match=r"refused \(400\): .*parse error"):
        Source(scraped[0], 'job="').samples(["up"], 0, 1)
    with pytest.raises(PrometheusError, match=r"refused \(404\)"):
        Source(f"{scraped[0]}/elsewhere").samples(["up"], 0, 1)
