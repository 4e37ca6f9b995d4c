"""Each documented way to install, followed from its page into an empty place: `make test-install`."""

import gzip
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from cli.documented import ROOT
from penstock_demo.ports import free_port

RECORDING = ROOT / "tests" / "recordings" / "artemis-2.44.0.jsonl.gz"
CLEAN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def commands(page: str, heading: str) -> list[str]:
    """The lines of shell below a heading of a page."""
    text = (ROOT / "docs" / page).read_text()
    part = re.split(r"^## ", text.partition(f"## {heading}\n")[2], flags=re.MULTILINE)[0]
    blocks = re.findall(r"^```(?:bash|sh)?\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def shown(penstock: list[str], folder: Path, *, history: bool) -> str:
    """`/metrics` once the agent has polled; checked first with the same configuration."""
    broker = {"name": "b1", "kind": "artemis", "transport": "recording", "url": f"recording:{RECORDING}"}
    config, port = folder / "penstock.yaml", free_port()
    config.write_text(yaml.safe_dump({"interval": "5s", "brokers": [broker], "history": {"enabled": history}}))
    subprocess.run([*penstock, "check", "--offline", "--config.file", str(config)], check=True, env=CLEAN, cwd=folder)
    command = [*penstock, "run", "--config.file", str(config), "--web.listen-address", f"127.0.0.1:{port}"]
    with subprocess.Popen([*command, "--storage.path", str(folder / "data")], env=CLEAN, cwd=folder) as agent:
        try:
            deadline = time.monotonic() + 60
            while True:
                assert agent.poll() is None, "the agent has ended"
                assert time.monotonic() < deadline
                try:
                    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                        body: str = answer.read().decode()
                except OSError:
                    body = ""
                if 'mq_up{broker="b1"} 1' in body:
                    return body
                time.sleep(0.3)
        finally:
            agent.terminate()


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make release-dry` builds."""
    folder = tmp_path_factory.mktemp("release")
    subprocess.run([str(ROOT / "deploy" / "release.sh"), str(folder)], cwd=ROOT, check=True, timeout=900)
    return folder


def venv(folder: Path) -> Path:
    subprocess.run(["python3", "-m", "venv", str(folder)], check=True)
    return folder / "bin"


def test_a_checkout_as_the_page_says(tmp_path: Path) -> None:
    (line,) = commands("getting-started.md", "Install")
    programs = venv(tmp_path / "venv")
    subprocess.run(f"{programs}/{line} --quiet", shell=True, cwd=ROOT, check=True, timeout=600)  # noqa: S602 - of our page
    assert shown([str(programs / "penstock")], tmp_path, history=False)


@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_what_is_published_with_history(release: Path, tmp_path: Path, kind: str) -> None:
    (file,) = release.glob(f"penstock-*.{kind}")
    programs = venv(tmp_path / "venv")
    subprocess.run([str(programs / "pip"), "install", "--quiet", f"{file}[history]"], check=True, timeout=600)
    assert shown([str(programs / "penstock")], tmp_path, history=True)


@pytest.mark.skipif(shutil.which("dpkg-deb") is None or os.geteuid() != 0, reason="needs dpkg-deb and root")
def test_the_debian_package(release: Path, tmp_path: Path) -> None:
    """Unpacked; run where it lies, as its Python finds its packages beside itself."""
    make, install = commands("deploy.md", "Without containers")
    assert make == "make release-dry"
    (package,) = release.glob("*.deb")
    assert install.endswith(f"/{package.name}")
    subprocess.run(["dpkg-deb", "-x", str(package), str(tmp_path / "root")], check=True)
    share = tmp_path / "root/usr/share"
    assert b"penstock explain" in gzip.decompress((share / "man/man1/penstock-explain.1.gz").read_bytes())
    assert "_PENSTOCK_COMPLETE" in (share / "bash-completion/completions/penstock").read_text()
    unit = (tmp_path / "root/usr/lib/systemd/system/penstock.service").read_text()
    (program,) = re.findall(r"^ExecStart=(\S+)", unit, re.MULTILINE)
    placed = tmp_path / "root" / program.removeprefix("/")
    assert placed.read_text().startswith("#!/opt/penstock/bin/python")
    assert shown([str(placed.with_name("python")), str(placed)], tmp_path, history=True)
