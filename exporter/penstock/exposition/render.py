"""
A broker's tables as text, compressed, block by block.

A block is up to `BLOCK` places of one family, in the order of a `Layout`. What did not change since the poll before is
neither rendered nor compressed again; the text of a row's labels is made once in its life.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from penstock.exposition.catalogue import CATALOGUE, Family
from penstock.exposition.gzip_stream import CODEC, Codec, Fragment
from penstock.exposition.layout import Layout, Mask
from penstock.exposition.syntax import label_texts
from penstock.table import Column, Index, Table

BLOCK: Final = 2048
"""Rows per block: fewer cost calls, more cost page faults."""

_EXACT: Final = 2.0**53  # from here on not every whole number is a float

Texts = NDArray[np.object_]
_Group = tuple[str, tuple[str, ...]]
"""Families that share their label texts: a table, and the names of the labels."""

_NO_TABLE: Final[Table[Any]] = Table(Index.empty())


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """The samples of one family of one broker: in `fragments`; `count` of samples, at least 1."""

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
class _Block:
    samples: int
    fragment: Fragment


@dataclass(frozen=True, slots=True, eq=False)
class _Rendered:
    """A family. `column` is what was given, `values` the same by place."""

    column: Column
    values: Column
    blocks: Sequence[_Block]
    samples: Samples


@dataclass(frozen=True, slots=True, eq=False)
class _Section:
    """
    The families that share their label texts, as they were rendered.

    texts: by place. needless: blocks rendered for want of a better order since the order was made.
    """

    layout: Layout
    texts: Texts
    rendered: Mapping[str, _Rendered]
    needless: int = 0


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
        self._sections: dict[_Group, _Section] = {}
        self._updates = 0

    def update(self, tables: Mapping[str, Table[Any]]) -> None:
        """
        Publish `tables`, by table name.

        A family whose table or column is not there, or whose column is all NaN, is left out. Columns belong to the
        renderer from here on: they must not be written to again.
        """
        self.blocks_rendered = 0
        self._updates += 1
        sections: dict[_Group, _Section] = {}
        for group, families in self._groups.items():
            table = tables.get(group[0], _NO_TABLE)
            columns = {
                family.name: np.ascontiguousarray(table[family.column], np.float64)
                for family in families
                if family.column in table
            }
            if columns:
                sections[group] = self._section(self._sections.get(group), table.index, group[1], columns)
        self._sections = sections
        rendered = {name: one for section in sections.values() for name, one in section.rendered.items()}
        self.published = Published({name: one.samples for name, one in rendered.items() if one.samples.count})

    def _section(
        self, before: _Section | None, index: Index[Any], labels: Sequence[str], columns: Mapping[str, Column]
    ) -> _Section:
        layout, texts, moved = _labelled(before, index, labels)
        old = before.rendered if before else {}
        values = {name: _placed(layout, column, old.get(name), moved) for name, column in columns.items()}
        changed = {name: _changed(values[name], moved, old.get(name)) for name in columns}
        needless = before.needless if before else 0
        some = [places for places in changed.values() if places is not None]
        if some:
            layout = layout.noting(np.logical_or.reduce(some), self._updates)
            needless += sum(_needless(places, moved) for places in some)
            # A new order costs one rendering of everything: it is due when the old one has cost as much.
            if needless and needless >= len(columns) * _blocks(len(layout)):
                layout, places = layout.by_activity()
                texts, needless = texts[places], 0
                values = {name: layout.place(column, np.nan) for name, column in columns.items()}
                changed = dict.fromkeys(columns, np.ones(len(layout), np.bool_))
        rendered = self._render(texts, columns, values, changed, old)
        return _Section(layout, texts, rendered, needless)

    def _render(
        self,
        texts: Texts,
        columns: Mapping[str, Column],
        values: Mapping[str, Column],
        changed: Mapping[str, Mask | None],
        before: Mapping[str, _Rendered],
    ) -> dict[str, _Rendered]:
        """The families of one section, by name; `changed`: places where a family is to be made anew, None for none."""
        stale = {name: None if places is None else _any_in_block(places) for name, places in changed.items()}
        blocks: dict[str, list[_Block]] = {name: [] for name in columns}
        # Block by block, not family by family: label texts, scattered by churn, then come from the cache.
        for number in range(_blocks(len(texts))):
            places = slice(number * BLOCK, (number + 1) * BLOCK)
            for name, anew in stale.items():
                if anew is None or not anew[number]:
                    blocks[name].append(before[name].blocks[number])
                else:
                    blocks[name].append(self._block(name, texts[places], values[name][places]))
        return {
            name: before[name]
            if stale[name] is None and column is before[name].column
            else _Rendered(column, values[name], blocks[name], _samples(blocks[name]))
            for name, column in columns.items()
        }

    def _block(self, name: str, labels: Texts, values: Column) -> _Block:
        self.blocks_rendered += 1
        text, samples = sample_lines(name, labels, values)
        return _Block(samples, self._codec.compress(text))


def _samples(blocks: Iterable[_Block]) -> Samples:
    shown = [block for block in blocks if block.samples]
    return Samples(tuple(block.fragment for block in shown), sum(block.samples for block in shown))


def _labelled(before: _Section | None, index: Index[Any], names: Sequence[str]) -> tuple[Layout, Texts, Mask | None]:
    """The layout and label texts of `index`, and which places bear others than before, None when none does."""
    if before is not None and before.layout.index is index:
        return before.layout, before.texts, None
    if before is not None and index.follows(before.layout.index):
        layout, moved = before.layout.follow(index)
        texts = np.empty(len(layout), np.object_)
        both = min(len(layout), len(before.texts))
        texts[:both] = before.texts[:both]
    else:
        # Rows of an unrelated index may bear other texts under the same key.
        layout, moved = Layout.of(index), np.ones(len(index), np.bool_)
        texts = np.empty(len(layout), np.object_)
    at = np.flatnonzero(moved)
    texts[at] = None
    at = at[layout.rows[at] >= 0]
    texts[at] = label_texts(names, index.rows[layout.rows[at]].tolist())
    return layout, texts, moved if len(texts) != (len(before.texts) if before else 0) or moved.any() else None


def _placed(layout: Layout, column: Column, before: _Rendered | None, moved: Mask | None) -> Column:
    """`column` by place; the very array of before where it says the same."""
    if before is not None and moved is None and (column is before.column or _same(column, before.column)):
        return before.values
    return layout.place(column, np.nan)


def _same(column: Column, other: Column) -> bool:
    """Whether both say the same; compared as bits: NaN is the same as NaN."""
    return np.array_equal(column.view(np.int64), other.view(np.int64))


def _changed(values: Column, moved: Mask | None, before: _Rendered | None) -> Mask | None:
    """Places where a family reads otherwise than before, None for none."""
    if before is None:
        return np.ones(len(values), np.bool_)
    if values is before.values and moved is None:
        return None
    changed = _differ(before.values.view(np.int64), values.view(np.int64))
    if moved is not None:
        changed |= moved
    elif not changed.any():
        return None
    if len(before.values) > len(values) and len(values) % BLOCK:
        changed[-1] = True  # the last block has lost its end
    return changed


def _blocks(places: int) -> int:
    return -(-places // BLOCK)


def _any_in_block(places: Mask) -> Mask:
    """Per block whether any of its places is marked."""
    return np.logical_or.reduceat(places, np.arange(0, len(places), BLOCK)) if len(places) else places


def _needless(changed: Mask, moved: Mask | None) -> int:
    """How many blocks are to be rendered only because the places that changed do not stand together."""
    blocks = _any_in_block(changed)
    if moved is not None:
        blocks &= ~_any_in_block(moved)  # no order foresees who comes and goes
    return max(int(np.count_nonzero(blocks)) - _blocks(int(np.count_nonzero(changed))), 0)


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


def _differ(before: NDArray[Any], now: NDArray[Any]) -> Mask:
    """Per place in `now`: whether something else, or nothing, stood there before."""
    differ = np.ones(len(now), bool)
    both = min(len(before), len(now))
    differ[:both] = before[:both] != now[:both]
    return differ
