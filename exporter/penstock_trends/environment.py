"""Whether Spark can start on this machine: what it needs, and what to set where that is missing.

Spark's own messages for these are stack traces of Java, or come from a worker in the middle of a job.
"""

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.core.errors import PenstockError

JAVA_NEEDED: Final = 17
"""By Spark 4."""
SECONDS: Final = 30.0
"""For a Python to say its version."""
VERSION_OF_PYTHON: Final = "import sys; print('%d.%d' % sys.version_info[:2])"


class NoSpark(PenstockError):
    """Spark cannot start here, and what to set."""


def check_environment(spark_version: str, *, local: bool, environment: Mapping[str, str] = os.environ) -> None:
    """Raises NoSpark with the first thing that is missing. spark_version: of pyspark. local: workers run here."""
    check_user(os.geteuid())
    check_spark_home(environment.get("SPARK_HOME", ""), spark_version)
    check_java(environment, spark_version)
    if local:
        check_worker_python(environment.get("PYSPARK_PYTHON", ""))


def check_user(user: int) -> None:
    """Hadoop, which Spark logs in with, asks the system for the name and the home of its user."""
    try:
        pwd.getpwuid(user)
    except KeyError:
        raise NoSpark(
            f"the user {user} has no name on this machine, and Spark does not start without one: add a line for it to"
            " /etc/passwd, or run as a user that has one (in Kubernetes: runAsUser)"
        ) from None


def check_spark_home(home: str, spark_version: str) -> None:
    """The Spark that SPARK_HOME names is started in place of the one that pyspark brings."""
    if not home:
        return
    versions = [re.search(r"-(\d+(?:\.\d+)+)", jar.name) for jar in Path(home, "jars").glob("spark-core_*.jar")]
    there = next((found[1] for found in versions if found), "")
    if not there:
        raise NoSpark(f"SPARK_HOME={home}: holds no Spark; unset SPARK_HOME, pyspark {spark_version} brings its own")
    if minor_version(there) != minor_version(spark_version):
        raise NoSpark(
            f"SPARK_HOME={home}: is Spark {there}, but pyspark is {spark_version}; unset SPARK_HOME, or install"
            f" pyspark {there}"
        )


def minor_version(version: str) -> tuple[str, ...]:
    """The parts of a version within which pyspark and Spark understand each other."""
    return tuple(version.split(".")[:2])


def check_java(environment: Mapping[str, str], spark_version: str) -> None:
    """That of JAVA_HOME, else the first on the PATH, as Spark's own scripts choose it."""
    home = environment.get("JAVA_HOME", "")
    if home:
        java, named = Path(home, "bin", "java"), f"JAVA_HOME={home}"
        if not os.access(java, os.X_OK):
            raise NoSpark(
                f"{named}: has no bin/java; set JAVA_HOME to the directory of a Java {JAVA_NEEDED} or later, or unset"
                " it"
            )
    else:
        found = shutil.which("java", path=environment.get("PATH"))
        if found is None:
            raise NoSpark(
                f"no Java was found, and Spark needs Java {JAVA_NEEDED} or later: install it, or set JAVA_HOME to where"
                " it is"
            )
        java, named = Path(found), found
    version = java_version(java)
    if version is not None and version < JAVA_NEEDED:
        raise NoSpark(
            f"{named}: is Java {version}, and Spark {spark_version} needs Java {JAVA_NEEDED} or later; set JAVA_HOME to"
            " one"
        )


def java_version(java: Path) -> int | None:
    """By the file `release` beside it, as starting it takes as long as a part of the job; None: it does not say."""
    try:
        said = (java.resolve().parents[1] / "release").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', said, re.MULTILINE)
    return int(found[1]) if found else None


def check_worker_python(python: str) -> None:
    """What a worker gets was pickled by this Python, and is read by that of PYSPARK_PYTHON."""
    if python in ("", sys.executable):
        return
    ours = "{}.{}".format(*sys.version_info[:2])
    advice = f"set PYSPARK_PYTHON to a Python {ours} that has Penstock, or unset it"
    try:
        done = subprocess.run(
            [python, "-c", VERSION_OF_PYTHON], capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "strerror", None) or f"{type(error).__name__}"
        raise NoSpark(f"PYSPARK_PYTHON={python}: cannot be run ({why}); {advice}") from None
    theirs = done.stdout.strip()
    if theirs != ours:
        raise NoSpark(f"PYSPARK_PYTHON={python}: is Python {theirs}, and this is Python {ours}; {advice}")
