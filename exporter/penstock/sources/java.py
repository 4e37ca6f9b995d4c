"""Finding a Java to run."""

import os
import shutil
from pathlib import Path

from penstock.errors import ConfigError


def find_java(configured: Path | None) -> str:
    """The `java` that is configured, else JAVA_HOME's, else that of PATH. ConfigError when there is none."""
    if configured is not None:
        return str(configured)
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        where = f"there is none at JAVA_HOME={home}" if home else "none is installed"
        raise ConfigError(f"JMX needs a Java 11 or later: {where}; install one, or name it as `java:` of the broker")
    return java
