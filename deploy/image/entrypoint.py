#!/usr/bin/env python3
"""The entry point of the image `trends`.

`driver …` and `executor …` are how Spark on Kubernetes starts its pods, for spark-submit in cluster mode and for the
Spark operator; what else it says stands in the environment. Anything else is a command of penstock.
"""

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"


def command(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The program that these arguments start, with its own. KeyError names a variable that Spark sets."""
    match list(arguments):
        case ["driver", *rest]:
            address = environ["SPARK_DRIVER_BIND_ADDRESS"]
            own = {
                "spark.driver.bindAddress": address,
                "spark.executorEnv.SPARK_DRIVER_POD_IP": address,
            }
            settings = [
                part
                for name, value in own.items()
                for part in ("--conf", f"{name}={value}")
            ]
            return [
                f"{environ['SPARK_HOME']}/bin/spark-submit",
                *settings,
                "--deploy-mode",
                "client",
                *rest,
            ]
        case ["executor", *_]:
            return _executor(environ)
        case _:
            return ["penstock", *arguments]


def _executor(environ: Mapping[str, str]) -> list[str]:
    given = {
        "driver-url": "SPARK_DRIVER_URL",
        "executor-id": "SPARK_EXECUTOR_ID",
        "cores": "SPARK_EXECUTOR_CORES",
        "app-id": "SPARK_APPLICATION_ID",
        "hostname": "SPARK_EXECUTOR_POD_IP",
        "resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "podName": "SPARK_EXECUTOR_POD_NAME",
    }
    memory = environ["SPARK_EXECUTOR_MEMORY"]
    # Spark's own options come one by one: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …
    numbers = sorted(
        int(found[1])
        for name in environ
        if (found := re.fullmatch(r"SPARK_JAVA_OPT_(\d+)", name))
    )
    options = [environ[f"SPARK_JAVA_OPT_{number}"] for number in numbers]
    places = [
        environ.get("SPARK_CONF_DIR"),
        f"{environ['SPARK_HOME']}/jars/*",
        environ.get("SPARK_EXTRA_CLASSPATH"),
    ]
    return [
        *(
            f"{environ['JAVA_HOME']}/bin/java",
            *options,
            f"-Xms{memory}",
            f"-Xmx{memory}",
        ),
        *("-cp", ":".join(filter(None, places)), EXECUTOR),
        *(
            part
            for option, name in given.items()
            for part in (f"--{option}", environ[name])
        ),
    ]


def surroundings() -> dict[str, str]:
    """Where Spark and Python are; a name for a user that has only a number, as on OpenShift: Java wants one."""
    made = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    spark = find_spec("pyspark")
    if spark is not None and spark.submodule_search_locations:
        made["SPARK_HOME"] = spark.submodule_search_locations[0]
    users = Path("/etc/passwd").read_text(encoding="utf-8")
    if not re.search(rf"^[^:]*:[^:]*:{os.getuid()}:", users, re.MULTILINE):
        with tempfile.NamedTemporaryFile("w", delete=False, encoding="utf-8") as file:
            file.write(
                f"{users}penstock-pod:x:{os.getuid()}:{os.getgid()}::/tmp:/usr/sbin/nologin\n"
            )
        made |= {
            "NSS_WRAPPER_PASSWD": file.name,
            "NSS_WRAPPER_GROUP": "/etc/group",
            "LD_PRELOAD": "libnss_wrapper.so",
        }
    return made | os.environ


def main() -> None:
    environ = surroundings()
    try:
        program = command(sys.argv[1:], environ)
    except KeyError as error:
        sys.exit(
            f"entrypoint: {sys.argv[1]}: {error.args[0]} is not set; Spark on Kubernetes sets it"
        )
    os.execvpe(program[0], program, environ)  # noqa: S606 - the container's own program


if __name__ == "__main__":
    main()
