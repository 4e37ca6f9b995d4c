"""The rows as a grid under a heading.

Only the lines on the screen are made: a table widget that makes every cell took 0.2 s for 1,000 rows, at each change.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from penstock.core.visible import visible
from penstock.tui.screens import GAP, Column, bindings, fitted

Cell = Callable[[Column, int], tuple[str, str]]
"""(column, number of the row) -> text and style."""
HEAD = 1
"""Lines of the heading, which stays where it is."""


class Grid(ScrollView, can_focus=True):
    """Rows with a cursor. A click moves the cursor to a row, a second one opens it; one on a heading posts `Headed`."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("grid")

    class Headed(Message):
        """A heading was clicked."""

        def __init__(self, column: Column) -> None:
            super().__init__()
            self.column = column

    def __init__(self) -> None:
        super().__init__()
        self.keys: Sequence[Hashable] = ()
        self.cursor = 0
        self._columns: Sequence[Column] = ()
        self._fitted: list[Column] = []
        self._sort = ""
        self._cell: Cell = lambda *_: ("", "")
        self._empty = ""

    def show(
        self,
        columns: Sequence[Column],
        keys: Sequence[Hashable],
        cell: Cell,
        sort: str,
        empty: str,
    ) -> None:
        """Show other rows. The cursor stays on its row where that is still there, else at its place on the screen.

        Args:
            columns: The columns of the rows, as many as fit are shown.
            keys: The identity of each row.
            cell: Returns the text and style of a cell.
            sort: The order of the rows, as the columns name it.
            empty: The text where there are no rows.
        """
        key_under_cursor = self.keys[self.cursor] if self.keys else None
        self.keys = keys
        self._columns = columns
        self._cell = cell
        self._sort = sort
        self._empty = empty
        if key_under_cursor in keys:
            self.cursor = keys.index(key_under_cursor)
        self._fit()
        self._to(self.cursor)

    def _fit(self) -> None:
        """Choose the columns that fit the screen, less one for the scrollbar, and the height to scroll over."""
        self._fitted = fitted(self._columns, max(self.size.width - 1, 1))
        self.virtual_size = Size(self.size.width, len(self.keys) + HEAD)
        self.refresh()

    def on_resize(self, _: Resize) -> None:
        self._fit()
        self._to(self.cursor)

    @property
    def _page(self) -> int:
        return max(self.size.height - HEAD, 1)

    def _to(self, row: int) -> None:
        """Move the cursor to a row, or to the nearest that there is, and scroll so that it is seen."""
        self.cursor = min(max(row, 0), max(len(self.keys) - 1, 0))
        self.scroll_to_region(
            Region(0, self.cursor, 1, 1 + HEAD),
            animate=False,
            force=True,
            immediate=True,
            x_axis=False,
        )
        self.refresh()

    def action_move(self, lines: int) -> None:
        self._to(self.cursor + lines)

    def action_page(self, pages: int) -> None:
        self._to(self.cursor + pages * self._page)

    async def on_click(self, event: Click) -> None:
        """Report a click on a heading; move the cursor to the row that was clicked, or open it if it is there."""
        if event.y < HEAD:
            left = 0
            for column in self._fitted:
                if left <= event.x < left + column.width:
                    self.post_message(self.Headed(column))
                left += column.width + GAP
            return
        first_row = round(self.scroll_offset.y)
        row = first_row + event.y - HEAD
        if row < len(self.keys):
            is_under_cursor = row == self.cursor
            self._to(row)
            if is_under_cursor:
                await self.run_action("app.open")

    # --- lines

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen: the heading, a row, or nothing below the last row."""
        if y < HEAD:
            return self._strip(
                [(self._heading(column), "bold underline") for column in self._fitted],
                Style.null(),
            )
        first_row = round(self.scroll_offset.y)
        row = first_row + y - HEAD
        if row >= len(self.keys):
            empty = visible(self._empty) if row == 0 else ""
            return Strip([Segment(empty)]).adjust_cell_length(self.size.width)
        cells = [self._cell(column, row) for column in self._fitted]
        style = Style.null()
        if row == self.cursor:
            style = Style(reverse=True)
        return self._strip(cells, style)

    def _heading(self, column: Column) -> str:
        """Return the title of a column, with `*` where it gives the order of the rows, or `-` where in reverse."""
        order = column.sort.removeprefix("-")
        if not column.sort or order != self._sort.removeprefix("-"):
            return column.title
        return f"{column.title}{'*' if column.sort == self._sort else '-'}"

    def _strip(self, cells: Sequence[tuple[str, str]], base: Style) -> Strip:
        """Return a line of cells as wide as the screen. cells: the text and style of each. base: of the whole line."""
        gap = Segment(" " * GAP, base)
        segments: list[Segment] = []
        for column, (text, style) in zip(self._fitted, cells, strict=True):
            segments += [Segment(sized(text, column), base + Style.parse(style)), gap]
        return Strip(segments).adjust_cell_length(self.size.width, base)


def sized(text: str, column: Column) -> str:
    """Return the text exactly as wide as the column, and visible; a longer text ends in an ellipsis."""
    text = visible(text)
    if cell_len(text) > column.width:
        text = set_cell_size(text, column.width - 1) + "…"
    if not column.right:
        return set_cell_size(text, column.width)
    missing = column.width - cell_len(text)
    return " " * missing + text
