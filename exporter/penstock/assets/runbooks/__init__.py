"""The runbooks, which are pages of the documentation: a section for each alert, with parts in bold; and incidents."""

import re
from functools import cache
from importlib.resources import files

RUNBOOKS = ("clients", "queues", "rings", "brokers", "penstock")


@cache
def section(page: str, title: str) -> str:
    """What is below a title, such as the name of an alert; empty where there is none."""
    text = files(__package__).joinpath(f"{page}.md").read_text(encoding="utf-8")
    match = re.search(rf"(?ms)^## {title}\n\n(.*?)(?=^## |\Z)", text)
    return match[1].strip() if match else ""


def part(text: str, title: str) -> str:
    """One part of a section as a plain sentence of one line: such as `Impact` or `Do`."""
    match = re.search(
        rf"(?s)\*\*{title}\*\*:? *(.*?)(?=\s\*\*[A-Z][\w ]*\*\*:?|\n\n|\Z)", text
    )
    if not match:
        return ""
    plain = re.sub(
        r"\[([^\]]*)\]\([^)]*\)",
        r"\1",
        re.sub(r"\*\*|(?<!\w)\*|\*(?!\w)", "", match[1]),
    )
    words = re.sub(r"\s+", " ", plain).strip()
    return words[:1].upper() + words[1:]
