"""
A real Kubernetes API server (no nodes) with the Prometheus operator's objects known: `make test-cluster`.

Installs, upgrades and rolls back the chart with helm, and holds what the server says against what is expected: it knows
every field, and warns of what the restricted pod security does not allow.
"""

import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from deploy import chart
from deploy.custom import SPECS
from penstock_demo.ports import LOOPBACK, free_port

TOOLS = chart.TOP / ".tools"
TIMEOUT = 60
ANY = ssl._create_unverified_context()  # noqa: S323 - its certificate is made at its start
VARIANTS = ("minimal", "sharded", "full", "podmonitor")


@contextmanager
def running(command: list[str], log: Path) -> Iterator[None]:
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=out) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def cluster(home: Path) -> Iterator[Path]:
    """The server; gives the file by which helm finds it."""
    client = free_port()
    peer = free_port()
    secure = free_port()
    token = secrets.token_hex(16)
    (home / "tokens.csv").write_text(f'{token},admin,1,"system:masters"\n')
    subprocess.run(
        ["openssl", "genrsa", "-out", str(home / "sa.key"), "2048"],
        check=True,
        capture_output=True,
    )
    store = [
        str(TOOLS / "etcd"), "--data-dir", str(home / "etcd"), "--unsafe-no-fsync",
        "--listen-client-urls", f"http://{LOOPBACK}:{client}", "--advertise-client-urls", f"http://{LOOPBACK}:{client}",
        "--listen-peer-urls", f"http://{LOOPBACK}:{peer}",
    ]  # fmt: skip
    server = [
        str(TOOLS / "kube-apiserver"), f"--etcd-servers=http://{LOOPBACK}:{client}", f"--bind-address={LOOPBACK}",
        f"--secure-port={secure}", f"--cert-dir={home / 'certs'}",
        "--service-cluster-ip-range=10.0.0.0/24,fd00:10::/108",
        "--service-account-issuer=https://kubernetes.example", f"--service-account-key-file={home / 'sa.key'}",
        f"--service-account-signing-key-file={home / 'sa.key'}", f"--token-auth-file={home / 'tokens.csv'}",
        "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
    ]  # fmt: skip
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [
            {
                "name": "test",
                "cluster": {
                    "server": f"https://{LOOPBACK}:{secure}",
                    "insecure-skip-tls-verify": True,
                },
            }
        ],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
    }
    (home / "kubeconfig").write_text(json.dumps(config))
    # The API server goes first: without its store it would not end.
    with running(store, home / "etcd.log"), running(server, home / "apiserver.log"):
        until_ready(f"https://{LOOPBACK}:{secure}/readyz", token)
        yield home / "kubeconfig"


def ask(
    url: str, token: str, body: bytes | None = None, kind: str = "application/json"
) -> bytes:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=10, context=ANY) as answer:  # noqa: S310
        return bytes(answer.read())


def until_ready(url: str, token: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            ask(url, token)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)
        else:
            return


def custom_objects() -> list[Path]:
    """Definitions of the Prometheus operator's objects, from its Go module."""
    module = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
    command = ["go", "mod", "download", "-json", module]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    folder = (
        Path(json.loads(made.stdout)["Dir"]) / "example" / "prometheus-operator-crd"
    )
    names = ("servicemonitors", "podmonitors", "prometheusrules", "alertmanagerconfigs")
    return [folder / f"monitoring.coreos.com_{name}.yaml" for name in names]


class Definitions(yaml.SafeLoader):
    """That takes `=`, a matcher, for a text, as YAML 1.2 does."""


def as_text(loader: Definitions, node: yaml.ScalarNode) -> object:
    return loader.construct_scalar(node)


Definitions.add_constructor("tag:yaml.org,2002:value", as_text)


def others() -> Iterator[Any]:
    """Definitions that take any fields, of operators whose own are not at hand; `custom.py` holds what is used."""
    for kind, api in SPECS:
        group, version = api.split("/")
        plural = f"{kind.lower()}s"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"{plural}.{group}",
                "annotations": {
                    "api-approved.kubernetes.io": "unapproved, for a test"
                },  # groups of k8s.io need it
            },
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {
                    "kind": kind,
                    "plural": plural,
                    "singular": kind.lower(),
                    "listKind": f"{kind}List",
                },
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": schema},
                    }
                ],
            },
        }


def main() -> int:
    """Print what was done; 1 when the server refused or warned."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        kubeconfig = stack.enter_context(cluster(Path(home)))
        config = json.loads(kubeconfig.read_text())
        url = config["clusters"][0]["cluster"]["server"]
        token = config["users"][0]["user"]["token"]
        known = [
            yaml.load(file.read_text(), Loader=Definitions)  # noqa: S506 - a safe one
            for file in custom_objects()
        ]
        for definition in [*known, *others()]:
            made = json.dumps(definition).encode()
            ask(
                f"{url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                token,
                made,
            )
        os.environ["KUBECONFIG"] = str(kubeconfig)
        sets = list(chart.value_sets().items())
        spaces = [
            *VARIANTS,
            *(f"set-{n}" for n in range(len(sets))),
            "observability",
            "monitoring",
            "grafana",
        ]
        for name in spaces:
            space = {
                "metadata": {
                    "name": name,
                    "labels": {"pod-security.kubernetes.io/warn": "restricted"},
                }
            }
            ask(f"{url}/api/v1/namespaces", token, json.dumps(space).encode())
        for variant in VARIANTS:
            wrong += played(variant)
        for n, (name, values) in enumerate(sets):
            wrong += installed(Path(home), f"set-{n}", name, values)
        bogus = (
            "--set",
            "serviceMonitor.enabled=true",
            "--set",
            "serviceMonitor.interval=bogus",
        )
        bad = helm("install", "bad", "minimal", *bogus)
        if bad.returncode == 0:
            wrong.append(
                "the server took a ServiceMonitor with a bogus interval: it checks nothing"
            )
    print(  # noqa: T201
        json.dumps({"variants": len(VARIANTS), "value_sets": len(sets), "wrong": wrong})
    )
    return int(bool(wrong))


def installed(
    folder: Path, space: str, name: str, values: dict[str, Any]
) -> Iterator[str]:
    """Install with a set of values, and uninstall; what went wrong. Containers that it brings are its own matter."""
    file = folder / f"{space}.yaml"
    file.write_text(yaml.safe_dump(values))
    options = ("--namespace", space, "--values", str(file))
    done = chart.run_helm("install", space, str(chart.CHART), *options)
    if done.returncode:
        yield f"{name}: {done.stderr.strip()}"
    if not {"extraContainers", "initContainers"} & values.keys():
        yield from (
            f"{name}: {line}"
            for line in done.stderr.splitlines()
            if "violate PodSecurity" in line
        )
    gone = chart.run_helm("uninstall", space, "--namespace", space)
    if gone.returncode:
        yield f"{name}: {gone.stderr.strip()}"


def played(variant: str) -> Iterator[str]:
    """Install, upgrade, roll back; what went wrong."""
    steps = (
        ("install", "r", variant),
        ("upgrade", "r", variant, "--set", "resources.limits.memory=512Mi"),
        ("rollback", "r", variant, "1"),
    )
    for step in steps:
        done = helm(*step)
        said = done.stdout + done.stderr
        print(f"{variant}: {step[0]}: {'done' if done.returncode == 0 else 'REFUSED'}")  # noqa: T201
        if done.returncode:
            yield f"{variant}: {step[0]}: {done.stderr.strip()}"
        yield from (
            f"{variant}: {step[0]}: {line}"
            for line in said.splitlines()
            if "violate PodSecurity" in line
        )


def helm(
    verb: str, release: str, variant: str, *more: str
) -> subprocess.CompletedProcess[str]:
    if verb == "rollback":
        return chart.run_helm("rollback", release, *more, "--namespace", variant)
    values = ("--values", str(chart.values_of(variant)))
    return chart.run_helm(
        verb, release, str(chart.CHART), "--namespace", variant, *values, *more
    )


if __name__ == "__main__":
    missing = [
        name for name in ("etcd", "kube-apiserver") if not (TOOLS / name).exists()
    ]
    if missing or shutil.which("go") is None:
        sys.exit(f"needs {', '.join(missing) or 'Go'}; make test-cluster brings them")
    sys.exit(main())
