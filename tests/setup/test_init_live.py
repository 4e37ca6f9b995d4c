"""`penstock init` on a real Artemis as `artemis create` leaves it; other versions and OpenMQ: `make test-init`."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock_demo.artemis import VERSION, ArtemisBroker
from penstock_demo.management import Account
from penstock_demo.openmq import OpenMQBroker
from rig.proxied import opens_connection
from setup.test_init import contents

pytestmark = pytest.mark.broker


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def check(config: Path) -> None:
    """Everything that a poll asks for is given, and no message may be read."""
    done = run("check", "--config.file", str(config))
    assert done.exit_code == 0, done.output
    assert "FAILED" not in done.output
    assert "management_guard_off" not in done.output
    assert "Jolokia's proxy" not in done.output
    assert "every user can read" not in done.output


def set_up_and_undone(
    broker: ArtemisBroker | OpenMQBroker,
    config: Path,
    init: Sequence[str],
    account: str,
    password: Path,
) -> None:
    """With the broker started in between: it is as it should be, a second time changes nothing."""
    made = run(*init)
    assert made.exit_code == 0, made.output
    broker.start()
    try:
        check(config)
        assert run(*init).output == "nothing to change\n"
        check(config)
        assert not opens_connection(
            broker.jolokia_url, Account(account, password.read_text().strip())
        )
    finally:
        broker.stop()
    assert run(*init, "--undo").exit_code == 0


def set_up(version: str, tmp_path: Path) -> None:
    """Twice, each time with a check; then taken back."""
    broker = ArtemisBroker.create(tmp_path / "b1", version=version)
    (tmp_path / "penstock").mkdir()
    config = tmp_path / "penstock" / "penstock.yaml"
    files = tmp_path / "b1" / "etc"
    with (files / "artemis-users.properties").open(
        "r+b"
    ) as users:  # artemis create ends it so
        users.seek(-1, os.SEEK_END)
        assert users.read(1) == b"\n"
        users.seek(-1, os.SEEK_END)
        users.truncate()
    before = contents(files)
    init = ("init", str(tmp_path / "b1"), "--config.file", str(config), "--yes")
    set_up_and_undone(
        broker, config, init, "exporter", tmp_path / "penstock" / "b1.password"
    )
    assert contents(files) == before
    assert list((tmp_path / "penstock").iterdir()) == []


def test_an_artemis_that_was_just_created(tmp_path: Path) -> None:
    set_up(VERSION, tmp_path)
