"""Pods as a kubelet runs them, without one: namespaces, mounts, users and probes of an object. As root."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from cli.documented import ROOT
from penstock_demo.cache import cache_dir

ADDRESS = "10.88.0.9"
"""Of each pod, in a network of its own: what listens on the loopback alone is not reached by a probe."""
OPENSHIFT_USER = 1_000_690_000
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEEDED = (
    "unshare",
    "nsenter",
    "setpriv",
    "chroot",
    "mount",
    "ip",
    "buildah",
    "mmdebstrap",
)
_GET = """
import ssl, sys, urllib.request
request = urllib.request.Request(sys.argv[1], headers=dict(one.split(": ", 1) for one in sys.argv[2:]))
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
    urllib.request.HTTPSHandler(context=ssl._create_unverified_context()))
sys.stdout.buffer.write(opener.open(request, timeout=5).read())
"""


def missing() -> list[str]:
    """What this machine lacks for pods; empty: nothing."""
    programs = [name for name in NEEDED if shutil.which(name) is None]
    return programs + (["root"] if os.geteuid() else [])


@dataclass(frozen=True, slots=True)
class Image:
    """An unpacked image: its root file system, and what it starts where nothing else is said."""

    root: Path
    config: Mapping[str, Any]

    def environ(self) -> dict[str, str]:
        return dict(one.split("=", 1) for one in self.config.get("Env", []))


@dataclass(frozen=True, slots=True)
class Objects:
    """What a pod can mount: name → key → text of Secrets and ConfigMaps, name → folder of claims."""

    secrets: dict[str, dict[str, str]] = field(default_factory=dict)
    config_maps: dict[str, dict[str, str]] = field(default_factory=dict)
    claims: dict[str, Path] = field(default_factory=dict)

    @classmethod
    def of(cls, manifests: Sequence[Mapping[str, Any]]) -> Self:
        """Those of a rendered chart."""
        made = cls()
        for one in manifests:
            if one["kind"] == "Secret":
                made.secrets[one["metadata"]["name"]] = dict(one["stringData"])
            if one["kind"] == "ConfigMap":
                made.config_maps[one["metadata"]["name"]] = dict(one["data"])
        return made


class Images:
    """Each stage of the Dockerfile, built at the first use and unpacked; a context manager."""

    def __init__(self) -> None:
        self._work = Path(os.environ.get("PENSTOCK_IMAGES", cache_dir() / "images"))
        self._stack = contextlib.ExitStack()
        self._made: dict[str, Image] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __getitem__(self, stage: str) -> Image:
        if stage not in self._made:
            subprocess.run(
                [str(ROOT / "deploy/image/build.sh"), str(self._work), stage],
                check=True,
            )
            self._made[stage] = self._stack.enter_context(unpacked(self._work, stage))
        return self._made[stage]


class Pod:
    """One pod, from its template; a context manager. Its containers share a network, a host name and volumes."""

    def __init__(
        self,
        name: str,
        template: Mapping[str, Any],
        objects: Objects,
        folder: Path,
        *,
        host: str = "",
        others: Sequence[str] = (),
        openshift: bool = False,
    ) -> None:
        """host: the full name of the pod; others: names that lead to it too. openshift: its user is the namespace's."""
        self.name = name
        self._spec = template["spec"]
        self._objects = objects
        self._folder = folder
        self._openshift = openshift
        self._hosts = folder / "hosts"
        folder.mkdir(parents=True, exist_ok=True)
        known = "127.0.0.1 localhost\n"
        address = ADDRESS
        if self._spec.get("hostNetwork"):
            known = Path("/etc/hosts").read_text()
            address = "127.0.0.1"
        self._hosts.write_text(
            known + "".join(f"{address} {one}\n" for one in (f"{host} {name}", *others))
        )
        self._pause: subprocess.Popen[bytes] | None = None
        self._containers: dict[str, Container] = {}

    def __enter__(self) -> Self:
        own = () if self._spec.get("hostNetwork") else ("--net",)
        network = (
            f"ip link set lo up && ip address add {ADDRESS}/32 dev lo && "
            if own
            else ""
        )
        named = f"hostname {self.name} && mount --bind {self._hosts} /etc/hosts"
        script = f"{network}{named} && echo ready && exec sleep infinity"
        command = ["unshare", "--mount", "--uts", "--ipc", *own, "sh", "-c", script]
        self._pause = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._pause.stdout is not None
        assert self._pause.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        for container in self._containers.values():
            container.stop()
        assert self._pause is not None
        self._pause.kill()
        self._pause.communicate()

    def inside(self, *spaces: str) -> list[str]:
        """Put before a program of this machine: it runs in the pod's network, under its name; its hosts are known."""
        assert self._pause is not None
        return [
            "nsenter",
            "--target",
            str(self._pause.pid),
            *(spaces or ("--net", "--uts", "--ipc", "--mount")),
            "--",
        ]

    def start(self, image: Image, name: str = "penstock") -> "Container":
        """Start a container, or an init container that stays."""
        every = [*self._spec.get("initContainers", []), *self._spec["containers"]]
        (wanted,) = (one for one in every if one["name"] == name)
        container = Container(self, wanted, image)
        self._containers[name] = container
        return container

    def get(self, url: str, *headers: str) -> str:
        """What a server of the pod answers to another one; TLS is not verified, as by the kubelet."""
        command = [*self.inside(), sys.executable, "-c", _GET, url, *headers]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=20
        )
        if done.returncode:
            raise ConnectionError(done.stderr.strip().splitlines()[-1])
        return done.stdout

    def security(
        self, container: Mapping[str, Any], image: Image
    ) -> tuple[int, int, int | None]:
        """User, group and group of files."""
        said = {
            **self._spec.get("securityContext", {}),
            **container.get("securityContext", {}),
        }
        user, _, group = image.config.get("User", "0").partition(":")
        if self._openshift:
            assert "runAsUser" not in said, "OpenShift refuses the pod"
            return OPENSHIFT_USER, 0, OPENSHIFT_USER
        number = int(said.get("runAsUser", user or 0))
        assert number or not said.get("runAsNonRoot"), (
            "the kubelet refuses to run it as root"
        )
        return number, int(said.get("runAsGroup", group or 0)), said.get("fsGroup")

    def environ(self, container: Mapping[str, Any], image: Image) -> dict[str, str]:
        """That of the image, of envFrom and of env, each over those before."""
        made = {"PATH": SEARCHED, "HOME": "/", "HOSTNAME": self.name} | image.environ()
        for source in container.get("envFrom", []):
            made |= self._objects.secrets[source["secretRef"]["name"]]
        fields = {"metadata.name": self.name, "metadata.namespace": "mq"}
        for one in container.get("env", []):
            source = one.get("valueFrom", {})
            if "fieldRef" in source:
                made[one["name"]] = fields[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                made[one["name"]] = self._objects.secrets[
                    source["secretKeyRef"]["name"]
                ][source["secretKeyRef"]["key"]]
            else:
                made[one["name"]] = expanded(one["value"], made)
        return made

    def folder_of(self, volume: str, group: int | None) -> Path:
        """Where a volume is, made at the first call."""
        (one,) = (one for one in self._spec["volumes"] if one["name"] == volume)
        if "hostPath" in one:
            return Path(one["hostPath"]["path"])
        if "persistentVolumeClaim" in one:
            place = self._objects.claims[one["persistentVolumeClaim"]["claimName"]]
        else:
            place = self._folder / "volumes" / volume
            if not place.exists():
                place.mkdir(parents=True)
                for key, text in self._texts(one).items():
                    _placed(place, key, text, one)
        if group is not None:
            subprocess.run(["chgrp", "-R", str(group), str(place)], check=True)
        if {"emptyDir", "persistentVolumeClaim"} & one.keys():
            subprocess.run(
                ["chmod", "-R", "a+rwX" if "emptyDir" in one else "g+rwX", str(place)],
                check=True,
            )
        return place

    def _texts(self, volume: Mapping[str, Any]) -> dict[str, str]:
        """Key → text of what is mounted; `text` is none of Kubernetes' kinds, and gives both."""
        made: dict[str, str] = {}
        for source in (volume, *volume.get("projected", {}).get("sources", [])):
            if "secret" in source:
                made |= self._objects.secrets[
                    source["secret"].get("secretName") or source["secret"]["name"]
                ]
            if "configMap" in source:
                made |= self._objects.config_maps[source["configMap"]["name"]]
        given: dict[str, str] = volume.get("text", {})
        return made | given

    @property
    def hosts(self) -> Path:
        """Its /etc/hosts, as the kubelet writes it."""
        return self._hosts

    @property
    def scratch(self) -> Path:
        """Where what its containers write to their own file system goes."""
        return self._folder


class Container:
    """One container that was started; its log is a file."""

    def __init__(self, pod: Pod, spec: Mapping[str, Any], image: Image) -> None:
        self.spec = spec
        self.log = pod.scratch / f"{spec['name']}.log"
        self._pod = pod
        self._user, self._group, files = pod.security(spec, image)
        self._environ = pod.environ(spec, image)
        program = spec.get("command") or image.config.get("Entrypoint") or []
        default = [] if "command" in spec else image.config.get("Cmd", [])
        arguments = [
            expanded(one, self._environ)
            for one in [*program, *(spec.get("args") or default)]
        ]
        layer = pod.scratch / f"layer-{spec['name']}"
        groups = [f"--groups={files}"] if files is not None else ["--groups="]
        root = layer / "root"
        as_user = [
            "setpriv",
            "--no-new-privs",
            "chroot",
            f"--userspec={self._user}:{self._group}",
            *groups,
            str(root),
        ]
        lines = [*self._mounts(image, layer, files), 'exec "$@"']
        enter = [
            *as_user,
            "/usr/bin/env",
            f"--chdir={image.config.get('WorkingDir') or '/'}",
        ]
        spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        command = [
            *pod.inside("--net", "--uts", "--ipc"),
            *spaces,
            "sh",
            "-ec",
            "\n".join(lines),
            "sh",
            *enter,
            *arguments,
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _mounts(self, image: Image, layer: Path, files: int | None) -> Iterator[str]:
        """The shell lines that put its file system together."""
        for name in ("root", "written", "work"):
            (layer / name).mkdir(parents=True, exist_ok=True)
        root = layer / "root"
        parts = f"lowerdir={image.root},upperdir={layer / 'written'},workdir={layer / 'work'}"
        yield f"mount -t overlay overlay -o {parts} {root}"
        yield f"mount -t proc proc {root}/proc"
        yield f"mount --rbind /dev {root}/dev"
        for file in (self._pod.hosts, Path("/etc/resolv.conf")):
            yield f"touch {root}/etc/{file.name}"
            yield f"mount --bind {file} {root}/etc/{file.name}"
        for one in sorted(
            self.spec.get("volumeMounts", []), key=lambda one: str(one["mountPath"])
        ):
            place = f"{root}{one['mountPath']}"
            source = self._pod.folder_of(one["name"], files)
            yield (
                f"mkdir -p {place}"
                if source.is_dir()
                else f"mkdir -p $(dirname {place}) && touch {place}"
            )
            yield f"mount --bind {source} {place}"
            if one.get("readOnly"):
                yield f"mount -o remount,ro,bind {place}"
        if self.spec.get("securityContext", {}).get("readOnlyRootFilesystem"):
            yield f"mount -o remount,ro {root}"

    def probed(self, kind: str) -> bool:
        """Whether a probe of this kind passes, asked once."""
        asked = self.spec[kind]["httpGet"]
        ports = {one["name"]: one["containerPort"] for one in self.spec["ports"]}
        scheme = asked.get("scheme", "HTTP").lower()
        try:
            self._pod.get(
                f"{scheme}://{ADDRESS}:{ports.get(asked['port'], asked['port'])}{asked['path']}"
            )
        except ConnectionError:
            return False
        return True

    def until_probed(self, kind: str) -> None:
        """Ask as often as the kubelet does; fails when that would restart it."""
        timing = self.spec[kind]
        deadline = time.monotonic() + timing.get("periodSeconds", 10) * timing.get(
            "failureThreshold", 3
        )
        while not self.probed(kind):
            assert self._process.poll() is None, self.text()
            assert time.monotonic() < deadline, f"{kind} fails: {self.text()}"
            time.sleep(0.3)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """As `kubectl exec POD -- COMMAND`."""
        spaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--root", "--wd"]
        user = ["--setuid", str(self._user), "--setgid", str(self._group)]
        enter = [
            "nsenter",
            "--target",
            str(self._main()),
            *spaces,
            *user,
            "--",
            *command,
        ]
        return subprocess.run(
            enter,
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def finished(self, timeout: float) -> int:
        """The exit code of one that ends by itself."""
        return self._process.wait(timeout)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL after a while."""
        if self._process.poll() is None:
            with contextlib.suppress(OSError, IndexError):
                os.kill(self._main(), signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(15)
            self._process.kill()
            self._process.wait()

    def text(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-4000:]

    def _main(self) -> int:
        pid = self._process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """With $(NAME) replaced where there is such a variable, as Kubernetes does it."""
    return re.sub(r"\$\((\w+)\)", lambda found: environ.get(found[1], found[0]), text)


@contextlib.contextmanager
def unpacked(work: Path, stage: str) -> Iterator[Image]:
    """An image that `deploy/image/build.sh` made in `work`; `base` is what they stand on."""
    driver = "overlay" if (work / "root" / "overlay-images").exists() else "vfs"
    buildah = [
        "buildah",
        "--storage-driver",
        driver,
        "--root",
        str(work / "root"),
        "--runroot",
        str(work / "run"),
    ]
    name = "localhost/base" if stage == "base" else f"localhost/penstock:{stage}"

    def said(*arguments: str) -> str:
        return subprocess.run(
            [*buildah, *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    config = json.loads(said("inspect", "--type", "image", name))["OCIv1"]["config"]
    container = said("from", "--pull=never", name)
    try:
        yield Image(Path(said("mount", container)), config)
    finally:
        said("rm", container)


def _placed(folder: Path, key: str, text: str, volume: Mapping[str, Any]) -> None:
    """A file as the kubelet places it: `..data` leads to the folder of this version, each key to a file in there."""
    version = folder / "..version"
    version.mkdir(exist_ok=True)
    file = version / key
    file.write_text(text)
    source: Mapping[str, Any] = next(
        (
            volume[kind]
            for kind in ("secret", "configMap", "projected")
            if kind in volume
        ),
        {},
    )
    file.chmod(source.get("defaultMode", 0o644))
    if not (folder / "..data").exists():
        (folder / "..data").symlink_to("..version")
    (folder / key).symlink_to(f"..data/{key}")
