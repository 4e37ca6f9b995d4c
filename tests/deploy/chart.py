"""The chart as it is rendered, from golden files; with helm (`make test-chart`) they are made anew and compared."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

TOP = Path(__file__).parents[2]
CHART = TOP / "helm" / "penstock"
GOLDEN = Path(__file__).parent / "golden"
VARIANTS = sorted(
    path.name.removesuffix("-values.yaml")
    for path in (CHART / "ci").glob("*-values.yaml")
)

Manifest = dict[str, Any]


def helm() -> str | None:
    """The helm to run: $HELM or the one on the path."""
    return os.environ.get("HELM") or shutil.which("helm")


def run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = helm()
    assert command is not None
    return subprocess.run(
        [command, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def rendered(variant: str) -> list[Manifest]:
    """What helm makes of a variant's values; what stands in files of the repository anyway is cut out."""
    made = run_helm(
        "template",
        "r",
        str(CHART),
        "--namespace",
        "mq",
        "--values",
        str(values_of(variant)),
    )
    assert made.returncode == 0, made.stderr
    return [_short(one) for one in yaml.safe_load_all(made.stdout) if one]


def value_sets() -> dict[str, dict[str, Any]]:
    """By what they want of the chart; with one broker where they name none."""
    sets: dict[str, dict[str, Any]] = yaml.safe_load(
        (Path(__file__).parent / "value_sets.yaml").read_text()
    )
    for values in sets.values():
        config = values.setdefault("config", {})
        if (
            "existingConfigSecret" not in values
            and not {"brokers", "discovery"} & config.keys()
        ):
            config["brokers"] = [
                {
                    "name": "b1",
                    "kind": "artemis",
                    "url": "http://b1:8161/console/jolokia/",
                }
            ]
    return sets


def made_of(
    values: dict[str, Any], folder: Path, *, release: str = "r", namespace: str = "mq"
) -> list[Manifest]:
    """What helm makes of values."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    made = run_helm(
        "template", release, str(CHART), "--namespace", namespace, "--values", str(file)
    )
    assert made.returncode == 0, made.stderr
    return [one for one in yaml.load_all(made.stdout, Loader=yaml.CSafeLoader) if one]


def values_of(variant: str) -> Path:
    return CHART / "ci" / f"{variant}-values.yaml"


def golden(variant: str) -> list[Manifest]:
    """What it made when the golden file was written."""
    return list(
        yaml.load_all((GOLDEN / f"{variant}.yaml").read_text(), Loader=yaml.CSafeLoader)
    )


def every() -> Iterator[tuple[str, Manifest]]:
    """All objects of all variants."""
    return ((variant, one) for variant in VARIANTS for one in golden(variant))


def _short(manifest: Manifest) -> Manifest:
    if manifest["kind"] == "PrometheusRule":
        manifest["spec"]["groups"] = [
            group["name"] for group in manifest["spec"]["groups"]
        ]
    if manifest["kind"] == "ConfigMap":
        manifest["data"] = {
            name: text if not name.endswith(".json") else "a dashboard"
            for name, text in manifest["data"].items()
        }
    return manifest


def main() -> None:
    """Write the golden files."""
    GOLDEN.mkdir(exist_ok=True)
    for variant in VARIANTS:
        text = yaml.safe_dump_all(rendered(variant), sort_keys=True, allow_unicode=True)
        (GOLDEN / f"{variant}.yaml").write_text(text)


if __name__ == "__main__":
    main()
