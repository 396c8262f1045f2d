"""`infer_spec` prints a spec that loads, with the types, NULL marks and keys that the data has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from dynq_cli.errors import EXIT_REJECTED, RejectedError
from dynq_cli.io.infer import infer_spec
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.model import Relation


def write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path)


def write_arrow_file(table: pa.Table, path: Path) -> None:
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def write_arrow_stream(table: pa.Table, path: Path) -> None:
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def write_jsonl(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "orders.parquet": write_parquet,
    "orders.arrow": write_arrow_file,
    "orders.arrows": write_arrow_stream,
    "orders.csv": pcsv.write_csv,
    "orders.jsonl": write_jsonl,
}
ORDERS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "customer": pa.array([7, None, 7], pa.int64()),
        "day": pa.array([19000, 19001, 19001], pa.date32()),
        "note": pa.array(["a", None, ""]),
        "rate": pa.array([0.5, 1.25, 3.0]),
    }
)


def infer(*paths: Path, key_rows: int = 1000) -> str:
    text = infer_spec([str(p) for p in paths], key_rows=key_rows).text
    compile_spec(parse_spec(text, "inferred.yaml"))
    return text


def relation(text: str, name: str) -> Relation:
    found = parse_spec(text, "inferred.yaml").relation(name)
    assert found is not None
    return found


def columns(text: str, name: str) -> dict[str, str]:
    return {c.name: f"{c.type}{'?' if c.nullable else ''}" for c in relation(text, name).columns}


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_spec(tmp_path: Path, name: str) -> None:
    WRITERS[name](ORDERS, tmp_path / name)
    text = infer(tmp_path / name)
    assert columns(text, "orders") == {
        "id": "int64",
        "customer": "int64?",
        "day": "date",
        "note": "string?",
        "rate": "float64",
    }
    assert "# key: [id]  # unique in the 3 rows read" in text
    assert "# key: [day" not in text


def test_csv_tells_null_from_the_empty_string_and_keeps_leading_zeros(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'zip,note,n,money\n00123,"",,1.50\n99999,x,4,12.00\n')
    assert columns(infer(path), "t") == {
        "zip": "string",
        "note": "string",
        "n": "int64?",
        "money": "decimal(18,2)",
    }


def test_csv_quotes_may_be_doubled_escaped_and_span_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'a,b\n1,"say \\"hi\\", you"\n2,"so ""they"" say"\n3,"two\nlines"\n')
    text = infer(path)
    assert "3 rows" in text
    assert columns(text, "t") == {"a": "int64", "b": "string"}


def test_csv_with_one_column_reads_an_empty_line_as_null(tmp_path: Path) -> None:
    assert columns(infer(write(tmp_path / "t.csv", "a\n1\n\n2\n")), "t") == {"a": "int64?"}


def test_a_type_is_judged_by_all_values_of_all_files(tmp_path: Path) -> None:
    first = write(tmp_path / "t.1.csv", "a,b\n" + "".join(f"{i},{i}\n" for i in range(5000)))
    second = write(tmp_path / "t.2.csv", "a,b\nx1,5000\n")
    assert columns(infer(first, second), "t") == {"a": "string", "b": "int64"}


def test_a_header_without_rows_gives_columns_to_fill_in(tmp_path: Path) -> None:
    text = infer(write(tmp_path / "t.csv", "a,b\n"))
    assert columns(text, "t") == {"a": "string?", "b": "string?"}
    assert "a: string?  # no value seen: set the type" in text
    assert "key" not in text.split("columns:")[1]


def test_pairs_are_keys_where_no_single_column_is(tmp_path: Path) -> None:
    count = 3000
    table = pa.table({"o": [i // 3 for i in range(count)], "n": [i % 3 for i in range(count)], "x": [1] * count})
    write_parquet(table, tmp_path / "items.parquet")
    text = infer(tmp_path / "items.parquet", key_rows=2500)
    assert [line.strip() for line in text.splitlines() if "key:" in line] == [
        "# key: [o, n]  # unique in the 2,500 rows read"
    ]


def test_integers_come_first_among_the_keys(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "name,id\nx,2\ny,1\n")
    assert [line.split("#")[1].strip() for line in infer(path).splitlines() if "key:" in line] == [
        "key: [id]",
        "key: [name]",
    ]


def test_a_change_log_is_judged_without_its_own_columns_and_its_deletes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.csv",
        "_change_type,_commit_version,_commit_timestamp,_count,id,name\n"
        "insert,1,2024-01-01 00:00:00,1,1,ann\n"
        "INSERT,1,2024-01-01 00:00:00,1,2,bob\n"
        "update_preimage,2,2024-01-02 00:00:00,1,1,\n"
        "update_postimage,2,2024-01-02 00:00:00,1,1,eve\n"
        "delete,3,2024-01-03 00:00:00,1,2,\n",
    )
    text = infer(path)
    assert columns(text, "t") == {"id": "int64", "name": "string"}
    assert "# key: [id]  # unique in the 2 inserted rows read" in text


def test_a_mixed_log_gives_every_relation_its_own_columns(tmp_path: Path) -> None:
    rows = [
        {"_relation": "r", "a": 1, "b": 2},
        {"_relation": "s", "b": 2, "c": "x"},
        {"_relation": "r", "a": 2, "b": 2},
    ]
    path = write(tmp_path / "log.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    text = infer(path)
    assert columns(text, "r") == {"a": "int64", "b": "int64"}
    assert columns(text, "s") == {"b": "int64", "c": "string"}


def test_null_counts_of_row_groups_that_are_not_read_come_from_statistics(tmp_path: Path) -> None:
    table = pa.table({"a": list(range(100)), "b": [*range(99), None]})
    for statistics in (True, False):
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=10, write_statistics=statistics)
        text = infer(tmp_path / "t.parquet", key_rows=15)
        assert columns(text, "t") == {"a": "int64", "b": "int64?"}
        assert "100 rows" in text
        assert "# key: [a]  # unique in the 15 rows read" in text


def test_types_and_names_a_spec_cannot_have_are_left_out_with_the_reason(tmp_path: Path) -> None:
    table = pa.table(
        {
            "ok": [1],
            "tags": [["x"]],
            "two words": [1],
            "a.b": [1],
            "_hidden": [1],
            "OK": [2],
            "big": pa.array([1], pa.uint64()),
        }
    )
    for name in ("t.parquet", "t.arrow"):
        WRITERS[name.replace("t.", "orders.")](table, tmp_path / name)
        skeleton = infer_spec([str(tmp_path / name)])
        assert columns(skeleton.text, "t") == {"ok": "int64", "big": "decimal(20,0)"}
        assert "# tags: left out, list<" in skeleton.text
        assert "# two words: left out, a name has letters, digits and _ only" in skeleton.text
        assert len(skeleton.warnings) == 5


def test_a_name_that_stands_twice_in_a_header_is_used_once_at_most(tmp_path: Path) -> None:
    text = infer(write(tmp_path / "t.csv", "a,a,b\n1,x,2\n"))
    assert columns(text, "t") == {"b": "int64"}
    assert "# a: left out, the name stands twice in the header" in text


def test_a_json_column_with_two_kinds_of_values_is_left_out_with_the_line(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", '{"a": 1, "b": 1}\n{"a": "x", "b": 2.5}\n{"a": 3}\n')
    text = infer(path)
    assert columns(text, "t") == {"b": "float64?"}
    assert "# a: left out, line 2 holds a string, earlier lines a number" in text


def test_json_strings_of_digits_are_identifiers_but_dates_and_decimals_are_not(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", '{"a": "12", "b": "12.50", "c": "2024-01-31", "d": 12345678901234567890}\n')
    assert columns(infer(path), "t") == {"a": "string", "b": "decimal(18,2)", "c": "date", "d": "decimal(38,0)"}


def test_declared_types_of_two_files_are_widened(tmp_path: Path) -> None:
    write_parquet(pa.table({"a": pa.array([1], pa.int16())}), tmp_path / "t.1.parquet")
    write_arrow_file(pa.table({"a": pa.array([1], pa.int64())}), tmp_path / "t.2.arrow")
    write(tmp_path / "t.3.csv", "a\n7\n")
    assert columns(infer(tmp_path), "t") == {"a": "int64"}


def test_the_declared_type_wins_over_texts_that_fit_it(tmp_path: Path) -> None:
    write_parquet(pa.table({"a": pa.array([1.0]), "b": ["x"]}), tmp_path / "t.1.parquet")
    write(tmp_path / "t.2.csv", "a,b\n7,8\n")
    assert columns(infer(tmp_path), "t") == {"a": "float64", "b": "string"}


@pytest.mark.parametrize("other", ["t.2.parquet", "t.2.csv", "t.2.jsonl"])
def test_files_that_disagree_are_rejected_naming_both(tmp_path: Path, other: str) -> None:
    WRITERS["orders" + Path(other).suffix](pa.table({"a": ["x"]}), tmp_path / other)
    first = "t.1.jsonl" if other.endswith(".jsonl") else "t.1.parquet"
    WRITERS["orders" + Path(first).suffix](pa.table({"a": [1]}), tmp_path / first)
    with pytest.raises(RejectedError) as caught:
        infer(tmp_path)
    assert str(tmp_path / first) in str(caught.value)
    assert str(tmp_path / other) in str(caught.value)


def test_a_column_that_some_files_lack_says_so(tmp_path: Path) -> None:
    write(tmp_path / "t.1.csv", "a,b\n1,2\n")
    write(tmp_path / "t.2.csv", "a\n2\n")
    assert f"b: int64  # not in {tmp_path / 't.2.csv'}" in infer(tmp_path)


def test_names_that_sql_or_yaml_keep_for_themselves_still_load(tmp_path: Path) -> None:
    text = infer(write(tmp_path / "order.csv", "on,null,group\n1,2,3\n"))
    assert columns(text, "order") == {"on": "int64", "null": "int64", "group": "int64"}
    assert 'SELECT * FROM "order"' in text


def test_every_word_of_sql_can_name_a_relation_and_a_column_also_in_the_examples(tmp_path: Path) -> None:
    for (word,) in duckdb.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall():
        text = infer(write(tmp_path / f"{word}.csv", f"{word},b\n1,2\n"))
        assert columns(text, word) == {word: "int64", "b": "int64"}
        example = [f"  {line[4:]}" for line in text.splitlines() if line.startswith(("  #   sql", f"  # {word}_by_"))]
        both = parse_spec("\n".join([*text.splitlines(), *example]), "inferred.yaml")
        assert compile_spec(both).keys() == {f"all_{word}", f"{word}_by_{word}"}


def test_no_join_is_suggested_for_columns_that_only_have_one_name(tmp_path: Path) -> None:
    """`USING (year)` over tables with another name in common does not load, and multiplies rows."""
    write(tmp_path / "flights.csv", "year,name\n2013,a\n2013,b\n")
    write(tmp_path / "planes.csv", "year,name\n2013,c\n2013,d\n")
    assert "JOIN" not in infer(tmp_path)


def test_relations_named_in_a_column_get_names_a_spec_can_have(tmp_path: Path) -> None:
    rows = [{"_relation": name, "a": 1} for name in ("my orders", "2024")]
    text = infer(write(tmp_path / "log.jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    assert columns(text, "my_orders") == columns(text, "r_2024") == {"a": "int64"}


def test_a_json_key_that_comes_late_was_null_before(tmp_path: Path) -> None:
    early, late = json.dumps({"a": 1}) + "\n", json.dumps({"a": 1, "b": 2}) + "\n"
    for rows in (1, 8192, 20000):
        assert columns(infer(write(tmp_path / "t.jsonl", early * rows + late)), "t") == {"a": "int64", "b": "int64?"}


def test_deletes_past_the_rows_read_for_keys_do_not_mark_nulls(tmp_path: Path) -> None:
    changes = ["insert"] * 4 + ["delete"] * 4
    table = pa.table({"_change_type": changes, "k": list(range(8)), "v": [1, 2, 3, 4, None, None, None, None]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=4)
    assert columns(infer(tmp_path / "t.parquet", key_rows=2), "t") == {"k": "int64", "v": "int64"}


def test_the_query_does_not_take_the_name_of_a_relation(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "x\n1\n")
    write(tmp_path / "all_a.csv", "x\n1\n")
    assert [q.name for q in parse_spec(infer(tmp_path), "f").queries] == ["all_a_rows"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "is damaged or not a CSV file: Empty CSV"),
        ("t.csv", b"a,b\n1,2\n3,4,5\n", "row 2: Expected 2 columns, got 3"),
        ("t.csv", b"a,b\n1,\xff\n", "invalid UTF8"),
        ("t.csv", b"\n\n", "it has no header line"),
        ("t.csv", b"a,b", "it has no header line that ends"),
        ("t.csv", b"1,2\n3,4\n", "the first line of a CSV file names its columns"),
        ("t.csv", b"a,a\n1,2\n", "t.a is left out: the name stands twice in the header"),
        ("t.csv", b"a,b\n1," + b"x" * (9 << 20) + b"\n", "a row is longer than 4 MiB"),
        ("t.parquet", b"PAR1 no more", "is damaged or not a Parquet file"),
        ("t.arrow", b"ARROW1\0\0 no more", "is damaged or not an Arrow IPC file"),
        ("t.arrow", b"", "is damaged or not an Arrow IPC file"),
        ("t.jsonl", b'{"a": 1}\n{bad\n', "line 2, column 2: Expecting property name"),
        ("t.jsonl", b'{"a": "\xe9"}\n', "line 1, byte 8 is not UTF-8"),
        ("t.jsonl", b'{"a": ' + b"9" * 5000 + b"}\n", "line 1 holds an integer of thousands of digits"),
        ("t.jsonl", b'{"a": 1}\n{"a": "x"}\n', "t.a is left out: line 2 holds a string"),
        ("t.jsonl", b"[1]\n", "line 1: expected an object"),
        ("t.jsonl", b'{"a": ' + b"[" * 100_000 + b"\n", "line 1 is nested too deeply"),
        ("t.jsonl", b"\n", "has no columns"),
        ("t.csv.gz", b"a,b\n1,2\n", "is damaged or not a CSV file"),
    ],
)
def test_a_damaged_file_is_rejected_by_name(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RejectedError) as caught:
        infer(tmp_path / name)
    assert caught.value.exit_code == EXIT_REJECTED
    assert str(tmp_path / name) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("found", "damage"),
    [
        (b"\x03\0\0\0\x06\0\0\0", b"\xff\xff\xff\xff\x06\0\0\0"),
        (b"\x03\0\0\0\x06\0\0\0", b"\x03\0\0\0\0\0\0\x7f"),
        (b"onetwothree", b"one\xffwothree"),
    ],
    ids=["a negative offset", "an offset past the end", "a text that is not UTF-8"],
)
def test_a_damaged_arrow_file_is_rejected_before_it_is_read_past_its_end(
    tmp_path: Path, found: bytes, damage: bytes
) -> None:
    table = pa.table({"s": ["one", "two", "three"]})
    with ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write(table)
    content = (tmp_path / "t.arrow").read_bytes()
    assert content.count(found) == 1
    (tmp_path / "t.arrow").write_bytes(content.replace(found, damage))
    with pytest.raises(RejectedError, match="is damaged or not an Arrow IPC file"):
        infer(tmp_path / "t.arrow")


def test_a_parquet_text_that_is_not_utf8_is_rejected(tmp_path: Path) -> None:
    write_parquet(pa.table({"s": ["onetwothree", "x"]}), tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content.replace(b"onetwothree", b"one\xfftwothre"))
    with pytest.raises(RejectedError, match=r"t\.parquet is damaged"):
        infer(tmp_path / "t.parquet")


def test_names_with_control_characters_neither_break_the_spec_nor_reach_the_terminal(tmp_path: Path) -> None:
    path = write(tmp_path / "t.\x1b[31m.csv", "a\x1b[2J,b\n1,2\n")
    assert columns(infer(path), "t") == {"b": "int64"}
    assert infer_spec([str(path)]).warnings[0].startswith("t.a\\x1b[2J is left out")


def test_relations_that_differ_only_in_case_are_rejected(tmp_path: Path) -> None:
    write(tmp_path / "T.csv", "a\n1\n")
    write(tmp_path / "t.csv", "a\n1\n")
    with pytest.raises(RejectedError, match="upper and lower case"):
        infer(tmp_path)


def test_a_small_file_with_a_huge_content_is_read_in_bounded_memory(tmp_path: Path) -> None:
    long = "x" * 1_000_000
    table = pa.table({"a": pa.array([long], pa.string()).dictionary_encode().take(pa.array([0] * 20_000))})
    write_parquet(table, tmp_path / "t.parquet")
    pa.default_memory_pool().release_unused()
    before = pa.total_allocated_bytes()
    pool_peak = pa.default_memory_pool().max_memory()
    assert columns(infer(tmp_path / "t.parquet"), "t") == {"a": "string"}
    assert max(pa.default_memory_pool().max_memory() - pool_peak, 0) < 200 << 20
    assert pa.total_allocated_bytes() - before < 50 << 20
