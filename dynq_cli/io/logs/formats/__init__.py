"""The formats that change logs come in. Each module has one `FORM`; `FORMS` is all of them.

A file's columns decide: the surest form wins, two that are as sure as each other are refused, and a file
that looks like none is a snapshot.
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
    """The form of a name, as `--format` takes it."""
    return next((form for form in FORMS if form.name == name), None)


def detect(path: str, free: Collection[str], names: Collection[str]) -> LogFormat:
    """The form that a file's columns give away; `free` are those that no relation declares. Never reads a value."""
    found = [(form.detect(free, names), form) for form in FORMS]
    surest = max(how_sure for how_sure, _ in found)
    if surest == NO:
        return snapshot.FORM
    likely = [form for how_sure, form in found if how_sure == surest]
    if len(likely) > 1:
        said = " and ".join(form.name for form in likely)
        raise RejectedError(f"{path}: its columns are those of two formats, {said}\n  hint: choose one with --format")
    return likely[0]
