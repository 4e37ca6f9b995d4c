"""What the pages say: the commands and files that a reader copies from below a heading."""

import re
import shlex

from cli.documented import FENCE, ROOT, SHELL


def blocks(page: str, heading: str, *languages: str) -> list[str]:
    """The fenced blocks of these languages below a heading, of level 1, 2 or 3."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(
        rf"^#+ {re.escape(heading)}\n(.*?)(?=^#{{1,3}} |\Z)",
        text,
        re.MULTILINE | re.DOTALL,
    )
    assert found, f"{page} has no heading {heading}"
    return [block[3] for block in FENCE.finditer(found[1]) if block[2] in languages]


def commands(page: str, heading: str) -> list[str]:
    """The lines of shell below a heading, those that go on joined."""
    every = blocks(page, heading, *SHELL)
    return [
        line
        for block in every
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip()
    ]


def option(command: str, name: str) -> str:
    """The value of an option of a command line."""
    words = shlex.split(command)
    return words[words.index(name) + 1]
