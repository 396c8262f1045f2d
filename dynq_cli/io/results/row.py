"""Parse a row that a user wrote as a JSON object, by the rules of change logs.

Numbers or strings for integers and decimals, ISO dates and times, base64 for binary; columns of the result by name.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.io.arrow_types import from_arrow
from dynq_cli.io.logs.columns import typed
from dynq_cli.io.results.multiplicity import expanded_schema
from dynq_cli.spec.shown import shown
from dynq_cli.values.convert import CodeError, python_value


def row_of(text: str, schema: pa.Schema, *, is_whole: bool = True) -> dict[str, Any]:
    """The values of a row of a result with the columns `schema`; `_count` is not a column of a row.

    If it need not be whole, columns may be missing. UsageError for what is no JSON object, RejectedError for wrong
    columns and values.
    """
    given = _object(text)
    columns = expanded_schema(schema)
    for name in given:
        if name not in columns.names:
            raise RejectedError(f"the row has a column {shown(name)}, the result {_listed(columns.names)}")
    for name in columns.names:
        if is_whole and name not in given:
            raise RejectedError(f"the row has no column {shown(name)}; the result has {_listed(columns.names)}")
    return {field.name: _value(field, given[field.name]) for field in columns if field.name in given}


def _object(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text, parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the row is no JSON: {error}; write an object, as in '{{\"id\": 1}}'") from None
    if not isinstance(read, dict):
        raise UsageError(f"the row has to be a JSON object, as in '{{\"id\": 1}}', not {shown(text)}")
    return read


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands in it twice")
    return found


def _refuse(name: str) -> None:
    raise ValueError(f'JSON has no {name}, write it as the string "{name}"')


def _value(field: pa.Field, value: Any) -> Any:
    kind = from_arrow(field.type)
    assert kind is not None
    try:
        found = typed([value], kind, is_text=False)[0]
    except CodeError as error:
        raise RejectedError(f"the row's column {shown(field.name)}: {error.reason}") from None
    return python_value(found)


def _listed(names: list[str]) -> str:
    return ", ".join(shown(name) for name in names) or "no columns"
