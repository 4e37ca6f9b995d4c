"""The one safe form of text for terminals and logs: characters in a name may steer a terminal, or be invisible."""

import re

_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What `str.isprintable` accepts although nothing is seen: Default_Ignorable_Code_Point, the empty Braille cell."""
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str) -> str:
    r"""
    Return the text in one line of characters that are all seen; the others as JSON has them: `\n`, `\u001b`, `\u202e`.

    Of all spaces only the usual one remains. A text that is visible already comes back as it is, with its backslashes.
    """
    if text.isprintable() and not _BLANK.search(text):
        return text
    return "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    """Return a character that is seen as it is, and any other escaped."""
    if character.isprintable() and not _BLANK.match(character):
        return character
    return _SHORT.get(character) or _escaped(character)


def _escaped(character: str) -> str:
    """Return the character as JSON escapes it: its units of UTF-16, four hexadecimal digits each."""
    digits = character.encode("utf-16-be", "surrogatepass").hex()
    units = [digits[start : start + 4] for start in range(0, len(digits), 4)]
    return "".join(f"\\u{unit}" for unit in units)
