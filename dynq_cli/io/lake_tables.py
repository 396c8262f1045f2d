"""Recognise directories that are tables of Delta Lake, Apache Iceberg or Apache Hudi.

The Parquet files of such a table are not its rows: updates and deletes leave old files behind, and only the table's own
log says which are in force. Reading them as plain files would count dead rows, so these directories, and files named
inside of them, are refused with the job that reads the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from dynq_cli.errors import RejectedError
from dynq_cli.spec.shown import visible

_MARKS = {"_delta_log": "Delta", ".hoodie": "Hudi", ".hoodie_partition_metadata": "Hudi"}
_ICEBERG_FOLDER = "metadata"
_ICEBERG_FILE = ".metadata.json"
_ICEBERG_DATA = "data"


def refuse_lake_table(path: str) -> None:
    """RejectedError if a path is a table of a lake format, or a part of one."""
    place = path if os.path.isdir(path) else os.path.dirname(path) or "."
    while True:
        form = lake_format(place)
        if form is not None:
            raise _refused(path, place, form)
        name = os.path.basename(os.path.abspath(place))
        if "=" not in name and name != _ICEBERG_DATA:  # neither a partition nor where Iceberg keeps its files
            return
        place = os.path.dirname(os.path.abspath(place))


def lake_format(folder: str, names: Callable[[str], Iterable[str]] = os.listdir) -> str | None:
    """Which lake format keeps a table in this directory, if one does; `names` lists a directory."""
    try:
        found = set(names(folder))
    except OSError:
        return None
    for mark, form in _MARKS.items():
        if mark in found:
            return form
    if _ICEBERG_FOLDER not in found:
        return None
    try:
        inside = names(os.path.join(folder, _ICEBERG_FOLDER))
    except OSError:
        return None
    return "Iceberg" if any(name.endswith(_ICEBERG_FILE) for name in inside) else None


def _refused(path: str, place: str, form: str) -> RejectedError:
    named = visible(place)
    inside = "" if path == place else f"{visible(path)} belongs to a table: "
    relation = os.path.basename(os.path.abspath(place)) or "NAME"
    article = "an" if form[0] in "AEIOU" else "a"
    lighter = (
        f"\n  or without Spark: dynq extract delta {named} --relation {visible(relation)} -o OUT"
        if form == "Delta"
        else ""
    )
    return RejectedError(
        f"{inside}{named} is {article} {form} table, and only its log says which of its files are in force\n"
        f"  hint: extract it with Spark, then use OUT in its place: dynq extract snapshot --after {named}"
        f" --format {form.lower()} --relation {visible(relation)} -o OUT --conf spark.jars.packages=…;"
        " later, `dynq extract changes` writes what changed since (docs/spark.md)"
        f"{lighter}"
    )
