"""The line in which a filter is typed."""

from collections.abc import Callable

from textual.events import Event, Key
from textual.widgets import Input


class FilterEntry(Input):
    """
    Hidden until `open`; Enter and Esc hide it and call `done` with what was typed, None after Esc.

    A terminal gives keys that came together at once: those after the end wait here by then. They go back to the app.
    """

    def __init__(self, done: Callable[[str | None], None]) -> None:
        super().__init__(placeholder="part of a name or of a condition; Enter keeps it, Esc ends it", id="filter")
        self._done = done

    def open(self, text: str) -> None:
        self.value = text
        self.display = True
        self.screen.set_focus(self)  # at once: the next key is a letter of it

    async def on_event(self, event: Event) -> None:
        """Not by bindings: those are looked up only when the key has bubbled to the app, and the next one is here."""
        if not isinstance(event, Key):
            await super().on_event(event)
        elif not self.display:
            self.app.post_message(Key(event.key, event.character))
        elif event.key in ("enter", "escape"):
            self.display = False
            self._done(self.value if event.key == "enter" else None)
        else:
            await super().on_event(event)
