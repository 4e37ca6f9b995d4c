"""The images, started as the objects of the pages and the chart say, on real brokers: `make test-install`. As root."""

import json
import re
import shutil
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import trustme
import yaml

from cli.documented import ROOT
from deploy import chart, pods
from deploy.pages import blocks, commands, option
from deploy.pods import ADDRESS, Container, Images, Objects, Pod
from deploy.test_examples import PATCHES, SIDECAR, patched
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.openmq import ADMIN, OpenMQBroker
from penstock_demo.process import Process
from rig.prometheus import tool
from rig.s3 import CREDENTIALS, below, s3_server

pytestmark = [
    pytest.mark.skipif(
        bool(pods.missing()), reason=f"needs {', '.join(pods.missing())}"
    ),
    pytest.mark.timeout(3600),  # the first to need an image builds it
]
needs_helm = pytest.mark.skipif(
    chart.helm() is None, reason="needs helm; make tools-helm brings it"
)

COMPOSE = ROOT / "deploy/compose"
PORT = 8161
USER = "prometheus"
PASSWORD = "a-password-of-a-test"
WEB = {
    "cert_file": "/etc/penstock/tls/tls.crt",
    "key_file": "/etc/penstock/tls/tls.key",
}


@pytest.fixture(scope="module")
def images() -> Iterator[Images]:
    """With the Dockerfile of the page; steps that have not changed are kept from run to run."""
    (build,) = [
        line
        for line in commands("docs/deploy.md", "Image")
        if line.startswith("docker build ")
    ]
    assert ROOT / option(build, "--file") == ROOT / "deploy/image/Dockerfile"
    assert option(build, "--target") == "agent"
    with Images() as made:
        yield made


@contextmanager
def broker_in(
    pod: Pod,
    folder: Path,
    bound: str,
    allowed: str = "",
    create_args: Sequence[str] = (),
) -> Iterator[str]:
    """An Artemis in the pod's network with its console at `bound`; gives the password of its reading account.

    allowed: the origin that `artemis create` was told; default: where it is bound.
    """
    broker = ArtemisBroker.create(
        folder, read_only_user="exporter", create_args=create_args
    )
    etc = folder / "etc"
    (etc / "bootstrap.xml").write_text(
        re.sub(
            r'(uri|bind)="http://[^"]+"',
            rf'\1="http://{bound}:{PORT}"',
            (etc / "bootstrap.xml").read_text(),
        )
    )
    access = etc / "jolokia-access.xml"
    access.write_text(access.read_text().replace("127.0.0.1", allowed or bound))
    process = Process(
        "artemis",
        [*pod.inside(), str(folder / "bin/artemis"), "run"],
        folder / "log/console.log",
    )
    process.start("AMQ241002")
    try:
        yield broker.accounts["exporter"].password
    finally:
        process.stop()


def until_shown(
    pod: Pod,
    text: str,
    url: str = f"http://{ADDRESS}:19771/metrics",
    *headers: str,
    seconds: float = 60,
) -> str:
    """`/metrics` as Prometheus gets it, once a line of it begins with the text."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            body = pod.get(url, *headers)
        except ConnectionError as error:
            body = str(error)
        if re.search(rf"^{re.escape(text)}", body, re.MULTILINE):
            return body
        assert time.monotonic() < deadline, f"{text}: {body[:1000]}"
        time.sleep(0.5)


def until_ready(container: Container) -> None:
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        if kind in container.spec:
            container.until_probed(kind)


def rendered(values: Mapping[str, Any], folder: Path) -> list[chart.Manifest]:
    """What the command of the chart's page makes of these values."""
    (install,) = commands("docs/deploy.md", "Kubernetes, one agent for all brokers")
    words = install.split()
    assert words[:2] == ["helm", "install"]
    file = folder / "my-values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    arguments = [
        str(ROOT / word)
        if word == "helm/penstock"
        else word.replace("my-values.yaml", str(file))
        for word in words[2:]
    ]
    made = chart.run_helm("template", *arguments, "--namespace", "mq")
    assert made.returncode == 0, made.stderr
    return [one for one in yaml.safe_load_all(made.stdout) if one]


def of_kind(manifests: list[chart.Manifest], kind: str) -> chart.Manifest:
    (found,) = (one for one in manifests if one["kind"] == kind)
    return found


@needs_helm
def test_the_least_that_the_chart_needs(images: Images, tmp_path: Path) -> None:
    """The values of its README, one broker behind a service; then what its NOTES say."""
    (text,) = blocks("helm/penstock/README.md", "The Penstock chart", "yaml")
    values = yaml.safe_load(text)
    manifests = rendered(values, tmp_path)
    objects = Objects.of(manifests)
    with (
        Pod("penstock-0", of_kind(manifests, "Deployment")["spec"]["template"], objects, tmp_path / "pod",
            others=["artemis.mq.svc"]) as pod,
        broker_in(pod, tmp_path / "b1", "0.0.0.0", "localhost") as password,  # noqa: S104 - of the pod
    ):  # fmt: skip
        objects.secrets["artemis-exporter"] = {"B1_PASSWORD": password}
        container = pod.start(images["agent"])
        until_ready(container)
        body = until_shown(pod, 'mq_up{broker="b1"} 1')
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        assert f'revision="{head.stdout.strip()}"' in body
        notes = (ROOT / "helm/penstock/templates/NOTES.txt").read_text()
        (command,) = re.findall(r"exec .* -- (penstock .*)", notes)
        checked = container.run(*command.split())
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "FAILED" not in checked.stdout


@needs_helm
def test_tls_of_a_secret_history_and_trends_on_one_volume(
    images: Images, tmp_path: Path
) -> None:
    """On OpenShift's terms; each poll of the agent is in the report, and what the job found in /metrics."""
    (text,) = blocks("docs/deploy.md", "History and trends on one volume", "yaml")
    values = yaml.safe_load(text)
    values["config"] |= {"interval": "1s", "brokers": [
        {"name": "b1", "kind": "artemis", "url": "http://artemis.mq.svc:8161/console/jolokia/", "username": "exporter",
         "password_file": "/etc/penstock/secrets/B1_PASSWORD", "origin": "http://localhost"}
    ]}  # fmt: skip
    values["config"]["history"] |= {"publish": "10s"}
    values |= {
        "global": {"compatibility": {"openshift": "true"}},
        "secrets": {"existing": ["artemis-exporter"]},
        "web": {
            "existingSecret": "penstock-web",
            "existingSecretHasTls": True,
            "tlsSecret": "penstock-tls",
        },
    }
    manifests = rendered(values, tmp_path)
    objects = Objects.of(manifests)
    authority = trustme.CA().issue_cert("penstock.mq.svc")
    objects.secrets["penstock-tls"] = {
        "tls.crt": authority.cert_chain_pems[0].bytes().decode(),
        "tls.key": authority.private_key_pem.bytes().decode(),
    }
    users = {USER: bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}
    web = yaml.safe_dump({"tls_server_config": WEB, "basic_auth_users": users})
    objects.secrets["penstock-web"] = {"web.yaml": web}
    claim = tmp_path / "claim"
    claim.mkdir()
    for one in manifests:
        if one["kind"] == "PersistentVolumeClaim":
            objects.claims[one["metadata"]["name"]] = claim
    basic = f"Authorization: Basic {b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
    url = f"https://{ADDRESS}:19771/metrics"
    template = of_kind(manifests, "Deployment")["spec"]["template"]
    with (
        Pod(
            "penstock-0",
            template,
            objects,
            tmp_path / "pod",
            others=["artemis.mq.svc"],
            openshift=True,
        ) as pod,
        broker_in(pod, tmp_path / "b1", "0.0.0.0", "localhost") as password,  # noqa: S104 - of the pod
    ):
        objects.secrets["artemis-exporter"] = {"B1_PASSWORD": password}
        container = pod.start(images["agent"])
        until_ready(container)
        until_shown(pod, 'mq_up{broker="b1"} 1', url, basic)
        with pytest.raises(ConnectionError, match="401"):
            pod.get(url)
        until_shown(pod, "penstock_history_success 1", url, basic)
        job = of_kind(manifests, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
        with Pod("trends-1", job, objects, tmp_path / "job", openshift=True) as other:
            trends = other.start(images["trends"], "trends")
            assert trends.finished(900) == 0, trends.text()
        assert "<html" in (claim / "trends/report.html").read_text()
        until_shown(pod, "mq_trend_timestamp_seconds ", url, basic)


def _template(name: str) -> Mapping[str, Any]:
    made: Mapping[str, Any] = patched(PATCHES[name]())["spec"]["template"]
    return made


@pytest.mark.parametrize("name", PATCHES)
def test_a_sidecar_beside_a_broker_that_is_bound_as_its_own(
    images: Images, tmp_path: Path, name: str
) -> None:
    """The operator's image binds the console to what `hostname -f` says in the pod, others to localhost."""
    full = "ex-aao-ss-0.ex-aao-hdls-svc.mq.svc.cluster.local"
    objects = Objects(
        config_maps={
            "penstock": {"penstock.yaml": (SIDECAR / "penstock.yaml").read_text()}
        }
    )
    with Pod(
        "ex-aao-ss-0", _template(name), objects, tmp_path / "pod", host=full
    ) as pod:
        said = subprocess.run(
            [*pod.inside(), "hostname", "-f"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stdout.strip() == full
        bound = full if name == "operator" else "localhost"
        with broker_in(pod, tmp_path / "b1", bound) as password:
            objects.secrets["penstock"] = {"password": password}
            container = pod.start(images["agent"])
            until_ready(container)
            until_shown(pod, 'mq_up{broker="ex-aao-ss-0"} 1')


@needs_helm
def test_the_sidecar_of_a_chart_of_ones_own(images: Images, tmp_path: Path) -> None:
    """With this chart as a dependency, and the two lines of its template's own description."""
    parent = tmp_path / "parent"
    (parent / "templates").mkdir(parents=True)
    shutil.copytree(chart.CHART, parent / "charts/penstock")
    depends = [{"name": "penstock", "version": "*", "repository": ""}]
    (parent / "Chart.yaml").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v2",
                "name": "parent",
                "version": "1.0.0",
                "dependencies": depends,
            }
        )
    )
    (parent / "values.yaml").write_text("penstock: {sidecar: {only: true}}\n")
    said = (chart.CHART / "templates/_sidecar.tpl").read_text()
    (example,) = re.findall(
        r"^(  containers:\n.*?volumes\" .*?)\n$", said, re.MULTILINE | re.DOTALL
    )
    example = example.replace(
        '"configMap" "penstock")',
        '"configMap" "penstock" "passwordSecret" "penstock")',
        1,
    )
    (parent / "templates/pod.yaml").write_text(f"kind: Pod\nspec:\n{example}\n")
    made = chart.run_helm("template", "r", str(parent))
    assert made.returncode == 0, made.stderr
    (template,) = (one for one in yaml.safe_load_all(made.stdout) if one)
    objects = Objects(
        config_maps={
            "penstock": {"penstock.yaml": (SIDECAR / "penstock.yaml").read_text()}
        }
    )
    with (
        Pod("own-0", template, objects, tmp_path / "pod") as pod,
        broker_in(pod, tmp_path / "b1", "localhost") as password,
    ):
        objects.secrets["penstock"] = {"password": password}
        until_ready(pod.start(images["agent"]))
        until_shown(pod, 'mq_up{broker="own-0"} 1')


@needs_helm
def test_the_driver_that_the_spark_operator_starts(
    images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the operator's arguments and mounts; Spark's own scheduler stands in for that of a cluster with nodes."""
    from penstock.history.store import Store  # noqa: PLC0415 - the credentials are there by then
    from penstock_demo.history import Fleet, generate  # noqa: PLC0415

    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_server(tmp_path) as bucket:
        history = below(bucket, "history")
        out = below(bucket, "trends")
        generate(
            Store(history), Fleet(brokers=1, queues=3, days=2, interval=900, stalls=1.0)
        )
        values = yaml.safe_load(chart.values_of("minimal").read_text()) | {
            "trends": {"mode": "sparkoperator", "history": history, "out": out},
            "secrets": {"existing": ["bucket"]},
        }
        manifests = rendered(values, tmp_path)
        objects = Objects.of(manifests)
        objects.secrets["bucket"] = CREDENTIALS
        application = of_kind(manifests, "ScheduledSparkApplication")["spec"][
            "template"
        ]
        pod = operators_driver(application)
        with Pod("trends-driver", pod, objects, tmp_path / "pod") as driver:
            container = driver.start(images["trends"], "spark-kubernetes-driver")
            assert container.finished(900) == 0, container.text()
        assert json.loads(Store(out).read_bytes("facts.json") or b"")["queues"]
        assert Store(out).exists("report.html")


def operators_driver(application: Mapping[str, Any]) -> chart.Manifest:
    """The driver's pod as spark-submit makes it of what the operator passes on: a user's volumes are kept."""
    driver = application["driver"]
    local = {"name": "spark-local-dir-1", "mountPath": "/var/data/spark-1"}
    settings = {"name": "spark-conf-volume-driver", "mountPath": "/opt/spark/conf"}
    properties = (
        "spark.master=local[2]\nspark.submit.pyFiles=\nspark.driver.memory=1g\n"
    )
    kept = tuple(application.get("volumes", []))
    return {
        "spec": {
            "hostNetwork": True,  # where the object store is
            "securityContext": driver["podSecurityContext"],
            "containers": [
                {
                    "name": "spark-kubernetes-driver",
                    "args": [
                        "driver", "--properties-file", "/opt/spark/conf/spark.properties",
                        "--class", "org.apache.spark.deploy.PythonRunner",
                        application["mainApplicationFile"], *application["arguments"],
                    ],
                    "env": [
                        {"name": "SPARK_DRIVER_BIND_ADDRESS", "value": "127.0.0.1"},
                        {"name": "SPARK_LOCAL_DIRS", "value": "/var/data/spark-1"},
                        {"name": "SPARK_CONF_DIR", "value": "/opt/spark/conf"},
                        *driver.get("env", []),
                    ],
                    "envFrom": driver.get("envFrom", []),
                    "securityContext": driver["securityContext"],
                    "volumeMounts": [local, settings, *driver.get("volumeMounts", [])],
                }
            ],
            "volumes": [
                {"name": "spark-local-dir-1", "emptyDir": {}},
                {"name": "spark-conf-volume-driver", "text": {"spark.properties": properties}},
                *kept,
            ],
        }
    }  # fmt: skip


def test_what_compose_starts_sees_its_broker_and_is_scraped(
    images: Images, tmp_path: Path
) -> None:
    """The agent and a real Prometheus, with the files that are mounted; the broker as its image creates it."""
    compose = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    service = compose["penstock"]
    asked = compose["broker"]["environment"]
    assert asked["EXTRA_ARGS"] == "--http-host 0.0.0.0 --relax-jolokia"
    binds = [
        one.removesuffix(":ro").split(":")
        for one in service["volumes"]
        if one.startswith(".")
    ]
    password = tmp_path / "password"
    password.mkdir()
    (password / "broker").write_text("a-password-of-a-test")
    spec = {
        "containers": [
            {
                "name": "penstock",
                "securityContext": {"readOnlyRootFilesystem": service["read_only"]},
                "volumeMounts": [
                    {"name": f"file-{n}", "mountPath": place}
                    for n, (_, place) in enumerate(binds)
                ]
                + [
                    {"name": "data", "mountPath": "/data"},
                    {"name": "password", "mountPath": "/run/password"},
                    *({"name": "tmp", "mountPath": one} for one in service["tmpfs"]),
                ],
            }
        ],
        "volumes": [
            *(
                {"name": f"file-{n}", "hostPath": {"path": str(COMPOSE / file)}}
                for n, (file, _) in enumerate(binds)
            ),
            {"name": "password", "hostPath": {"path": str(password)}},
            *({"name": name, "emptyDir": {}} for name in ("data", "tmp")),
        ],
    }
    with (
        Pod(
            "penstock", {"spec": spec}, Objects(), tmp_path / "pod", others=["broker"]
        ) as pod,
        broker_in(pod, tmp_path / "b1", "0.0.0.0", create_args=["--relax-jolokia"]),  # noqa: S104 - of the pod
    ):
        users = tmp_path / "b1/etc/artemis-users.properties"
        users.write_text(f"{asked['ARTEMIS_USER']} = a-password-of-a-test\n")
        (tmp_path / "b1/etc/artemis-roles.properties").write_text(
            f"amq = {asked['ARTEMIS_USER']}\n"
        )
        pod.start(images["agent"])
        until_shown(pod, 'mq_up{broker="broker"} 1')
        config = tmp_path / "prometheus.yaml"
        text = (COMPOSE / "prometheus.yaml").read_text()
        config.write_text(
            text.replace("/etc/prometheus/penstock", str(ROOT / "alerts")).replace(
                "15s", "1s"
            )
        )
        command = [
            *pod.inside(),
            str(tool("prometheus")),
            f"--config.file={config}",
            f"--storage.tsdb.path={tmp_path}/p",
        ]
        prometheus = Process("prometheus", command, tmp_path / "prometheus.log")
        prometheus.start("Server is ready to receive web requests")
        try:
            query = f"http://{ADDRESS}:9090/api/v1/query?query=count(address_queue:mq_queue_messages:sum)"
            deadline = time.monotonic() + 30
            while not json.loads(pod.get(query))["data"]["result"]:
                assert time.monotonic() < deadline
                time.sleep(0.5)
        finally:
            prometheus.stop()


def test_the_image_with_java_asks_by_jmx(images: Images, tmp_path: Path) -> None:
    broker = OpenMQBroker.create(tmp_path / "o1", hostname=False)
    config = {"interval": "5s", "brokers": [
        {"name": "o1", "kind": "openmq", "transport": "jmx", "url": f"mq://127.0.0.1:{broker.port}",
         "username": ADMIN.user,
         "password": "${O1_PASSWORD}"}
    ]}  # fmt: skip
    objects = Objects(
        config_maps={"penstock": {"penstock.yaml": yaml.safe_dump(config)}}
    )
    template = {"spec": {
        "hostNetwork": True,
        "containers": [{
            "name": "penstock",
            "args": ["check", "--config.file=/etc/penstock/penstock.yaml"],
            "env": [{"name": "O1_PASSWORD", "value": ADMIN.password}],
            "volumeMounts": [{"name": "config", "mountPath": "/etc/penstock", "readOnly": True}],
        }],
        "volumes": [{"name": "config", "configMap": {"name": "penstock"}}],
    }}  # fmt: skip
    broker.start()
    try:
        with Pod("jmx-0", template, objects, tmp_path / "pod") as pod:
            container = pod.start(images["agent-jmx"])
            assert container.finished(120) == 0, container.text()
            assert "FAILED" not in container.text()
    finally:
        broker.stop()
