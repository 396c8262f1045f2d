"""Whatever a file holds, it is read or refused: no other exception, and no row that the file does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynq_cli.errors import RejectedError
from dynq_cli.io.logs.formats import FORMS
from dynq_cli.io.logs.read import Log
from tests.io.logs.changes import SPEC, json_log, parquet_log

WORDS = ["insert", "delete", "update_preimage", "INSERT", "UPDATE_AFTER", "+I", "-D", "I", "U", "D", "c", "r", "u", "d"]
META = sorted({name for form in FORMS for name in form.meta} | {"_relation", "_commit_version"})
DATA = sorted({column.name for relation in SPEC.relations for column in relation.columns})
RELATIONS = [relation.name for relation in SPEC.relations]
LOGICAL = ["io.debezium.time.Date", "io.debezium.time.MicroTimestamp", "org.apache.kafka.connect.data.Decimal", ""]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats()
    | st.sampled_from([*WORDS, *RELATIONS, "t", "true", "false", "", "2024-03-01", "10:00", "AfQ=", "12.5"])
    | st.text(max_size=4)
)
images = st.none() | st.dictionaries(st.sampled_from(DATA), scalars, max_size=6) | scalars
fields = st.fixed_dictionaries({"field": st.sampled_from(DATA), "name": st.sampled_from(LOGICAL)})
schemas = st.none() | st.builds(
    lambda f: {"fields": [{"field": "after", "fields": f}, {"field": "before", "fields": f}, *f]},
    st.lists(fields, max_size=4),
)


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows that share most of their keys, as those of a real file do."""
    data = draw(st.lists(st.sampled_from(DATA), max_size=5, unique=True))
    meta = draw(st.lists(st.sampled_from(META), max_size=3, unique=True))
    values: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(data, scalars)
    values |= {name: st.sampled_from(WORDS) | scalars for name in meta}
    for name in {"before", "after", "source"} & set(meta):
        values[name] = images
    row = st.fixed_dictionaries({}, optional=values) | st.fixed_dictionaries(values)
    found = draw(st.lists(row, max_size=5))
    if draw(st.booleans()):
        return [{"schema": draw(schemas), "payload": r} for r in found]
    return found


def read_or_refuse(make: Any, folder: Path, content: Any, total: int, options: dict[str, Any]) -> None:
    try:
        log: Log = make(folder, content, options["of"], form=options["form"], upsert=options["upsert"])
        for changes in log.rows():
            assert len(changes) > 0
            assert all(len(values) == len(changes) for values in changes.columns.values())
            assert changes.numbers.min() >= 1 and changes.numbers.max() <= total
            assert (changes.counts >= 1).all()
    except RejectedError as error:
        assert str(folder) in str(error)


some_options = st.fixed_dictionaries(
    {
        "of": st.none() | st.sampled_from(RELATIONS),
        "form": st.none() | st.sampled_from([form.name for form in FORMS]),
        "upsert": st.booleans(),
    }
)
relaxed = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@relaxed
@given(content=rows(), options=some_options)
def test_json_lines_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: list[dict[str, Any]], options: dict[str, Any]
) -> None:
    read_or_refuse(json_log, tmp_path_factory.mktemp("log"), content, len(content), options)


ARROW = [
    pa.int8(),
    pa.int64(),
    pa.uint64(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.binary(),
    pa.decimal128(22, 3),
    pa.date32(),
    pa.timestamp("ns"),
    pa.struct([("id", pa.int64()), ("name", pa.string()), ("seen", pa.int64()), ("day", pa.int64())]),
    pa.list_(pa.int64()),
]


@st.composite
def tables(draw: st.DrawFn) -> dict[str, pa.Array]:
    names = draw(st.lists(st.sampled_from([*DATA, *META, "payload"]), max_size=7, unique=True))
    size = draw(st.integers(0, 3))
    return {name: draw(arrays(size, words=name in META)) for name in names}


@st.composite
def arrays(draw: st.DrawFn, size: int, words: bool) -> pa.Array:
    kind = draw(st.sampled_from([pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.int64()] if words else ARROW))
    if words and draw(st.integers(0, 4)) == 0:
        kind = draw(st.sampled_from(ARROW))
    if pa.types.is_struct(kind):
        one: Any = st.fixed_dictionaries({"id": st.integers(0, 3), "name": st.text(max_size=2), "seen": st.none()})
    elif pa.types.is_list(kind):
        one = st.just([1])
    elif pa.types.is_string(kind) or pa.types.is_dictionary(kind):
        one = st.sampled_from([*WORDS, *RELATIONS, "x"])
    else:
        number = draw(st.lists(st.none() | st.integers(0, 1), min_size=size, max_size=size))
        if pa.types.is_binary(kind):
            return pa.array([None if v is None else b"x" for v in number], kind)
        return pa.array(number, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)
    return pa.array(draw(st.lists(st.none() | one, min_size=size, max_size=size)), kind)


@relaxed
@given(content=tables(), options=some_options)
def test_parquet_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, pa.Array], options: dict[str, Any]
) -> None:
    size = len(next(iter(content.values()))) if content else 0
    read_or_refuse(parquet_log, tmp_path_factory.mktemp("log"), content, size, options)
