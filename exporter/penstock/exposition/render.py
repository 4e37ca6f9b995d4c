"""
A broker's tables as text, compressed, block by block.

A block is up to `BLOCK` rows of one family. What did not change since the poll before is neither rendered nor
compressed again; the text of a row's labels is made once in its life.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from penstock.exposition.catalogue import CATALOGUE, Family
from penstock.exposition.gzip_stream import CODEC, Codec, Fragment
from penstock.exposition.syntax import label_texts
from penstock.table import Column, Index, Table

BLOCK: Final = 2048
"""Rows per block: fewer cost calls, more cost page faults."""

_EXACT: Final = 2.0**53  # from here on not every whole number is a float

Texts = NDArray[np.object_]
Mask = NDArray[np.bool_]
_Group = tuple[str, tuple[str, ...]]
"""Families that share their label texts: a table, and the names of the labels."""

_NO_TABLE: Final[Table[Any]] = Table(Index.empty())


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """The samples of one family of one broker: `fragments` in the order of the rows, `count` of samples, at least 1."""

    fragments: tuple[Fragment, ...]
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """What one update gave, by family name. Never changed, and told apart by identity."""

    families: Mapping[str, Samples] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """How many series the broker has in a body."""
        return sum(samples.count for samples in self.families.values())


@dataclass(frozen=True, slots=True, eq=False)
class _Labels:
    """`texts`: one per row; `changed`: rows that differ from the poll before, None when none does."""

    index: Index[Any]
    texts: Texts
    changed: Mask | None


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    rows: int
    samples: int
    fragment: Fragment


@dataclass(frozen=True, slots=True, eq=False)
class _Rendered:
    values: Column
    blocks: Sequence[_Block]
    samples: Samples


class BrokerBlocks:
    """
    The rendered metrics of one broker.

    `update` runs in one thread at a time; `published` may be read from any, and is replaced by one assignment.
    """

    def __init__(self, catalogue: Iterable[Family] = CATALOGUE, codec: Codec = CODEC) -> None:
        self.published = Published()
        self.blocks_rendered = 0
        """Blocks that the last update had to render and compress."""
        self._codec = codec
        self._groups: dict[_Group, list[Family]] = {}
        for family in catalogue:
            self._groups.setdefault((family.table, family.label_names), []).append(family)
        self._labels: dict[_Group, _Labels] = {}
        self._rendered: dict[str, _Rendered] = {}

    def update(self, tables: Mapping[str, Table[Any]]) -> None:
        """
        Publish `tables`, by table name.

        A family whose table or column is not there, or whose column is all NaN, is left out. Columns belong to the
        renderer from here on: they must not be written to again.
        """
        self.blocks_rendered = 0
        labels: dict[_Group, _Labels] = {}
        rendered: dict[str, _Rendered] = {}
        for group, families in self._groups.items():
            table = tables.get(group[0], _NO_TABLE)
            columns = {
                family.name: np.ascontiguousarray(table[family.column], np.float64)
                for family in families
                if family.column in table
            }
            if columns:
                labels[group] = _labels(table.index, group[1], self._labels.get(group))
                rendered |= self._render(labels[group], columns)
        self._labels, self._rendered = labels, rendered
        self.published = Published({name: one.samples for name, one in rendered.items() if one.samples.count})

    def _render(self, labels: _Labels, columns: Mapping[str, Column]) -> dict[str, _Rendered]:
        """The families of one group, by name, from their columns."""
        kept = {name: _unchanged_blocks(self._rendered.get(name), labels, values) for name, values in columns.items()}
        blocks: dict[str, list[_Block]] = {name: [] for name in columns}
        # Block by block, not family by family: label texts, scattered by churn, then come from the cache.
        for start in range(0, len(labels.texts), BLOCK):
            rows = slice(start, start + BLOCK)
            for name, values in columns.items():
                block = kept[name].get(start) or self._block(name, labels.texts[rows], values[rows])
                blocks[name].append(block)
        return {name: _Rendered(values, blocks[name], _samples(blocks[name])) for name, values in columns.items()}

    def _block(self, name: str, labels: Texts, values: Column) -> _Block:
        self.blocks_rendered += 1
        text, samples = sample_lines(name, labels, values)
        return _Block(len(values), samples, self._codec.compress(text))


def _samples(blocks: Iterable[_Block]) -> Samples:
    shown = [block for block in blocks if block.samples]
    return Samples(tuple(block.fragment for block in shown), sum(block.samples for block in shown))


def _unchanged_blocks(before: _Rendered | None, labels: _Labels, values: Column) -> dict[int, _Block]:
    """By their first row: the blocks that would come out as they did the last time."""
    if before is None:
        return {}
    starts = range(0, len(values), BLOCK)
    if labels.changed is None and values is before.values:
        return dict(zip(starts, before.blocks, strict=True))
    # Compared as bits: NaN is the same as NaN.
    changed = _differ(before.values.view(np.int64), values.view(np.int64))
    if labels.changed is not None:
        changed |= labels.changed
    return {
        start: block
        for start, block in zip(starts, before.blocks, strict=False)
        if block.rows == min(BLOCK, len(values) - start) and not changed[start : start + BLOCK].any()
    }


def sample_lines(name: str, labels: Texts, values: Column) -> tuple[bytes, int]:
    """The lines of a family for rows with these label texts, and how many; a row without a finite value has none."""
    shown = np.isfinite(values)
    if not shown.all():
        labels, values = labels[shown], values[shown]
    count = len(values)
    if not count:
        return b"", 0
    pieces = [b"\n" + name.encode()] * (3 * count)
    pieces[0] = name.encode()
    pieces[1::3] = labels.tolist()
    pieces[2::3] = _numbers(values)
    pieces.append(b"\n")
    return b"".join(pieces), count


def _numbers(values: Column) -> list[bytes]:
    """Finite values as text, as short as their meaning allows: whole numbers without `.0`."""
    whole = (values == np.floor(values)).all() and (np.abs(values) < _EXACT).all()
    return orjson.dumps(values.astype(np.int64) if whole else values, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(
        b","
    )


def _labels(index: Index[Any], names: Sequence[str], before: _Labels | None) -> _Labels:
    """The label texts of `index`; those of rows that were there before are kept."""
    if before is not None and before.index is index:
        return _Labels(index, before.texts, None)
    if before is not None and index.follows(before.index):
        texts = index.carry(before.index, before.texts, None)
        fresh = np.flatnonzero(index.origin < 0)
    else:
        # Rows of an unrelated index may bear other texts under the same key.
        texts = np.empty(len(index), np.object_)
        fresh = np.arange(len(index))
    texts[fresh] = label_texts(names, index.rows[fresh].tolist())
    changed = _differ(before.texts, texts) if before else np.ones(len(texts), bool)
    return _Labels(index, texts, changed if before is None or changed.any() else None)


def _differ(before: NDArray[Any], now: NDArray[Any]) -> Mask:
    """Per place in `now`: whether something else, or nothing, stood there before."""
    differ = np.ones(len(now), bool)
    both = min(len(before), len(now))
    differ[:both] = before[:both] != now[:both]
    return differ
