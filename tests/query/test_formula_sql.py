"""What `verify` recomputes formulas with has the rows of a model checker, and nothing of dynq's own evaluation."""

from __future__ import annotations

import ast
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.query.formula.as_sql import as_sql
from dynq_cli.query.formula.parse import parse
from dynq_cli.session.verify import verify
from dynq_cli.spec.load import parse_spec
from tests.engine.random_formulas import ARITY, COLUMNS, NULLABLE, drawn, drawn_unguarded, satisfied, spec_text
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(25))
def test_a_formula_as_sql_has_the_rows_of_a_model_checker(seed: int) -> None:
    chance = Random(f"sql {seed}")
    connection = duckdb.connect()
    rows: dict[str, list[tuple[int | None, ...]]] = {}
    for name, arity in ARITY.items():
        rows[name] = [
            tuple(
                None if (name, i) in NULLABLE and chance.random() < 0.2 else chance.randrange(4) for i in range(arity)
            )
            for _ in range(chance.choice([0, 2, 5, 9]))
        ]
        connection.execute(f"CREATE TABLE {name} ({', '.join(f'{COLUMNS[i]} BIGINT' for i in range(arity))})")
        for row in rows[name]:
            connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * arity)})", row)
    spec = parse_spec(spec_text({"none": "none() := exists x: S(x)"}), "spec.yaml")
    for draw in (drawn, drawn, drawn_unguarded):
        one = draw(chance)
        found = connection.execute(as_sql(parse(one.text), spec)).fetchall()
        wanted = satisfied(one, rows)
        assert len(found) == len(wanted), (one.text, rows)
        assert not one.head or set(found) == wanted, (one.text, rows)


def test_constants_and_offsets_of_every_type_are_understood_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = [
        "q(x) := exists y, s, d, p: R(x, y, s, d, p) and y < x - 1 and not s = 'it''s'",
        "q(x) := exists y: R(x, y, _, _, _) and not exists z: R(z, y, _, _, _) and z > x + 2",
        "q(d) := exists p: R(_, _, 'b', d, p) and p >= 1.5 and d < date '2024-03-01'",
        "q(x) := exists d, e, y: R(x, _, _, d, _) and R(y, _, _, e, _) and e <= d + interval '2d' and y != x",
        "q() := forall p: (exists x: R(x, _, _, _, p)) -> p > -1 and p != 2.25",
    ]
    listed = "".join(f'  q{i}: {{formula: "{text.replace("q(", f"q{i}(", 1)}"}}\n' for i, text in enumerate(asked))
    columns = 'a: int64, b: "int32?", s: "string?", d: date, p: "decimal(9,2)?"'
    Path("spec.yaml").write_text(f"version: 1\nrelations:\n  R: {{columns: {{{columns}}}}}\nqueries:\n{listed}")
    with dynq_cli.create("spec.yaml") as state:
        rows = {
            "a": [1, 2, 5, 9, 9],
            "b": [0, 0, 2, None, 7],
            "s": ["b", "it's", "b", None, "b"],
            "d": ["2024-01-01", "2024-01-02", "2024-02-05", "2024-02-06", "2024-04-01"],
            "p": ["1.5", "2.25", "7", None, "0"],
        }
        types = {"b": pa.int32(), "d": pa.date32(), "p": pa.decimal128(9, 2)}
        state.apply(pa.table({name: pa.array(v).cast(types[name]) if name in types else v for name, v in rows.items()}))
    verdicts = list(verify())
    assert len(verdicts) == len(asked) and all(v.agrees for v in verdicts)
    assert [v.recomputed.rows for v in verdicts] == [2, 4, 2, 4, 0]


def test_the_sql_of_a_formula_is_written_without_what_evaluates_it() -> None:
    path = Path(dynq_cli.__file__).parent / "query" / "formula" / "as_sql.py"
    tree = ast.parse(path.read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    own = {m for m in modules if m is not None and m.startswith("dynq_cli")}
    assert own == {
        "dynq_cli.query.formula",
        "dynq_cli.query.rule.syntax",
        "dynq_cli.query.scalar",
        "dynq_cli.spec.model",
    }
