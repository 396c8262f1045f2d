"""The formats of change logs. Each module has one `FORM`; `FORMS` lists all of them.

The columns of a file determine its format: each format rates them, and the highest rating wins. A tie is refused. A
file that no format recognises is a snapshot.
"""

from __future__ import annotations

from collections.abc import Collection

from dynq_cli.errors import RejectedError
from dynq_cli.io.logs.formats import (
    airbyte,
    bigquery,
    canonical,
    debezium,
    debezium_flat,
    delta,
    dms,
    fivetran,
    flink,
    hudi,
    iceberg,
    maxwell,
    snapshot,
    snowflake,
    sqlserver,
    weights,
)
from dynq_cli.io.logs.formats.log_format import NO, LogFormat

__all__ = ["FORMS", "LogFormat", "detect", "named"]

FORMS: tuple[LogFormat, ...] = (
    canonical.FORM,
    delta.FORM,
    iceberg.FORM,
    debezium.FORM,
    debezium_flat.FORM,
    flink.FORM,
    dms.FORM,
    weights.FORM,
    fivetran.FORM,
    airbyte.FORM,
    hudi.FORM,
    maxwell.FORM,
    sqlserver.FORM,
    snowflake.FORM,
    bigquery.FORM,
    snapshot.FORM,
)


def named(name: str) -> LogFormat | None:
    """Return the format with this name, as in `--format`; None if there is none."""
    return next((form for form in FORMS if form.name == name), None)


def detect(path: str, free: Collection[str], names: Collection[str]) -> LogFormat:
    """Recognise the format by a file's columns; `free` are the undeclared ones. Reads no values."""
    found = [(form.detect(free, names), form) for form in FORMS]
    surest = max(how_sure for how_sure, _ in found)
    if surest == NO:
        return snapshot.FORM
    likely = [form for how_sure, form in found if how_sure == surest]
    if len(likely) > 1:
        said = " and ".join(form.name for form in likely)
        raise RejectedError(
            f"{path}: its columns are those of two formats, {said}\n  hint: choose one by `dynq apply --format NAME`"
        )
    return likely[0]
