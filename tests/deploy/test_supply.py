"""What the image is made of: pinned by hash, from a base by digest, each under a known licence."""

import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "deploy" / "image"
FLAVOURS = ("agent", "trends", "build")
ACCEPTED = {
    "0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "PSF-2.0", "Zlib",
}  # fmt: skip
"""None asks more of who passes the image on than to keep notices, and for MPL files their source."""


def pins(flavour: str) -> dict[str, tuple[str, int]]:
    """Package → version and number of hashes."""
    text = (IMAGE / f"requirements-{flavour}.txt").read_text()
    found = re.findall(
        r"^([\w.-]+)==([^\s;\\]+).*((?:\n\s+--hash=sha256:[0-9a-f]{64}.*)*)",
        text,
        re.MULTILINE,
    )
    return {
        re.sub(r"[-_.]+", "-", name).lower(): (version, hashes.count("--hash="))
        for name, version, hashes in found
    }


def listed() -> dict[str, str]:
    rows = re.findall(
        r"^\| ([\w-]+) \| (.+?) \| .+ \|$",
        (ROOT / "deploy" / "licences.md").read_text(),
        re.MULTILINE,
    )
    return {name: licence for name, licence in rows if name != "package"}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_requirement_is_pinned_by_hash(flavour: str) -> None:
    found = pins(flavour)
    assert found
    assert all(hashes for _, hashes in found.values()), found
    lines = (IMAGE / f"requirements-{flavour}.txt").read_text().splitlines()
    assert all(
        re.match(r"[\w.-]+==|    --hash=|    #|#", line) for line in lines if line
    ), "nothing else is in it"


def test_the_build_backend_is_the_one_that_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found = pins("build")
    for text in project["build-system"]["requires"]:
        asked = Requirement(text)
        assert asked.specifier.contains(found[asked.name][0])


def test_the_image_installs_nothing_that_is_not_pinned() -> None:
    text = (IMAGE / "Dockerfile").read_text().replace("\\\n", " ")
    installs = re.findall(
        r"pip (?:--python \S+ )?(?:install|wheel) .*?(?= &&|\n)", text
    )
    assert len(installs) == 5
    for one in installs:
        own = "--no-deps" in one and (
            "--no-index" in one or "--no-build-isolation" in one
        )
        assert "--require-hashes" in one or own, one
    copied = set(re.findall(r"COPY deploy/image/(\S+)", text))
    assert copied == {
        *(f"requirements-{flavour}.txt" for flavour in FLAVOURS),
        "entrypoint.py",
    }


@pytest.mark.parametrize(
    ("flavour", "extras"),
    [("agent", ("history", "top")), ("trends", ("trends", "history", "top"))],
)
def test_the_image_has_the_extras_that_the_chart_can_ask_for(
    flavour: str, extras: tuple[str, ...]
) -> None:
    """The chart's `history.enabled` ended the agent with status 2 where pyarrow was not in its image."""
    found = pins(flavour)
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    wanted = [
        Requirement(text)
        for extra in extras
        for text in optional[extra]
        if not text.startswith("penstock[")
    ]
    assert wanted
    for asked in wanted:
        assert asked.specifier.contains(found[asked.name][0]), f"{asked}: {flavour}"


def test_image_and_source_distribution_are_built_with_what_links_of_the_package_lead_to() -> (
    None
):
    text = (IMAGE / "Dockerfile").read_text()
    copied = [
        ROOT / one
        for line in re.findall(r"^COPY (?!-)(.+) \S+$", text, re.MULTILINE)
        for one in line.split()
    ]
    sent = [
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"][
        "build"
    ]["targets"]
    links = [path for path in (ROOT / "exporter").rglob("*") if path.is_symlink()]
    assert links
    for link in links:
        assert any(link.resolve().is_relative_to(place) for place in copied), (
            f"{link}: not in the image's build"
        )
        name = link.resolve().relative_to(ROOT)
        for where, patterns in (
            (".dockerignore", sent),
            ("sdist", targets["sdist"]["include"]),
        ):
            assert any(
                name.is_relative_to(one) or name.match(one) for one in patterns
            ), f"{link}: not in {where}"


def test_the_base_is_named_by_its_digest() -> None:
    text = (IMAGE / "Dockerfile").read_text()
    assert re.findall(r"^ARG BASE(.*)$", text, re.MULTILINE) == ["", ""], "no default"
    bases = set(re.findall(r"^FROM (\S+)", text, re.MULTILINE))
    assert bases == {"${BASE}", "build", "bare", "agent"}
    (check,) = re.findall(r"^RUN (case .* esac)$", text, re.MULTILINE)

    def refused(base: str, **more: str) -> bool:
        environment = {"BASE": base, **more}
        return bool(
            subprocess.run(
                ["sh", "-c", check], env=environment, capture_output=True, check=False
            ).returncode
        )

    assert refused("python:3.11-slim-bookworm")
    assert refused("")
    assert not refused(f"python:3.11-slim-bookworm@sha256:{'0' * 64}")
    assert not refused("localhost/base")
    assert not refused("python:3.11-slim-bookworm", WITHOUT_DIGEST="allowed")
    assert refused("", WITHOUT_DIGEST="allowed")
    compose: Any = yaml.safe_load(
        (ROOT / "deploy" / "plain" / "compose.yaml").read_text()
    )
    assert compose["services"]["penstock"]["build"]["args"]["BASE"].startswith(
        "${BASE:?"
    )


def test_every_dependency_is_listed_with_a_licence_that_is_accepted() -> None:
    found = listed()
    installed = runpy.run_path(str(ROOT / "deploy" / "licences.py"))["everything"]()
    assert {"aiohttp", "pyspark", "textual"} <= installed
    assert installed.union(*(pins(flavour) for flavour in FLAVOURS)) <= found.keys(), (
        "make licences"
    )
    for name, licence in found.items():
        assert set(re.split(r" AND | OR |[() ]+", licence)) - {""} <= ACCEPTED, (
            f"{name}: {licence}"
        )


def test_a_licence_that_is_not_said_is_unknown() -> None:
    class Package:
        def __init__(self, **metadata: str) -> None:
            from email.message import Message  # noqa: PLC0415

            self.metadata = Message()
            for name, value in {"Name": "x", **metadata}.items():
                self.metadata[name.replace("_", "-")] = value

    licence = runpy.run_path(str(ROOT / "deploy" / "licences.py"))["licence"]
    assert licence(Package()) == licence(Package(License="UNKNOWN")) == "unknown"
    assert "unknown" not in ACCEPTED
    assert licence(Package(License_Expression="MIT", License="Apache 2.0")) == "MIT"
    assert (
        licence(Package(Classifier="License :: OSI Approved :: BSD License")) == "BSD"
    )
    assert licence(Package(License="Apache 2.0\n\nlong text")) == "Apache-2.0"
    assert licence(Package(License="GPL")) == "GPL"
