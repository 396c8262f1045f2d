"""What is written as a result is read as a change log, value for value."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynq_cli.engine.codes import encode
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.io.data_files import Format
from dynq_cli.io.logs.chunks import read_chunks
from dynq_cli.io.logs.columns import typed
from dynq_cli.io.logs.model import LogFile
from dynq_cli.io.results.write import write
from dynq_cli.spec.types import parse_type

from .values import TYPES, columns

FORMS: tuple[Format, ...] = ("csv", "jsonl", "parquet", "arrow")


@pytest.mark.parametrize("form", FORMS)
def test_a_result_in_any_form_is_a_change_log_with_the_same_values(
    form: Format, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("results") / f"rows.{form}"

    @settings(max_examples=40, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        many = data.draw(st.integers(1, 6))
        batch = pa.record_batch({name: data.draw(columns(name, min_size=many, max_size=many)) for name in TYPES})
        if form == "csv":
            batch = _without_sparks_escapes(batch)
        with path.open("wb") as sink:
            write(iter([batch]), batch.schema, sink, form)
        (chunk,) = read_chunks(LogFile(str(path), form, None))
        values = Dictionaries()
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            kind, _ = parse_type(name)
            read = typed(chunk.columns[name], kind, is_text=form == "csv")
            assert encode(read, kind, values).tolist() == encode(column, kind, values).tolist(), name

    check()


def _without_sparks_escapes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """No backslashes in front of quotes: so Spark escapes quotes, and the file could be taken for one of Spark's."""
    texts = [None if text is None else re.sub(r'\\+"', '"', text) for text in batch["string"].to_pylist()]
    return batch.set_column(batch.schema.names.index("string"), "string", pa.array(texts, pa.string()))
