"""Text for a screen that rich draws. Nothing in it is markup, and what it shows is visible (`core.visible`)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias, TypedDict, Unpack

from rich.table import Table
from rich.text import Text  # noqa: TID251 - here it is made safe

from penstock.core.visible import visible

if TYPE_CHECKING:
    from rich.console import OverflowMethod


class LineLayout(TypedDict, total=False):
    """The options of a line that decide how it fits into its place, as rich takes them."""

    no_wrap: bool
    overflow: "OverflowMethod"


Line: TypeAlias = Text


def styled(text: str, style: str = "", **layout: Unpack[LineLayout]) -> Line:
    """Return a text as one line. layout: `no_wrap`, `overflow` … as rich has them."""
    return Text(visible(text), style, **layout)


def stacked(lines: Iterable[Line]) -> Line:
    """Return the lines, one below the other."""
    return Text("\n").join(lines)


def add_row(table: Table, *cells: str | Line) -> None:
    """Add a row of cells to a table.

    A `str` is one line, cut where its column has no room; rich itself would read it as markup.
    """
    table.add_row(
        *(
            styled(cell, no_wrap=True, overflow="ellipsis")
            if isinstance(cell, str)
            else cell
            for cell in cells
        )
    )
