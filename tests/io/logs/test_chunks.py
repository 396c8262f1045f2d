"""Files are streamed in bounded chunks, as they stand, or refused by name."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc

from dynq_cli.errors import DynqError, RejectedError
from dynq_cli.io.data_files import Format
from dynq_cli.io.logs.chunks import read_chunks, schema_columns
from dynq_cli.io.logs.model import Chunk, LogFile
from dynq_cli.io.sizes import MOST_BYTES, MOST_ROWS, spelled_out

ROOT = Path(__file__).parents[3]
ROWS = [
    {"a": i, "s": f"text {i % 7}" if i % 5 else None, "f": i / 4, "d": dt.date(2024, 1, 1 + i % 28)}
    for i in range(2_000)
]


def log(path: Path, form: Format) -> LogFile:
    return LogFile(str(path), form, None)


def write_parquet(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path)


def write_ipc_file(path: Path, table: pa.Table, compression: str | None = None) -> None:
    with ipc.new_file(path, table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=600)


def write_ipc_stream(path: Path, table: pa.Table) -> None:
    with ipc.new_stream(path, table.schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table, max_chunksize=600)


def write_csv(path: Path, table: pa.Table) -> None:
    lines = [",".join("" if v is None else str(v) for v in row.values()) for row in table.to_pylist()]
    path.write_text("\n".join([",".join(table.schema.names), *lines, ""]))


def write_jsonl(path: Path, table: pa.Table) -> None:
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))


WRITERS: dict[str, tuple[Format, Callable[[Path, pa.Table], None]]] = {
    "t.parquet": ("parquet", write_parquet),
    "t.arrow": ("arrow", write_ipc_file),
    "t.arrows": ("arrow", write_ipc_stream),
    "t.csv": ("csv", write_csv),
    "t.jsonl": ("jsonl", write_jsonl),
}


def pylist(column: Any) -> list[Any]:
    return column if isinstance(column, list) else column.to_pylist()


def rows(file: LogFile, wanted: set[str] | None = None) -> list[dict[str, Any]]:
    found = []
    expected = 1
    for chunk in read_chunks(file, wanted):
        assert chunk.first == expected
        expected += chunk.rows
        columns = {name: pylist(column) for name, column in chunk.columns.items()}
        assert all(len(column) == chunk.rows for column in columns.values())
        found += [{name: column[i] for name, column in columns.items()} for i in range(chunk.rows)]
    return found


def read_text(tmp_path: Path, text: str | bytes, name: str = "t.csv") -> list[dict[str, Any]]:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return rows(log(path, "jsonl" if "json" in name else "csv"))


@pytest.mark.parametrize("name", WRITERS)
def test_all_rows_come_in_order_with_the_columns_that_are_wanted(tmp_path: Path, name: str) -> None:
    form, write = WRITERS[name]
    write(tmp_path / name, pa.Table.from_pylist(ROWS))
    file = log(tmp_path / name, form)
    assert schema_columns(file) == ["a", "s", "f", "d"]
    as_texts: Callable[[Any], Any] = str if form == "csv" else lambda v: v
    assert rows(file, {"a", "s", "gone"}) == [{"a": as_texts(r["a"]), "s": r["s"]} for r in ROWS]
    assert [r["a"] for r in rows(file)] == [as_texts(r["a"]) for r in ROWS]
    assert len(rows(file, {"gone"})) == len(ROWS)


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_without_rows_has_columns_and_no_chunks(tmp_path: Path, name: str) -> None:
    form, write = WRITERS[name]
    write(tmp_path / name, pa.Table.from_pylist(ROWS).slice(0, 0))
    file = log(tmp_path / name, form)
    assert rows(file) == []
    assert schema_columns(file) == ([] if form == "jsonl" else ["a", "s", "f", "d"])


def test_csv_fields_are_texts_null_is_unquoted_empty(tmp_path: Path) -> None:
    found = read_text(tmp_path, 'a,b,c\n007,,""\n" x ","NULL",true\n\n')
    assert found == [{"a": "007", "b": None, "c": ""}, {"a": " x ", "b": "NULL", "c": "true"}]


def test_an_empty_line_is_null_where_there_is_one_column(tmp_path: Path) -> None:
    assert read_text(tmp_path, 'a\n\nx\n""\n') == [{"a": None}, {"a": "x"}, {"a": ""}]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_csv_may_lack_its_last_newline_and_have_a_byte_order_mark(tmp_path: Path, newline: str) -> None:
    found = read_text(tmp_path, "\ufeff" + newline.join(["a,b", "1,2", '3,"4"']))
    assert found == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


def test_csv_quotes_are_doubled_and_a_backslash_is_a_backslash(tmp_path: Path) -> None:
    text = 'a,b\nC:\\dir,"C:\\dir, too"\n"ends in \\","say ""hi"""\n"\\\\x","two\nlines"\n'
    assert read_text(tmp_path, text) == [
        {"a": "C:\\dir", "b": "C:\\dir, too"},
        {"a": "ends in \\", "b": 'say "hi"'},
        {"a": "\\\\x", "b": "two\nlines"},
    ]


def test_csv_that_can_be_read_with_doubled_quotes_is(tmp_path: Path) -> None:
    expected = [{"a": 'x\\"', "b": 'y\\",\\'}, {"a": "\\", "b": '"'}]
    assert read_text(tmp_path, 'a,b\n"x\\""","y\\"",\\"\n"\\",""""') == expected


def test_csv_of_spark_has_quotes_and_backslashes_escaped_inside_quotes_only(tmp_path: Path) -> None:
    text = 'a,b\nC:\\dir,"say \\"hi\\", you"\n"back\\\\slash, 5\\"",""\n"two\n\\"lines\\"",\n'
    expected = [
        {"a": "C:\\dir", "b": 'say "hi", you'},
        {"a": 'back\\slash, 5"', "b": ""},
        {"a": 'two\n"lines"', "b": None},
    ]
    assert read_text(tmp_path, text) == expected
    assert read_text(tmp_path, 'a\n"x, \\\\ y"\n', "part-00000-0c1d.csv") == [{"a": "x, \\ y"}]


def spark_field(text: str | None) -> str:
    """A field as Spark's writer spells it."""
    if text is None:
        return ""
    if text and not any(c in text for c in ',"\r\n') and text.strip() == text:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def plain_field(text: str | None) -> str:
    return "" if text is None else '"' + text.replace('"', '""') + '"'


FIELDS = st.none() | st.text(st.sampled_from('ab\\",\n é'), max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1), st.sampled_from([1, 3, 7, 4 << 20]))
def test_any_text_comes_back_from_csv_in_both_spellings(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str | None, str | None]], block: int
) -> None:
    from dynq_cli.io import csv_source

    folder = tmp_path_factory.mktemp("csv")
    expected = [{"a": a, "b": b} for a, b in pairs]
    spellings = {"part-00000-1.csv": spark_field, "plain.csv": plain_field}
    for name, spell in spellings.items():
        body = "".join(f"{spell(a)},{spell(b)}\n" for a, b in pairs)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_source, "BLOCK", block)
            assert read_text(folder, "a,b\n" + body, name) == expected


@pytest.mark.parametrize("header", ["a,b", '"a","b"'])
def test_a_byte_order_mark_does_not_make_backslashes_escapes(tmp_path: Path, header: str) -> None:
    plain = header + '\n"C:\\\\","1"\n"D:\\","2"\n'
    expected = [{"a": "C:\\\\", "b": "1"}, {"a": "D:\\", "b": "2"}]
    assert read_text(tmp_path, plain, "plain.csv") == expected
    assert read_text(tmp_path, "\ufeff" + plain, "marked.csv") == expected
    assert read_text(tmp_path, '\ufeff"a ""b"", c",d\n1,2\n', "names.csv") == [{'a "b", c': "1", "d": "2"}]


@pytest.mark.parametrize(("name", "pack"), [("t.csv.gz", gzip.compress), ("t.csv.bz2", bz2.compress)])
def test_compressed_texts_are_unpacked(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    assert read_text(tmp_path, pack(b"a,b\n1,2\n"), name) == [{"a": "1", "b": "2"}]


def test_zstd_is_unpacked(tmp_path: Path) -> None:
    with pa.output_stream(str(tmp_path / "t.jsonl.zst"), compression="zstd") as stream:
        stream.write(b'{"a": 1}\n')
    assert rows(log(tmp_path / "t.jsonl.zst", "jsonl")) == [{"a": 1}]


def test_numbers_of_json_are_exact(tmp_path: Path) -> None:
    text = '{"a": 9007199254740993, "b": 0.1}\n\n{"b": 1e400, "c": {"d": [1.50]}}\nnull\n'
    assert read_text(tmp_path, text, "t.jsonl") == [
        {"a": 9007199254740993, "b": Decimal("0.1"), "c": None},
        {"a": None, "b": Decimal("1e400"), "c": {"d": [Decimal("1.50")]}},
        {"a": None, "b": None, "c": None},
    ]


def test_int96_timestamps_of_spark_are_microseconds(tmp_path: Path) -> None:
    old = pa.array([-62_000_000_000_000_000, 0], pa.timestamp("us"))
    pq.write_table(pa.table({"t": old}), tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    (chunk,) = read_chunks(log(tmp_path / "t.parquet", "parquet"))
    column: Any = chunk.columns["t"]
    assert column.equals(old)


def test_views_runs_and_structs_come_in_usual_encodings(tmp_path: Path) -> None:
    table = pa.table(
        {
            "view": pa.array(["a", None], pa.string_view()),
            "runs": pa.compute.run_end_encode(pa.array(["x", "x"])),
            "struct": pa.array([{"v": "a"}, None], pa.struct({"v": pa.string_view()})),
            "lists": pa.array([[1], [2]]),
        }
    )
    write_ipc_file(tmp_path / "t.arrow", table)
    file = log(tmp_path / "t.arrow", "arrow")
    (chunk,) = read_chunks(file)
    columns: Mapping[str, Any] = chunk.columns
    assert [column.take(pa.array([1, 0])).to_pylist() for column in columns.values()] == [
        [None, "a"],
        ["x", "x"],
        [None, {"v": "a"}],
    ]
    with pytest.raises(RejectedError, match=r"column lists has the type list<.*flatten it"):
        rows(file, {"lists"})


def test_structs_of_parquet_come_without_their_lists(tmp_path: Path) -> None:
    after = [{"id": 1, "tags": ["x"], "name": "n"}, None]
    pq.write_table(pa.table({"after": pa.array(after), "op": ["c", "d"], "l": [[1], []]}), tmp_path / "t.parquet")
    file = log(tmp_path / "t.parquet", "parquet")
    assert rows(file, {"after", "op"}) == [{"after": {"id": 1, "name": "n"}, "op": "c"}, {"after": None, "op": "d"}]
    with pytest.raises(RejectedError, match="column l has the type list"):
        rows(file, {"l"})


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow", "t.jsonl"])
def test_a_name_that_stands_twice_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    if name == "t.csv":
        path.write_text("a,a\n1,2\n")
    elif name == "t.jsonl":
        path.write_text('{"a": 1, "a": 2}\n')
    else:
        WRITERS[name][1](path, table)
    file = log(path, WRITERS[name][0])
    for read in (schema_columns, rows):
        with pytest.raises(RejectedError, match=r"the column a twice"):
            read(file)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"a,b\n1,2\n3\n", "row 2: Expected 2 columns, got 1"),
        ("t.csv", b"a,b\n1,\xff\n", "row 1, column b: "),
        ("t.csv", b'a,b\n1,"2\n', "ends inside quotes"),
        ("t.csv", b'a,b\n1,"2\n3,4\n', "ends inside quotes"),
        ("t.csv", b"", "Empty CSV"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:-20], "t.csv.gz"),
        ("t.jsonl", b'{"a": 1}\n{"a": \n', "line 2, column"),
        ("t.jsonl", b'{"a": 1}\n[1]\n', "line 2: expected an object"),
        ("t.jsonl", b'{"a": "\xff"}\n', "line 1, byte 8 is not UTF-8"),
        ("t.parquet", b"PAR1", "t.parquet"),
        ("t.arrow", b"ARROW1\0\0", "t.arrow"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    form = WRITERS[name.removesuffix(".gz")][0]
    with pytest.raises(RejectedError) as caught:
        rows(log(path, form))
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_a_stream_that_was_cut_between_batches_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.arrows"
    write_ipc_stream(path, pa.Table.from_pylist(ROWS))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(RejectedError, match="no end mark: it was cut off"):
        rows(log(path, "arrow"))


@pytest.mark.parametrize("name", WRITERS)
def test_a_cut_or_flipped_file_gives_rows_or_a_refusal(tmp_path: Path, name: str) -> None:
    """In a process of its own, since a crash would be the finding."""
    form, write = WRITERS[name]
    write(tmp_path / name, pa.Table.from_pylist(ROWS[:300]))
    seed = 20240229
    ran = subprocess.run(
        [sys.executable, __file__, str(tmp_path / name), form, str(seed)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"seed {seed}: {ran.stdout[-2000:]} {ran.stderr[-2000:]}"


def damage(path: Path, form: Format, seed: int) -> None:
    """Read the file with random damages, one at a time; anything but rows and refusals ends the process."""
    whole = path.read_bytes()
    chance = random.Random(seed)
    for _ in range(150):
        content = bytearray(whole)
        if chance.random() < 0.3:
            del content[chance.randrange(len(content)) :]
        else:
            for _ in range(chance.choice([1, 1, 1, 8])):
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        try:
            schema_columns(log(path, form))
            for chunk in read_chunks(log(path, form), {"a", "s", "d"}):
                for column in chunk.columns.values():
                    assert isinstance(column, list) or column.validate(full=True) is None
        except DynqError as error:
            assert str(path) in str(error)


BOMBS: dict[str, Callable[[Path], None]] = {}


def bomb(make: Callable[[Path], None]) -> Callable[[Path], None]:
    BOMBS[make.__name__] = make
    return make


@bomb
def one_long_text_a_million_times(path: Path) -> None:
    indices = pa.array([0], pa.int32()).take(pa.array([0] * 1_000_000))
    pq.write_table(pa.table({"s": pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 5_000]))}), path)


@bomb
def long_texts_after_short_ones(path: Path) -> None:
    """More than four bytes per row in the file: neither the metadata nor the first rows tell."""
    values = pa.array([f"{i:05}" for i in range(1_000)] + [f"{i}" * 1_000 for i in range(100, 1_100)])
    indices = pa.array([i % 1_000 for i in range(100_000)] + [1_000 + i % 1_000 for i in range(500_000)], pa.int32())
    pq.write_table(
        pa.table({"s": pa.DictionaryArray.from_arrays(indices, values)}), path, dictionary_pagesize_limit=16 << 20
    )


@bomb
def one_number_in_a_hundred_million_rows(path: Path) -> None:
    piece = pa.table({"s": pa.array([7], pa.int64()).take(pa.array([0] * 1_000_000))})
    with pq.ParquetWriter(path, piece.schema) as writer:
        writer.write_table(pa.concat_tables([piece] * 100), row_group_size=100_000_000)


@bomb
def a_long_text_in_a_dictionary_of_arrow(path: Path) -> None:
    indices = pa.array([0], pa.int32()).take(pa.array([0] * 1_000_000))
    table = pa.table({"s": pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 5_000]))})
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_holds_gigabytes_is_read_in_bounded_memory(tmp_path: Path, name: str) -> None:
    form: Format = "arrow" if "arrow" in name else "parquet"
    path = tmp_path / f"bomb.{form}"
    BOMBS[name](path)
    ran = subprocess.run(
        [sys.executable, __file__, str(path), form],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    spelled, peak = map(int, ran.stdout.split())
    assert os.path.getsize(path) < 5 << 20
    assert spelled > 750_000_000
    assert peak < 400 << 20, f"{peak >> 20} MiB"


def test_a_batch_that_unpacks_to_too_much_is_refused_before_it_is(tmp_path: Path) -> None:
    zeros = pa.Array.from_buffers(pa.int64(), 1 << 28, [None, pa.py_buffer(bytes(1 << 31))])
    table = pa.table({"a": zeros})
    path = tmp_path / "t.arrow"
    with ipc.new_file(path, table.schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(RejectedError, match=r"a batch unpacks to 2,147,483,648 bytes"):
        rows(log(path, "arrow"))


def check_bounds(chunk: Chunk) -> int:
    size = sum(spelled_out(column) for column in chunk.columns.values())
    assert chunk.rows <= MOST_ROWS
    assert size <= MOST_BYTES or chunk.rows == 1
    return size


def measure(file: LogFile) -> None:
    """Print what the chunks stand for and the growth of memory while they are read and spelled out."""
    import resource

    from dynq_cli.spec.types import INT64, STRING
    from dynq_cli.values.convert import convert

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spelled = 0
    for chunk in read_chunks(file):
        spelled += check_bounds(chunk)
        values: Any = chunk.columns["s"]
        convert(values, INT64 if pa.types.is_integer(values.type) else STRING)
    print(spelled, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        damage(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))  # type: ignore[arg-type]
    else:
        measure(LogFile(sys.argv[1], sys.argv[2], None))  # type: ignore[arg-type]
    os._exit(0)  # as the command does: threads of Arrow may still hold what they read of a refused file
