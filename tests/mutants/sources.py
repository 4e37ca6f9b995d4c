"""The source of a file after each single change that mutmut makes."""

from collections.abc import Iterator
from itertools import accumulate

import libcst
from libcst.metadata import (
    CodePosition,
    MetadataWrapper,
    PositionProvider,
    WhitespaceInclusivePositionProvider,
)
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode


class EveryFunction(MutationVisitor):
    """mutmut leaves out functions that have a decorator; here they keep it, as only their code is replaced."""

    def _skip_node_and_children(self, node: libcst.CSTNode) -> bool:
        if isinstance(node, libcst.Decorator):
            return True
        if isinstance(node, libcst.FunctionDef):
            return False
        return super()._skip_node_and_children(node)


def sources(source: str) -> Iterator[tuple[int, str]]:
    """The source after each single change, with the line of the change."""
    wrapper = MetadataWrapper(libcst.parse_module(source))
    visitor = EveryFunction(mutation_operators, IgnoredCode(set(), set(), set()))
    module = wrapper.visit(visitor)
    spans = wrapper.resolve(WhitespaceInclusivePositionProvider)
    positions = wrapper.resolve(PositionProvider)
    text = Text(source)
    for mutation in visitor.mutations:
        span = spans.get(mutation.original_node)
        if span is None:
            continue
        start = text.offset(span.start)
        end = text.offset(span.end)
        if source[start:end] != module.code_for_node(mutation.original_node):
            continue
        new_code = module.code_for_node(mutation.mutated_node)
        position = positions[mutation.original_node]
        yield position.start.line, source[:start] + new_code + source[end:]


class Text:
    """Where lines begin in a text."""

    def __init__(self, source: str) -> None:
        lengths = [len(line) for line in source.splitlines(keepends=True)]
        self.starts = [0, *accumulate(lengths)]

    def offset(self, position: CodePosition) -> int:
        return self.starts[position.line - 1] + position.column
