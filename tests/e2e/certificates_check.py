"""A broker without a console: Jolokia's agent with mutual TLS and roles by certificate. `make test-certificates`."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from e2e.agent import PENSTOCK, Agent
from penstock_demo.artemis import ArtemisBroker
from penstock_demo.openmq import fetch_jolokia
from penstock_demo.ports import LOOPBACK, free_port
from rig.drivers import AmqpProducer

pytestmark = pytest.mark.broker

LOGIN = """
http_server_authenticator {
   org.apache.activemq.artemis.spi.core.security.jaas.TextFileCertificateLoginModule required
       org.apache.activemq.jaas.textfiledn.user="cert-users.properties"
       org.apache.activemq.jaas.textfiledn.role="cert-roles.properties";
};
"""
OPTIONS = (
    "-Djavax.management.builder.initial=org.apache.activemq.artemis.core.server.management.ArtemisMBeanServerBuilder",
    "-DhttpServerAuthenticator.requestSubjectAttribute=org.jolokia.jaasSubject",
)


def issued(authority: trustme.CA, folder: Path, name: str) -> dict[str, str]:
    """The `tls:` of a client whose certificate has this common name."""
    made = authority.issue_cert(f"{name}.example", common_name=name)
    made.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
    made.private_key_pem.write_to_path(str(folder / f"{name}.key"))
    files = {
        "cert_file": folder / f"{name}.pem",
        "key_file": folder / f"{name}.key",
        "ca_file": folder / "ca.pem",
    }
    return {key: str(file) for key, file in files.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(folder: Path) -> trustme.CA:
    made = trustme.CA()
    made.cert_pem.write_to_path(str(folder / "ca.pem"))
    return made


@pytest.fixture(scope="module")
def broker(authority: trustme.CA, folder: Path) -> Iterator[ArtemisBroker]:
    """As docs/artemis.md has it, step by step; `jolokia_url` is the agent's."""
    made = ArtemisBroker.create(folder / "broker", name="b1", read_only_user="exporter")
    etc = made.directory / "etc"
    port = free_port()
    own = authority.issue_cert(
        LOOPBACK, common_name="broker", key_type=trustme.KeyType.RSA
    )
    own.cert_chain_pems[0].write_to_path(str(folder / "broker.pem"))
    own.private_key_pem.write_to_path(str(folder / "broker.key"))
    said = {
        "host": LOOPBACK,
        "port": port,
        "protocol": "https",
        "discoveryEnabled": "false",
        "caCert": folder / "ca.pem",
        "serverCert": folder / "broker.pem",
        "serverKey": folder / "broker.key",
        "useSslClientAuthentication": "true",
        "extendedClientCheck": "true",
        "authClass": "org.apache.activemq.artemis.spi.core.security.jaas.HttpServerAuthenticator",
    }
    (folder / "jolokia.properties").write_text(
        "".join(f"{key}={value}\n" for key, value in said.items())
    )
    login = etc / "login.config"
    login.write_text(login.read_text() + LOGIN)
    (etc / "cert-users.properties").write_text(
        "penstock=/.*CN=penstock.*/\nclerk=/.*CN=clerk.*/\n"
    )
    (etc / "cert-roles.properties").write_text("exporter=penstock\nclerks=clerk\n")
    management = etc / "management.xml"
    management.write_text(
        management.read_text().replace(
            "<allowlist>", '<allowlist><entry domain="jolokia"/>'
        )
    )
    profile = etc / "artemis.profile"
    agent = f"-javaagent:{fetch_jolokia()}=config={folder / 'jolokia.properties'}"
    profile.write_text(
        profile.read_text() + f'\nJAVA_ARGS="$JAVA_ARGS {agent} {" ".join(OPTIONS)}"\n'
    )
    made.jolokia_url = f"https://{LOOPBACK}:{port}/jolokia/"
    made.start(timeout=240)
    yield made
    made.kill()


def check(broker: ArtemisBroker, tls: dict[str, str], folder: Path) -> str:
    entry = {
        "name": "b1",
        "kind": "artemis",
        "url": broker.jolokia_url,
        "tls": tls,
        "timeout": "20s",
    }
    file = Agent(
        folder / Path(tls.get("cert_file", "none")).stem,
        interval="30s",
        brokers=[entry],
    ).file
    command = [str(PENSTOCK), "check", "--config.file", str(file)]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def test_ours_may_read_and_nothing_else(
    broker: ArtemisBroker, authority: trustme.CA, folder: Path
) -> None:
    with AmqpProducer(broker.endpoint(), "q") as producer:  # which makes the queue
        producer.send(3)
    said = check(broker, issued(authority, folder, "penstock"), folder)
    assert "ok        Apache Artemis 2.44.0, active" in said
    assert "FAILED" not in said
    assert "management_guard_off" not in said, (
        "the builder on the command line keeps management.xml in force"
    )


def test_a_certificate_of_no_user_is_named(
    broker: ArtemisBroker, authority: trustme.CA, folder: Path
) -> None:
    said = check(broker, issued(authority, folder, "stranger"), folder)
    assert "stranger.pem" in said
    assert "cert-users.properties" in said
    assert "password" not in said


def test_a_user_without_the_role_is_sent_to_the_roles(
    broker: ArtemisBroker, authority: trustme.CA, folder: Path
) -> None:
    said = check(broker, issued(authority, folder, "clerk"), folder)
    assert "FAILED" in said
    assert "cert-roles.properties" in said
    assert "password" not in said


def test_without_a_certificate_it_says_what_is_missing(
    broker: ArtemisBroker, folder: Path
) -> None:
    said = check(broker, {"ca_file": str(folder / "ca.pem")}, folder)
    assert "FAILED" in said
    assert "cert_file" in said
