"""Completion in the shells themselves, where they are installed, and by the protocol that their scripts speak."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Desk

pytestmark = pytest.mark.slow  # each starts the command several times

BIN = Path(sys.executable).parent
PENSTOCK = BIN / "penstock"


def completed(shell: str, words: list[str], **more: str) -> list[str]:
    """What a shell's script would be offered for the last word."""
    line = " ".join(["penstock", *words])
    own = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words))},
        "zsh": {"COMP_WORDS": line, "COMP_CWORD": str(len(words))},
        "fish": {"COMP_WORDS": line, "COMP_CWORD": words[-1]},
    }[shell]
    env = {**os.environ, "_PENSTOCK_COMPLETE": f"{shell}_complete", **own, **more}
    done = subprocess.run(
        [PENSTOCK], env=env, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_reads_the_script(shell: str, tmp_path: Path) -> None:
    script = subprocess.run(
        [PENSTOCK, "completion", shell], capture_output=True, text=True, check=True
    ).stdout
    assert "_PENSTOCK_COMPLETE" in script
    (tmp_path / "script").write_text(script)
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here; its script was made")
    done = subprocess.run(
        [shell, "-n", tmp_path / "script"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options(shell: str) -> None:
    assert any("explain" in line for line in completed(shell, ["ex"]))
    assert any(
        "--http.config.file" in line for line in completed(shell, ["top", "--http"])
    )


def test_bash_completes_by_itself() -> None:
    text = """
eval "$(penstock completion bash)"
COMP_WORDS=(penstock eve); COMP_CWORD=1; _penstock_completion penstock eve penstock
echo "${COMPREPLY[@]}"
"""
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", text], env=env, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("events\n", "")


def test_no_agent_completes_nothing_and_says_nothing() -> None:
    assert completed("bash", ["explain", "d"], PENSTOCK_URL="http://127.0.0.1:1") == []


@pytest.mark.broker
@pytest.mark.nightly  # an agent for each shell
def test_names_of_the_agent(desk: Desk) -> None:
    assert completed("bash", ["explain", "d"], PENSTOCK_URL=desk.url) == ["plain,demo"]
    assert completed("bash", ["explain", "demo", "stock"], PENSTOCK_URL=desk.url) == [
        "plain,stock.updates"
    ]
    words = ["explain", "demo", "stock.updates", "st"]
    assert completed("bash", words, PENSTOCK_URL=desk.url) == ["plain,stock-service"]
