"""The command line as a whole: its help, its version, a command that is misspelt."""

import re

import click
import pytest
from click.testing import CliRunner

from cli.documented import leaves
from penstock import __version__
from penstock.cli import main
from penstock.cli.main import GROUPS
from penstock.core import build


def out(*words: str) -> str:
    return CliRunner().invoke(main, words).output


def test_the_help_has_every_command_in_a_group_with_a_whole_summary() -> None:
    text = out("--help")
    context = click.Context(main)
    there = main.list_commands(context)
    assert sorted(there) == sorted(name for names in GROUPS.values() for name in names)
    assert [title for title in GROUPS if f"\n{title}:\n" not in text] == []
    assert [
        name
        for name in there
        if not re.search(rf"^  {name} +[A-Z]", text, re.MULTILINE)
    ] == []
    assert "..." not in text.partition("Start:")[2]


def test_summaries_are_short() -> None:
    """So that a command takes two lines at most."""
    summaries = {
        one.name: one.get_short_help_str(1000)
        for one in leaves(main, click.Context(main))
    }
    assert {
        name: text for name, text in summaries.items() if not 10 < len(text) <= 130
    } == {}


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["explian"], "explain"),
        (["chek"], "check"),
        (["history", "lst"], "list"),
        (["trends", "reprot"], "report"),
    ],
)
def test_a_misspelt_command_is_corrected(words: list[str], meant: str) -> None:
    assert f"Did you mean {meant}?" in out(*words)


def test_an_unknown_command_that_is_near_to_none_gets_no_suggestion() -> None:
    text = out("xyzzy")
    assert "No such command 'xyzzy'" in text
    assert "Did you mean" not in text


def test_the_version_has_the_build() -> None:
    assert re.fullmatch(
        rf"penstock {re.escape(__version__)} \(build \S+, Python 3\.\S+\)\n",
        out("--version"),
    )
    assert build.revision() == "" or re.fullmatch(
        r"[0-9a-f]{12}(-dirty)?", build.revision()
    )
