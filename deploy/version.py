"""`python deploy/version.py [TAG]`: the version, as `exporter/penstock/__init__.py` says it; other places must agree.

`--notes` prints what the changelog says of it.
"""

import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
PLACES = {
    "helm/penstock/Chart.yaml": r"^(?:version|appVersion): \"?([^\s\"]+)\"?$",
    "deploy/sidecar/activemqartemis.yaml": r"image: \S+/penstock:(\S+)$",
    "deploy/sidecar/statefulset-patch.yaml": r"image: \S+/penstock:(\S+)$",
    "deploy/sidecar/statefulset-native-patch.yaml": r"image: \S+/penstock:(\S+)$",
    "CHANGELOG.md": r"\A# Changelog\n\n## (\S+)",
}
"""File → where it names the version."""


def version() -> str:
    text = (TOP / "exporter/penstock/__init__.py").read_text(encoding="utf-8")
    return re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]


def wrong(tag: str) -> list[str]:
    """Where another version is named."""
    expected = version()
    found = {
        name: set(
            re.findall(pattern, (TOP / name).read_text(encoding="utf-8"), re.MULTILINE)
        )
        for name, pattern in PLACES.items()
    }
    if tag:
        found["the tag"] = {tag.removeprefix("v")}
    return [
        f"{name}: {', '.join(names) or 'no version'}"
        for name, names in found.items()
        if names != {expected}
    ]


def notes() -> str:
    """The changelog's part on this version."""
    text = (TOP / "CHANGELOG.md").read_text(encoding="utf-8")
    return re.split(r"^## .*\n", text, flags=re.MULTILINE)[1].strip()


def main(arguments: list[str]) -> int:
    if arguments == ["--notes"]:
        print(notes())  # noqa: T201
        return 0
    if others := wrong(arguments[0] if arguments else ""):
        print(f"not {version()}: {'; '.join(others)}", file=sys.stderr)  # noqa: T201
        return 1
    print(version())  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
