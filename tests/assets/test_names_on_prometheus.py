"""The dashboards on a real Prometheus that has queues of any name: each panel shows the number of exactly that queue.

Every family of the catalogue is there for all names together, and for each name in a world of its own (by the label
`job`). What a panel shows of one name among all must be what it shows of everything in the world of that name alone.
"""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from itertools import product

import pytest

from assets.boards import DOCUMENTS, Json
from assets.grafana import ALL, Choice, expanded
from assets.test_names import NAMED, queries, several
from penstock.account.fates import CAUSES
from penstock.exposition.catalogue import CATALOGUE, Family
from penstock_demo.ports import LOOPBACK, free_port
from rig.prometheus import Prometheus, tool

pytestmark = pytest.mark.prometheus

NAMES = (
    "orders.eu",
    "orders-eu",
    "orders|eu",
    "$sys.mqtt.sessions",
    "star*",
    "(a)[b]",
    'we"ird',
    "back\\slash",
    "a b",
)
TOGETHER = "together"
STEP = 60
SPAN = 1200
"""Seconds between samples, and of all."""
OTHER_LABELS: Mapping[str, tuple[str, ...]] = {
    "severity": ("warning", "critical"),
    "bound": ("latest", "earliest", "low", "high"),
    "fate": tuple(CAUSES),
    "role": ("active",),
}
"""Label → values of its own; of any other label one will do."""


@pytest.fixture(scope="module")
def prometheus(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Prometheus, int]]:
    """The server, and the time of its last samples."""
    folder = tmp_path_factory.mktemp("names")
    end = int(time.time()) // STEP * STEP
    with (folder / "samples").open("w", encoding="utf-8") as file:
        for family in CATALOGUE:
            file.writelines(samples(family, end))
        file.write("# EOF\n")
    blocks = [str(tool("promtool")), "tsdb", "create-blocks-from", "openmetrics"]
    subprocess.run(
        [*blocks, str(folder / "samples"), str(folder / "data")],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with Prometheus(folder, f"{LOOPBACK}:{free_port()}") as server:
        yield server, end


def samples(family: Family, end: int) -> Iterator[str]:
    """All of a family: every name has a number of its own, and counters grow by it."""
    counts = family.type == "counter"
    yield f"# TYPE {family.name.removesuffix('_total')} {'counter' if counts else 'gauge'}\n"
    written = set()
    for number, name in enumerate(NAMES, 1):
        for labels, job in product(labelled(family, name), (TOGETHER, name)):
            series = _series(family.name, {**labels, "job": job, "instance": "a"})
            if series in written:
                continue
            written.add(series)
            slope = number if NAMED & labels.keys() else 1
            for stamp in range(end - SPAN, end + 1, STEP):
                value = slope * (stamp % 10_000_000) if counts else slope
                yield f"{series} {value} {stamp}\n"


def _series(name: str, labels: Mapping[str, str]) -> str:
    inside = ",".join(
        f"{label}={json.dumps(value, ensure_ascii=False)}"
        for label, value in labels.items()
    )
    return f"{name}{{{inside}}}"


def labelled(family: Family, name: str) -> Iterator[dict[str, str]]:
    """The labels of each series that a family has of one name."""
    if "object" in family.label_names and "scope" in family.label_names:
        yield from (
            {"broker": name, "scope": scope, "object": one, "rule": "r"}
            for scope, one in _objects(name)
        )
        return
    choices = [
        (name,) if label in NAMED else OTHER_LABELS.get(label, ("x",))
        for label in family.label_names
    ]
    for values in product(*choices):
        yield dict(zip(family.label_names, values, strict=True))


def _objects(name: str) -> Iterator[tuple[str, str]]:
    yield from (("queue", name), ("address", name), ("client", f"{name}/client"))


def shown(
    server: Prometheus, at: int, query: str
) -> set[tuple[tuple[tuple[str, str], ...], str]]:
    """The series of a result without the world that they are of."""
    result = server.api("query", query=query, time=str(at))["result"]
    return {
        (
            tuple(
                sorted(
                    (label, text)
                    for label, text in one["metric"].items()
                    if label != "job"
                )
            ),
            one["value"][1],
        )
        for one in result
    }


@pytest.mark.parametrize("board", DOCUMENTS.values(), ids=DOCUMENTS)
def test_each_panel_shows_exactly_what_is_chosen(
    board: Json, prometheus: tuple[Prometheus, int]
) -> None:
    server, at = prometheus
    with_data = 0
    for name in NAMES:
        among_all = choices(board, TOGETHER, name)
        alone = dict.fromkeys(several(board), ALL) | {
            "job": Choice((name,), several=True)
        }
        for where, query in queries(board):
            if where.startswith("variable "):
                continue
            wanted = shown(server, at, expanded(query, alone))
            assert shown(server, at, expanded(query, among_all)) == wanted, (
                name,
                where,
            )
            with_data += bool(wanted)
    assert with_data > len(NAMES) * 10


def choices(board: Json, job: str, name: str) -> dict[str, Choice]:
    """This name is chosen for each variable that is a name, in one world."""
    of_names = {
        variable: Choice((name,), several=many)
        for variable, many in several(board).items()
        if variable in NAMED
    }
    return (
        dict.fromkeys(several(board), ALL)
        | of_names
        | {"job": Choice((job,), several=True)}
    )


@pytest.mark.parametrize("board", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_list_has_only_what_belongs_to_the_choices_before(
    board: Json, prometheus: tuple[Prometheus, int]
) -> None:
    """The broker's name narrows the addresses, the address the queues, the queue the clients."""
    server, at = prometheus
    for name in NAMES:
        for where, selector in queries(board):
            variable = where.removeprefix("variable ")
            if where == variable or variable not in NAMED - {"broker"}:
                continue
            match = expanded(selector, choices(board, TOGETHER, name))
            listed = server.api(
                f"label/{variable}/values", **{"match[]": match, "end": str(at + 1)}
            )
            assert listed == [name], where
