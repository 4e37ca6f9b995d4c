"""
`python deploy/licences.py deploy/licences.md`: under which licence each dependency is, from its installed metadata.

Of all that `penstock[all]` installs, what the image holds and what builds it. `make licences` installs them first.
"""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

IMAGE = Path(__file__).parent / "image"
SPDX = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "BSD 3-Clause License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
UNKNOWN = "unknown"
WHERE = {"agent": "image: agent", "trends": "image: trends", "build": "build"}
_HEAD = """\
# Licences of the dependencies

Made from their metadata by `make licences`; do not edit. Penstock itself is under the Apache License 2.0.

PySpark brings Java libraries of its own, listed in the `LICENSE` and `NOTICE` of its package; the image's base and its
Java come from Debian, with their terms in `/usr/share/doc/*/copyright`.

| package | licence | used |
|---|---|---|
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(flavour: str) -> set[str]:
    """The packages in deploy/image/requirements-FLAVOUR.txt."""
    text = (IMAGE / f"requirements-{flavour}.txt").read_text(encoding="utf-8")
    return {normal(name) for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}


def required(name: str, extra: str = "") -> Iterator[tuple[str, str]]:
    """What an installed package requires here: name and extra."""
    from packaging.requirements import Requirement  # noqa: PLC0415 - with the build backend, or with any linter

    for text in distribution(name).requires or ():
        one = Requirement(text)
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            yield from ((normal(one.name), inner) for inner in (*one.extras, ""))


def everything() -> set[str]:
    """All that `penstock[all]` installs here, without Penstock."""
    found = set()
    ahead = [("penstock", "all"), ("penstock", "")]
    while ahead:
        one = ahead.pop()
        if one not in found:
            found.add(one)
            ahead += required(*one)
    return {name for name, _ in found} - {"penstock"}


def licence(package: Distribution) -> str:
    """As SPDX names it where the package says it so; `unknown` where it says nothing."""
    metadata = package.metadata
    text = (metadata.get("License") or "").strip().split("\n")[0].strip()
    classified = [
        one.rsplit(" :: ", 1)[1]
        for one in metadata.get_all("Classifier") or ()
        if " OSI Approved :: " in one
    ]
    said = metadata.get("License-Expression") or " OR ".join(
        SPDX.get(one, one) for one in classified
    )
    if not said and text not in ("", "UNKNOWN"):
        said = SPDX.get(text, text)
    return said or UNKNOWN


def rows() -> dict[str, tuple[str, str]]:
    """Package → licence and where it is used."""
    flavours = {flavour: pinned(flavour) for flavour in WHERE}
    found = {}
    for name in sorted(everything().union(*flavours.values())):
        used = ", ".join(
            WHERE[flavour] for flavour in flavours if name in flavours[flavour]
        )
        try:
            found[name] = licence(distribution(name)), used or "other extras"
        except PackageNotFoundError:
            sys.exit(f"{name} is not installed here; `make licences` installs it")
    return found


def page() -> str:
    return _HEAD + "".join(
        f"| {name} | {said} | {used} |\n" for name, (said, used) in rows().items()
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python deploy/licences.py FILE")
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
