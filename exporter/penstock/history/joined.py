"""
Notes of what joined files were made of.

The files that went into a joined one stay for a while, so that a job which has listed them can read them. As long as
they are there a note in `joined/` names them, and whoever lists raw history by `current` passes over them.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from penstock.history.publish import RAW
from penstock.history.store import Store, StoredFile

NOTES = "joined"


@dataclass(frozen=True, slots=True)
class Note:
    """target: the joined file; sources: those that went into it; at: when, by the agent's clock."""

    target: str
    sources: tuple[str, ...]
    at: float = 0.0

    @property
    def name(self) -> str:
        return f"{NOTES}/{self.target.rpartition('/')[2].removesuffix('.parquet')}.json"


Notes = Mapping[str, Note]
"""By name of the note."""


def write_note(store: Store, note: Note) -> None:
    """Before the joined file: without that a note says nothing."""
    store.write_bytes(note.name, json.dumps(asdict(note)).encode())


def read_notes(store: Store) -> Notes:
    """
    Raises StoreError.

    One that is gone meanwhile, or damaged, names nothing: its files are joined again, and lose nothing.
    """
    found = {}
    for entry in store.files(NOTES):
        try:
            said = json.loads(store.read_bytes(entry.path) or b"")
            sources = tuple(map(str, said["sources"]))
            found[entry.path] = Note(str(said["target"]), sources, float(said.get("at", 0.0)))
        except (ValueError, KeyError, TypeError):
            found[entry.path] = Note("", ())
    return found


def current(store: Store) -> list[StoredFile]:
    """The raw files by name, without those whose rows stand in a joined one, too. Raises StoreError."""
    before = read_notes(store)
    entries = store.files(RAW)
    # Notes come and go meanwhile: one goes after the files it names, and comes before the one that is made of them.
    gone = replaced({**before, **read_notes(store)}.values(), {entry.path for entry in entries})
    return [entry for entry in entries if entry.path not in gone]


def replaced(notes: Iterable[Note], there: Collection[str]) -> set[str]:
    """Of the files that are `there`, those that went into others that are there."""
    return {path for note in notes if note.target in there for path in note.sources}
