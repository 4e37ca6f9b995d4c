"""`penstock check` refuses what `penstock run` would refuse, and tells of what it allows and should not."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.agent.factory import origin_of
from penstock.cli import main
from penstock.config import Broker, load

BROKERS = (
    "brokers:\n"
    "- {name: b, kind: artemis, url: 'http://h:8161/console/jolokia/', username: u, password_file: secret}\n"
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0o640)
    (tmp_path / "p.yml").write_text(BROKERS)
    return tmp_path / "p.yml"


def check(config: Path) -> tuple[int, str]:
    done = CliRunner().invoke(
        main, ["check", "--offline", "--config.file", str(config)]
    )
    return done.exit_code, done.output


def test_history_without_pyarrow_is_refused(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(BROKERS + "history: {enabled: true}\n")
    assert check(config)[0] == 0
    monkeypatch.delitem(
        sys.modules, "penstock.history.compact", raising=False
    )  # which imports it
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    status, said = check(config)
    assert status == 2
    assert "pip install 'pyarrow>=18'" in said


def test_a_place_that_is_none_is_refused(config: Path) -> None:
    config.write_text(BROKERS + "history: {enabled: true, url: 'nowhere://x'}\n")
    status, said = check(config)
    assert status == 2
    assert "cannot be used as a place for history" in said


def test_a_password_that_everybody_can_read_is_told(config: Path) -> None:
    assert "every user can read" not in check(config)[1]
    secret = config.with_name("secret")
    secret.chmod(0o644)
    status, said = check(config)
    assert status == 0
    assert f"broker b: every user can read {secret}; run: chmod o= {secret}" in said


@pytest.mark.parametrize("content", ["x ", " x", "x\t\n"])
def test_a_password_with_a_blank_at_an_end_is_named_and_not_shown(
    config: Path, content: str
) -> None:
    assert "blank or line end" not in check(config)[1]
    secret = config.with_name("secret")
    secret.write_text(content.replace("x", "canary-7f3a"))
    status, said = check(config)
    assert status == 0
    note = "has a blank or line end at its begin or end, which is sent with it"
    assert f"broker b: the password of {secret} {note}" in said
    assert "canary" not in said


def test_so_is_one_of_the_environment(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Kubernetes Secret that was made with `echo`."""
    monkeypatch.setenv("SECRET", "canary-7f3a\n")
    config.write_text(BROKERS.replace("password_file: secret", "password: '${SECRET}'"))
    status, said = check(config)
    assert status == 0
    assert "broker b: its password has a blank or line end" in said
    assert "canary" not in said


def test_a_user_whose_password_takes_seconds_to_check_is_named(config: Path) -> None:
    web = config.with_name("web.yml")
    web.write_text(f"basic_auth_users: {{canary: '$2b$15${'x' * 53}'}}\n")
    words = [
        "check",
        "--offline",
        "--config.file",
        str(config),
        "--web.config.file",
        str(web),
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0
    assert (
        f"{web}: basic_auth_users: user 1 has a bcrypt hash of cost 15: the first login takes seconds"
        in done.output
    )
    assert "canary" not in done.output


@pytest.mark.parametrize(
    "content", ["", "# nothing\n", "---\n", "{}", "\ufeff", "tls_server_config: {}\n"]
)
def test_an_empty_web_configuration_is_taken(config: Path, content: str) -> None:
    web = config.with_name("web.yml")
    web.write_text(content)
    words = [
        "check",
        "--offline",
        "--config.file",
        str(config),
        "--web.config.file",
        str(web),
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert f"{web}: valid" in done.output


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--config.file", "CONFIG", "--web.listen-address", "nowhere"],
        ["run", "--config.file", "CONFIG", "--shard", "4/2"],
        ["run", "--config.file", "BROKEN"],
        ["run", "--config.file", "CONFIG", "--web.config.file", "BROKEN"],
        ["once", "--config.file", "BROKEN"],
        ["events", "--http.config.file", "BROKEN"],
        ["explain", "--url", "nowhere"],
        ["alerts", "write", "FOLDER", "--values", "BROKEN"],
        ["trends", "run", "--history", "h", "--out", "o", "--rules", "BROKEN"],
        [
            "trends",
            "run",
            "--history",
            "h",
            "--out",
            "o",
            "--conf",
            "spark.driver.memory",
        ],
        ["trends", "run", "--history", "h", "--out", "o", "--spark.file", "BROKEN"],
    ],
    ids=" ".join,
)
def test_a_wrong_configuration_is_exit_status_2(config: Path, words: list[str]) -> None:
    broken = config.with_name("broken.yml")
    broken.write_text("[]\n")
    places = {
        "CONFIG": str(config),
        "BROKEN": str(broken),
        "FOLDER": str(config.parent / "folder"),
    }
    done = CliRunner().invoke(main, [places.get(word, word) for word in words])
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("more", "origin"),
    [
        ({}, "http://h"),
        ({"url": "https://[::1]:8443/console/jolokia/"}, "https://[::1]"),
        ({"url": "http://h/console/jolokia/"}, "http://h"),
        ({"origin": "http://other"}, "http://other"),
        ({"kind": "openmq", "url": "http://h:8778/jolokia/"}, None),
    ],
)
def test_the_origin_is_the_host_of_the_url(
    config: Path, more: dict[str, str], origin: str | None
) -> None:
    config.write_text(BROKERS)
    (broker,) = load(config, {}).brokers
    made = Broker.model_construct(**{**dict(broker), **more})
    assert origin_of(made) == origin
