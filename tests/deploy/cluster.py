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

import yaml

from deploy import chart
from penstock_demo.ports import LOOPBACK, free_port

TOOLS = chart.TOP / ".tools"
TIMEOUT = 60
ANY = ssl._create_unverified_context()  # noqa: S323 - its certificate is made at its start
VARIANTS = {
    "minimal": (),
    "sharded": (),
    # No Grafana operator and no Spark operator is installed there.
    "full": ("--set", "dashboards.grafanaOperator=false"),
    "podmonitor": ("--set", "trends.mode=cronjob"),
}


@contextmanager
def running(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def cluster(home: Path) -> Iterator[Path]:
    """The server; gives the file by which helm finds it."""
    client, peer, secure = free_port(), free_port(), free_port()
    token = secrets.token_hex(16)
    (home / "tokens.csv").write_text(f'{token},admin,1,"system:masters"\n')
    subprocess.run(["openssl", "genrsa", "-out", str(home / "sa.key"), "2048"], check=True, capture_output=True)
    store = [
        str(TOOLS / "etcd"), "--data-dir", str(home / "etcd"), "--unsafe-no-fsync",
        "--listen-client-urls", f"http://{LOOPBACK}:{client}", "--advertise-client-urls", f"http://{LOOPBACK}:{client}",
        "--listen-peer-urls", f"http://{LOOPBACK}:{peer}",
    ]  # fmt: skip
    server = [
        str(TOOLS / "kube-apiserver"), f"--etcd-servers=http://{LOOPBACK}:{client}", f"--bind-address={LOOPBACK}",
        f"--secure-port={secure}", f"--cert-dir={home / 'certs'}", "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://kubernetes.example", f"--service-account-key-file={home / 'sa.key'}",
        f"--service-account-signing-key-file={home / 'sa.key'}", f"--token-auth-file={home / 'tokens.csv'}",
        "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
    ]  # fmt: skip
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [
            {"name": "test", "cluster": {"server": f"https://{LOOPBACK}:{secure}", "insecure-skip-tls-verify": True}}
        ],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
    }
    (home / "kubeconfig").write_text(json.dumps(config))
    # The API server goes first: without its store it would not end.
    with running(store, home / "etcd.log"), running(server, home / "apiserver.log"):
        until_ready(f"https://{LOOPBACK}:{secure}/readyz", token)
        yield home / "kubeconfig"


def ask(url: str, token: str, body: bytes | None = None, kind: str = "application/json") -> bytes:
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
    folder = Path(json.loads(made.stdout)["Dir"]) / "example" / "prometheus-operator-crd"
    names = ("servicemonitors", "podmonitors", "prometheusrules")
    return [folder / f"monitoring.coreos.com_{name}.yaml" for name in names]


def main() -> int:
    """Print what was done; 1 when the server refused or warned."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        kubeconfig = stack.enter_context(cluster(Path(home)))
        config = json.loads(kubeconfig.read_text())
        url, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
        for file in custom_objects():
            definition = json.dumps(yaml.safe_load(file.read_text())).encode()
            ask(f"{url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", token, definition)
        os.environ["KUBECONFIG"] = str(kubeconfig)
        for variant, more in VARIANTS.items():
            space = {"metadata": {"name": variant, "labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
            ask(f"{url}/api/v1/namespaces", token, json.dumps(space).encode())
            wrong += played(variant, more)
        bogus = ("--set", "serviceMonitor.enabled=true", "--set", "serviceMonitor.interval=bogus")
        bad = helm("install", "bad", "minimal", *bogus)
        if bad.returncode == 0:
            wrong.append("the server took a ServiceMonitor with a bogus interval: it checks nothing")
    print(json.dumps({"variants": len(VARIANTS), "wrong": wrong}))  # noqa: T201
    return int(bool(wrong))


def played(variant: str, more: tuple[str, ...]) -> Iterator[str]:
    """Install, upgrade, roll back; what went wrong."""
    steps = (
        ("install", "r", variant, *more),
        ("upgrade", "r", variant, *more, "--set", "resources.limits.memory=512Mi"),
        ("rollback", "r", variant, "1"),
    )
    for step in steps:
        done = helm(*step)
        said = done.stdout + done.stderr
        print(f"{variant}: {step[0]}: {'done' if done.returncode == 0 else 'REFUSED'}")  # noqa: T201
        if done.returncode:
            yield f"{variant}: {step[0]}: {done.stderr.strip()}"
        yield from (f"{variant}: {step[0]}: {line}" for line in said.splitlines() if "violate PodSecurity" in line)


def helm(verb: str, release: str, variant: str, *more: str) -> subprocess.CompletedProcess[str]:
    if verb == "rollback":
        return chart.run_helm("rollback", release, *more, "--namespace", variant)
    values = ("--values", str(chart.values_of(variant)))
    return chart.run_helm(verb, release, str(chart.CHART), "--namespace", variant, *values, *more)


if __name__ == "__main__":
    missing = [name for name in ("etcd", "kube-apiserver") if not (TOOLS / name).exists()]
    if missing or shutil.which("go") is None:
        sys.exit(f"needs {', '.join(missing) or 'Go'}; make test-cluster brings them")
    sys.exit(main())
