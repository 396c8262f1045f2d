"""Models: least squares over a join, from sums that are kept (thesis, chapter 7); numpy fits the rows themselves."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.engine.least_squares import MOST_EXACT, NormalEquations, solve
from dynq_cli.engine.models import Fit, fits, moments
from dynq_cli.engine.views import Views
from dynq_cli.errors import SpecError, UsageError
from dynq_cli.storage.plans import plan_spec
from tests.seeds import seeds

RELATIONS = """\
version: 1
relations:
  E: {columns: {y: int64, x1: int64}}
  F: {columns: {y: int64, x2: int64, x3: int64}}
  G: {columns: {y: int64, x2: int64, x3: int64}}
queries:
  q: {rule: "q(y, x1, x2, x3) :- E(y, x1), F(y, x2, x3), G(y, x2, x3)"}
models:
"""
# Example 4.4 of the thesis.
E = [(1, 1), (1, 2), (1, 3), (2, 4), (2, 8), (2, 9), (3, 2)]
F = [(1, 4, 1), (1, 5, 2), (1, 6, 3), (1, 6, 4), (2, 2, 1), (2, 2, 8), (2, 2, 4), (3, 1, 1), (4, 5, 6)]


def live_of(spec: str) -> Views:
    planned = plan_spec(spec)
    return Views(planned.spec, planned.kept)


def table(names: str, rows: list[tuple[Any, ...]], kind: str = "insert") -> pa.Table:
    columns = dict(zip(names.split(), map(list, zip(*rows, strict=True)), strict=True))
    return pa.table({**columns, "_change_type": [kind] * len(rows)})


def thesis(models: str) -> Views:
    live = live_of(RELATIONS + models)
    live.apply({"E": table("y x1", E), "F": table("y x2 x3", F), "G": table("y x2 x3", F)})
    return live


def one(live: Views, model: str) -> Fit:
    spec = live.spec.model(model)
    assert spec is not None
    (found,) = fits(live, spec)
    return found


def exact(live: Views, model: str) -> list[Fraction]:
    return list(one(live, model).fractions.values())


def test_thesis_example_4_4_has_the_sums_of_all_products() -> None:
    live = thesis("  m: {over: q, label: x3, features: [y, x1, x2]}\n")
    spec = live.spec.model("m")
    assert spec is not None
    (found,) = moments(live, spec)
    order = ["1", "y", "x1", "x2", "x3"]
    sums = [[found.sums.get(_product(a, b), found.sums.get(_product(b, a))) for b in order] for a in order]
    assert sums == [
        [22, 33, 89, 82, 70],
        [33, 57, 156, 102, 111],
        [89, 156, 543, 254, 335],
        [82, 102, 254, 376, 247],
        [70, 111, 335, 247, 334],
    ]
    assert found.rows == 22


def _product(a: str, b: str) -> str:
    return f"{a}^2" if a == b != "1" else "*".join(x for x in (a, b) if x != "1") or "1"


def test_thesis_example_4_4_has_the_coefficients_as_fractions() -> None:
    live = thesis(
        "  m: {over: q, label: x3, features: [x1]}\n"
        "  all: {over: q, label: y, features: [x1, x2, x3]}\n"
        "  square: {over: q, label: x3, features: [x1], degree: 2}\n"
    )
    assert exact(live, "m") == [Fraction(1639, 805), Fraction(228, 805)]
    assert exact(live, "all") == [
        Fraction(93339, 35195),
        Fraction(-547, 35195),
        Fraction(-6572, 21117),
        Fraction(470, 21117),
    ]
    assert exact(live, "square") == [
        Fraction(468386, 314341),
        Fraction(388499, 628682),
        Fraction(-895, 27334),
    ]
    spec = live.spec.model("square")
    assert spec is not None
    (found,) = moments(live, spec)
    powers = ["1", "x1", "x1^2", "x1^3", "x1^4"]
    assert [found.sums[p] for p in powers] == [22, 89, 543, 4067, 33147]
    assert [found.sums[p] for p in ("x3", "x1*x3", "x1^2*x3")] == [70, 335, 2237]


def test_thesis_example_4_16_changes_the_coefficients() -> None:
    live = thesis("  m: {over: q, label: x3, features: [x1]}\n")
    live.apply({"F": table("y x2 x3", [(2, 2, 4)], "delete")})
    live.apply({"E": table("y x1", [(3, 4)])})
    live.apply({"F": table("y x2 x3", [(3, 1, 2)]), "G": table("y x2 x3", [(3, 1, 2)])})
    spec = live.spec.model("m")
    assert spec is not None
    (found,) = moments(live, spec)
    assert (found.sums["x1*x3"], found.sums["x3^2"]) == (267, 295)
    assert exact(live, "m") == [Fraction(1377, 778), Fraction(120, 389)]


def test_a_change_costs_the_same_however_many_rows_join_it() -> None:
    changed = []
    for n in (100, 10_000):
        live = live_of(RELATIONS + "  m: {over: q, label: x3, features: [x1, x2]}\n")
        rows = table("y x2 x3", [(1, i % 50, i) for i in range(n)])
        live.apply({"E": table("y x1", [(1, i) for i in range(n)]), "F": rows, "G": rows})
        for kind in ("insert", "delete", "insert", "delete"):
            live.apply({"E": table("y x1", [(1, -5)], kind)})
        before = live.engine.arena.words[: live.engine.arena.top].copy()
        live.apply({"E": table("y x1", [(1, -5)])})
        changed.append(int((live.engine.arena.words[: len(before)] != before).sum()))
        assert one(live, "m").n == (n + 1) * n
    assert changed[1] <= changed[0] + 10


def test_a_dependent_feature_is_named_and_left_out() -> None:
    live = live_of(
        "version: 1\nrelations: {R: {columns: {a: int64, b: int64, y: int64}}}\n"
        "queries: {q: {sql: 'SELECT a, b, 2 * a + 1 AS c, 7 AS seven, y FROM R'}}\n"
        "models: {m: {over: q, label: y, features: [a, seven, c, b]}}\n"
    )
    live.apply({"R": table("a b y", [(1, 5, 3), (2, 3, 4), (3, 9, 9), (4, 1, 2)])})
    found = one(live, "m")
    assert found.dependent == ("seven", "c")
    assert found.coefficients["c"] == found.coefficients["seven"] == 0
    assert found.sse == pytest.approx(_lstsq([[1, 5], [2, 3], [3, 9], [4, 1]], [3, 4, 9, 2])[1])


def test_no_rows_have_no_coefficients_and_one_row_its_label() -> None:
    live = thesis("  m: {over: q, label: x3, features: [x1]}\n")
    live.apply({"E": table("y x1", E, "delete")})
    empty = one(live, "m")
    assert (empty.n, empty.coefficients, empty.r2) == (0, {"1": None, "x1": None}, None)
    live.apply({"E": table("y x1", [(3, 2)])})
    single = one(live, "m")
    assert (single.n, single.coefficients, single.sse, single.dependent) == (1, {"1": 1.0, "x1": 0.0}, 0.0, ("x1",))


def test_ridge_does_not_penalise_the_constant() -> None:
    live = thesis("  m: {over: q, label: x3, features: [x1], ridge: 2.5}\n")
    rows = _joined()
    x, y = np.array([r[1] for r in rows], float), np.array([r[3] for r in rows], float)
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (((x - x.mean()) ** 2).sum() + 2.5)
    found = one(live, "m").coefficients
    assert found["x1"] == pytest.approx(slope, rel=1e-12)
    assert found["1"] == pytest.approx(y.mean() - slope * x.mean(), rel=1e-12)


def _joined() -> list[tuple[int, ...]]:
    return [(y, a, b, c) for y, a in E for z, b, c in F if y == z]


def _lstsq(rows: list[Any], labels: list[Any]) -> tuple[Any, float]:
    x = np.column_stack([np.ones(len(rows)), np.array(rows, float)])
    found = np.linalg.lstsq(x, np.array(labels, float), rcond=None)[0]
    return found, float(((x @ found - np.array(labels, float)) ** 2).sum())


def test_values_of_ten_digits_are_multiplied_exactly() -> None:
    live = live_of(
        "version: 1\nrelations: {R: {columns: {a: int64, y: 'decimal(15,2)'}}}\n"
        "queries: {q: {sql: 'SELECT a, y FROM R'}}\nmodels: {m: {over: q, label: y, features: [a]}}\n"
    )
    base = 10**10
    rows = [(base + i, Decimal(3 * i) / 100) for i in range(5)]
    prices = pa.array([y for _, y in rows], pa.decimal128(15, 2))
    live.apply({"R": pa.table({"a": [a for a, _ in rows], "y": prices})})
    assert one(live, "m").fractions == {"1": Fraction(-3 * base, 100), "a": Fraction(3, 100)}
    assert one(live, "m").sse == 0


FORMS = {
    "join": "sql: 'SELECT R.g, R.a, S.b, S.f, R.y FROM R, S WHERE R.k = S.k'",
    "set": "rule: 'q(g, a, b, f, y) :- R(k, g, a, y), S(k, b, f)'",
    "all variables": "rule: 'q(k, g, a, b, f, y) :- R(k, g, a, y), S(k, b, f)'",
    "union": "sql: 'SELECT R.g, R.a, S.b, S.f, R.y FROM R, S WHERE R.k = S.k "
    "UNION ALL SELECT g, a, a AS b, CAST(y AS DOUBLE) AS f, y FROM R'",
    "groups": "sql: 'SELECT R.g, max(R.a) AS a, sum(S.b) AS b, min(S.f) AS f, R.y FROM R, S "
    "WHERE R.k = S.k GROUP BY R.g, R.y'",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", seeds(4))
def test_random_joins_with_deletes_are_fitted_as_by_numpy(form: str, seed: int) -> None:
    chance = Random(f"{form} {seed}")
    features = chance.choice([["a"], ["a", "b"], ["a", "b", "f"], ["f", "a"]])
    degree, per = chance.choice([1, 1, 2]), chance.choice(["", "", "per: [g], "])
    live = live_of(
        "version: 1\nrelations:\n"
        "  R: {columns: {k: int64, g: 'string?', a: 'int64?', y: 'decimal(9,2)'}}\n"
        "  S: {columns: {k: int64, b: 'decimal(7,3)?', f: float64}}\n"
        f"queries: {{q: {{{FORMS[form]}}}}}\n"
        f"models: {{m: {{over: q, label: y, features: {features}, {per}degree: {degree}}}}}\n"
    )
    spec = live.spec.model("m")
    assert spec is not None
    there: dict[str, list[tuple[Any, ...]]] = {"R": [], "S": []}
    for step in range(6):
        for name in ("R", "S"):
            gone = [
                there[name].pop(chance.randrange(len(there[name]))) for _ in range(min(len(there[name]), step and 4))
            ]
            come = [_random_row(chance, name) for _ in range(12)]
            there[name] += come
            live.apply({name: _changes(name, come, "insert")})
            if gone:
                live.apply({name: _changes(name, gone, "delete")})
        live._check()
        _compare_with_numpy(live, spec, features, degree)


def _random_row(chance: Random, name: str) -> tuple[Any, ...]:
    k = chance.randrange(3)
    if name == "R":
        a = None if chance.random() < 0.1 else chance.randint(-9, 9)
        return (k, chance.choice(["p", "q", None]), a, Decimal(chance.randint(-999, 999)) / 100)
    b = None if chance.random() < 0.1 else Decimal(chance.randint(-9999, 9999)) / 1000
    return (k, b, chance.uniform(-3, 3))


def _changes(name: str, rows: list[tuple[Any, ...]], kind: str) -> pa.Table:
    names = {"R": ["k", "g", "a", "y"], "S": ["k", "b", "f"]}[name]
    kinds = {"g": pa.string(), "y": pa.decimal128(9, 2), "b": pa.decimal128(7, 3), "f": pa.float64()}
    columns = {n: pa.array([r[i] for r in rows], kinds.get(n, pa.int64())) for i, n in enumerate(names)}
    return pa.table({**columns, "_change_type": [kind] * len(rows)})


def _compare_with_numpy(live: Views, spec: Any, features: list[str], degree: int) -> None:
    rows = [row for batch in live.enum("q") for row in batch.to_pylist()]
    found = {tuple(fit.group.values()): fit for fit in fits(live, spec)}
    groups = {(row["g"],) if spec.per else () for row in rows} | (set() if spec.per else {()})
    assert set(found) == groups
    for group, fit in found.items():
        these = [r for r in rows if not group or (r["g"],) == group]
        these = [r for r in these for _ in range(r.get("_count", 1))]
        these = [r for r in these if all(r[c] is not None for c in [*features, "y"])]
        assert fit.n == len(these)
        if not these:
            continue
        x = np.array([[float(r[c]) for c in features] for r in these])
        y = np.array([float(r["y"]) for r in these])
        terms = list(fit.coefficients)
        values = {name: np.prod([_power(x, features, part) for part in name.split("*")], axis=0) for name in terms}
        design = np.column_stack([values[name] for name in terms])
        best, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
        mine = design @ np.array([fit.coefficients[name] for name in terms], float)
        scale = max(1.0, float((y**2).sum()))
        assert abs(fit.sse - ((y - mine) ** 2).sum()) <= 1e-9 * scale
        assert abs(((y - mine) ** 2).sum() - ((y - design @ best) ** 2).sum()) <= 1e-9 * scale
        if rank == len(terms) and np.linalg.cond(design) < 1e4:
            assert fit.dependent == ()
            assert np.allclose(
                np.array(list(fit.coefficients.values()), float), best, rtol=1e-9, atol=1e-9 * np.abs(best).max()
            )


def _power(x: Any, features: list[str], part: str) -> Any:
    name, _, power = part.partition("^")
    return np.ones(len(x)) if name == "1" else x[:, features.index(name)] ** int(power or 1)


def test_more_terms_than_are_solved_exactly_agree_with_numpy() -> None:
    chance = np.random.default_rng(3)
    x = np.column_stack([np.ones(300), chance.normal(size=(300, MOST_EXACT + 8)) * 10 + 3])
    x[:, 9] = x[:, 2] - 2 * x[:, 4]
    y = x @ chance.normal(size=x.shape[1]) + chance.normal(size=300)
    gram = [[Fraction(float(v)) for v in row] for row in x.T @ x]
    right = [Fraction(float(v)) for v in x.T @ y]
    found = solve(NormalEquations(gram, right, Fraction(float(y @ y)), is_rounded=True))
    assert found.dependent == (9,)
    kept = [j for j in range(x.shape[1]) if j != 9]
    best = np.linalg.lstsq(x[:, kept], y, rcond=None)[0]
    assert np.allclose([float(found.coefficients[j]) for j in kept], best, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("{over: p, label: x3, features: [x1]}", "there is no query `p`"),
        ("{over: q, label: x9, features: [x1]}", "query q has no column x9"),
        ("{over: q, label: x3, features: [x1, x1]}", "`x1` is twice"),
        ("{over: q, label: x3, features: [x3]}", "`x3` is twice"),
        ("{over: q, label: x3, features: [x1], degree: 9}", "`degree` of model `m` cannot be `9`"),
        ("{over: q, label: x3, features: [x1], ridge: -1}", "`ridge` of model `m` cannot be `-1`"),
        ("{over: q, label: x3}", "has no `features`"),
        ("{over: q, target: x3, features: [x1]}", "did you mean `label`?"),
        ("{over: t, label: x3, features: [s]}", "column s is string, and a model is about numbers"),
    ],
)
def test_models_that_make_no_sense_are_spec_errors(model: str, said: str) -> None:
    spec = RELATIONS.replace("models:", "  t: {sql: 'SELECT x3, CAST(x2 AS VARCHAR) AS s FROM F'}\nmodels:")
    with pytest.raises(SpecError) as wrong:
        plan_spec(f"{spec}  m: {model}\n")
    assert said in str(wrong.value)
    assert "spec.yaml:" in str(wrong.value)


def test_a_state_keeps_models_over_restarts_and_versions(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(RELATIONS + "  m: {over: q, label: x3, features: [x1]}\n")
    state = tmp_path / "state"
    with dynq_cli.create(tmp_path / "spec.yaml", state) as view:
        view.apply({"E": table("y x1", E), "F": table("y x2 x3", F), "G": table("y x2 x3", F)})
        view.apply(table("y x1", [(3, 4)]), "E")
    with dynq_cli.open(state) as view:
        assert view.queries == ["q"]
        assert view.fits(at=1)[0].fractions["x1"] == Fraction(228, 805)
        assert view.fits("m")[0].n == 23
        assert view.fits(at=0)[0].n == 0
        assert view.moments()[0].sums["x1"] == 93
        with pytest.raises(UsageError, match="no model z"):
            view.fits("z")


def test_negative_wide_decimals_keep_their_digits_beside_doubles() -> None:
    live = live_of(
        "version: 1\nrelations: {R: {columns: {k: int64, f: float64}}, S: {columns: {k: int64, w: 'decimal(25,3)'}}}\n"
        "queries: {q: {sql: 'SELECT sum(R.f * S.w) AS total FROM R, S WHERE R.k = S.k'}}\n"
    )
    wide = pa.array([Decimal("-0.377"), Decimal("-12345678901234567.125")], pa.decimal128(25, 3))
    live.apply({"R": pa.table({"k": [1, 2], "f": [1.0, 0.0]}), "S": pa.table({"k": [1, 2], "w": wide})})
    assert [row["total"] for batch in live.enum("q") for row in batch.to_pylist()] == [-0.377]
