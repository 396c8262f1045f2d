"""Conditions that are answered without DuckDB are what DuckDB says they are."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine.codes import encode
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.predicates import code_predicate, text_predicate
from dynq_cli.query.scalar import conditions_hold
from dynq_cli.spec.types import Type, decimal
from dynq_cli.values.convert import arrow_type

OPERATORS = ["=", "<>", "<", "<=", ">", ">="]
TYPES = {
    "i": Type("int32"),
    "j": Type("int64"),
    "f": Type("float64"),
    "g": Type("float64"),
    "d": Type("date"),
    "e": Type("date"),
    "s": Type("string"),
    't"': Type("string"),
    "m": decimal(9, 2),
    "n": decimal(9, 2),
    "w": decimal(30, 2),
    "b": Type("bool"),
}


def _rows(chance: random.Random) -> pa.Table:
    def value(kind: Type) -> object:
        if chance.random() < 0.2:
            return None
        number = chance.randint(-3, 3)
        if kind.is_float:
            return chance.choice([0.0, -0.0, float("nan"), float("inf"), -1.5, 2.0])
        return {"string": "ab"[: number % 3], "bool": number > 0}.get(kind.name, number)

    def column(kind: Type) -> pa.Array:
        values = [value(kind) for _ in range(60)]
        made = pa.array(values, pa.int32()) if kind.name == "date" else pa.array(values, arrow_type(kind))
        return made.cast(arrow_type(kind))

    return pa.table({name: column(kind) for name, kind in TYPES.items()})


def _conditions() -> list[str]:
    names = ['"' + name.replace('"', '""') + '"' for name in TYPES]
    found = [f"{name} IS{word} NULL" for name in names for word in ("", " NOT")]
    found += [f"{left} {op} {right}" for left in names[:-2] for right in names[:-2] for op in OPERATORS]
    found += [f'"{name}" {op} {number}' for name in "ijm" for op in OPERATORS for number in (-2, 0, 3)]
    found += [f'"{name}" BETWEEN {low} AND {high}' for name in "ijm" for low in (-1, 2) for high in (0, 3)]
    return found


def test_what_codes_tell_is_what_duckdb_says() -> None:
    chance, dictionaries = random.Random(1), Dictionaries()
    rows, columns = _rows(chance), list(TYPES.items())
    codes = np.stack([encode(rows[name], kind, dictionaries) for name, kind in columns], axis=1)
    told = {c: predicate for c in _conditions() if (predicate := code_predicate(c, columns)) is not None}
    assert len(told) > 150 and '"d" < "e"' in told and '"i" <= "j"' in told and '"s" <> "t"""' in told
    assert not {'"s" < "t"""', '"m" = 3', '"w" < "w"', '"i" = "f"'} & set(told)
    for condition, said in zip(told, conditions_hold(rows, list(told)), strict=True):
        assert (told[condition].holds(codes) == said).all(), condition


@pytest.mark.parametrize("condition", ['"x" IS NULL', '"i" = "x"', '"x" = 1', '"i" = 1 OR "j" = 2', '"i" = 1.0'])
def test_other_conditions_are_not_told_by_codes(condition: str) -> None:
    assert code_predicate(condition, list(TYPES.items())) is None


@pytest.mark.parametrize("seed", range(3))
def test_texts_are_like_patterns_as_duckdb_says(seed: int) -> None:
    chance = random.Random(seed)
    letters = ["a", "b", "ä", "", "'"]
    texts = [None, ""] + ["".join(chance.choices(letters, k=chance.randrange(9))) for _ in range(300)]
    rows = pa.table({"t": pa.array(texts, pa.string())})
    conditions: dict[str, None] = {}
    for _ in range(60):
        said = "".join(chance.choices(["a", "b", "ä", "''", "%", "%"], k=chance.randrange(1, 7)))
        conditions[f""""t"{chance.choice(["", " NOT"])} LIKE '{said}'"""] = None
    patterns = {c: pattern for c in conditions if (pattern := text_predicate(c)) is not None}
    assert len(patterns) > 20
    for part in (rows, rows.slice(7, 100), rows.filter(rows["t"].is_valid()), rows.slice(0, 0)):
        for condition, wanted in zip(patterns, conditions_hold(part, list(patterns)), strict=True):
            assert (patterns[condition].holds(part["t"].combine_chunks()) == wanted).all(), condition


@pytest.mark.parametrize("pattern", ["a_%", "a\\%", "a", "%", "%%"])
def test_other_patterns_are_left_to_duckdb(pattern: str) -> None:
    assert text_predicate(f"""\"t\" LIKE '{pattern}'""") is None
    assert text_predicate("""\"t\" LIKE 'a%' ESCAPE '!'""") is None
    assert text_predicate("""\"t\" ILIKE 'a%'""") is None
