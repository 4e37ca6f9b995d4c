"""What is counted as hard to read, and that a ceiling only falls."""

from pathlib import Path

import pytest

from standards import ceilings
from standards.ceilings import STANDARD, Ceiling
from standards.measures import Measures, measures_of
from standards.stumbles import stumbles_in


def test_nodes_and_lines_are_those_of_code() -> None:
    source = '"""A docstring\nof two lines."""\n\nnumber = 1\nother = number + 1  # a comment\n'
    measured = measures_of(source)
    # Each line is a statement with a name; the first has one value, the second a sum of two.
    assert measured == Measures(nodes=3 + 5, lines=2, stumbles=0)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("from typing import Any\n", 0),
        ("from typing import Any\nrows: list[Any] = []\n", 1),
        ("def f(row: Any) -> dict[str, Any]: ...\n", 2),
    ],
)
def test_uses_of_any(source: str, count: int) -> None:
    assert measures_of(source).any_types == count


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('def f():\n    """Return the rows."""\n', 0),
        ('def f():\n    """Of the rows."""\n', 1),
        ('"""What a row is."""\nclass A:\n    """Those rows."""\n', 2),
        ('def f():\n    """Whatever comes."""\n', 0),
        ("def f(): ...\n", 0),
    ],
)
def test_docstrings_without_a_subject(source: str, count: int) -> None:
    assert measures_of(source).vague_docstrings == count


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        (
            "def f(found): ...\n",
            ["f: names that say nothing: found"],
        ),
        (
            "def f():\n    for one in ():\n        at = one\n",
            ["f: names that say nothing: at, one"],
        ),
        (
            "def f():\n    return [one for one in ()]\n",
            [],
        ),
        (
            "a, b = 1, 2\n",
            ["several assignments in one"],
        ),
        (
            "a, b = pair()\n",
            [],
        ),
        (
            "a = b & c & d | e\n",
            [],
        ),
        (
            "a = b & c & d | e & g\n",
            ["a chain of 5 terms: name its parts"],
        ),
        (
            "a = b if c else d if e else g\n",
            ["a conditional expression in another"],
        ),
        (
            "a = b if c else d\n",
            [],
        ),
        (
            "f(" + "1, " * 56 + ")\n",
            [],
        ),
        (
            "f(" + "1, " * 57 + ")\n",
            ["a statement of 61 nodes: take steps"],
        ),
        (
            "async def f(" + ", ".join(f"a{n}" for n in range(12)) + "): ...\n",
            [],
        ),
        (
            "def f(self, " + ", ".join(f"a{n}" for n in range(13)) + "): ...\n",
            ["f: 13 names (at most 12)"],
        ),
        (
            "def f(*, of):\n    def g():\n        said = 1\n",
            ["f: names that say nothing: of"],
        ),
    ],
)
def test_stumbles(source: str, texts: list[str]) -> None:
    expected = (
        [*texts, "g: names that say nothing: said"] if "def g" in source else texts
    )
    assert [stumble.text for stumble in stumbles_in(source)] == expected


ROOM = "exporter/room"
DENSE = Measures(nodes=615, lines=100, stumbles=2, any_types=3, vague_docstrings=4)


@pytest.mark.parametrize(
    ("ceiling", "sentences"),
    [
        (Ceiling(6.15, 20.0, 3, 4), []),
        (
            Ceiling(6.14, 20.0, 3, 4),
            [f"{ROOM} has 6.15 nodes per line, at most 6.14"],
        ),
        (
            Ceiling(6.15, 19.9, 3, 4),
            [f"{ROOM} has 20.0 stumbles in 1,000 lines, at most 19.9"],
        ),
        (
            Ceiling(6.15, 20.0, 2, 4),
            [f"{ROOM} has 3 uses of Any, at most 2"],
        ),
        (
            Ceiling(6.15, 20.0, 3, 3),
            [f"{ROOM} has 4 docstrings without a subject, at most 3"],
        ),
    ],
)
def test_a_room_may_not_be_above_its_ceiling(
    ceiling: Ceiling, sentences: list[str]
) -> None:
    assert ceilings.above({ROOM: DENSE}, {ROOM: ceiling}) == sentences


def test_a_new_room_begins_with_the_standard() -> None:
    assert len(ceilings.above({ROOM: DENSE}, {})) == 4
    assert ceilings.above({ROOM: Measures(nodes=520, lines=100, stumbles=1)}, {}) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Ceiling(7.0, 30.0, 9, 9), Ceiling(6.15, 20.0, 3, 4)),
        (Ceiling(6.0, 30.0, 9, 9), Ceiling(6.0, 20.0, 3, 4)),
        (Ceiling(7.0, 15.0, 9, 9), Ceiling(6.15, 15.0, 3, 4)),
        (Ceiling(7.0, 30.0, 2, 1), Ceiling(6.15, 20.0, 2, 1)),
    ],
)
def test_ceilings_only_fall(before: Ceiling, after: Ceiling) -> None:
    assert ceilings.lowered({ROOM: DENSE}, {ROOM: before}) == {ROOM: after}


def test_a_room_that_meets_the_standard_or_is_gone_has_no_ceiling() -> None:
    plain = Measures(nodes=300, lines=100)
    assert (
        ceilings.lowered(
            {ROOM: plain}, {ROOM: Ceiling(7.0, 30.0), "gone": Ceiling(7.0, 30.0)}
        )
        == {}
    )
    assert ceilings.reached(plain) == STANDARD


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "ceilings.toml"
    all_kinds = {
        ROOM: Ceiling(6.15, 20.0),
        f"{ROOM}/inner": Ceiling(6.15, 20.0, any_types=3, vague_docstrings=4),
    }
    file.write_text(ceilings.written(all_kinds))
    assert ceilings.load(file) == all_kinds


def test_each_folder_is_a_room(tmp_path: Path) -> None:
    (tmp_path / "exporter/inner").mkdir(parents=True)
    (tmp_path / "exporter/a.py").write_text("a = 1\n")
    (tmp_path / "exporter/b.py").write_text("b = 1\n")
    (tmp_path / "exporter/inner/c.py").write_text("c = 1\n")
    (tmp_path / "elsewhere.py").write_text("d = 1\n")
    assert ceilings.rooms(tmp_path) == {
        "exporter": Measures(6, 2),
        "exporter/inner": Measures(3, 1),
    }
