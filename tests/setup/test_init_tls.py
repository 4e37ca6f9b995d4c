"""`penstock init --url https://…`: which authority vouches for the broker, tried before it is written."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.config import load
from penstock_demo.ports import LOOPBACK, free_port


@contextmanager
def listening(context: ssl.SSLContext | None) -> Iterator[int]:
    """A server that shakes hands and closes, without a context one that says what a broker's port says; its port."""
    with socket.create_server((LOOPBACK, 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, context), daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def _serve(server: socket.socket, context: ssl.SSLContext | None) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            try:
                if context is None:
                    connection.recv(10)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                else:
                    context.wrap_socket(connection, server_side=True).close()
            except OSError:
                continue


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca(authority: trustme.CA, tmp_path: Path) -> Path:
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return file


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    file = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(str(file))
    return file


def of(authority: trustme.CA, name: str = LOOPBACK) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def init(folder: Path, port: int, *more: str, answers: str = "") -> Result:
    url = f"https://{LOOPBACK}:{port}/console/jolokia/"
    config = folder / "made" / "penstock.yaml"
    config.parent.mkdir(exist_ok=True)
    return CliRunner().invoke(
        main, ["init", "--url", url, "--config.file", str(config), *more], input=answers
    )


def ca_file(folder: Path) -> Path | None:
    """As the configuration that was made has it."""
    (broker,) = load(folder / "made" / "penstock.yaml", {}).brokers
    return broker.tls.ca_file if broker.tls else None


def nothing_made(folder: Path) -> bool:
    return not list((folder / "made").iterdir())


def test_the_authority_is_tried_and_written(
    authority: trustme.CA, ca: Path, tmp_path: Path
) -> None:
    with listening(of(authority)) as port:
        made = init(tmp_path, port, "--ca.file", str(ca), "--yes")
        again = init(tmp_path, port, "--yes")
    assert made.exit_code == 0, made.output
    assert f"its certificate is trusted by the authorities of {ca}" in made.output
    assert ca_file(tmp_path) == ca
    assert again.output == "nothing to change\n"


def test_an_authority_that_is_not_the_systems_is_asked_for(
    authority: trustme.CA, ca: Path, stranger: Path, tmp_path: Path
) -> None:
    """Until one vouches: another's does not, and a file of something else is none."""
    (tmp_path / "notes.txt").write_text("no certificate")
    answers = f"{stranger}\n{tmp_path / 'notes.txt'}\n{tmp_path / 'absent'}\n{ca}\ny\n"
    with listening(of(authority)) as port:
        made = init(tmp_path, port, answers=answers)
    assert made.exit_code == 0, made.output
    assert made.output.count("its certificate is not trusted") == 2
    assert made.output.count("no usable CA certificates in PEM") == 2
    assert ca_file(tmp_path) == ca


@pytest.mark.parametrize("given", [True, False])
def test_where_no_one_can_be_asked_the_option_is_named(
    given: bool, authority: trustme.CA, stranger: Path, tmp_path: Path
) -> None:
    option = ("--ca.file", str(stranger)) if given else ()
    with listening(of(authority)) as port:
        refused = init(tmp_path, port, "--yes", *option)
    assert refused.exit_code == 1
    assert "its certificate is not trusted" in refused.output
    assert "Give the file of its authority with --ca.file" in refused.output
    assert nothing_made(tmp_path)


def test_what_no_authority_can_mend_is_said(
    authority: trustme.CA, ca: Path, tmp_path: Path
) -> None:
    with listening(of(authority, "elsewhere.example")) as port:
        refused = init(tmp_path, port, "--ca.file", str(ca))
    assert refused.exit_code == 1
    assert "IP address mismatch" in refused.output
    assert nothing_made(tmp_path)


def test_a_port_without_tls_is_said(tmp_path: Path) -> None:
    with listening(None) as port:
        refused = init(tmp_path, port)
    assert refused.exit_code == 1
    assert "does not speak TLS: write http://" in refused.output
    assert nothing_made(tmp_path)


def test_a_broker_that_does_not_answer_yet_is_no_obstacle(
    ca: Path, tmp_path: Path
) -> None:
    made = init(tmp_path, free_port(), "--ca.file", str(ca), "--yes")
    assert made.exit_code == 0, made.output
    assert (
        "connection refused; its certificate was not tried with the authorities of"
        in made.output
    )
    assert ca_file(tmp_path) == ca


def test_an_authority_without_tls_is_a_mistake(ca: Path, tmp_path: Path) -> None:
    url = f"http://{LOOPBACK}:1/console/jolokia/"
    config = tmp_path / "penstock.yaml"
    refused = CliRunner().invoke(
        main,
        [
            "init",
            "--url",
            url,
            "--ca.file",
            str(ca),
            "--config.file",
            str(config),
            "--yes",
        ],
    )
    assert refused.exit_code == 2
    assert "--ca.file is for a URL with https" in refused.output
    assert not config.exists()
