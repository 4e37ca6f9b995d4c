"""The one safe form of text for terminals and logs: characters of a name may steer a terminal, or show nothing."""

import re

_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Printable by Python's count, yet never seen: Default_Ignorable_Code_Point, and the empty Braille cell."""
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str) -> str:
    r"""
    `text` in one line of characters that are all seen; the others as JSON has them: `\n`, `\u001b`, `\u202e`.

    Only the space remains of spaces. What is visible already comes back as it is, a backslash too.
    """
    if text.isprintable() and not _BLANK.search(text):
        return text
    return "".join(
        one if one.isprintable() and not _BLANK.match(one) else _escaped(one)
        for one in text
    )


def _escaped(one: str) -> str:
    units = one.encode("utf-16-be", "surrogatepass").hex()
    return _SHORT.get(one) or "".join(
        f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)
    )
