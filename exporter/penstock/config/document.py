"""YAML text → plain values, with the line of every key and every problem found, not only the first."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from penstock.config.section import TEXTS

Path = tuple[str | int, ...]
"""Keys and list positions from the top: ("brokers", 0, "url")."""

MAX_DEPTH = 20
MAX_NODES = 100_000
"""Nodes as written, and after aliases are followed: a few lines of YAML can expand to billions."""

_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Problem:
    line: int
    path: Path
    text: str


@dataclass(slots=True)
class Document:
    """Plain values (dict, list, str, int, float, bool), the line of each path, and what is wrong."""

    values: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    void: set[Path] = field(default_factory=set)
    """Paths whose value could not be read and is None; their problem is reported already."""

    def line(self, path: Path) -> int:
        """Line of the path, or of the nearest thing around it that is there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class _Unreadable(Exception):
    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


class _Loader(yaml.SafeLoader):
    depth = nodes = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        """Read one node; a document that is too deep or too large is refused."""
        self.depth += 1
        self.nodes += 1
        if self.depth > MAX_DEPTH:
            raise _Unreadable(
                self.line + 1, f"is nested deeper than {MAX_DEPTH} levels"
            )
        if self.nodes > MAX_NODES:
            raise _Unreadable(self.line + 1, f"holds more than {MAX_NODES} values")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read(text: str, *, may_be_empty: bool = False) -> Document:
    """The document in `text`; never raises, whatever the text is. may_be_empty: no key at all is no problem."""
    document = Document()
    try:
        root = _compose(text)
        if root is None and not may_be_empty:
            raise _Unreadable(1, "is empty; write at least one key")  # noqa: TRY301
        document.values = {} if root is None else _Reader(document).value(root, ())
    except _Unreadable as error:
        document.problems.append(Problem(error.line, (), str(error)))
    return document


def _compose(text: str) -> MappingNode | None:
    """None: there is nothing but comments."""
    try:
        root = _Loader(text).get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = (
            ord(error.character)
            if isinstance(error.character, str)
            else int(str(error.character))
        )
        raise _Unreadable(
            line, f"character U+{code:04X} is not allowed in YAML"
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _Unreadable(
            mark.line + 1 if mark else 1, _syntax(error.problem or error.context or "")
        ) from None
    except (
        yaml.YAMLError,
        ValueError,
        OverflowError,
    ):  # such as \U escapes beyond Unicode
        raise _Unreadable(1, "is not YAML") from None
    if root is None or (isinstance(root, ScalarNode) and root.tag == _TAG + "null"):
        return None
    if not isinstance(root, MappingNode):
        raise _Unreadable(
            root.start_mark.line + 1, "must be a mapping (key: value) at the top"
        )
    return root


def _syntax(problem: str) -> str:
    """The scanner's words without words of the file: they may be part of a password that lacks its quotes."""
    for start, advice in TEXTS["yaml"].items():
        if problem.startswith(start):
            return str(advice)
    return "is not YAML: " + re.sub(r" ?(['\"])(?!<)[^'\"]{2,}\1", "", problem)


class _Reader:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.nodes = 0

    def value(self, node: Node, path: Path) -> Any:
        """Return the value of a node, and note its line."""
        line = node.start_mark.line + 1
        self.count(line, len(path))
        self.document.lines.setdefault(path, line)
        if isinstance(node, MappingNode) and node.tag == _TAG + "map":
            return self.mapping(node, path)
        if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item, (*path, at)) for at, item in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            return self.scalar(node, path)
        return self.void(line, path, _BAD_TAG)

    def count(self, line: int, depth: int) -> None:
        """Count a value; aliases may multiply them, so a document that grows too large is refused."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _Unreadable(
                line, f"holds more than {MAX_NODES} values once aliases are followed"
            )
        if depth > MAX_DEPTH:
            raise _Unreadable(
                line,
                f"is nested deeper than {MAX_DEPTH} levels once aliases are followed",
            )

    def mapping(self, node: MappingNode, path: Path) -> dict[str, object]:
        values: dict[str, object] = {}
        own: dict[str, int] = {}
        for key_node, value_node, merged in self.pairs(node, 0):
            line = key_node.start_mark.line + 1
            key = key_node.value
            if (
                not isinstance(key_node, ScalarNode)
                or key_node.tag != _TAG + "str"
                or not _is_unicode(key)
            ):
                self.problem(line, path, "holds a key that is not text")
            elif key not in values:
                self.document.lines[*path, key] = line
                values[key] = self.value(value_node, (*path, key))
                own[key] = line
            elif not merged:
                self.problem(
                    line,
                    (*path, key),
                    f"stands twice, first on line {own[key]}; keep one of the two",
                )
        return values

    def pairs(self, node: MappingNode, depth: int) -> Iterator[tuple[Node, Node, bool]]:
        """Its own pairs, then those it merges in (`<<`), which the flag marks."""
        self.count(node.start_mark.line + 1, depth)
        for key, value in node.value:
            if key.tag != _TAG + "merge":
                yield key, value, depth > 0
        for key, value in node.value:
            if key.tag == _TAG + "merge":
                for source in (
                    value.value if isinstance(value, SequenceNode) else [value]
                ):
                    if not isinstance(source, MappingNode):
                        raise _Unreadable(
                            key.start_mark.line + 1,
                            "<< must be followed by an alias of a mapping",
                        )
                    yield from self.pairs(source, depth + 1)

    def scalar(self, node: ScalarNode, path: Path) -> Any:
        line = node.start_mark.line + 1
        kind = node.tag.removeprefix(_TAG)
        if kind == "null":
            return self.void(line, path, "has no value; give one or remove the key")
        if kind not in _SCALARS:
            return self.void(line, path, _BAD_TAG)
        try:
            value = _SCALARS[kind](SafeConstructor(), node)
        except (ValueError, LookupError, OverflowError, yaml.YAMLError):
            return self.void(
                line,
                path,
                "is not the number or flag that it looks like; if it is text, quote it",
            )
        return (
            value
            if _is_unicode(node.value)
            else self.void(line, path, "holds half of a surrogate pair")
        )

    def problem(self, line: int, path: Path, text: str) -> None:
        self.document.problems.append(Problem(line, path, text))

    def void(self, line: int, path: Path, text: str) -> None:
        self.problem(line, path, text)
        self.document.void.add(path)


_BAD_TAG = (
    "has a tag that is not allowed here; a text that begins with ! must be quoted"
)
_SCALARS: dict[str, Callable[[SafeConstructor, ScalarNode], object]] = {
    "str": SafeConstructor.construct_scalar,
    "timestamp": SafeConstructor.construct_scalar,
    "value": SafeConstructor.construct_scalar,
    "bool": SafeConstructor.construct_yaml_bool,
    "int": SafeConstructor.construct_yaml_int,
    "float": SafeConstructor.construct_yaml_float,
}


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
