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
SPARK_LIBRARY: Final = re.compile(r"-(\d+(?:\.\d+)+)")
JAVA_RELEASE: Final = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
"""1.8 is Java 8."""


class NoSpark(PenstockError):
    """Spark cannot start here, and what to set."""


def check_environment(
    spark_version: str, *, local: bool, environment: Mapping[str, str] = os.environ
) -> None:
    """Raises NoSpark with the first thing that is missing. spark_version: of pyspark. local: workers run here."""
    check_user(os.geteuid())
    check_spark_home(environment.get("SPARK_HOME", ""), spark_version)
    check_java(environment, spark_version)
    if local:
        check_worker_python(environment.get("PYSPARK_PYTHON", ""))


def check_user(user: int) -> None:
    """Raise NoSpark where the user has no name on this machine. user: its number.

    Hadoop, which Spark logs in with, asks the system for the name and home of its user.
    """
    try:
        pwd.getpwuid(user)
    except KeyError:
        raise NoSpark(
            f"the user {user} has no name on this machine, and Spark does not start without one: add a line for it to"
            " /etc/passwd, or run as a user that has one (in Kubernetes: runAsUser)"
        ) from None


def check_spark_home(home: str, spark_version: str) -> None:
    """Raise NoSpark where SPARK_HOME names no Spark, or one of another version than pyspark: it would be started.

    Args:
        home: SPARK_HOME; empty where it is not set: then the Spark of pyspark is started.
        spark_version: Of pyspark.
    """
    if not home:
        return
    home_version = version_of_spark(Path(home))
    if home_version is None:
        raise NoSpark(
            f"SPARK_HOME={home}: holds no Spark; unset SPARK_HOME, pyspark {spark_version} brings its own"
        )
    if minor_version(home_version) != minor_version(spark_version):
        raise NoSpark(
            f"SPARK_HOME={home}: is Spark {home_version}, but pyspark is {spark_version}; unset SPARK_HOME, or install"
            f" pyspark {home_version}"
        )


def version_of_spark(home: Path) -> str | None:
    """The version of the Spark in a directory, by the name of its core library; None where there is no such."""
    for library in (home / "jars").glob("spark-core_*.jar"):
        match = SPARK_LIBRARY.search(library.name)
        if match is not None:
            return match[1]
    return None


def minor_version(version: str) -> tuple[str, ...]:
    """The parts of a version within which pyspark and Spark understand each other."""
    return tuple(version.split(".")[:2])


def check_java(environment: Mapping[str, str], spark_version: str) -> None:
    """Raise NoSpark where Spark would start no Java, or one that is too old.

    As Spark's own scripts, it takes the Java of JAVA_HOME, else the first one on the
    PATH.
    """
    home = environment.get("JAVA_HOME", "")
    if home:
        name = f"JAVA_HOME={home}"
        java = java_of_home(home)
    else:
        java = java_of_path(environment.get("PATH"))
        name = str(java)
    version = java_version(java)
    if version is not None and version < JAVA_NEEDED:
        raise NoSpark(
            f"{name}: is Java {version}, and Spark {spark_version} needs Java {JAVA_NEEDED} or later; set JAVA_HOME to"
            " one"
        )


def java_of_home(home: str) -> Path:
    """The program `java` of a JAVA_HOME. Raises NoSpark where it cannot be run."""
    java = Path(home, "bin", "java")
    if os.access(java, os.X_OK):
        return java
    raise NoSpark(
        f"JAVA_HOME={home}: has no bin/java; set JAVA_HOME to the directory of a Java {JAVA_NEEDED} or later, or unset"
        " it"
    )


def java_of_path(path: str | None) -> Path:
    """The first `java` on a PATH. Raises NoSpark where there is none."""
    java = shutil.which("java", path=path)
    if java is not None:
        return Path(java)
    raise NoSpark(
        f"no Java was found, and Spark needs Java {JAVA_NEEDED} or later: install it, or set JAVA_HOME to where it is"
    )


def java_version(java: Path) -> int | None:
    """The version of a Java, by the file `release` of its directory; None where that does not say.

    To ask Java itself would take as long as a part of the job.
    """
    home = java.resolve().parents[1]
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        return None
    match = JAVA_RELEASE.search(text)
    return None if match is None else int(match[1])


def check_worker_python(python: str) -> None:
    """Raise NoSpark where workers would run another version of Python: they could not read what this one pickles.

    python: PYSPARK_PYTHON; empty where it is not set: then it is this Python.
    """
    if python in ("", sys.executable):
        return
    own_version = "{}.{}".format(*sys.version_info[:2])
    advice = (
        f"set PYSPARK_PYTHON to a Python {own_version} that has Penstock, or unset it"
    )
    command = [python, "-c", VERSION_OF_PYTHON]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except OSError as error:
        raise NoSpark(
            f"PYSPARK_PYTHON={python}: cannot be run ({error.strerror}); {advice}"
        ) from None
    except subprocess.SubprocessError:
        raise NoSpark(
            f"PYSPARK_PYTHON={python}: cannot be run, or is no Python; {advice}"
        ) from None
    worker_version = done.stdout.strip()
    if worker_version != own_version:
        raise NoSpark(
            f"PYSPARK_PYTHON={python}: is Python {worker_version}, and this is Python {own_version}; {advice}"
        )
