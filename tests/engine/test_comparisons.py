"""Comparisons of codes are comparisons of their values: every type, with and without an offset, NULL included."""

from __future__ import annotations

import operator
from decimal import Decimal
from fractions import Fraction
from itertools import product

import duckdb
import pyarrow as pa
import pytest

from dynq_cli.engine.codes import arrow_type, encode
from dynq_cli.engine.comparisons import holds
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.engine.views import Views
from dynq_cli.query.normal_form import Comparison, Temporal, Variable
from dynq_cli.spec.types import parse_type
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_history import DOMAINS, LARGE
from tests.every_case import every_case

WITH_OFFSETS = {
    "int64": ["0", "1", "-3", str(2**62), str(-(2**63)), "1e30"],
    "int8": ["0", "2", "-1"],
    "decimal(9,2)": ["0", "0.5", "-1.25", "0.001", "1.00000000000000000000000000000001"],
    "decimal(25,3)": ["0", "0.125", "-99999999999"],
    "date": ["0", "1", "-400"],
    "timestamp": ["0", "86400000000", "-1"],
    "float64": ["0", "0.5"],
    "float32": ["0"],
    "string": ["0"],
    "binary": ["0"],
    "bool": ["0"],
    "time": ["0"],
}

OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "!=": operator.ne}


def _asked(op: str, offset: Decimal, kind: str) -> str:
    """What DuckDB is asked; whole numbers as HUGEINT, so that no sum is out of range."""
    if not offset:
        return f"l {op} r"
    if kind == "date":
        return f"l {op} r + {int(offset)}"
    if kind == "timestamp":
        return f"l {op} r + to_microseconds({int(offset)})"
    if kind.startswith("int"):
        return f"CAST(l AS HUGEINT) {op} CAST(r AS HUGEINT) + CAST({int(offset)} AS HUGEINT)"
    if kind == "float64":
        return f"l {op} r + {offset}::DOUBLE"
    return f"CAST(l AS DECIMAL(38,{max(10, -int(offset.as_tuple().exponent))})) {op} r + ({offset:f})"


@every_case("kind", WITH_OFFSETS)
def test_codes_compare_as_duckdb_compares_values(kind: str) -> None:
    type_ = parse_type(kind)[0]
    family = "int" if type_.is_integer else "float" if type_.is_float else type_.name
    large = [2**63 - 1, -(2**63) + 1, *LARGE.get(kind, [])] if kind == "int64" else LARGE.get(kind, [])
    domain = [None, *DOMAINS[family], *large]
    # The last day of all has no day after it.
    domain = [v for v in domain if str(v) != "9999-12-31"]
    pairs = list(product(domain, repeat=2))
    left, right = (pa.array([p[i] for p in pairs], arrow_type(type_)) for i in (0, 1))
    dictionaries = Dictionaries()
    mine, theirs = (encode(side, type_, dictionaries) for side in (left, right))
    meaning = Evaluator(lambda: dictionaries)
    connection = duckdb.connect(":memory:")
    connection.register("pairs", pa.table({"l": left, "r": right}))
    temporal: Temporal = kind if kind in ("date", "timestamp") else ""  # type: ignore[assignment]
    for op, text in product(("<", "<=", "!="), WITH_OFFSETS[kind]):
        offset = Decimal(text)
        c = Comparison("l", op, "r", offset, temporal)  # type: ignore[arg-type]
        found = holds(c, Variable("l", type_), Variable("r", type_), mine, theirs, meaning)
        asked = f"SELECT coalesce({_asked(op, offset, kind)}, FALSE) FROM pairs"
        wanted = [row[0] for row in connection.execute(asked).fetchall()]
        assert found.tolist() == wanted, f"{kind}: l {op} r + {text}"


def test_two_types_are_compared_by_their_values() -> None:
    dictionaries = Dictionaries()
    whole, exact = parse_type("int64")[0], parse_type("decimal(9,2)")[0]
    mine = encode(pa.array([1, 2, 2, None], pa.int64()), whole, dictionaries)
    theirs = encode(
        pa.array([Decimal("1.5"), Decimal(2), Decimal("1.99"), Decimal(1)], arrow_type(exact)), exact, dictionaries
    )
    c = Comparison("l", "<", "r")
    found = holds(c, Variable("l", whole), Variable("r", exact), mine, theirs, Evaluator(lambda: dictionaries))
    assert found.tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("kind", "offset", "large"),
    [
        ("int64", "1", 2**63 - 1),
        ("int64", "9223372036854775807", 2**62),
        ("int8", "100", 127),
        ("decimal(38,0)", "1", 10**38 - 1),
        ("decimal(38,0)", "99999999999999999999999999999999999999", 10**37),
    ],
)
def test_a_sum_out_of_range_is_beyond_every_value_of_a_row(kind: str, offset: str, large: int) -> None:
    asked = {f"q{n}": pair for n, pair in enumerate(product(OPERATORS, "+-"))}
    rules = [f'  {q}: {{rule: "{q}(x, y) :- R(x, y), x {op} y {sign} {offset}"}}' for q, (op, sign) in asked.items()]
    relations = f'relations: {{R: {{columns: {{x: "{kind}?", y: "{kind}?"}}}}}}'
    planned = plan_spec("\n".join(["version: 1", relations, "queries:", *rules, ""]))
    live = Views(planned.spec, planned.kept)
    pairs = list(product([None, 0, large, -large], repeat=2))
    typed = arrow_type(parse_type(kind)[0])
    live.apply({"R": pa.table({name: pa.array([p[i] for p in pairs], typed) for i, name in enumerate("xy")})})
    for q, (op, sign) in asked.items():
        by = Fraction(sign + offset)
        wanted = {(x, y) for x, y in pairs if x is not None and y is not None and OPERATORS[op](x, y + by)}
        found = {(row["x"], row["y"]) for batch in live.enum(q) for row in batch.to_pylist()}
        assert found == wanted, f"x {op} y {sign} {offset}"


@pytest.mark.parametrize("written", ["x {op} y + 0.25", "y + 0.25 {op} x", "x - 0.1 {op} y", "y {op} x - 0.1"])
def test_floats_of_a_rule_are_added_up_on_the_side_where_they_are_written(written: str) -> None:
    columns = {"R": "x: float64", "S": "y: float64", "T": "x: float64, y: float64"}
    relations = [f"  {name}: {{columns: {{{held}}}}}" for name, held in columns.items()]
    asked = {f"q{n}": pair for n, pair in enumerate(product(("R(x), S(y)", "T(x, y)"), OPERATORS))}
    rules = [f'  {q}: {{rule: "{q}(x, y) :- {atoms}, {written.format(op=op)}"}}' for q, (atoms, op) in asked.items()]
    planned = plan_spec("\n".join(["version: 1", "relations:", *relations, "queries:", *rules, ""]))
    live = Views(planned.spec, planned.kept)
    values = [-0.25, 5e-324, 0.0, 0.1, 0.7, 0.8, 0.7 + 0.1, 0.3, 0.1 + 0.2, 1e16]
    pairs = list(product(values, repeat=2))
    both = pa.table({name: pa.array([p[i] for p in pairs]) for i, name in enumerate("xy")})
    live.apply({"R": pa.table({"x": values}), "S": pa.table({"y": values}), "T": both})
    for q, (_, op) in asked.items():
        left, right = (side.strip() for side in written.split("{op}"))
        wanted = {(x, y) for x, y in pairs if OPERATORS[op](_sum(left, x, y), _sum(right, x, y))}
        found = {(row["x"], row["y"]) for batch in live.enum(q) for row in batch.to_pylist()}
        assert found == wanted, f"{q}: {written.format(op=op)}"


def _sum(written: str, x: float, y: float) -> float:
    value = x if written[0] == "x" else y
    return value + 0.25 if written.endswith("+ 0.25") else value - 0.1 if written.endswith("- 0.1") else value
