"""A broker's tables as text, compressed, block by block. A block is up to `BLOCK` places of one family, in the order of
a `Layout`. What did not change is not rendered again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from penstock.core.table import Column, Index, Positions, Table, take_or_fill
from penstock.exposition.catalogue import CATALOGUE, Family
from penstock.exposition.gzip_stream import CODEC, Codec, Fragment
from penstock.exposition.syntax import label_texts
from penstock.settings.policy import LABEL_BYTES

CellT = TypeVar("CellT", bound=np.generic)
AnyIndex = Index[Any]
AnyTable = Table[Any]

EMPTY: Final = -1
ALL: Final = slice(None)
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The place of each row of `index` in the text. rows: (places,) the position of a row, or EMPTY. changed_at:
    (places,) the number of the update at which something last changed there. in_order: each row is at its own
    position, none is empty.
    """

    index: AnyIndex
    rows: Positions
    changed_at: NDArray[np.int64]
    in_order: bool

    @classmethod
    def of(cls, index: AnyIndex) -> "Layout":
        """The rows in their own order."""
        rows = np.arange(len(index))
        changed_at = np.zeros(len(index), np.int64)
        return cls(index, rows, changed_at, in_order=True)

    def __len__(self) -> int:
        return len(self.rows)

    def advance(self, index: AnyIndex) -> tuple["Layout", Mask]:
        """The layout of an index that follows this one's, and (places,) True where another row is there now."""
        rows = self._rows_in(index)
        changed = (rows < 0) & (self.rows >= 0)
        new = np.flatnonzero(index.origin < 0)
        free = np.flatnonzero(rows < 0)[: len(new)]
        rows[free] = new[: len(free)]
        changed[free] = True
        behind = new[len(free) :]
        rows = np.concatenate([rows, behind])
        changed = np.concatenate([changed, np.ones(len(behind), np.bool_)])
        changed_at = np.concatenate([self.changed_at, np.zeros(len(behind), np.int64)])
        filled = np.flatnonzero(rows >= 0)
        size = int(filled[-1]) + 1 if len(filled) else 0
        rows = rows[:size]
        in_order = size == len(index) and _is_range(rows)
        return Layout(index, rows, changed_at[:size], in_order), changed[:size]

    def _rows_in(self, index: AnyIndex) -> Positions:
        """(places,) The positions of this layout's rows in the index that follows; EMPTY where a row is not in it."""
        position = np.full(len(self.index), EMPTY, np.intp)
        stays = np.flatnonzero(index.origin >= 0)
        position[index.origin[stays]] = stays
        return take_or_fill(position, self.rows, EMPTY)

    def changed(self, places: Mask, update: int) -> "Layout":
        """The same layout where these places changed at this update."""
        changed_at = np.where(places, update, self.changed_at)
        return replace(self, changed_at=changed_at)

    def by_activity(self) -> tuple["Layout", Positions]:
        """The rows whose last change is youngest first, no place empty; and where each place was before."""
        places = np.flatnonzero(self.rows >= 0)
        places = places[np.argsort(-self.changed_at[places], kind="stable")]
        return Layout(
            self.index, self.rows[places], self.changed_at[places], in_order=False
        ), places

    def place(
        self, values: NDArray[CellT], fill: float, places: slice = ALL
    ) -> NDArray[CellT]:
        """`values`, in the order of rows, in that of places; `fill` where it is empty."""
        if self.in_order:
            return values[places]
        return take_or_fill(values, self.rows[places], fill)


def _is_range(rows: Positions) -> bool:
    """Whether these are 0, 1, 2 and so on."""
    return bool((rows == np.arange(len(rows))).all())


BLOCK: Final = 2048
"""Rows per block: fewer cost calls, more cost page faults."""

UNBOUNDED: Final = frozenset(family.name for family in CATALOGUE if family.unbounded)
_EXACT: Final = 2.0**53  # from here on not every whole number is a float

Texts = NDArray[np.object_]
_Group = tuple[str, tuple[str, ...]]
"""Families that share their label texts: a table, and the names of the labels."""

_NO_TABLE: Final[AnyTable] = Table(Index.empty())


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """The samples of one family of one broker: in `fragments`; `count` of samples, at least 1."""

    fragments: tuple[Fragment, ...]
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """The samples of one update, by family name. Never changed, and compared by identity."""

    families: Mapping[str, Samples] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """How many series the broker has in a body."""
        return sum(samples.count for samples in self.families.values())


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    places: int
    samples: int
    fragment: Fragment


@dataclass(frozen=True, slots=True, eq=False)
class _Rendered:
    """A family, and the column that it was made from."""

    column: Column
    blocks: Sequence[_Block]
    samples: Samples


@dataclass(frozen=True, slots=True, eq=False)
class _Section:
    """The families that share their label texts, as they were rendered. texts: by place, None until needed. needless:
    blocks rendered only because of the order since the order was made.
    """

    layout: Layout
    texts: Texts
    rendered: Mapping[str, _Rendered]
    needless: int = 0


class BrokerBlocks:
    """The rendered metrics of one broker. `update` runs in one thread at a time; `published` may be read from any."""

    def __init__(
        self, families: Iterable[Family] = CATALOGUE, codec: Codec = CODEC
    ) -> None:
        self.published = Published()
        self.blocks_rendered = 0
        """Blocks that the last update had to render and compress."""
        self._codec = codec
        self._groups: dict[_Group, list[Family]] = {}
        for family in families:
            group = (family.table, family.label_names)
            self._groups.setdefault(group, []).append(family)
        self._sections: dict[_Group, _Section] = {}
        self._updates = 0
        self._label_length = 0

    def update(
        self, tables: Mapping[str, AnyTable], label_length: int = LABEL_BYTES
    ) -> None:
        """Publish `tables`, by table name; what is missing or all NaN is left out. Columns belong to the renderer from
        here on. label_length: bytes of a label's value; another one needs tables of new rows.
        """
        self.blocks_rendered = 0
        self._label_length = label_length
        self._updates += 1
        for group, families in self._groups.items():
            table = tables.get(group[0], _NO_TABLE)
            columns = {
                family.name: np.ascontiguousarray(table[family.column], np.float64)
                for family in families
                if family.column in table
            }
            # Each takes the place of the one before at once: to let go of all in one step takes long.
            if columns:
                self._sections[group] = self._section(
                    self._sections.get(group), table.index, group[1], columns
                )
            else:
                self._sections.pop(group, None)
        self.published = Published(
            {
                name: family.samples
                for section in self._sections.values()
                for name, family in section.rendered.items()
                if family.samples.count
            }
        )

    def _section(
        self,
        before: _Section | None,
        index: AnyIndex,
        labels: Sequence[str],
        columns: Mapping[str, Column],
    ) -> _Section:
        """The families of one group. before: the same at the update before. labels: the names of their labels."""
        layout, texts, moved = _laid_out(before, index)
        old = before.rendered if before else {}
        needless = before.needless if before else 0
        changed = {
            name: _changed(layout, column, moved, old.get(name))
            for name, column in columns.items()
        }
        masks = [places for places in changed.values() if places is not None]
        if masks:
            layout = layout.changed(np.logical_or.reduce(masks), self._updates)
            needless += sum(_needless(places, moved) for places in masks)
            # A new order costs one rendering of everything: it is due when the old one has cost as much.
            if needless and needless >= len(columns) * _blocks(len(layout)):
                layout, order = layout.by_activity()
                texts = texts[order]
                needless = 0
                changed = dict.fromkeys(columns, np.ones(len(layout), np.bool_))
        lines = _Labels(labels, layout, texts, self._label_length)
        rendered = self._render(lines, columns, changed, old)
        return _Section(layout, texts, rendered, needless)

    def _render(
        self,
        labels: "_Labels",
        columns: Mapping[str, Column],
        changed: Mapping[str, Mask | None],
        before: Mapping[str, _Rendered],
    ) -> dict[str, _Rendered]:
        """The families of one section, by name; `changed`: places where a family is to be made again, None for none."""
        stale = {
            name: None if places is None else _stale(places, before.get(name))
            for name, places in changed.items()
        }
        blocks = self._render_blocks(labels, columns, stale, before)
        rendered: dict[str, _Rendered] = {}
        for name, column in columns.items():
            old = before.get(name)
            if old is not None and stale[name] is None and column is old.column:
                rendered[name] = old
                continue
            samples = _samples(blocks[name])
            rendered[name] = _Rendered(column, blocks[name], samples)
        return rendered

    def _render_blocks(
        self,
        labels: "_Labels",
        columns: Mapping[str, Column],
        stale: Mapping[str, Mask | None],
        before: Mapping[str, _Rendered],
    ) -> dict[str, list[_Block]]:
        """All blocks of each family. stale: (blocks,) True for one that is to be made again; None: none is."""
        size = len(labels.layout)
        blocks: dict[str, list[_Block]] = {name: [] for name in columns}
        # Block by block, not family by family: label texts, scattered by churn, then come from the cache.
        for number in range(_blocks(size)):
            places = _places_of_block(number, size)
            due = {
                name
                for name, is_stale in stale.items()
                if is_stale is not None and is_stale[number]
            }
            texts = labels.of(places, works=bool(due))
            for name, column in columns.items():
                if name in due:
                    values = labels.layout.place(column, np.nan, places)
                    block = self._block(name, texts, values)
                else:
                    block = before[name].blocks[number]
                blocks[name].append(block)
        return blocks

    def _block(self, name: str, labels: Texts, values: Column) -> _Block:
        """The samples of some rows of a family, rendered and compressed."""
        self.blocks_rendered += 1
        text, samples = sample_lines(name, labels, values, unbounded=name in UNBOUNDED)
        return _Block(len(values), samples, self._codec.compress(text))


def _samples(blocks: Iterable[_Block]) -> Samples:
    filled = [block for block in blocks if block.samples]
    fragments = tuple(block.fragment for block in filled)
    return Samples(fragments, sum(block.samples for block in filled))


def _laid_out(
    before: _Section | None, index: AnyIndex
) -> tuple[Layout, Texts, Mask | None]:
    """The layout and label texts of `index`, and which places bear others than before, None when none does."""
    if before is not None and before.layout.index is index:
        return before.layout, before.texts, None
    if before is not None and index.follows(before.layout.index):
        layout, moved = before.layout.advance(index)
        texts = np.empty(len(layout), np.object_)
        both = min(len(layout), len(before.texts))
        texts[:both] = before.texts[:both]
    else:
        # Rows of an unrelated index may bear other texts under the same key.
        layout = Layout.of(index)
        moved = np.ones(len(index), np.bool_)
        texts = np.empty(len(layout), np.object_)
    texts[moved] = None
    size_before = len(before.texts) if before else 0
    if len(texts) == size_before and not moved.any():
        return layout, texts, None
    return layout, texts, moved


@dataclass(frozen=True, slots=True, eq=False)
class _Labels:
    """The label texts of a section, `names` of the rows of `layout`: by place in `texts`, None where not needed."""

    names: Sequence[str]
    layout: Layout
    texts: Texts
    longest: int

    def of(self, places: slice, *, works: bool) -> Texts:
        """The texts of a block. Where nothing changes they are not kept: most of a large broker has nothing to do."""
        texts = self.texts[places]
        rows = self.layout.rows[places]
        if not works:
            texts[:] = None
            return texts
        is_missing = ~texts.astype(np.bool_)
        missing = np.flatnonzero(is_missing & (rows >= 0))
        if len(missing):
            objects = self.layout.index.rows[rows[missing]].tolist()
            texts[missing] = label_texts(self.names, objects, self.longest)
        return texts


def _changed(
    layout: Layout, column: Column, moved: Mask | None, before: _Rendered | None
) -> Mask | None:
    """Places where a family reads otherwise than before. moved: where another row is. None for none."""
    if before is None:
        return np.ones(len(layout), np.bool_)
    if moved is None:
        if column is before.column:
            return None
        rows = _differ(before.column, column)
        return layout.place(rows, fill=False) if rows.any() else None
    if len(before.column) and not moved.all():
        column_before = take_or_fill(before.column, layout.index.origin, np.nan)
        rows = _differ(column_before, column)
        moved = moved | layout.place(rows, fill=False)
    return moved


def _differ(before: Column, now: Column) -> Mask:
    """Compared as bits: NaN is the same as NaN."""
    bits_before = before.view(np.int64)
    return np.not_equal(bits_before, now.view(np.int64))


def _stale(changed: Mask, before: _Rendered | None) -> Mask:
    """Per block whether it is to be made again: for what changed, or because it ends elsewhere."""
    stale = _any_in_block(changed)
    if before is not None and len(stale):
        last = len(stale) - 1
        end = len(changed) - last * BLOCK
        is_new = last >= len(before.blocks)
        stale[last] |= is_new or before.blocks[last].places != end
    return stale


def _places_of_block(number: int, places: int) -> slice:
    """The places of the block with this number, from 0. places: of all blocks."""
    start = number * BLOCK
    return slice(start, min(start + BLOCK, places))


def _blocks(places: int) -> int:
    """How many blocks have so many places."""
    return -(-places // BLOCK)


def _any_in_block(places: Mask) -> Mask:
    """Per block whether any of its places is marked."""
    if not len(places):
        return places
    starts = np.arange(0, len(places), BLOCK)
    return np.logical_or.reduceat(places, starts)


def _needless(changed: Mask, moved: Mask | None) -> int:
    """How many blocks are to be rendered only because the places that changed are not adjacent."""
    blocks = _any_in_block(changed)
    if moved is not None:
        blocks &= ~_any_in_block(moved)  # no order foresees which rows come and go
    rendered = int(np.count_nonzero(blocks))
    needed = _blocks(int(np.count_nonzero(changed)))
    return max(rendered - needed, 0)


def sample_lines(
    name: str, labels: Texts, values: Column, *, unbounded: bool = False
) -> tuple[bytes, int]:
    """The lines of a family for rows with these label texts, and how many; a row without a finite value has none, but
    +Inf where it is `unbounded`.
    """
    has_sample = np.isfinite(values)
    if unbounded:
        has_sample |= np.isposinf(values)
    if not has_sample.all():
        labels = labels[has_sample]
        values = values[has_sample]
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
    """Values as text, as short as their meaning allows: whole numbers without `.0`, an infinite one as +Inf."""
    if not np.isfinite(values).all():
        return [
            b"+Inf" if np.isposinf(value) else b"%r" % value
            for value in values.tolist()
        ]
    are_whole = (values == np.floor(values)).all()
    numbers: Column | NDArray[np.int64] = values
    if are_whole and (np.abs(values) < _EXACT).all():
        numbers = values.astype(np.int64)
    text = orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)
    return text[1:-1].split(b",")
