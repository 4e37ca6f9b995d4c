"""Finding a Java to run, and what of the environment it is given."""

import os
import shutil
from pathlib import Path

from penstock.core.errors import ConfigError

PASSED_ON = ("PATH", "HOME", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "JAVA_HOME",
             "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")  # fmt: skip
"""Variables that a Java process may need; secrets for `${NAME}` of the configuration are among the others."""


def environment() -> dict[str, str]:
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


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
