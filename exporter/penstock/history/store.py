"""Where published history is kept: a directory or an object store, by one interface. Errors are PenstockErrors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pf
import pyarrow.parquet as pq

from penstock.core.errors import ConfigError, PenstockError
from penstock.core.safe_files import OWNER_ONLY, make_directory, replacing
from penstock.history.schema import parquet_options

STAGING = "_tmp"
"""Directory for files under way; names that begin with an underscore are invisible to Spark."""


class StoreError(PenstockError):
    """The store could not be read or written."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file. path: below the root of the store; size: bytes; mtime: nanoseconds since 1970, 0 where unknown."""

    path: str
    size: int
    mtime: int


class Store:
    """Files below the directory or URL `url` (`s3://bucket/prefix?endpoint_override=…`).

    Files are their owner's only. Credentials come from the environment, never from the URL. Raises ConfigError for a
    URL that cannot be used.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.username or parts.password:
            raise ConfigError(
                "the history's URL holds credentials; give them by the environment (AWS_ACCESS_KEY_ID …)"
            )
        self.url = url
        try:
            if len(parts.scheme) > 1:
                self.fs, root = pf.FileSystem.from_uri(url)
            else:
                self.fs = pf.LocalFileSystem()
                root = str(Path(url).absolute())
        except (pa.ArrowException, OSError) as error:
            raise ConfigError(
                f"{url}: cannot be used as a place for history: {error}"
            ) from None
        self.root = root.rstrip("/")
        self.local = isinstance(self.fs, pf.LocalFileSystem)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def files(self, below: str = "") -> list[StoredFile]:
        """All files below a directory, by name; one that is not there holds none."""
        with self.errors(below):
            found = self.fs.get_file_info(
                pf.FileSelector(self.path(below), recursive=True, allow_not_found=True)
            )
        start = len(self.root) + 1
        files = [
            f
            for f in found
            if f.type is pf.FileType.File and "/_" not in f.path[start - 1 :]
        ]
        return sorted(
            (StoredFile(f.path[start:], f.size, f.mtime_ns or 0) for f in files),
            key=lambda entry: entry.path,
        )

    def directories(self, below: str) -> list[str]:
        """Names of the directories in `below`, ascending."""
        with self.errors(below):
            found = self.fs.get_file_info(
                pf.FileSelector(self.path(below), allow_not_found=True)
            )
        return sorted(f.base_name for f in found if f.type is pf.FileType.Directory)

    def exists(self, name: str) -> bool:
        with self.errors(name):
            return bool(self.fs.get_file_info(self.path(name)).type is pf.FileType.File)

    def write_table(self, name: str, table: pa.Table, **options: object) -> None:
        """A Parquet file, there whole or not at all."""
        self.write_with(
            name,
            lambda sink: pq.write_table(
                table, sink, **{**parquet_options(table.schema), **options}
            ),
        )

    def write_bytes(self, name: str, content: bytes, mode: int = OWNER_ONLY) -> None:
        self.write_with(name, lambda sink: sink.write(content), mode)

    def read_bytes(self, name: str, most: float = float("inf")) -> bytes | None:
        """The content, None when it is not there. Raises StoreError where it has more than so many bytes."""
        with self.errors(name):
            try:
                with self.fs.open_input_file(self.path(name)) as source:
                    if source.size() > most:
                        raise StoreError(
                            f"{self.path(name)}: is larger than {most:.0f} bytes"
                        )
                    content: bytes = source.read()
                    return content
            except FileNotFoundError:
                return None

    def delete(self, name: str) -> None:
        """One that is gone already is no error."""
        with self.errors(name):
            try:
                self.fs.delete_file(self.path(name))
            except FileNotFoundError:
                return

    def delete_directory(self, name: str) -> None:
        """On a file system in one step, so that no reader finds half of it."""
        with self.errors(name):
            if self.local:
                aside = Path(self.path(f"{STAGING}/{name.replace('/', '~')}"))
                make_directory(aside.parent)
                if not aside.exists():
                    Path(self.path(name)).rename(aside)
                self.fs.delete_dir(str(aside))
            else:
                self.fs.delete_dir(self.path(name))

    def write_with(
        self, name: str, fill: Callable[[BinaryIO], object], mode: int = OWNER_ONLY
    ) -> None:
        """What `fill` writes into the file that it is given, there whole or not at all."""
        target = self.path(name)
        with self.errors(name):
            if not self.local:
                # One object is put as a whole when it is closed; of a failed one nothing is seen.
                with self.fs.open_output_stream(target) as sink:
                    fill(sink)
                return
            path = Path(target)
            staged = Path(self.path(f"{STAGING}/{name.replace('/', '~')}"))
            make_directory(staged.parent)
            make_directory(path.parent)
            with replacing(path, staged, mode) as sink:
                fill(sink)

    @contextmanager
    def errors(self, name: str) -> Iterator[None]:
        """What goes wrong with a file is a StoreError that names it."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise StoreError(
                f"{self.path(name)}: {getattr(error, 'strerror', None) or error}"
            ) from error
