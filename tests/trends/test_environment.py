"""What Spark needs of a machine: one sentence says what is missing and what to set; a failed job says what ended it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError
from penstock_trends.environment import check_environment, check_user
from penstock_trends.session import clear_errors, last_error, spark_session, spread

SPARK = "4.3.0"
NO_USER = 2**31 - 7


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """The directory of a Java 17."""
    return java_of(tmp_path / "java", "17.0.9")


def java_of(home: Path, version: str) -> Path:
    program(home / "bin" / "java", "exit 0")
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def spark_of(home: Path, version: str) -> Path:
    (home / "jars").mkdir(parents=True)
    (home / "jars" / f"spark-core_2.13-{version}.jar").touch()
    return home


def said(*, local: bool = True, **environment: object) -> str:
    with pytest.raises(PenstockError) as found:
        check_environment(
            SPARK,
            local=local,
            environment={name: str(one) for name, one in environment.items()},
        )
    return str(found.value)


def test_nothing_is_said_where_all_is_there(java: Path, tmp_path: Path) -> None:
    check_environment(
        SPARK,
        local=True,
        environment={"JAVA_HOME": str(java), "PYSPARK_PYTHON": sys.executable},
    )
    check_environment(SPARK, local=True, environment={"PATH": str(java / "bin")})
    same = spark_of(tmp_path / "spark", "4.3.1")
    check_environment(
        SPARK, local=True, environment={"JAVA_HOME": str(java), "SPARK_HOME": str(same)}
    )


def test_no_java(tmp_path: Path) -> None:
    assert said(PATH=tmp_path) == (
        "no Java was found, and Spark needs Java 17 or later: install it, or set JAVA_HOME to where it is"
    )


def test_a_java_home_without_java(tmp_path: Path) -> None:
    text = said(JAVA_HOME=tmp_path / "none")
    assert text.endswith(
        "none: has no bin/java; set JAVA_HOME to the directory of a Java 17 or later, or unset it"
    )


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", 8), ("11.0.21", 11)])
def test_a_java_that_is_too_old(version: str, major: int, tmp_path: Path) -> None:
    home = java_of(tmp_path / "old", version)
    needs = (
        f"is Java {major}, and Spark 4.3.0 needs Java 17 or later; set JAVA_HOME to one"
    )
    assert needs in said(JAVA_HOME=home)
    assert needs in said(PATH=home / "bin")


def test_a_java_that_does_not_say_its_version_is_tried(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "java", "exit 0")
    check_environment(SPARK, local=True, environment={"JAVA_HOME": str(tmp_path)})


def test_another_spark(java: Path, tmp_path: Path) -> None:
    other = spark_of(tmp_path / "spark", "3.5.1")
    text = said(JAVA_HOME=java, SPARK_HOME=other)
    assert (
        "is Spark 3.5.1, but pyspark is 4.3.0; unset SPARK_HOME, or install pyspark 3.5.1"
        in text
    )
    assert "holds no Spark; unset SPARK_HOME" in said(
        JAVA_HOME=java, SPARK_HOME=tmp_path / "none"
    )


def test_another_python(java: Path, tmp_path: Path) -> None:
    other = program(tmp_path / "python", "echo 3.99")
    ours = "{}.{}".format(*sys.version_info)
    text = said(JAVA_HOME=java, PYSPARK_PYTHON=other)
    assert (
        f"is Python 3.99, and this is Python {ours}; set PYSPARK_PYTHON to a Python {ours}"
        in text
    )
    missing = said(JAVA_HOME=java, PYSPARK_PYTHON=tmp_path / "none")
    assert "cannot be run (No such file or directory)" in missing
    broken = program(tmp_path / "broken", "exit 3")
    assert "cannot be run, or is no Python" in said(
        JAVA_HOME=java, PYSPARK_PYTHON=broken
    )


def test_a_python_of_the_workers_of_a_cluster_is_not_tried_here(java: Path) -> None:
    there = {"JAVA_HOME": str(java), "PYSPARK_PYTHON": "/opt/worker/python"}
    check_environment(SPARK, local=False, environment=there)


def test_a_user_without_a_name() -> None:
    with pytest.raises(
        PenstockError,
        match=rf"the user {NO_USER} has no name on this machine.*/etc/passwd",
    ):
        check_user(NO_USER)


def test_it_is_said_before_java_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere/java")
    with pytest.raises(PenstockError, match="JAVA_HOME=/nowhere/java: has no bin/java"):
        spark_session("local[1]")


# --- what ended a job


WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 8, in work
    {}["a"]
KeyError: 'a'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "worker.py", line 10, in work
    raise ValueError("sid 7 has two owners") from error
ValueError: sid 7 has two owners

JVM stacktrace:
org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Job.run(Job.scala:3)
"""
CALLED = """An error occurred while calling o137.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: java.io.IOException: Cannot run program "/x/python"
\tat org.apache.spark.Job.run(Job.scala:3)
Caused by: java.io.IOException: error=2, No such file or directory
"""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (WORKER, "ValueError: sid 7 has two owners"),
        (CALLED, CALLED.splitlines()[1].removeprefix(": ")),
        ("[ARITHMETIC_OVERFLOW] long overflow.\n== SQL ==", "[ARITHMETIC_OVERFLOW] long overflow."),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
         "its Java process ended as it started; what that wrote above says why"),
        ("", "it does not say why"),
    ],
)  # fmt: skip
def test_the_last_error_is_said(text: str, error: str) -> None:
    assert last_error(text) == error


def test_a_failed_job_says_what_failed_in_its_worker(spark: Any) -> None:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            try:
                yield batch.column("none")
            except KeyError as error:
                raise ValueError("sid 7 has two owners") from error

    schema = pa.schema([("unit", pa.string())])
    with (
        pytest.raises(
            PenstockError, match=r"^Spark failed: ValueError: sid 7 has two owners$"
        ),
        clear_errors(),
    ):
        spread(spark, ["a"], work, schema).collect()
