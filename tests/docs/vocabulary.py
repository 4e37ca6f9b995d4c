"""
The words that texts for people no longer use, and how many are still there, by file.

`python -m docs.vocabulary` (with PYTHONPATH=tests) writes the numbers again after some were mended; they may only fall.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
COUNTS = Path(__file__).with_name("refused_words.json")

REFUSED = re.compile(
    r"(?<!\.)\b(tells?|told|anew|nobody|heeds?|heeded|whoever|settles nothing|kept from|for want of|thrown away"
    r"|throws away|threw away|works? off|worked off|in hand|in its hands|usual are|given up|closed without a word"
    r"|set forth|messages to nowhere|at a stop|no well|least level|best of one"
    r"|lawful(ly)?|mend(s|ed|ing)?"
    r"|hurts?|stands? (there|for|beside|in|at)|settled? none|settled nothing|gives? up|gave up)\b",
    re.IGNORECASE,
)
"""Each has a word of the field in its place: reports, again, no one, evicted, processed, buffered, dead-lettered …

Not behind a dot: an attribute in a template is no word of a text.
"""
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/**/*.md",
    "helm/penstock/*.md",
)
TEMPLATES = (
    "exporter/*/**/templates/*.html",
    "exporter/*/**/*.jinja",
    "exporter/penstock/**/*.toml",
    "exporter/penstock/**/*.yaml",
)
CODE = (
    "exporter/penstock/**/*.py",
    "exporter/penstock_trends/**/*.py",
    "dashboards/generate/*.py",
)


def counts() -> dict[str, int]:
    """Files with refused words, and how many each has."""
    files = {
        path: text for patterns in (PAGES, TEMPLATES) for path, text in texts(patterns)
    }
    files.pop("docs/vocabulary.md", None)  # which names them
    files |= {path: "\n".join(sentences(text)) for path, text in texts(CODE)}
    found = {path: len(REFUSED.findall(text)) for path, text in files.items()}
    return {path: count for path, count in sorted(found.items()) if count}


def texts(patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        for path in ROOT.glob(pattern):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def sentences(code: str) -> Iterator[str]:
    """Texts of a module that people may see: all strings of several words but docstrings."""
    tree = ast.parse(code)
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }
    for node in ast.walk(tree):
        text = (
            node.value
            if isinstance(node, ast.Constant) and id(node) not in docstrings
            else None
        )
        if isinstance(text, str) and " " in text.strip():
            yield text


if __name__ == "__main__":
    COUNTS.write_text(json.dumps(counts(), indent=1) + "\n", encoding="utf-8")
