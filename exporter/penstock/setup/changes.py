"""Changes of files: they are planned, shown as a difference, written with a backup, and can be undone."""

import difflib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from penstock.core.errors import PenstockError
from penstock.core.safe_files import OWNER_ONLY, read_file, replacing


class RecordedChange(TypedDict):
    """A file that was changed: its backup, None where it was not there, and the digest of the text that was written."""

    backup: str | None
    written: NotRequired[str]


BACKUP = ".before-penstock"
"""What the name of a backup ends with."""
RECORD = "penstock-init.json"
"""Beside the broker's files: what was changed, so that it can be taken back."""
MAX_BYTES = 4 * 2**20
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file's new text, with lines as `read_lines` returns them. secret: a part of the text that is never shown."""

    path: Path
    text: str
    secret: str = ""

    def shown(self) -> Iterator[str]:
        """Return the lines of the difference; of a file with secrets only those that change."""
        before = read_lines(self.path)
        difference = difflib.unified_diff(
            (before or "").splitlines(),
            self.text.splitlines(),
            fromfile="(new file)" if before is None else str(self.path),
            tofile=str(self.path),
            lineterm="",
            n=0 if self.secret else 2,
        )
        for line in difference:
            yield line.replace(self.secret, "(not shown)") if self.secret else line

    def needed(self) -> bool:
        """Return whether the file differs from the text."""
        return read_text(self.path) != self.written()

    def written(self) -> str:
        """Return the text with the line ends and the byte order mark of the file that is there."""
        before = read_text(self.path) or ""
        text = self.text
        if "\r\n" in before:
            text = text.replace("\n", "\r\n")
        if before.startswith(BYTE_ORDER_MARK):
            text = BYTE_ORDER_MARK + text
        return text


def read_lines(path: Path) -> str | None:
    """Return the text as `read_text` does, without a byte order mark, each line ended by a newline alone."""
    text = read_text(path)
    if text is None:
        return None
    return text.removeprefix(BYTE_ORDER_MARK).replace("\r\n", "\n")


def read_text(path: Path) -> str | None:
    """Return the text of a file, None where there is none. PenstockError when it cannot be read."""
    try:
        return read_file(path, MAX_BYTES).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise PenstockError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}"
        ) from None


def apply(changes: Sequence[FileChange], record: Path) -> None:
    """Write all changes: first the backups, then the record for `undo`, then the files. PenstockError when one fails.

    A backup is made only before the first change of a file: later ones would not have the operator's own text.
    """
    entries: dict[str, RecordedChange] = json.loads(read_text(record) or "{}")
    texts = {change.path: change.written() for change in changes}
    for change in changes:
        name = str(change.path)
        if name not in entries:
            before = read_text(change.path)
            backup = None if before is None else f"{name}{BACKUP}"
            entries[name] = {"backup": backup}
            if backup is not None and before is not None:
                _write(Path(backup), before, like=change.path)
        entries[name]["written"] = _digest(texts[change.path])
    _write(record, json.dumps(entries, indent=1) + "\n", like=record.parent)
    for path, text in texts.items():
        _write(path, text, like=path if path.exists() else path.parent)


def undo(record: Path) -> Iterator[str]:
    """Put the files back as they were before the first `apply`, and yield a line about each.

    A file that somebody changed since is left alone, with its backup; PenstockError names these at the end.
    """
    entries: dict[str, RecordedChange] = json.loads(read_text(record) or "{}")
    left = {}
    for name, entry in entries.items():
        path = Path(name)
        backup = Path(entry["backup"]) if entry["backup"] else None
        now = read_text(path)
        before = read_text(backup) if backup else None
        is_own_text = now is not None and _digest(now) == entry["written"]
        if now != before and not is_own_text:
            left[name] = entry
            continue
        if before is not None:
            _write(path, before, like=path)
        elif now is not None:
            path.unlink()
        if backup is not None:
            backup.unlink(missing_ok=True)
        yield f"{name}: {'as it was' if before is not None else 'removed'}"
    if left:
        _write(record, json.dumps(left, indent=1) + "\n", like=record)
        backups = ", ".join(
            f"{name} (before: {entry['backup'] or 'not there'})"
            for name, entry in left.items()
        )
        raise PenstockError(f"changed since penstock init, left as they are: {backups}")
    record.unlink(missing_ok=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(path: Path, text: str, *, like: Path) -> None:
    """Write a file with the owner of `like`, and with its mode where that is a file."""
    try:
        status = like.stat()
        with replacing(path) as file:
            file.write(text.encode())
            if os.geteuid() == 0:
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            mode = OWNER_ONLY if like.is_dir() else status.st_mode & 0o777
            os.fchmod(file.fileno(), mode)
    except OSError as error:
        raise PenstockError(f"cannot write {path}: {error.strerror or error}") from None
