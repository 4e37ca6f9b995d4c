"""Texts for people keep to the vocabulary: no refused word comes, and those that are left become fewer."""

import ast
import json
from collections import defaultdict

import pytest

from docs.vocabulary import COUNTS, REFUSED, ROOT, counts, sentences

SHOWN_BY_NAME = (
    "config/broker.py",
    "config/discovery.py",
    "config/model.py",
    "insight/answers.py",
    "observation/frames.py",
)


@pytest.mark.slow  # takes a second
def test_no_refused_word_comes_and_none_is_counted_that_has_gone() -> None:
    known = json.loads(COUNTS.read_text(encoding="utf-8"))
    now = counts()
    more = {path: count for path, count in now.items() if count > known.get(path, 0)}
    assert more == {}, f"see docs/vocabulary.md for other words than {REFUSED.pattern}"
    assert now == known, "some are gone: run PYTHONPATH=tests python -m docs.vocabulary"


def test_strings_of_several_words_count_and_docstrings_do_not() -> None:
    code = '''
def f():
    """It tells."""
    return f"nobody reads {1} of them"
'''
    assert list(sentences(code)) == ["nobody reads ", " of them"]
    assert [len(REFUSED.findall(text)) for text in sentences(code)] == [1, 0]


@pytest.mark.slow  # reads all of the code
def test_the_name_of_a_class_is_that_of_one_thing() -> None:
    """But for sections of the configuration, answers of the API and frames, which have the names of what they show."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in (
        file
        for package in ("penstock", "penstock_trends")
        for file in (ROOT / "exporter" / package).rglob("*.py")
    ):
        path = str(file.relative_to(ROOT / "exporter")).removeprefix("penstock/")
        kind = path.startswith(("brokers/artemis/", "brokers/openmq/"))
        if path in SHOWN_BY_NAME or kind:
            continue
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
