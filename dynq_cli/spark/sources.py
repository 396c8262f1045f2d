"""A snapshot of a table: its place, its rows, and a name for the state of the table.

A place is a path (a file, a directory, a pattern), or a table in Spark's catalog or in a database. File names determine
the format. Texts, and numbers in JSON, are read exactly or refused. The name of a snapshot in files is a digest of
their names, lengths and times: it stays the same if the directory is moved, and changes with every write. Other
snapshots need a name from the user.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import types as t

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.io.lake_tables import lake_format
from dynq_cli.spark.columns import CORRUPT
from dynq_cli.spark.database import Database
from dynq_cli.spark.errors import explained
from dynq_cli.spark.files import FileFacts, Files
from dynq_cli.spec.model import Relation

TABLE, JDBC, CSV, JSON, PARQUET = "table", "jdbc", "csv", "json", "parquet"
_BY_SUFFIX = {
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".orc": "orc",
    ".csv": CSV,
    ".json": JSON,
    ".jsonl": JSON,
    ".ndjson": JSON,
    ".avro": "avro",
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".zstd", ".lz4", ".snappy", ".deflate")
# An unquoted empty field is NULL, and `""` is the empty text: so give Spark a NULL marker that nobody writes.
_NO_TEXT = "\x1e\x04dynq null\x04\x1e"
_TEXT_OPTIONS = {
    CSV: {"header": "true", "multiLine": "true", "nullValue": _NO_TEXT, "enforceSchema": "false"},
    JSON: {},
}
_FORCED = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "columnPruning": "false"}
_DIGEST = 32


@dataclass(frozen=True)
class Snapshot:
    """A table at one moment. `texts` are the columns with texts to parse.

    `size` is the size of its files in bytes, 0 without files. `parquet` are its files if they are Parquet and are read
    without options.
    """

    place: str
    frame: DataFrame
    texts: frozenset[str]
    name: str
    size: int
    parquet: tuple[str, ...] = ()


def open_snapshot(
    spark: SparkSession,
    place: str,
    form: str | None = None,
    options: Mapping[str, str] | None = None,
    relation: Relation | None = None,
    name: str | None = None,
) -> Snapshot:
    """Open a snapshot with Spark; no rows are read yet.

    UsageError if the place does not exist, or its format or name is not known; RejectedError for the directory of an
    unfinished job.
    """
    form = form.lower() if form else _format_of(spark, place)
    given = dict(options or {})
    with explained(place):
        if form == TABLE:
            frame = spark.table(place)
            texts: frozenset[str] = frozenset()
        elif form == JDBC:
            if "url" not in given:
                raise UsageError(f"{place}: say which database with --option url=jdbc:postgresql://HOST/DATABASE")
            frame = Database(given.pop("url"), given).read(spark, place)
            texts = frozenset()
        elif form in (CSV, JSON):
            _refuse_unfinished(spark, place)
            frame, texts = _read_texts(spark, place, form, given, relation)
        else:
            _refuse_unfinished(spark, place)
            frame = spark.read.format(form).options(**given).load(place)
            texts = frozenset()
        uris = frame.inputFiles()
        partitions = _partitions(uris) if form not in (TABLE, JDBC) else frozenset()
        files = Files(spark).facts(uris)
        size = sum(file.length for file in files)
        parquet = tuple(uris) if form == PARQUET and not options else ()
        return Snapshot(place, frame, texts | partitions, name or _name(place, files), size, parquet)


def _format_of(spark: SparkSession, place: str) -> str:
    with explained(place):
        files = Files(spark)
        if files.is_directory(place):
            lake = lake_format(place, files.names)
            if lake is not None:
                name = lake.lower()
                raise UsageError(f"{place} is a table of {lake}: say --format {name}, and give Spark its package")
        elif "/" not in place and not files.exists(place) and spark.catalog.tableExists(place):
            return TABLE
        found = _listed(spark, place)
    forms = {_by_name(uri) for uri in found}
    if len(forms) == 1 and None not in forms:
        return str(forms.pop())
    if not found:
        raise _nothing_in(place)
    raise UsageError(f"{place}: the names of its files do not tell one format: say --format parquet, csv, json or orc")


def _listed(spark: SparkSession, place: str) -> list[str]:
    """List the files of a path, of any format, on any file system."""
    return spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(place).inputFiles()


def _by_name(uri: str) -> str | None:
    stem, suffix = os.path.splitext(_path(uri).lower())
    return _BY_SUFFIX.get(os.path.splitext(stem)[1] if suffix in _COMPRESSED else suffix)


def _nothing_in(place: str) -> UsageError:
    return UsageError(f"{place} has no files: a snapshot of an empty table has at least one, with its columns")


def _refuse_unfinished(spark: SparkSession, place: str) -> None:
    files = Files(spark)
    if files.is_directory(place) and "_temporary" in (names := files.names(place)) and "_SUCCESS" not in names:
        raise RejectedError(
            f"{place} has no _SUCCESS: the job that writes it has not finished\n  hint: wait for it, or run it again"
        )


def _read_texts(
    spark: SparkSession, place: str, form: str, given: Mapping[str, str], relation: Relation | None
) -> tuple[DataFrame, frozenset[str]]:
    """Read CSV or JSON with every value as a text; JSON without a spec with the types that Spark infers."""
    reader: DataFrameReader = spark.read.options(**(_TEXT_OPTIONS[form] | dict(given)))
    if form == JSON:
        if relation is None:
            return reader.json(place), frozenset()
        _refuse_inexact(place, _listed(spark, place), given)
        names = [column.name for column in relation.columns]
    else:
        names = reader.csv(place).columns
    partitions = _partitions(_listed(spark, place))
    fields = [t.StructField(name, t.StringType()) for name in [*(n for n in names if n not in partitions), CORRUPT]]
    frame = reader.options(**_FORCED).schema(t.StructType(fields)).format(form).load(place)
    return frame, frozenset(names)


def _refuse_inexact(place: str, uris: list[str], given: Mapping[str, str]) -> None:
    """UsageError for JSON whose numbers Spark would read as doubles, because it has no text to take them from."""
    asked = {name.lower(): text.lower() for name, text in given.items()}
    if named := asked.keys() & {"encoding", "charset"}:
        raise UsageError(
            f"{place}: with --option {named.pop()} Spark reads numbers as floating point, which is not exact\n"
            "  hint: write the files as UTF-8, and leave the option out"
        )
    if asked.get("multiline") == "true" and any(_path(uri).lower().endswith(_COMPRESSED) for uri in uris):
        raise UsageError(
            f"{place}: of compressed files Spark reads numbers as floating point under --option multiLine=true, which"
            " is not exact\n  hint: uncompress them, or write an object per line and leave the option out"
        )


def _path(uri: str) -> str:
    return unquote(urlsplit(uri).path)


def _partitions(uris: list[str]) -> frozenset[str]:
    """Return the columns in directory names, as in `region=north/part-0.parquet`."""
    segments = {part for uri in uris for part in os.path.dirname(urlsplit(uri).path).split("/") if "=" in part}
    return frozenset(unquote(unquote(segment.partition("=")[0])) for segment in segments)


def _name(place: str, files: list[FileFacts]) -> str:
    if not files:
        raise UsageError(
            f"{place} has no files from which to derive a name for its current state\n"
            "  hint: name it yourself with --before-name and --after-name, for example by the time it was taken"
        )
    lines = [f"{file.name}\t{file.length}\t{file.modified}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:_DIGEST]
