"""Formulas give what a model checker gives that tries all values, after every commit."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from dynq_cli.engine.views import Views
from dynq_cli.errors import DynqError
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_formulas import ARITY, COLUMNS, NULLABLE, Drawn, drawn, satisfied, spec_text
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


def _run(seed: int, formulas: int = 5, commits: int = 6) -> None:
    chance = Random(f"formulas {seed}")
    drawn_: dict[str, Drawn] = {}
    while len(drawn_) < formulas:
        one = drawn(chance)
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


@pytest.mark.parametrize("seed", seeds(60))
def test_results_are_those_of_a_model_checker_after_every_commit(seed: int) -> None:
    _run(seed)
