"""
The commands of the catalogue on a real OpenMQ, as they are printed: imqcmd gets them to the letter, and what they
say of messages is held to what happened. `make test-actions`.
"""

import shlex
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.test_account_openmq import prepared
from flowbench.openmq import (
    PACKAGE,
    Clients,
    compiled,
    consume,
    create_queue,
    manage,
    observed,
    pause,
    produce,
)
from penstock.agent import Poller
from penstock.conditions.catalogue import on
from penstock.conditions.condition import ActiveCondition, Severity
from penstock.insight import actions, answers
from penstock.insight.actions import Actions
from penstock_demo.cache import require_java
from penstock_demo.openmq import ADMIN, OpenMQBroker
from rig.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SENT = 40


class Stage:
    """A broker, its clients, and what Penstock says of it."""

    def __init__(self, broker: OpenMQBroker, folder: Path) -> None:
        self.broker = broker
        self._folder = folder
        self.poller: Poller | None = None
        self._classes = compiled(broker, folder / "classes")
        self._passwords = folder / "passfile"
        self._passwords.touch(mode=0o600)
        self._passwords.write_text(f"imq.imqcmd.password={ADMIN.password}\n")
        threading.Thread(
            target=observed,
            args=(broker, folder, self._take, 1.0, 600.0, 10.0),
            daemon=True,
        ).start()

    def _take(self, poller: Poller) -> None:
        self.poller = poller

    def clients(self, *roles: Any) -> Clients:
        return Clients(self.broker, self._classes, roles, self._folder / "clients.log")

    def action(
        self, name: str, condition: str, queue: str, client: str = "", **evidence: float
    ) -> answers.Action:
        """What Penstock would print, were the condition active now."""
        one = ActiveCondition(
            condition, "b", queue, queue, client, Severity.WARNING, 0.0, evidence
        )
        for _ in range(60):
            view = self.poller.assessor.view if self.poller else None
            offered: dict[str, answers.Action] = {}
            queues = view.snapshot.queues if view else None
            if view and queues and queue in {row.name for row in queues.index}:
                found = Actions(view.snapshot, view.state).of(
                    one, on("openmq", condition)
                )
                offered = {action.name: action for action in found}
            if name in offered:
                return offered[name]
            time.sleep(0.5)
        pytest.fail(f"{name} is not offered, but {[*offered]}")

    def do(self, action: answers.Action, **given: str) -> None:
        for command in action.commands:
            done = self.imqcmd(command, **given)
            assert done.returncode == 0, done.stdout + done.stderr

    def imqcmd(self, command: str, **given: str) -> "subprocess.CompletedProcess[str]":
        for name, value in given.items():
            command = command.replace(name, value)
        _, *words = shlex.split(command)
        java = Path(require_java()).parents[1]
        how = [
            "-javahome",
            str(java),
            "-b",
            f"{self.broker.host}:{self.broker.port}",
            "-u",
            ADMIN.user,
            "-f",
        ]
        program = [
            str(self.broker.home / "bin" / "imqcmd"),
            *words,
            *how,
            "-passfile",
            str(self._passwords),
        ]
        return subprocess.run(
            program, capture_output=True, text=True, timeout=60, check=False
        )

    def of(self, queue: str, attribute: str) -> Any:
        mbean = f'{PACKAGE}:type=Destination,subtype=Monitor,desttype=q,name="{queue}"'
        return manage(self.broker, type="read", mbean=mbean, attribute=attribute)

    def until_at_rest(self, queue: str, least: int) -> int:
        """The messages of a queue that has so many at least, once no more come."""
        eventually(lambda: self.of(queue, "NumMsgs") >= least, True, timeout=30)
        before = -1
        while (now := int(self.of(queue, "NumMsgs"))) != before:
            before = now
            time.sleep(2)
        return now

    def is_so(
        self, queue: str, attribute: str, value: object, timeout: float = 30
    ) -> None:
        eventually(lambda: self.of(queue, attribute), value, timeout=timeout)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("actions")
    broker = OpenMQBroker.create(folder / "broker", read_only=False, heap_mb=256)
    broker.start()
    try:
        yield Stage(broker, folder)
    finally:
        broker.kill()


def test_destroying_the_connection_of_a_hung_client_gives_all_back(
    stage: Stage,
) -> None:
    queue = "hung"
    create_queue(stage.broker, queue, {})
    holds = consume(
        queue=queue, name="holder", ack="client", acknowledge=0, clientid="holder"
    )
    with stage.clients(holds, produce(queue=queue, name="to", count=SENT)):
        stage.is_so(queue, "NumMsgsPendingAcks", SENT)
        action = stage.action(
            "destroy_connection", "stalled", queue, "holder", held=float(SENT)
        )
        assert f"Its {SENT} messages of {queue} go back" in action.effect
        with stage.clients(consume(queue=queue, name="peer")) as peer:
            stage.do(action)
            eventually(lambda: peer.counts()["peer.done"], SENT, timeout=30)
        stage.is_so(queue, "NumMsgs", 0)


def test_a_transaction_that_is_not_prepared_is_not_rolled_back_by_command(
    stage: Stage,
) -> None:
    """What the action says not to do."""
    queue = "uncommitted"
    create_queue(stage.broker, queue, {})
    reads = consume(
        queue=queue, name="reader", ack="transacted", commit=0, clientid="reader"
    )
    with stage.clients(reads, produce(queue=queue, name="to", count=SENT)):
        stage.is_so(queue, "NumMsgsPendingAcks", SENT)
        action = stage.action(
            "destroy_connection_in_transaction", "open_transaction", queue, "reader"
        )
        assert "rollback txn" in action.never
        listed = stage.imqcmd("imqcmd list txn").stdout.split()
        (xid,) = [word for word in listed if word.isdigit() and len(word) > 15][:1]
        assert stage.imqcmd(f"imqcmd rollback txn -n {xid}").returncode != 0
        stage.do(action)
        stage.is_so(queue, "NumMsgsPendingAcks", 0)
        assert stage.of(queue, "NumMsgs") == SENT


def test_resuming(stage: Stage) -> None:
    queue = "paused"
    create_queue(stage.broker, queue, {})
    pause(stage.broker, queue, "ALL")
    with stage.clients(
        consume(queue=queue, name="reader"), produce(queue=queue, name="to", count=SENT)
    ) as clients:
        time.sleep(3)
        assert clients.counts()["reader.done"] == 0
        stage.do(stage.action("resume_destination", "paused", queue))
        eventually(lambda: clients.counts()["reader.done"], SENT, timeout=30)


def test_room_in_a_full_destination(stage: Stage) -> None:
    """The producer may send what is left of its last batch beyond the limit."""
    queue = "full"
    create_queue(
        stage.broker, queue, {"LimitBehavior": "FLOW_CONTROL", "MaxNumMsgs": 50}
    )
    with stage.clients(produce(queue=queue, name="to", count=1000)) as clients:
        full = stage.until_at_rest(queue, 50)
        assert clients.counts()["to.sent"] < 1000
        stage.do(
            stage.action("raise_destination_limit", "producers_blocked", queue),
            NUMBER=f"{full + 100}",
        )
        raised = stage.until_at_rest(queue, full + 100)
        stage.do(stage.action("purge", "producers_blocked", queue))
        eventually(
            lambda: stage.of(queue, "NumMsgsIn") > raised, True, timeout=30
        )  # what was blocked comes
        assert stage.of("mq.sys.dmq", "NumMsgs") == 0


def test_a_limit_that_removes_messages_is_made_to_wait(stage: Stage) -> None:
    queue = "removes"
    create_queue(
        stage.broker,
        queue,
        {"LimitBehavior": "REMOVE_OLDEST", "MaxNumMsgs": 50, "UseDMQ": False},
    )
    with stage.clients(produce(queue=queue, name="to", count=80)):
        stage.is_so(queue, "NumMsgsIn", 80)
        assert stage.of(queue, "NumMsgs") <= 50
    stage.do(stage.action("keep_what_overflows", "limit_losing", queue))
    with stage.clients(
        consume(queue=queue, name="reader"), produce(queue=queue, name="to", count=200)
    ) as clients:
        eventually(lambda: clients.counts()["reader.done"], 250, timeout=30)


@pytest.mark.parametrize(("how", "left"), [("end_prepared", 9), ("undo_prepared", 10)])
def test_prepared_transactions(
    stage: Stage, how: str, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has taken four of ten and sent three."""
    monkeypatch.setattr(actions, "LASTING", 0.0)
    queue = how
    create_queue(stage.broker, queue, {})
    with stage.clients(produce(queue=queue, name="to", count=10, persistent="true")):
        stage.is_so(queue, "NumMsgs", 10)
        with prepared(stage.broker, queue, 4, 3):
            stage.do(stage.action(how, "in_doubt", queue))
        stage.is_so(queue, "NumMsgs", left)
        with stage.clients(consume(queue=queue, name="reader")) as reader:
            eventually(lambda: reader.counts()["reader.done"], left, timeout=30)
