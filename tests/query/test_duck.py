"""DuckDB reaches nothing but what it is given, says what is wrong in one line, and moves to disk what is too large."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dynq_cli.query.duck import Duck, DuckError


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "COPY (SELECT 1) TO '{file}'",
        "ATTACH '{file}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET temp_directory = '{file}'",
        "SELECT * FROM secret",
    ],
)
def test_neither_files_nor_settings_nor_variables_are_in_reach(tmp_path: Path, sql: str) -> None:
    secret = pa.table({"x": [1]})
    file = tmp_path / "data.csv"
    file.write_text("x\n1\n", "utf-8")
    with Duck(threads=1, spill=str(tmp_path / "spill")) as duck, pytest.raises(DuckError):
        duck.run(sql.format(file=file))
    assert file.read_text("utf-8") == "x\n1\n"
    assert secret.num_rows == 1


def test_what_is_wrong_is_said_in_one_line() -> None:
    with Duck(threads=1) as duck:
        for call in (duck.run, duck.rows, duck.table, duck.types):
            with pytest.raises(DuckError) as raised:
                call("SELECT 1 +\n nothing")
            assert "\n" not in str(raised.value)
            assert "nothing" in str(raised.value)


def test_arrow_data_is_seen_inside_only() -> None:
    with Duck(threads=1) as duck:
        with duck.seeing("given rows", pa.table({"x": [2, 3]})):
            assert duck.rows('SELECT sum(x) FROM "given rows"') == [(5,)]
            duck.run('CREATE TABLE kept AS SELECT * FROM "given rows"')
        with pytest.raises(DuckError):
            duck.rows('SELECT * FROM "given rows"')
        assert duck.table("SELECT x FROM kept ORDER BY x").to_pydict() == {"x": [2, 3]}
        assert duck.types("SELECT x, x / 2 FROM kept") == ["BIGINT", "DOUBLE"]


def test_tables_larger_than_memory_go_to_the_given_directory(tmp_path: Path) -> None:
    with Duck(threads=1, spill=str(tmp_path / "spill"), memory="40MB") as duck:
        duck.run(
            "CREATE TABLE large AS SELECT i, hash(i)::VARCHAR || hash(i + 1)::VARCHAR AS s FROM range(2000000) t(i)"
        )
        assert any((tmp_path / "spill").iterdir())
        assert duck.rows("SELECT count(*), min(i), max(i) FROM large") == [(2_000_000, 0, 1_999_999)]
    assert not any((tmp_path / "spill").glob("*.tmp"))


def test_expressions_are_planned_once_and_see_only_the_rows_at_hand() -> None:
    with Duck(threads=1) as duck:
        for numbers in ([1, 2, 3], [], [4, None]):
            rows = pa.table({"x": pa.array(numbers, pa.int64()), "unused": pa.nulls(len(numbers), pa.string())})
            found = duck.values(rows, ('"x" + 1', "7"))
            assert found.to_pydict() == {
                "c0": [None if n is None else n + 1 for n in numbers],
                "c1": [7] * len(numbers),
            }
        assert duck.values(pa.table({"x": ["a", "b"]}), ("\"x\" || '!'",)).to_pydict() == {"c0": ["a!", "b!"]}


def test_an_expression_that_fails_for_some_rows_works_for_the_next() -> None:
    with Duck(threads=1) as duck:
        for _ in range(2):
            with pytest.raises(DuckError, match="Conversion"):
                duck.values(pa.table({"x": ["7", "seven"]}), ('CAST("x" AS BIGINT)',))
            assert duck.values(pa.table({"x": ["7"]}), ('CAST("x" AS BIGINT)',)).to_pydict() == {"c0": [7]}
        with pytest.raises(DuckError, match="nothing"):
            duck.values(pa.table({"x": ["7"]}), ('"nothing"',))


def test_of_many_statements_the_last_used_stay_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynq_cli.query.duck.MOST_STANDING", 2)
    with Duck(threads=1) as duck:
        for k in (0, 1, 2, 0, 3, 0):
            assert duck.values(pa.table({"x": [1]}), (f'"x" + {k}',)).to_pydict() == {"c0": [1 + k]}
        assert len(duck.rows("FROM duckdb_prepared_statements()")) == 2
