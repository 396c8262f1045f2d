"""Formulas give what a model checker gives that tries all values, after every commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.engine.views import Views
from dynq_cli.errors import DynqError
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_formulas import (
    ARITY,
    COLUMNS,
    NULLABLE,
    Drawn,
    drawn,
    drawn_guarded,
    drawn_unguarded,
    satisfied,
    spec_text,
)
from tests.seeds import seeds

VALUES = 4


def _commit(chance: Random, rows: dict[str, list[tuple[int | None, ...]]]) -> dict[str, pa.Table]:
    """Some inserts and deletes; `rows` follows."""
    tables = {}
    for name in chance.sample(list(ARITY), chance.randint(1, len(ARITY))):
        kinds, values = [], []
        for _ in range(chance.choice([1, 2, 4])):
            if rows[name] and chance.random() < 0.45:
                gone = rows[name].pop(chance.randrange(len(rows[name])))
                kinds.append("delete")
                values.append(gone)
            else:
                made = tuple(
                    None if (name, i) in NULLABLE and chance.random() < 0.25 else chance.randrange(VALUES)
                    for i in range(ARITY[name])
                )
                rows[name].append(made)
                kinds.append("insert")
                values.append(made)
        columns = {COLUMNS[i]: pa.array([v[i] for v in values], pa.int64()) for i in range(ARITY[name])}
        tables[name] = pa.table({"_change_type": kinds, **columns})
    return tables


def _rows(live: Views, query: str) -> list[tuple[int, ...]]:
    return [tuple(row.values()) for batch in live.enum(query) for row in batch.to_pylist()]


def _run(seed: int, draw: Callable[[Random], Drawn] = drawn, formulas: int = 5, commits: int = 6) -> None:
    chance = Random(f"formulas {seed}")
    drawn_: dict[str, Drawn] = {}
    while len(drawn_) < formulas:
        one = draw(chance)
        name = f"q{len(drawn_)}"
        try:
            plan_spec(spec_text({name: one.text.replace("q(", f"{name}(", 1)}))
        except DynqError as error:
            # What always or never holds is refused, and so is what has too many alternatives.
            assert any(word in str(error) for word in ("holds whatever", "never", "alternatives", "cancels")), (
                one,
                error,
            )
            continue
        drawn_[name] = one
    planned = plan_spec(spec_text({name: one.text for name, one in drawn_.items()}))
    live = Views(planned.spec, planned.kept)
    rows: dict[str, list[tuple[int | None, ...]]] = {name: [] for name in ARITY}
    for commit in range(commits):
        if commit:
            live.apply(_commit(chance, rows))
        for name, one in drawn_.items():
            found = _rows(live, name)
            shown = f"seed {seed}, commit {commit}: {one.text}\n{rows}"
            assert len(found) == len(set(found)), shown
            assert set(found) == satisfied(one, rows), shown
            assert live.count(name) == (len(found), len(found)), shown
    live._check()


@pytest.mark.parametrize("seed", seeds(60, 196))
def test_results_are_those_of_a_model_checker_after_every_commit(seed: int) -> None:
    _run(seed)


@pytest.mark.parametrize("seed", seeds(8, 16))
def test_values_that_no_atom_ties_are_counted_as_all_less_the_near_ones(seed: int) -> None:
    _run(seed, drawn_unguarded)


@pytest.mark.parametrize("seed", seeds(2))
def test_near_values_of_pairs_are_counted_for_the_rows_of_an_atom_beside_the_quantifier(seed: int) -> None:
    _run(seed, drawn_guarded, formulas=3)


def test_not_unequal_is_equal() -> None:
    texts = {
        "denied": "denied(x, y) := E(y, _) and not (y != x and S(x))",
        "equal": "equal(x, y) := E(y, _) and (y = x or not S(x))",
    }
    planned = plan_spec(spec_text(texts))
    live = Views(planned.spec, planned.kept)
    live.apply({"E": pa.table({"a": [0, 2], "b": [5, 5]}), "S": pa.table({"a": [0, 4]})})
    assert sorted(_rows(live, "denied")) == sorted(_rows(live, "equal")) == [(0, 0), (2, 0), (2, 2)]


def _over(chance: Random, relations: set[str]) -> Drawn:
    """A formula over some relations alone."""
    while True:
        one = chance.choice([drawn, drawn_unguarded])(chance)
        if one.relations <= relations:
            return one


@pytest.mark.parametrize("seed", seeds(1))
def test_every_structure_of_up_to_three_elements_has_the_result_of_the_model_checker(seed: int) -> None:
    chance = Random(f"structures {seed}")
    several = {f"q{i}": _over(chance, {"E", "S"}) for i in range(2)}
    planned = plan_spec(spec_text({name: one.text for name, one in several.items()}))
    live = Views(planned.spec, planned.kept)
    facts: list[tuple[str, tuple[int | None, ...]]] = [("E", (a, b)) for a in range(3) for b in range(3)]
    facts += [("S", (a,)) for a in range(3)]
    chance.shuffle(facts)
    rows: dict[str, list[tuple[int | None, ...]]] = {name: [] for name in ARITY}
    for step in range(1, 1 << len(facts)):
        # A Gray code: each structure differs from the one before by one row.
        name, row = facts[(step & -step).bit_length() - 1]
        kind = "delete" if row in rows[name] else "insert"
        (rows[name].remove if kind == "delete" else rows[name].append)(row)
        columns = {COLUMNS[i]: pa.array([value], pa.int64()) for i, value in enumerate(row)}
        live.apply({name: pa.table({"_change_type": [kind], **columns})})
        for query, one in several.items():
            shown = f"seed {seed}, step {step}: {one.text}\n{rows}"
            assert live.count(query)[0] == len(satisfied(one, rows)), shown
            if step % 16 == 0:
                assert set(_rows(live, query)) == satisfied(one, rows), shown
    live._check()


@pytest.mark.parametrize("seed", seeds(3))
def test_differences_old_versions_and_restarts_of_random_formulas(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chance = Random(f"formula states {seed}")
    several = {f"q{i}": chance.choice([drawn, drawn_unguarded])(chance) for i in range(3)}
    Path("spec.yaml").write_text(spec_text({name: one.text for name, one in several.items()}))
    rows: dict[str, list[tuple[int | None, ...]]] = {name: [] for name in ARITY}
    before = [{name: satisfied(one, rows) for name, one in several.items()}]
    dynq_cli.create("spec.yaml").close()
    for version in range(1, 6):
        with dynq_cli.open() as view:
            view.apply(_commit(chance, rows))
            before.append({name: satisfied(one, rows) for name, one in several.items()})
            since = chance.randrange(version)
            for name, one in several.items():
                shown = f"seed {seed}, version {version} since {since}: {one.text}\n{rows}"
                assert {tuple(r.values()) for b in view.enum(name) for r in b.to_pylist()} == before[-1][name], shown
                changes = [tuple(r.values()) for b in view.diff(name, since=since).batches for r in b.to_pylist()]
                came, went = ({c[:-1] for c in changes if c[-1] == kind} for kind in ("insert", "delete"))
                old, new = before[since][name], before[-1][name]
                assert (came, went) == (new - old, old - new), shown
                assert view.counts(name, at=since).rows == len(old), shown


PAIRS = (
    "q(x, y) := S(x) and T(y) and not E(x, y)",
    "q(x, y) := S(x) and T(y) and x != y and not E(x, y)",
    "q(x, y) := S(x) and S(y) and not E(x, y) and not F(y, x)",
    "q(x, y) := (exists z: E(x, z)) and T(y) and not exists z: E(x, z) and E(z, y)",
    "q(x, y, z) := S(x) and E(y, z) and not E(x, y) and not R(x, y, z)",
    "q(x, y, z) := E(x, y) and E(y, z) and not E(x, z)",
    "q(x, y, z) := S(x) and S(y) and T(z) and not E(x, y) and not E(y, z) and not E(x, z)",
    "q(x, y, u, v) := E(x, y) and F(u, v) and not E(x, u) and not F(y, v)",
)


@pytest.mark.parametrize("formula", PAIRS)
@pytest.mark.parametrize("seed", seeds(1))
def test_pairs_without_an_edge_are_read_from_a_product_and_differ_as_they_should(
    formula: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(spec_text({"q": formula}))
    assert "not the result" in " ".join(dynq_cli.explain_spec("spec.yaml").text().split())
    chance = Random(f"{formula} {seed}")
    rows: dict[str, list[tuple[int | None, ...]]] = {name: [] for name in ARITY}
    with dynq_cli.create("spec.yaml") as view:
        before: set[tuple[int | None, ...]] = set()
        for version in range(1, 8):
            view.apply(_commit(chance, rows))
            now = {tuple(row.values()) for batch in view.enum("q") for row in batch.to_pylist()}
            assert now == _recomputed(formula, rows)
            assert view.counts("q").rows == len(now)
            changes = [
                tuple(row.values()) for batch in view.diff("q", since=version - 1).batches for row in batch.to_pylist()
            ]
            came, went = ({c[:-1] for c in changes if c[-1] == kind} for kind in ("insert", "delete"))
            assert (came, went) == (now - before, before - now)
            assert len(changes) == len(came) + len(went)
            before = now


GUARDED: dict[str, Callable[[set[tuple[int | None, ...]]], set[tuple[int | None, ...]]]] = {
    "q(x, y) := E(x, y) and not exists z: E(y, z) and E(z, x)": lambda e: {
        (x, y) for x, y in e if not any((y, z) in e and (z, x) in e for z in range(VALUES))
    },
    "q(x, y) := E(x, y) and exists[0 mod 2] z: E(x, z) and E(z, y)": lambda e: {
        (x, y) for x, y in e if sum((x, z) in e and (z, y) in e for z in range(VALUES)) % 2 == 0
    },
    "q(x, y) := E(x, y) and exists>=2 z: E(x, z) and E(z, y)": lambda e: {
        (x, y) for x, y in e if sum((x, z) in e and (z, y) in e for z in range(VALUES)) > 1
    },
}


@pytest.mark.parametrize("formula", GUARDED)
def test_what_an_atom_guards_is_kept_for_its_rows_alone(formula: str) -> None:
    planned = plan_spec(spec_text({"q": formula}))
    live = Views(planned.spec, planned.kept)
    chance = Random(formula)
    rows: dict[str, list[tuple[int | None, ...]]] = {name: [] for name in ARITY}
    for _ in range(12):
        live.apply(_commit(chance, rows))
        assert set(_rows(live, "q")) == GUARDED[formula](set(rows["E"]))
    live._check()
    # A hub has pairs of its neighbours in number, of which none is a row.
    many = 400
    star = {"a": [*range(10, 10 + many), *[9] * many], "b": [*[9] * many, *range(10, 10 + many)]}
    live.apply({"E": pa.table({"_change_type": ["insert"] * 2 * many, **star})})
    assert int(live.engine.arena.tables["live"].max()) <= 2 * many + len(rows["E"])


def _recomputed(formula: str, rows: dict[str, list[tuple[int | None, ...]]]) -> set[tuple[int | None, ...]]:
    """The rows of one of `PAIRS`, written again in Python."""
    s, t = ({x for (x,) in rows[name] if x is not None} for name in ("S", "T"))
    e, f = ({(x, y) for x, y in rows[name] if y is not None} for name in ("E", "F"))
    r = set(rows["R"])
    two = {(x, y) for x, z in e for w, y in e if z == w}
    pairs: dict[str, set[tuple[int | None, ...]]] = {
        PAIRS[0]: {(x, y) for x in s for y in t if (x, y) not in e},
        PAIRS[1]: {(x, y) for x in s for y in t if x != y and (x, y) not in e},
        PAIRS[2]: {(x, y) for x in s for y in s if (x, y) not in e and (y, x) not in f},
        PAIRS[3]: {(x, y) for x, _ in e for y in t if (x, y) not in two},
        PAIRS[4]: {(x, y, z) for x in s for y, z in e if (x, y) not in e and (x, y, z) not in r},
        PAIRS[5]: {(x, y, z) for x, y in e for w, z in e if w == y and (x, z) not in e},
        PAIRS[6]: {(x, y, z) for x in s for y in s for z in t if not {(x, y), (y, z), (x, z)} & e},
        PAIRS[7]: {(x, y, u, v) for x, y in e for u, v in f if (x, u) not in e and (y, v) not in f},
    }
    return pairs[formula]
