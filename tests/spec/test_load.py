"""From a spec file to the model: what is accepted says what it means, what is not says why."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynq_cli.errors import EXIT_REJECTED, EXIT_USAGE, Problem, SpecError, UsageError
from dynq_cli.spec.load import load_spec, parse_spec
from dynq_cli.spec.model import Column, Output, Relation, Spec
from dynq_cli.spec.types import DATE, INT64, STRING, decimal
from tests.every_case import every_case

CONTRACT = """\
version: 1
relations:
  orders:
    columns:
      o_orderkey: int64
      o_custkey: int64
      o_orderdate: date
      o_totalprice: decimal(15,2)
      o_comment: string?
    key: [o_orderkey]        # optional: upserts, key-only deletes, uniqueness
    changes: often           # optional: rare | normal | often, a hint for the plan
  customer: {columns: {c_custkey: int64, c_name: string}}
queries:
  big_orders:
    sql: >
      SELECT o.o_orderkey, c.c_name FROM orders o, customer c
      WHERE o.o_custkey = c.c_custkey AND o.o_totalprice > 1000
  chain:
    rule: "chain(x, z) :- R(x, y), S(y, z), x < z"
    semantics: set           # bag | set
    order_by: [x, z desc]    # optional: keep ranked access in this order
    max_view_rows: 5000000   # optional budget where a view must be materialised
outputs:                     # optional: what `dynq run` writes
  - {query: big_orders, kind: diff, path: "out/big-{version}.parquet", mark: hourly}
  - {query: chain, kind: count, path: out/chain.json}
"""

HEAD = """\
version: 1
relations:
  r:
    columns: {a: int64, b: string?, c: date}
"""
QUERY = "queries:\n  q:\n    sql: SELECT a FROM r\n"


def problems_of(text: str) -> list[Problem]:
    with pytest.raises(SpecError) as caught:
        parse_spec(text, "s.yaml")
    assert caught.value.exit_code == EXIT_REJECTED
    return list(caught.value.problems)


def query(body: str) -> Spec:
    return parse_spec(f"{HEAD}queries:\n  q:\n    sql: SELECT a FROM r\n{body}", "s.yaml")


def test_the_full_example_is_read_as_written() -> None:
    spec = parse_spec(CONTRACT, "s.yaml")
    assert spec.relations == (
        Relation(
            "orders",
            (
                Column("o_orderkey", INT64),
                Column("o_custkey", INT64),
                Column("o_orderdate", DATE),
                Column("o_totalprice", decimal(15, 2)),
                Column("o_comment", STRING, nullable=True),
            ),
            key=("o_orderkey",),
            changes="often",
        ),
        Relation("customer", (Column("c_custkey", INT64), Column("c_name", STRING))),
    )
    big, chain = spec.queries
    assert (big.name, big.language) == ("big_orders", "sql")
    assert (big.semantics, big.order_by, big.max_view_rows) == (None, (), None)
    assert big.texts[0].value == (
        "SELECT o.o_orderkey, c.c_name FROM orders o, customer c "
        "WHERE o.o_custkey = c.c_custkey AND o.o_totalprice > 1000\n"
    )
    where = big.texts[0].place(big.texts[0].value.index("WHERE"))
    assert (where.line, where.column) == (17, 7)
    assert (chain.name, chain.language, chain.semantics, chain.max_view_rows) == ("chain", "rule", "set", 5_000_000)
    assert [rule.value for rule in chain.texts] == ["chain(x, z) :- R(x, y), S(y, z), x < z"]
    assert [str(key) for key in chain.order_by] == ["x", "z desc"]
    assert spec.outputs == (
        Output("big_orders", "diff", "out/big-{version}.parquet", "hourly"),
        Output("chain", "count", "out/chain.json"),
    )


def test_relations_columns_and_queries_know_their_place() -> None:
    spec = parse_spec(CONTRACT, "s.yaml")
    assert [str(r.place) for r in spec.relations] == ["s.yaml:3:3", "s.yaml:12:3"]
    assert str(spec.relations[1].columns[1].place) == "s.yaml:12:42"
    assert [str(q.place) for q in spec.queries] == ["s.yaml:14:3", "s.yaml:18:3"]
    assert [str(k.place) for k in spec.queries[1].order_by] == ["s.yaml:21:16", "s.yaml:21:19"]
    assert [str(o.place) for o in spec.outputs] == ["s.yaml:24:5", "s.yaml:25:5"]


def test_columns_keep_the_order_of_the_file() -> None:
    names = [f"c{i}" for i in (5, 3, 9, 1)]
    text = "version: 1\nrelations:\n  r:\n    columns: {" + ", ".join(f"{n}: int64" for n in names) + "}\n" + QUERY
    assert [c.name for c in parse_spec(text, "s").relations[0].columns] == names


def test_keys_may_come_in_any_order() -> None:
    reordered = parse_spec(QUERY + "relations: {r: {columns: {a: int64}}}\nversion: '1'\n", "s")
    assert reordered.queries[0].name == "q"
    assert reordered.relations[0].name == "r"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a", ["a"]),
        ("a desc", ["a desc"]),
        ("[a, b DESC, c asc]", ["a", "b desc", "c"]),
        ("\n      - a\n      - c  desc", ["a", "c desc"]),
    ],
)
def test_order_by_is_a_list_or_a_single_column(written: str, read: list[str]) -> None:
    assert [str(k) for k in query(f"    order_by: {written}\n").queries[0].order_by] == read


@pytest.mark.parametrize(("written", "read"), [("1", 1), ("5_000_000", 5_000_000), ("'12'", 12), ("007", 7)])
def test_max_view_rows_is_a_whole_number(written: str, read: int) -> None:
    assert query(f"    max_view_rows: {written}\n").queries[0].max_view_rows == read


@every_case("written", ["0", "-1", "1.5", "1e3", "_1", "1__0", "0x10", "many", "٣", "9" * 5000])
def test_max_view_rows_refuses_what_is_no_positive_whole_number(written: str) -> None:
    with pytest.raises(SpecError, match="max_view_rows"):
        query(f"    max_view_rows: {written}\n")


def test_rules_are_one_text_or_a_list_of_texts() -> None:
    text = HEAD + 'queries:\n  q:\n    rule:\n      - "q(x) :- r(x, _, _)"\n      - q(x) :- r(_, x, _)\n'
    found = parse_spec(text, "s").queries[0]
    assert found.language == "rule"
    assert [t.value for t in found.texts] == ["q(x) :- r(x, _, _)", "q(x) :- r(_, x, _)"]
    assert [t.place(8).line for t in found.texts] == [8, 9]


def test_key_may_be_a_single_column() -> None:
    spec = parse_spec(HEAD + "    key: a\n" + QUERY, "s")
    assert spec.relations[0].key == ("a",)


def test_misspelt_key_is_read_as_the_one_it_resembles_so_one_mistake_is_one_problem() -> None:
    problems = problems_of(
        "version: 1\nrelation:\n  r: {colums: {a: int64}, keys: [b]}\nquerys: {q: {SQL: SELECT a FROM r}}\n"
    )
    meant = [p.hint for p in problems if "unknown key" in p.message]
    assert meant == [f"did you mean `{key}`?" for key in ("relations", "columns", "key", "queries", "sql")]
    (other,) = (p for p in problems if "unknown key" not in p.message)
    assert "no column `b` for its key" in other.message


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    problems = problems_of(
        "version: 3\nrelations:\n  r: {columns: {a: int, A: int64}, key: [z]}\n  r: {columns: {a: int64}}\n"
        "queries:\n  q: {semantics: bags}\noutputs:\n  - {query: p, kind: enum, path: ../x}\n"
    )
    places = [(p.place.line, p.place.column) for p in problems]
    assert places == sorted(places)
    assert [line for line, _ in places] == [1, 3, 3, 3, 4, 6, 6, 8, 8, 8]


@pytest.mark.parametrize("path", ["/data/q.csv", "out/{query}/{version}.jsonl", "q..x.arrow", "a b.parquet", "…/q.csv"])
def test_output_paths_may_be_absolute_and_have_placeholders(path: str) -> None:
    spec = query(f'outputs: [{{query: q, kind: enum, path: "{path}"}}]\n')
    assert spec.outputs[0].path == path


@pytest.mark.parametrize(
    ("kind", "extensions"),
    [
        ("count", ["json", "csv", "txt"]),
        ("enum", ["parquet", "csv", "jsonl", "arrow"]),
        ("diff", ["parquet", "csv", "jsonl", "arrow"]),
    ],
)
def test_extension_has_to_fit_the_kind(kind: str, extensions: list[str]) -> None:
    for extension in ["json", "csv", "txt", "parquet", "jsonl", "arrow", "xlsx"]:
        body = f"outputs: [{{query: q, kind: {kind}, path: out.{extension}}}]\n"
        if extension in extensions:
            assert query(body).outputs[0].kind == kind
        else:
            with pytest.raises(SpecError, match=f"ends in `.{extension}`"):
                query(body)


def test_outputs_may_be_an_empty_list() -> None:
    assert query("outputs: []\n").outputs == ()


def test_names_are_identifiers_and_differ_beyond_case() -> None:
    for name in ["a b", "1a", "a-b", "a.b", "ä", "''", "a$"]:
        with pytest.raises(SpecError, match="cannot be the name of a relation"):
            parse_spec(f"version: 1\nrelations: {{{name}: {{columns: {{a: int64}}}}}}\n" + QUERY, "s")
    (problem,) = problems_of("version: 1\nrelations: {r: {columns: {a: int64}}}\nqueries: {R: {sql: SELECT 1}}\n")
    assert "differs only in case from the relation `r` at line 2, column 13" in problem.message


def test_column_may_not_look_like_one_of_a_change_log() -> None:
    (problem,) = problems_of("version: 1\nrelations: {r: {columns: {_count: int64}}}\n" + QUERY)
    assert "begins with `_`" in problem.message


@every_case("value", ["", "text", "[a, b]", "{x: y}", "{x: {y: z}}", "[[]]", "[{}]", '"a: b"', "*x", "!t"])
@every_case(
    "where",
    [
        "version: VALUE\nrelations: {r: {columns: {a: int64}}}\nqueries: {q: {sql: s}}",
        "version: 1\nrelations: VALUE\nqueries: {q: {sql: s}}",
        "version: 1\nrelations: {r: VALUE}\nqueries: {q: {sql: s}}",
        "version: 1\nrelations: {r: {columns: VALUE}}\nqueries: {q: {sql: s}}",
        "version: 1\nrelations: {r: {columns: {c: VALUE}}}\nqueries: {q: {sql: s}}",
        "version: 1\nrelations: {r: {columns: {c: int64}, key: VALUE}}\nqueries: {q: {sql: s}}",
        "version: 1\nrelations: {r: {columns: {c: int64}, changes: VALUE}}\nqueries: {q: {sql: s}}",
        "version: 1\nrelations: {r: {columns: {c: int64}}}\nqueries: VALUE",
        "version: 1\nrelations: {r: {columns: {c: int64}}}\nqueries: {q: VALUE}",
        "version: 1\nrelations: {r: {columns: {c: int64}}}\nqueries: {q: {sql: s, semantics: VALUE}}",
        "version: 1\nrelations: {r: {columns: {c: int64}}}\nqueries: {q: {sql: s, max_view_rows: VALUE}}",
        "version: 1\nrelations: {r: {columns: {c: int64}}}\nqueries: {q: {sql: s}}\noutputs: VALUE",
        "version: 1\nrelations: {r: {columns: {c: int64}}}\nqueries: {q: {sql: s}}\noutputs:\n- VALUE",
    ],
)
def test_the_wrong_kind_of_value_is_a_problem_everywhere(where: str, value: str) -> None:
    for problem in problems_of(where.replace("VALUE", value)):
        assert problem.hint
        assert problem.place.file == "s.yaml"


@given(st.data())
def test_a_damaged_spec_is_accepted_or_refused_but_never_breaks(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(CONTRACT) - 1))
    length = data.draw(st.integers(0, 12))
    patch = data.draw(st.sampled_from(["", " ", "\n", ":", "- ", "[", "}", '"', "'", "x", "{", ",", "null", "\t", "#"]))
    try:
        parse_spec(CONTRACT[:at] + patch + CONTRACT[at + length :], "s.yaml")
    except SpecError as error:
        for problem in error.problems:
            assert problem.hint


def test_file_is_named_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.yaml").write_text(CONTRACT)
    monkeypatch.chdir(tmp_path)
    assert load_spec("shop.yaml").file == "shop.yaml"
    assert load_spec(Path("shop.yaml")) == parse_spec(CONTRACT, "shop.yaml")


def test_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    for name, words in [("none.yaml", "no spec file"), ("", "is a directory"), ("a\0b", "cannot read")]:
        with pytest.raises(UsageError, match=words) as caught:
            load_spec(tmp_path / name)
        assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize(
    ("data", "place", "words"),
    [
        (b"version: 1\nrelations: \xff\n", "2:12", "byte 0xFF is not UTF-8"),
        (CONTRACT.encode("utf-16"), "1:1", "looks like UTF-16"),
        (b"version: 1\r\n# \xe4\r\n", "2:3", "byte 0xE4"),
        (b"x" * ((1 << 20) + 1), "1:1", "larger than"),
        (b"\xef\xbb\xbf\x00", "1:1", "U+0000"),
    ],
)
def test_file_that_is_no_text_is_refused_with_its_place(tmp_path: Path, data: bytes, place: str, words: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(data)
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value).startswith(f"{path}:{place}: ")
    assert words in str(caught.value)


def test_endless_file_is_not_read_to_its_end() -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("no endless file here")
    with pytest.raises(SpecError, match="larger than"):
        load_spec("/dev/zero")


@pytest.mark.parametrize(
    "text",
    [
        HEAD + QUERY + "outputs:\n" + "".join(f"- {{query: qq{i}, kind: x, path: p}}\n" for i in range(4_000)),
        "version: 1\nrelations: {r: {columns: {"
        + ", ".join(f"c{i}: int64" for i in range(8_000))
        + "}, key: ["
        + ", ".join(f"k{i}" for i in range(8_000))
        + "]}}\n"
        + QUERY,
        HEAD + "queries:\n" + "".join(f"  q{i}: {{sq: x}}\n" for i in range(6_000)),
        "k" * 900 + ": 1\n" + "".join(f"{'versio' * 100}{i}: 1\n" for i in range(1_000)),
    ],
    ids=["unknown queries", "unknown key columns", "misspelt keys", "long keys"],
)
def test_thousands_of_problems_take_time_linear_in_the_file(text: str) -> None:
    start = time.monotonic()
    assert len(problems_of(text)) > 1_000
    assert time.monotonic() - start < 15


def test_messages_show_no_control_characters_and_stay_short() -> None:
    problems = problems_of('version: 1\n"\\e[31m' + "x" * 5000 + '": 1\n' + HEAD.partition("\n")[2] + QUERY)
    assert "\x1b" not in str(problems[0])
    assert len(str(problems[0])) < 300


def test_every_spec_of_the_repository_is_read() -> None:
    specs = sorted((Path(__file__).parents[2] / "specs").rglob("*.yaml"))
    assert specs
    for path in specs:
        assert load_spec(path).queries
