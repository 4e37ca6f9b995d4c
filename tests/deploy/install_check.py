"""Each documented way to install without a cluster, followed from its page into an empty place: `make test-install`."""

import gzip
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import jsonschema
import pytest
import yaml

from cli.documented import ROOT
from deploy import pods
from deploy.pages import commands
from deploy.pods import Images, Objects, Pod
from penstock_demo.ports import free_port

RECORDING = ROOT / "tests" / "recordings" / "artemis-2.44.0.jsonl.gz"
CLEAN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
CERTIFICATES = Path("/etc/ssl/certs")

pytestmark = pytest.mark.timeout(3600)
needs_root = pytest.mark.skipif(
    bool(pods.missing()), reason=f"needs {', '.join(pods.missing())}"
)


def configured(folder: Path, recording: Path, **more: Any) -> Path:
    """A configuration with one broker, which a recording stands in for."""
    broker = {
        "name": "b1",
        "kind": "artemis",
        "transport": "recording",
        "url": f"recording:{recording}",
    }
    config = folder / "penstock.yaml"
    config.write_text(yaml.safe_dump({"interval": "5s", "brokers": [broker], **more}))
    return config


def until_up(port: int, alive: Any) -> None:
    """Until the agent at this port has polled; `alive` says whether it still runs."""
    deadline = time.monotonic() + 60
    while True:
        assert alive(), "the agent has ended"
        assert time.monotonic() < deadline
        try:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                if 'mq_up{broker="b1"} 1' in answer.read().decode():
                    return
        except OSError:
            time.sleep(0.3)


def checked(penstock: Path, config: Path) -> subprocess.CompletedProcess[str]:
    command = [str(penstock), "check", "--offline", "--config.file", str(config)]
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env=CLEAN,
        cwd=config.parent,
    )


def run(penstock: Path, folder: Path, *, history: bool) -> None:
    """Check the configuration, run with it, and wait for the first poll."""
    config = configured(folder, RECORDING, history={"enabled": history})
    port = free_port()
    done = checked(penstock, config)
    assert done.returncode == 0, done.stderr
    command = [
        str(penstock),
        "run",
        "--config.file",
        str(config),
        "--web.listen-address",
        f"127.0.0.1:{port}",
    ]
    with subprocess.Popen(
        [*command, "--storage.path", str(folder / "data")], env=CLEAN, cwd=folder
    ) as agent:
        try:
            until_up(port, lambda: agent.poll() is None)
        finally:
            agent.terminate()


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make release-dry` builds."""
    folder = tmp_path_factory.mktemp("release")
    subprocess.run(
        [str(ROOT / "deploy" / "release.sh"), str(folder)],
        cwd=ROOT,
        check=True,
        timeout=900,
    )
    return folder


def venv(folder: Path) -> Path:
    subprocess.run(["python3", "-m", "venv", str(folder)], check=True)
    return folder / "bin"


@pytest.mark.parametrize(
    ("page", "heading"),
    [("docs/getting-started.md", "Install"), ("README.md", "Use it on your broker")],
)
def test_a_checkout_as_the_page_says(tmp_path: Path, page: str, heading: str) -> None:
    line = commands(page, heading)[0]
    assert line.startswith("pip install ")
    programs = venv(tmp_path / "venv")
    subprocess.run(  # noqa: S602 - of our page
        f"{programs}/{line} --quiet", shell=True, cwd=ROOT, check=True, timeout=600
    )
    run(programs / "penstock", tmp_path, history=False)


@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_what_is_published_and_then_what_its_error_says(
    release: Path, tmp_path: Path, kind: str
) -> None:
    """In an empty Python; history is asked for after, by the line that `check` gives."""
    (file,) = release.glob(f"penstock-*.{kind}")
    programs = venv(tmp_path / "venv")
    subprocess.run(
        [str(programs / "pip"), "install", "--quiet", str(file)],
        check=True,
        timeout=600,
    )
    run(programs / "penstock", tmp_path, history=False)
    refused = checked(
        programs / "penstock",
        configured(tmp_path, RECORDING, history={"enabled": True}),
    )
    assert refused.returncode == 2
    (line,) = re.findall(r"please: (pip install .+)", refused.stderr)
    subprocess.run(f"{programs}/{line} --quiet", shell=True, check=True, timeout=600)  # noqa: S602 - our own words
    run(programs / "penstock", tmp_path, history=True)


class Machine:
    """A bare Debian in a folder, with this checkout at /checkout; what is written stays from line to line."""

    def __init__(self, images: Images, folder: Path, **mounts: Path) -> None:
        self._image = images["base"]
        self._folder = folder
        self._mounts = {"/checkout": ROOT, str(CERTIFICATES): CERTIFICATES} | {
            f"/{name}": path for name, path in mounts.items()
        }
        self._environ = {
            name: value
            for name, value in os.environ.items()
            if re.match(r"PIP_|SSL_|(?i:https?_proxy)", name)
        }

    def pod(self, *command: str) -> Pod:
        """One that runs a command as its only container, `machine`."""
        container = {
            "name": "machine",
            "command": list(command),
            "env": [
                {"name": name, "value": value} for name, value in self._environ.items()
            ],
            "volumeMounts": [
                {"name": str(n), "mountPath": place}
                for n, place in enumerate(self._mounts)
            ],
        }
        volumes = [
            {"name": str(n), "hostPath": {"path": str(path)}}
            for n, path in enumerate(self._mounts.values())
        ]
        spec = {"hostNetwork": True, "containers": [container], "volumes": volumes}
        return Pod("machine", {"spec": spec}, Objects(), self._folder)

    def does(self, *lines: str) -> None:
        """Shell lines, one by one, in the checkout."""
        for line in lines:
            with self.pod("bash", "-ec", f"cd /checkout; {line}") as pod:
                container = pod.start(self._image, "machine")
                assert container.finished(600) == 0, f"{line}: {container.text()}"

    def started(self, unit: str) -> None:
        """What systemd would start for a unit, with the files that it would make, until it has polled."""
        text = (self._written / unit.removeprefix("/")).read_text()
        (command,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
        port = free_port()
        with self.pod(
            *command.split(), f"--web.listen-address=127.0.0.1:{port}"
        ) as pod:
            container = pod.start(self._image, "machine")
            until_up(port, lambda: container.alive)

    @property
    def _written(self) -> Path:
        return self._folder / "layer-machine" / "written"

    def give(self, place: str, text: str) -> None:
        """Write a file."""
        file = self._written / place.removeprefix("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture(scope="module")
def images() -> Iterator[Images]:
    with Images() as made:
        yield made


def set_up(machine: Machine, folder: Path) -> None:
    """The configuration that the page says, with what a unit finds of its own."""
    folder.mkdir()
    config = configured(
        folder,
        Path("/checkout") / RECORDING.relative_to(ROOT),
        history={"enabled": True},
    )
    machine.give("/etc/penstock/penstock.yaml", config.read_text())
    machine.does("mkdir -p /var/lib/penstock")  # StateDirectory


@needs_root
def test_systemd_as_the_page_says(images: Images, tmp_path: Path) -> None:
    machine = Machine(images, tmp_path / "machine")
    lines = commands("docs/deploy.md", "Without containers")
    machine.does(
        *(
            line
            for line in lines
            if "/opt/penstock" in line or line.startswith("install ")
        )
    )
    set_up(machine, tmp_path / "given")
    machine.started("/etc/systemd/system/penstock.service")


@needs_root
def test_the_debian_package(release: Path, images: Images, tmp_path: Path) -> None:
    """Installed by apt, started as its unit says, and removed."""
    make, install = (
        line
        for line in commands("docs/deploy.md", "Without containers")
        if re.match("make |sudo ", line)
    )
    assert make == "make release-dry"
    machine = Machine(images, tmp_path / "machine", release=release)
    machine.does(install.removeprefix("sudo ").replace("./build/release/", "/release/"))
    set_up(machine, tmp_path / "given")
    machine.started("/usr/lib/systemd/system/penstock.service")
    machine.does(
        "apt-get remove --yes penstock",
        "test ! -e /usr/bin/penstock",
        "test -e /etc/penstock/penstock.yaml",
    )
    (package,) = release.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", str(package), str(tmp_path / "root")], check=True)
    share = tmp_path / "root/usr/share"
    assert b"penstock explain" in gzip.decompress(
        (share / "man/man1/penstock-explain.1.gz").read_bytes()
    )
    assert (
        "_PENSTOCK_COMPLETE"
        in (share / "bash-completion/completions/penstock").read_text()
    )


@pytest.mark.skipif(
    shutil.which("go") is None, reason="needs Go, which brings the schema of compose"
)
@pytest.mark.parametrize("name", ["plain", "compose"])
def test_compose_takes_the_file(name: str, tmp_path: Path) -> None:
    command = [
        "go",
        "mod",
        "download",
        "-json",
        "github.com/compose-spec/compose-go/v2@v2.4.7",
    ]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=tmp_path
    )
    schema = json.loads(
        (Path(json.loads(done.stdout)["Dir"]) / "schema/compose-spec.json").read_text()
    )
    document = yaml.safe_load((ROOT / "deploy" / name / "compose.yaml").read_text())
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"service": {}}, schema)
