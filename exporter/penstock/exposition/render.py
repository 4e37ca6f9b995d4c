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

EMPTY: Final = -1
ALL: Final = slice(None)
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """By place the position of a row of `index`, or EMPTY. changed_at: by place the number of the update at which
    something last changed there. in_order: each row is at its own position, none is empty.
    """

    index: Index[Any]
    rows: Positions
    changed_at: NDArray[np.int64]
    in_order: bool

    @classmethod
    def of(cls, index: Index[Any]) -> "Layout":
        """The rows in their own order."""
        return cls(
            index, np.arange(len(index)), np.zeros(len(index), np.int64), in_order=True
        )

    def __len__(self) -> int:
        return len(self.rows)

    def advance(self, index: Index[Any]) -> tuple["Layout", Mask]:
        """The layout of an index that follows this one's, and by its places: whether another row is there now."""
        position = np.full(len(self.index), EMPTY, np.intp)
        stays = np.flatnonzero(index.origin >= 0)
        position[index.origin[stays]] = stays
        rows = take_or_fill(position, self.rows, EMPTY)
        new = np.flatnonzero(index.origin < 0)
        changed = (rows < 0) & (self.rows >= 0)
        free = np.flatnonzero(rows < 0)[: len(new)]
        rows[free] = new[: len(free)]
        changed[free] = True
        behind = new[len(free) :]
        rows = np.concatenate([rows, behind])
        changed = np.concatenate([changed, np.ones(len(behind), np.bool_)])
        changed_at = np.concatenate([self.changed_at, np.zeros(len(behind), np.int64)])
        size = int(np.flatnonzero(rows >= 0)[-1]) + 1 if len(index) else 0
        in_order = size == len(index) and bool((rows[:size] == np.arange(size)).all())
        return Layout(index, rows[:size], changed_at[:size], in_order), changed[:size]

    def by_activity(self) -> tuple["Layout", Positions]:
        """The rows whose last change is youngest first, no place empty; and where each place was before."""
        at = np.flatnonzero(self.rows >= 0)
        at = at[np.argsort(-self.changed_at[at], kind="stable")]
        return Layout(
            self.index, self.rows[at], self.changed_at[at], in_order=False
        ), at

    def place(
        self, values: NDArray[CellT], fill: float, places: slice = ALL
    ) -> NDArray[CellT]:
        """`values`, in the order of rows, in that of places; `fill` where it is empty."""
        return (
            values[places]
            if self.in_order
            else take_or_fill(values, self.rows[places], fill)
        )


BLOCK: Final = 2048
"""Rows per block: fewer cost calls, more cost page faults."""

UNBOUNDED: Final = frozenset(family.name for family in CATALOGUE if family.unbounded)
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
    """What one update gave, by family name. Never changed, and compared by identity."""

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
            self._groups.setdefault((family.table, family.label_names), []).append(
                family
            )
        self._sections: dict[_Group, _Section] = {}
        self._updates = 0
        self._label_length = 0

    def update(
        self, tables: Mapping[str, Table[Any]], label_length: int = LABEL_BYTES
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
        rendered = {
            name: one
            for section in self._sections.values()
            for name, one in section.rendered.items()
        }
        self.published = Published(
            {name: one.samples for name, one in rendered.items() if one.samples.count}
        )

    def _section(
        self,
        before: _Section | None,
        index: Index[Any],
        labels: Sequence[str],
        columns: Mapping[str, Column],
    ) -> _Section:
        layout, texts, moved = _laid_out(before, index)
        old = before.rendered if before else {}
        changed = {
            name: _changed(layout, column, moved, old.get(name))
            for name, column in columns.items()
        }
        needless = before.needless if before else 0
        some = [places for places in changed.values() if places is not None]
        if some:
            changed_at = np.where(
                np.logical_or.reduce(some), self._updates, layout.changed_at
            )
            layout = replace(layout, changed_at=changed_at)
            needless += sum(_needless(places, moved) for places in some)
            # A new order costs one rendering of everything: it is due when the old one has cost as much.
            if needless and needless >= len(columns) * _blocks(len(layout)):
                layout, places = layout.by_activity()
                texts = texts[places]
                needless = 0
                changed = dict.fromkeys(columns, np.ones(len(layout), np.bool_))
        lines = _Labels(labels, layout, texts, self._label_length)
        return _Section(
            layout, texts, self._render(lines, columns, changed, old), needless
        )

    def _render(
        self,
        labels: "_Labels",
        columns: Mapping[str, Column],
        changed: Mapping[str, Mask | None],
        before: Mapping[str, _Rendered],
    ) -> dict[str, _Rendered]:
        """The families of one section, by name; `changed`: places where a family is to be made again, None for none."""
        layout = labels.layout
        size = len(labels.layout)
        stale = {
            name: None if places is None else _stale(places, before.get(name))
            for name, places in changed.items()
        }
        blocks: dict[str, list[_Block]] = {name: [] for name in columns}
        # Block by block, not family by family: label texts, scattered by churn, then come from the cache.
        for number in range(_blocks(size)):
            places = slice(number * BLOCK, min((number + 1) * BLOCK, size))
            texts = labels.of(
                places,
                works=any(anew is not None and anew[number] for anew in stale.values()),
            )
            for name, anew in stale.items():
                if anew is None or not anew[number]:
                    blocks[name].append(before[name].blocks[number])
                    continue
                self.blocks_rendered += 1
                values = layout.place(columns[name], np.nan, places)
                text, samples = sample_lines(
                    name, texts, values, unbounded=name in UNBOUNDED
                )
                blocks[name].append(
                    _Block(len(values), samples, self._codec.compress(text))
                )
        return {
            name: before[name]
            if stale[name] is None and column is before[name].column
            else _Rendered(column, blocks[name], _samples(blocks[name]))
            for name, column in columns.items()
        }


def _samples(blocks: Iterable[_Block]) -> Samples:
    shown = [block for block in blocks if block.samples]
    return Samples(
        tuple(block.fragment for block in shown), sum(block.samples for block in shown)
    )


def _laid_out(
    before: _Section | None, index: Index[Any]
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
    return (
        layout,
        texts,
        moved
        if len(texts) != (len(before.texts) if before else 0) or moved.any()
        else None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Labels:
    """The label texts of a section, `names` of the rows of `layout`: by place in `texts`, None where not needed."""

    names: Sequence[str]
    layout: Layout
    texts: Texts
    longest: int

    def of(self, places: slice, *, works: bool) -> Texts:
        """Those of a block. Where nothing changes they are not kept: most of a large broker has nothing to do."""
        texts = self.texts[places]
        rows = self.layout.rows[places]
        if not works:
            texts[:] = None
        elif len(at := np.flatnonzero(~texts.astype(np.bool_) & (rows >= 0))):
            texts[at] = label_texts(
                self.names, self.layout.index.rows[rows[at]].tolist(), self.longest
            )
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
        rows = _differ(take_or_fill(before.column, layout.index.origin, np.nan), column)
        moved = moved | layout.place(rows, fill=False)
    return moved


def _differ(before: Column, now: Column) -> Mask:
    """Compared as bits: NaN is the same as NaN."""
    return np.not_equal(before.view(np.int64), now.view(np.int64))


def _stale(changed: Mask, before: _Rendered | None) -> Mask:
    """Per block whether it is to be made again: for what changed, or because it ends elsewhere."""
    stale = _any_in_block(changed)
    if before is not None and len(stale):
        last = len(stale) - 1
        end = len(changed) - last * BLOCK
        stale[last] |= last >= len(before.blocks) or before.blocks[last].places != end
    return stale


def _blocks(places: int) -> int:
    return -(-places // BLOCK)


def _any_in_block(places: Mask) -> Mask:
    """Per block whether any of its places is marked."""
    return (
        np.logical_or.reduceat(places, np.arange(0, len(places), BLOCK))
        if len(places)
        else places
    )


def _needless(changed: Mask, moved: Mask | None) -> int:
    """How many blocks are to be rendered only because the places that changed are not adjacent."""
    blocks = _any_in_block(changed)
    if moved is not None:
        blocks &= ~_any_in_block(moved)  # no order foresees who comes and goes
    return max(
        int(np.count_nonzero(blocks)) - _blocks(int(np.count_nonzero(changed))), 0
    )


def sample_lines(
    name: str, labels: Texts, values: Column, *, unbounded: bool = False
) -> tuple[bytes, int]:
    """The lines of a family for rows with these label texts, and how many; a row without a finite value has none, but
    +Inf where it is `unbounded`.
    """
    shown = np.isfinite(values)
    if unbounded:
        shown |= np.isposinf(values)
    if not shown.all():
        labels = labels[shown]
        values = values[shown]
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
    whole = (values == np.floor(values)).all() and (np.abs(values) < _EXACT).all()
    text = orjson.dumps(
        values.astype(np.int64) if whole else values, option=orjson.OPT_SERIALIZE_NUMPY
    )
    return text[1:-1].split(b",")
