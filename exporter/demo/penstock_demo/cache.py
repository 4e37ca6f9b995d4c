"""Downloads are kept in `$PENSTOCK_CACHE`, else `~/.cache/penstock`. Several processes may share it."""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock_demo.errors import DemoError

_JAVA_NEEDED = 17
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


def cache_dir() -> Path:
    """The folder of the downloads; created when it is not there."""
    folder = Path(
        os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock"
    ).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoError(
            f"cannot create the download folder {folder}: {error}; set PENSTOCK_CACHE to another"
        ) from None
    return folder


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold the lock of `target` (a file beside it) against other processes and threads; waits until it is free."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{target}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def maven(goal: str, *options: str, repository: Path | None = None) -> None:
    """Run one goal of Maven's dependency plugin; `repository`: an own local repository in place of the user's."""
    require_java()
    mvn = shutil.which("mvn")
    if mvn is None:
        raise DemoError(
            "Maven (mvn) is not installed; it fetches the broker (apt-get install maven)"
        )
    local = [] if repository is None else [f"-Dmaven.repo.local={repository}"]
    command = [
        mvn,
        "--batch-mode",
        "--quiet",
        "--strict-checksums",
        *local,
        f"{_PLUGIN}:{goal}",
        *options,
    ]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise DemoError(
            f"Maven could not fetch {_subject(options)}: is this machine online, does ~/.m2/settings.xml need a "
            f"mirror? Maven's exit code is {done.returncode}, it says: {_first_error(done.stdout + done.stderr)}"
        )


def require_java() -> str:
    """The path of a Java that is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        where = f"not at JAVA_HOME={home}" if home else "not installed"
        raise DemoError(
            f"Java is {where}; install Java 17 or newer. Debian, Ubuntu: apt-get install openjdk-17-jdk-headless"
        )
    output = subprocess.run(
        [java, "-version"], check=False, capture_output=True, text=True
    ).stderr
    version = re.search(r'version "(\d+)', output)
    if version is None or int(version[1]) < _JAVA_NEEDED:
        first = output.partition("\n")[0] or "no answer"
        raise DemoError(
            f"{java} is too old or not a Java ({first}); install Java {_JAVA_NEEDED} or newer"
        )
    return java


def _subject(options: Sequence[str]) -> str:
    """The artifact or the pom that the options name."""
    named = [
        option.partition("=")[2]
        for option in options
        if option.startswith("-Dartifact=")
    ]
    return named[0] if named else "the jars"


def _first_error(output: str) -> str:
    """The line of Maven's output that says what is wrong."""
    lines = [
        line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", output).splitlines()
    ]  # without colours
    messages = [line for line in lines if line not in ("", "[ERROR]")]
    return next(
        (line for line in messages if line.startswith("[ERROR]")),
        "".join(messages[:1]) or "it said nothing",
    )
