"""What a campaign of damaged files has found: each is refused with its reason, and files that are intact are read."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from dynq_cli.errors import RejectedError
from dynq_cli.io import csv_source, json_lines, parquet_footer, read_arrow, read_csv, read_parquet, thrift
from dynq_cli.io.damage import refusing
from dynq_cli.io.infer import infer_spec
from dynq_cli.io.logs.chunks import read_chunks
from dynq_cli.io.logs.identity import identity_of, refuse_changed
from dynq_cli.io.logs.model import LogFile
from dynq_cli.io.logs.unexplained import looks_like_a_mark
from dynq_cli.io.thrift import I32, Field, Struct

ROWS = 500
TABLE = pa.table({"a": list(range(ROWS)), "b": [None if i % 9 == 0 else f"text {i % 50}" for i in range(ROWS)]})


def parquet(path: Path, **options: Any) -> str:
    pq.write_table(TABLE, path, **options)
    return str(path)


def arrow(new: Callable[..., Any], table: pa.Table = TABLE) -> bytes:
    sink = io.BytesIO()
    with new(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    return sink.getvalue()


def rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_texts_as_deltas_are_read(tmp_path: Path, encoding: str, version: str) -> None:
    path = parquet(
        tmp_path / "t.parquet", use_dictionary=False, column_encoding={"b": encoding}, data_page_version=version
    )
    assert rows(read_parquet.stream(path, None)) == TABLE.to_pylist()
    assert "b: string?" in infer_spec([path]).text


def test_texts_that_share_a_long_prefix_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    """Two megabytes in the file, which are four gigabytes of texts when spelled out."""
    path = str(tmp_path / "t.parquet")
    table = pa.table({"b": pa.array(["x" * (1 << 20) + str(i) for i in range(64)]).take(pa.array([*range(64)] * 2))})
    options = {"use_dictionary": False, "column_encoding": {"b": "DELTA_BYTE_ARRAY"}, "write_statistics": False}
    pq.write_table(table, path, **options)
    assert os.path.getsize(path) < 10 << 20
    assert max(batch.nbytes for batch in read_parquet.stream(path, None)) < 300 << 20


def change_footer(path: str, change: Callable[[Struct], None]) -> None:
    content = Path(path).read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = thrift.read(content[start:])
    change(footer)
    new = thrift.written(footer)
    Path(path).write_bytes(content[:start] + new + len(new).to_bytes(4, "little") + b"PAR1")


def repetition(value: int) -> Callable[[Struct], None]:
    return lambda footer: footer[2].value.value[1].__setitem__(3, Field(I32, value))


def without_encoding(footer: Struct) -> None:
    """Of the statistics of encodings, which dynq does not need, a field that they have to have."""
    del footer[4].value.value[0][1].value.value[0][3].value[13].value.value[0][2]


LIES: dict[str, tuple[Callable[[Struct], None], str]] = {
    "a repetition that there is not": (repetition(3), "neither required nor optional nor repeated"),
    "a column that is required": (repetition(0), "differ on what is optional in column a"),
    "statistics without a field": (without_encoding, "Invalid data"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_footer_that_another_reader_refuses_is_refused(tmp_path: Path, name: str) -> None:
    lie, said = LIES[name]
    path = parquet(tmp_path / "t.parquet")
    change_footer(path, lie)
    with pytest.raises((ValueError, OSError), match=said):
        parquet_footer.read_footer(path)


@pytest.mark.parametrize("data", [b"\x05\x01\x02\x00", b"\x15\x02\x05\x02\x04\x00"], ids=["negative", "twice"])
def test_a_field_without_a_number_of_its_own_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no number, or that of another"):
        thrift.read(data)


def test_two_parquet_files_in_one_are_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path / "t.parquet", write_page_index=True)
    assert parquet_footer.read_footer(path).rows == (ROWS,)
    Path(path).write_bytes(Path(path).read_bytes() * 2)
    with pytest.raises(ValueError, match="two files"):
        parquet_footer.read_footer(path)


def test_leaves_that_differ_on_where_their_struct_is_null_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    whole = [{"s": None if i % 2 else {"x": i, "y": i}} for i in range(8)]
    pq.write_table(pa.Table.from_pylist(whole), path, use_dictionary=False, compression="none")
    assert rows(read_parquet.stream(path, {"s"})) == whole
    meta = pq.read_metadata(path).row_group(0)
    places = [meta.column(i).data_page_offset for i in range(2)]
    content = bytearray(Path(path).read_bytes())
    page = bytes(content[places[1] : places[1] + meta.column(1).total_compressed_size])
    packed = page.index(bytes([0b00100010, 0b00100010]))  # levels 2, 0, 2, 0, … of two bits
    content[places[1] + packed] ^= 0b10
    Path(path).write_bytes(content)
    with pytest.raises((ValueError, OSError), match="differ on where it is NULL"):
        rows(read_parquet.stream(path, {"s"}))


OTHER = TABLE.rename_columns(["z", "b"])
SHORT = arrow(ipc.new_file, TABLE[:300])
FILE, STREAM = arrow(ipc.new_file), arrow(ipc.new_stream)


def index_at(data: bytes) -> int:
    return len(data) - 10 - int.from_bytes(data[-10:-6], "little")


def mixed() -> bytes:
    """The batches of a file, and the schema before them of another one: only the index has the right names."""
    return arrow(ipc.new_file, OTHER).replace(b"\x01\0\0\0z", b"\x01\0\0\0a", 1)


ARROW: dict[str, tuple[bytes, str]] = {
    "two files": (FILE * 2, "follow the end of its batches"),
    "two streams": (STREAM * 2, "follow the end of its batches"),
    "a cut file": (FILE[:-1], "does not end as an Arrow file"),
    "a cut stream": (STREAM[:-1], "no end mark"),
    "an index of other columns": (mixed(), "its index has other columns"),
    "an index of other batches": (FILE[: index_at(FILE)] + SHORT[index_at(SHORT) :], "not about the batches"),
    "a shorter body": (FILE[:1200] + FILE[1204:], "not about the batches|past its end|different ways"),
}


@pytest.mark.parametrize("name", ARROW)
def test_an_arrow_file_that_contradicts_itself_is_refused(tmp_path: Path, name: str) -> None:
    data, said = ARROW[name]
    path = tmp_path / "t.arrow"
    path.write_bytes(data)
    with pytest.raises((ValueError, OSError), match=said):
        rows(read_arrow.stream(str(path), None))


@pytest.mark.parametrize("data", [FILE, STREAM], ids=["file", "stream"])
def test_an_intact_arrow_file_is_read(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "t.arrow"
    path.write_bytes(data)
    assert rows(read_arrow.stream(str(path), None)) == TABLE.to_pylist()


def polars_file(path: Path) -> bytes:
    """A file of polars: its schema stands in front without a length; texts are views, also those of a dictionary."""
    columns = {"a": [1, None, 3], "b": ["x", None, "too long to stand in a view"], "c": [b"y", None, bytes(range(20))]}
    frame = polars.DataFrame(columns).with_columns(polars.Series("d", ["u", "v", "u"], dtype=polars.Categorical))
    frame.write_ipc(path)
    return path.read_bytes()


def test_files_of_polars_are_read(tmp_path: Path) -> None:
    data = polars_file(tmp_path / "t.arrow")
    assert data[8:12] != b"\xff\xff\xff\xff"  # no message begins here; if it does one day, the stream is read
    with ipc.open_file(tmp_path / "t.arrow") as reader:
        expected = reader.read_all().to_pylist()
    assert rows(read_arrow.stream(str(tmp_path / "t.arrow"), None)) == expected
    assert "d: string\n" in infer_spec([str(tmp_path / "t.arrow")]).text
    file = LogFile(str(tmp_path / "t.arrow"), "arrow", None)
    assert [row for chunk in read_chunks(file) for row in pa.table(dict(chunk.columns)).to_pylist()] == expected


def test_an_empty_file_of_polars_is_read(tmp_path: Path) -> None:
    polars.DataFrame(schema={"a": polars.Int64}).write_ipc(tmp_path / "t.arrow")
    assert rows(read_arrow.stream(str(tmp_path / "t.arrow"), None)) == []
    assert read_arrow.schema(str(tmp_path / "t.arrow")).names == ["a"]


def test_a_damaged_file_of_polars_is_refused_or_has_its_shape(tmp_path: Path) -> None:
    """Each byte inverted: values may change unnoticed, since there are no checksums; nothing else may."""
    data = polars_file(tmp_path / "t.arrow")
    refused = 0
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        (tmp_path / "t.arrow").write_bytes(damaged)
        try:
            with refusing("t.arrow", "arrow"):
                assert len(rows(read_arrow.stream(str(tmp_path / "t.arrow"), None))) == 3, place
        except RejectedError:
            refused += 1
    assert refused > len(data) // 10


GOES_ON = {
    b'a,b\n1,"x"y\n': 2,
    b'a,b\n1,"with \0"quotes"""\n': 2,
    b'a,b\n1,"lost\n2,y\n3,"z"\n': 4,
    b'a,b\n1,x"y,"z"\n2,"u"v\n': 3,
    b'a,b\n1,"x"""y\n': 2,
}
FINE = {
    b'a,b\n1,"x""y"\n': 'x"y',
    b'a,b\n1,5"x\n': '5"x',
    b'a,b\n1,5"x"\n': '5"x"',
    b'a,b\n1,"""q"""\n': '"q"',
    b'a,b\n1,"x\n,y"\n': "x\n,y",
    b'\xef\xbb\xbf"a","b"\n1,"x"': "x",
}


@pytest.mark.parametrize("block", [1, 2, 3, 1 << 20])
def test_a_quoted_field_that_goes_on_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(csv_source, "BLOCK", block)
    path = tmp_path / "t.csv"
    for data, line in GOES_ON.items():
        path.write_bytes(data)
        with pytest.raises(ValueError, match=f"line {line}: a field goes on after its closing quote"):
            rows(read_csv.stream(str(path), None))
    for data, text in FINE.items():
        path.write_bytes(data)
        assert rows(read_csv.stream(str(path), None)) == [{"a": "1", "b": text}]


def test_blank_lines_of_json_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('\n\n{"a":1}\n' + " \r\n" * 200_000 + '   {"a":2}\n\n \n{"a":3}')
    assert [(number, row["a"]) for number, _, row in json_lines.read_rows(str(path))] == [
        (3, 1),
        (200_004, 2),
        (200_007, 3),
    ]


@pytest.mark.parametrize("change", ["appended", "replaced", "same length"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, change: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    file = LogFile(str(path), "csv", "t")
    identity = identity_of(file)
    refuse_changed(file, identity)
    if change == "appended":
        path.write_text("a\n1\n2\n")
    elif change == "replaced":
        (tmp_path / "new").write_text("a\n1\n")
        (tmp_path / "new").replace(path)
    else:
        path.write_text("a\n7\n")
        os.utime(path, ns=(1, 1))
    with pytest.raises(RejectedError, match=r"t\.csv was changed while it was read"):
        refuse_changed(file, identity)


def test_a_mark_whose_first_character_is_damaged_is_a_mark() -> None:
    assert looks_like_a_mark("Wchange_type")
    assert looks_like_a_mark("\nchange_type")
    assert not looks_like_a_mark("exchange_type")
