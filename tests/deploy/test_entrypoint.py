"""The entry point of the image `trends`: what Spark on Kubernetes starts, and the commands of penstock."""

import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli import main

SCRIPT = Path(__file__).parents[2] / "deploy" / "image" / "entrypoint.py"
ENTRY = runpy.run_path(str(SCRIPT))
SPARK = {"SPARK_HOME": "/spark", "JAVA_HOME": "/java"}


def test_a_command_of_penstock_is_that() -> None:
    made = ENTRY["command"](["trends", "run", "--help"], {})
    assert made[0] == "penstock"
    assert main.get_command(None, made[1]) is not None  # type: ignore[arg-type]


def test_a_driver_is_spark_submit_of_what_the_operator_gives() -> None:
    given = "--properties-file /opt/spark/conf/spark.properties --class org.apache.spark.deploy.PythonRunner"
    made = ENTRY["command"](
        ["driver", *given.split(), "local:///job.py", "--out=x"],
        {**SPARK, "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.9"},
    )
    assert made[0] == "/spark/bin/spark-submit"
    assert "spark.driver.bindAddress=10.0.0.9" in made
    assert shlex.join(made).endswith(
        f"--deploy-mode client {given} local:///job.py --out=x"
    )


def test_an_executor_has_the_options_in_their_order() -> None:
    names = (
        "DRIVER_URL",
        "EXECUTOR_ID",
        "EXECUTOR_CORES",
        "APPLICATION_ID",
        "EXECUTOR_POD_IP",
        "RESOURCE_PROFILE_ID",
    )
    environ = {
        f"SPARK_{name}": name.lower() for name in (*names, "EXECUTOR_POD_NAME")
    } | {"SPARK_EXECUTOR_MEMORY": "2g"}
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dn={number}" for number in range(11)}
    made = ENTRY["command"](
        ["executor"], {**SPARK, **environ, **options, "SPARK_CONF_DIR": "/conf"}
    )
    assert made[:12] == ["/java/bin/java", *(f"-Dn={number}" for number in range(11))]
    assert made[12:16] == ["-Xms2g", "-Xmx2g", "-cp", "/conf:/spark/jars/*"]
    assert made[made.index("--driver-url") + 1] == "driver_url"


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_what_spark_did_not_set_is_named(role: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), role], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"entrypoint: {role}: ")
    assert "Traceback" not in done.stderr
