"""
Build hook: compiles the Java program that asks brokers over JMX into a jar inside the package, and writes the commit.

The jar is the same from the same sources, byte for byte. Without a JDK the package is built without it; all but
`transport: jmx` works then.
"""

import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path("java")
JAR = Path("exporter/penstock/transports/jmx-helper.jar")
MANIFEST = "Manifest-Version: 1.0\r\nMain-Class: penstock.jmx.Helper\r\n\r\n"
RELEASE = "11"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of every entry: the earliest that a zip can hold."""


class JarHook(BuildHookInterface):  # type: ignore[type-arg]
    """Makes the jar before the wheel, also for an editable install, which sees it in the package's folder."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        if version == "standard" and (commit := revision(root)):
            file = root / "build" / "revision.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{commit}\n", encoding="utf-8")
            build_data["force_include"][str(file)] = "penstock/revision.txt"
        made = make_jar(root / SOURCES, root / JAR)
        if made:
            build_data["force_include"][str(root / JAR)] = (
                "penstock/transports/jmx-helper.jar"
            )
        else:
            self.app.display_warning(
                "No javac found: the package is built without the JMX helper."
            )


def revision(root: Path) -> str:
    """The commit that is built: as PENSTOCK_REVISION has it, or git; empty where neither says it."""
    if given := os.environ.get("PENSTOCK_REVISION"):
        return given
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return ""
    command = [
        git,
        "-C",
        str(root),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]
    return subprocess.run(
        command, capture_output=True, text=True, check=False
    ).stdout.strip()


def make_jar(sources: Path, jar: Path) -> bool:
    """Compile all sources into `jar`; False without a JDK. The jar stays as it is when nothing in it changes."""
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=f"{home}/bin") if home else shutil.which("javac")
    if javac is None:
        return False
    with tempfile.TemporaryDirectory() as scratch:
        classes = Path(scratch) / "classes"
        files = [str(file) for file in sorted(sources.rglob("*.java"))]
        subprocess.run(
            [javac, "--release", RELEASE, "-g:none", "-d", str(classes), *files],
            check=True,
        )
        fresh = Path(scratch) / "fresh.jar"
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
            _add(archive, "META-INF/MANIFEST.MF", MANIFEST.encode())
            for file in sorted(classes.rglob("*.class")):
                _add(archive, file.relative_to(classes).as_posix(), file.read_bytes())
        if not jar.exists() or jar.read_bytes() != fresh.read_bytes():
            beside = jar.with_suffix(f".{os.getpid()}")
            shutil.copyfile(fresh, beside)
            beside.rename(jar)
    return True


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)
