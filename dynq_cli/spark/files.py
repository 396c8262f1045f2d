"""Files on any file system that Spark supports (local, HDFS, object stores), through Hadoop's interface.

Paths are Spark's. `rename` is atomic if the file system supports it, and never moves into an existing directory. `sync`
makes local files durable.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class FileFacts:
    """A file: its name below the listed directory, its size in bytes, and its modification time in milliseconds."""

    name: str
    length: int
    modified: int


class Files:
    """The files of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._jvm: Any = context._jvm
        self._conf: Any = context._jsc.hadoopConfiguration()

    def absolute(self, path: str) -> str:
        """Return the path with its file system."""
        return str(self._system(path).makeQualified(self._path(path)).toString())

    def local(self, path: str) -> str | None:
        """Return the local path; None if it is not on this machine."""
        uri = self._system(path).makeQualified(self._path(path)).toUri()
        return str(uri.getPath()) if uri.getScheme() == "file" else None

    def exists(self, path: str) -> bool:
        return bool(self._system(path).exists(self._path(path)))

    def is_directory(self, path: str) -> bool:
        found = self._system(path).globStatus(self._path(path))
        return bool(found and len(found) == 1 and found[0].isDirectory())

    def names(self, folder: str) -> list[str]:
        """Return all names in a directory."""
        return sorted(status.getPath().getName() for status in self._system(folder).listStatus(self._path(folder)))

    def read(self, path: str) -> str:
        """Read a small text file."""
        stream = self._system(path).open(self._path(path))
        try:
            utils = self._jvm.org.apache.commons.io.IOUtils
            return str(utils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Write a new small text file."""
        stream = self._system(path).create(self._path(path), False)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def modified(self, path: str) -> int:
        """Return the modification time of a file or directory, in milliseconds."""
        return int(self._system(path).getFileStatus(self._path(path)).getModificationTime())

    def rename(self, source: str, target: str) -> None:
        """Rename a directory; the new name must not exist."""
        self._rename(source, target, self._jvm.org.apache.hadoop.fs.Options.Rename.NONE)

    def replace(self, path: str, text: str) -> None:
        """Write a small text file atomically, replacing an existing one."""
        folder, name = os.path.split(path)
        new = os.path.join(folder, f".{name.lstrip('.')}.{secrets.token_hex(6)}")
        self.write(new, text)
        local = self.local(new)
        if local is not None:
            _sync(local)
        self._rename(new, path, self._jvm.org.apache.hadoop.fs.Options.Rename.OVERWRITE)
        self.sync_entry(path)

    def _rename(self, source: str, target: str, how: Any) -> None:
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._path(source).toUri(), self._conf)
        options = self._jvm.java.lang.reflect.Array.newInstance(how.getClass(), 1)
        options[0] = how
        context.rename(self._path(source), self._path(target), options)

    def fetch(self, path: str, target: str) -> None:
        """Link a file to a new name on this machine if possible, else copy it."""
        local = self.local(path)
        if local is None:
            self._system(path).copyToLocalFile(False, self._path(path), self._path(target), True)
            return
        try:
            os.link(os.path.realpath(local), target)
        except FileNotFoundError:
            raise
        except OSError:  # another disk, or a file system without links
            shutil.copyfile(local, target)

    def remove(self, path: str) -> None:
        """Remove a directory with its contents."""
        self._system(path).delete(self._path(path), True)

    def sync(self, folder: str) -> None:
        """Make everything below a local directory durable; elsewhere, closing a file does so."""
        local = self.local(folder)
        if local is None:
            return
        for inside, _, names in os.walk(local, topdown=False):
            for name in [*(os.path.join(inside, name) for name in names), inside]:
                _sync(name)

    def sync_entry(self, path: str) -> None:
        """Make the name of a file in its directory durable."""
        local = self.local(path)
        if local is not None:
            _sync(os.path.dirname(local))

    def facts(self, uris: Collection[str]) -> list[FileFacts]:
        """Return the files of a table, named by `inputFiles`, sorted by name; lists each directory once."""
        wanted = {unquote(urlsplit(uri).path): uri for uri in uris}
        folders = {os.path.dirname(path): os.path.dirname(uri) for path, uri in wanted.items()}
        root = os.path.commonpath(folders) if folders else ""
        return sorted(self._facts(folders, wanted, root), key=lambda facts: facts.name)

    def _facts(self, folders: dict[str, str], wanted: Collection[str], root: str) -> Iterator[FileFacts]:
        for folder in folders.values():
            path = self._jvm.org.apache.hadoop.fs.Path(self._jvm.java.net.URI(folder))
            for status in path.getFileSystem(self._conf).listStatus(path):
                full = status.getPath().toUri().getPath()
                if full in wanted:
                    name = os.path.relpath(full, root)
                    yield FileFacts(name, int(status.getLen()), int(status.getModificationTime()))

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._conf)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
