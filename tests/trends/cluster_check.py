"""
The trend job on a real standalone Spark cluster: one master, two workers, history and results on a real S3 server.

Run by `make test-spark-cluster`; not part of `make test`.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyspark
import pytest

from history.polls import judged, recorded, write
from penstock.history.store import Store
from penstock_demo.history import Fleet, generate
from penstock_demo.ports import LOOPBACK, free_port
from penstock_demo.process import Process
from penstock_trends import days as pointers
from penstock_trends import job
from rig.s3 import CREDENTIALS, below, s3_server
from trends.conftest import FLEET
from trends.stopped import stopped_at_each_step

SHIPPED = {
    "numpy",
    "pyarrow",
    "pandas",
    "dateutil",
    "pytz",
    "tzdata",
    "six",
    "numpy_libs",
}
"""What the workers need of the environment, beside Penstock; pyspark comes with Spark."""
FLAGS = {"spark.driver.host": "localhost", "spark.sql.shuffle.partitions": "3"}
PENSTOCK = Path(sys.executable).with_name("penstock")
SPARK = Path(pyspark.__file__).parent


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster with two workers of one core each."""
    folder = tmp_path_factory.mktemp("cluster")
    port = free_port()
    url = f"spark://{LOOPBACK}:{port}"
    os.environ |= {
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_HOME": str(SPARK),
        "PYSPARK_PYTHON": sys.executable,
        **CREDENTIALS,
    }
    spark_class = [str(SPARK / "bin" / "spark-class")]
    deploy = "org.apache.spark.deploy"
    listen = ["--host", LOOPBACK, "--webui-port", str(free_port())]
    with ExitStack() as stack:
        command = [
            *spark_class,
            f"{deploy}.master.Master",
            *listen,
            "--port",
            str(port),
        ]
        head = Process("spark-master", command, folder / "master.log")
        stack.callback(head.stop)
        head.start("New state: ALIVE", timeout=120)
        for number in range(2):
            size = [
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(folder / f"work-{number}"),
            ]
            command = [
                *spark_class,
                f"{deploy}.worker.Worker",
                *size,
                *listen[:3],
                str(free_port()),
                url,
            ]
            worker = Process(
                f"spark-worker-{number}", command, folder / f"worker-{number}.log"
            )
            stack.callback(worker.stop)
            worker.start("Successfully registered with master", timeout=120)
        yield url


@pytest.fixture(scope="module")
def bucket(master: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as url:
        generate(
            Store(below(url, "history")),
            Fleet(brokers=2, queues=5, days=3, interval=900, stalls=3.0),
        )
        yield url


def command(bucket: str, out: str, master: str) -> list[str]:
    return [
        str(PENSTOCK),
        "trends",
        "run",
        "--history",
        below(bucket, "history"),
        "--out",
        out,
        "--master",
        master,
    ]


def tiers(out: str) -> dict[str, bytes | None]:
    """Tables of the days and of the run; of the time of a run nothing stands in them."""
    store = Store(out)
    names = pointers.load(store, pointers.day_names(store)).values()
    listed = [path for one in names for paths in one.files.values() for path in paths]
    tables = [
        entry.path
        for entry in store.files()
        if entry.path.endswith(".parquet") and "/" not in entry.path
    ]
    return {path: store.read_bytes(path) for path in (*listed, *tables)}


def test_it_gives_what_an_embedded_run_gives(master: str, bucket: str) -> None:
    alone = below(bucket, "alone")
    cluster = below(bucket, "cluster")
    subprocess.run(command(bucket, alone, "local[2]"), check=True)
    subprocess.run(command(bucket, cluster, master), check=True)
    assert tiers(cluster) == tiers(alone)
    assert Store(cluster).read_bytes(job.FACTS) == Store(alone).read_bytes(job.FACTS)
    assert len(json.loads(Store(cluster).read_bytes(job.FACTS) or b"")["queues"]) == 10


@pytest.mark.timeout(1800)  # six runs, each with a driver of its own
def test_killed_on_the_way_the_next_run_gives_the_same(
    master: str, bucket: str
) -> None:
    out = below(bucket, "killed")
    # a file that it has written shows how far it has come: into the first days, and behind the first part of them
    for sign in (
        "h1/kind=queue",
        "i1/kind=queue",
        "d1/kind=fate",
        "days",
        "queues.parquet",
    ):
        with subprocess.Popen(command(bucket, out, master)) as run:
            while not Store(out).files(sign) and not Store(out).exists(sign):
                assert run.poll() is None, "ended before it could be killed"
                time.sleep(0.02)
            run.send_signal(signal.SIGKILL)
        seen = tiers(out)
        assert None not in seen.values(), "readers see whole days, or none"
    assert not Store(out).exists(job.FACTS)
    subprocess.run(command(bucket, out, master), check=True)
    assert tiers(out) == tiers(below(bucket, "alone"))


def test_stopped_at_each_step_readers_of_the_bucket_see_whole_days(
    spark: Any, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the S3 server what test_rollup does on a disk, with a fleet of its own."""
    history = Store(below(bucket, "stopped-history"))
    generate(history, FLEET)
    for entry in history.files("raw"):
        if not re.search("kind=(queue|broker)/dt=2026-09-0[34]", entry.path):
            history.delete(entry.path)
    out, whole = (Store(below(bucket, name)) for name in ("stopped", "whole"))
    assert stopped_at_each_step(spark, history, out, whole, monkeypatch) == 7


def test_spark_submit_runs_it_where_no_worker_has_a_package(
    master: str, bucket: str, tmp_path: Path
) -> None:
    """As docs/trends.md says: the environment travels as an archive, the workers have Python alone."""
    out = below(bucket, "submitted")
    site = tmp_path / "site"
    bare = Path(sys.base_prefix) / "bin" / "python3"
    site.mkdir()
    packages = Path(np.__file__).parents[1]
    for path in packages.iterdir():
        if path.name.split(".")[0] in SHIPPED:
            (site / path.name).symlink_to(path)
    for name in ("penstock", "penstock_trends"):
        (site / name).symlink_to(Path(job.__file__).parents[1] / name)
    names = sorted(path.name for path in site.iterdir())
    subprocess.run(
        ["tar", "chf", str(tmp_path / "site.tar"), "-C", str(site), *names], check=True
    )
    options = [
        "--archives",
        f"{tmp_path}/site.tar#site",
        "--conf",
        "spark.executorEnv.PYTHONPATH=site",
    ]
    submit = [
        str(SPARK / "bin" / "spark-submit"),
        "--master",
        master,
        *options,
        str(site / "penstock_trends/job.py"),
    ]
    environment = os.environ | {"PYSPARK_PYTHON": str(bare), "PYTHONPATH": str(site)}
    environment |= {"PYSPARK_DRIVER_PYTHON": sys.executable}
    assert subprocess.run(
        [bare, "-c", "import pyarrow"], check=False, capture_output=True
    ).returncode
    (rules := tmp_path / "rules.yaml").write_text(
        "rules: [{match: {queue: '*'}, team: shop}]\n"
    )
    asked = ["--history", below(bucket, "history"), "--out", out, "--rules", str(rules)]
    subprocess.run([*submit, *asked], check=True, env=environment)
    assert tiers(out) == tiers(below(bucket, "alone"))
    assert {
        one["owner"]
        for one in json.loads(Store(out).read_bytes(job.FACTS) or b"")["queues"]
    } == {"shop"}


def test_flags_of_spark_submit_are_kept(tmp_path: Path) -> None:
    """Its workers would not find the driver at an address of another machine's own."""
    shown = (
        f"conf = spark_session().conf; print([conf.get(name) for name in {[*FLAGS]}])"
    )
    (script := tmp_path / "flags.py").write_text(
        f"from penstock_trends.session import spark_session; {shown}"
    )
    flags = [part for flag in FLAGS.items() for part in ("--conf", "=".join(flag))]
    submit = [
        str(SPARK / "bin" / "spark-submit"),
        "--master",
        "local[1]",
        *flags,
        str(script),
    ]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    said = subprocess.run(
        submit, check=True, env=environment, stdout=subprocess.PIPE, text=True
    ).stdout
    assert said.splitlines()[-1] == str([*FLAGS.values()])


def test_rules_are_tried_on_it(master: str, bucket: str, tmp_path: Path) -> None:
    for name in ("stuck-listener", "no-consumer"):
        write(
            tmp_path,
            list(judged(recorded(name))),
            url=below(bucket, "recorded"),
            broker=name,
        )
    rules = tmp_path / "rules.yaml"
    rules.write_text("judgement: {cold: 45s, trend: 60s}\n")
    options = [
        "--history",
        below(bucket, "recorded"),
        "--rules",
        str(rules),
        "--format",
        "json",
    ]
    command = [str(PENSTOCK), "trends", "backtest", *options, "--master", master]
    told = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    )
    assert told["polls"] == {"no-consumer": 40, "stuck-listener": 40}
    assert {one["condition"] for one in told["rules"]} == {
        one["condition"] for one in told["agent"]
    }
    assert {"stalled", "no_consumer"} <= {one["condition"] for one in told["rules"]}
