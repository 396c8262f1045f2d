"""Golden files: what `dynq explain` says of every spec under specs/.

Reading them teaches the theory. `DYNQ_UPDATE_GOLDEN=1` writes them anew; read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

from dynq_cli.plan.plan import Plan
from dynq_cli.session.explain import explain_spec
from tests.every_case import every_case

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs").rglob("*.yaml"))
GOLDEN = Path(__file__).parent / "explain"


def _golden_of(spec: Path) -> Path:
    return GOLDEN / spec.relative_to(ROOT / "specs").with_suffix(".txt")


@every_case("spec", SPECS, ids=lambda p: str(p.relative_to(ROOT / "specs")))
def test_explain_says_what_the_golden_file_says(spec: Path) -> None:
    said = explain_spec(spec).text()
    golden = _golden_of(spec)
    if os.environ.get("DYNQ_UPDATE_GOLDEN"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(said, encoding="utf-8")
    assert said == golden.read_text(encoding="utf-8")


def test_every_golden_file_has_its_spec() -> None:
    assert sorted(GOLDEN.rglob("*.txt")) == sorted(_golden_of(s) for s in SPECS)


@every_case("spec", SPECS, ids=lambda p: str(p.relative_to(ROOT / "specs")))
def test_every_tree_satisfies_every_condition(spec: Path) -> None:
    todo = list(explain_spec(spec).plans.values())
    while todo:
        plan = todo.pop()
        if not isinstance(plan, Plan):
            todo += plan.members
            continue
        todo += [view for _, view in plan.views]
        if plan.strategy == "ivm-epsilon":
            continue
        atoms = tuple(a.variables for a in plan.query.atoms)
        tested = frozenset(i for i, a in enumerate(plan.query.atoms) if a.mode != "join")
        plan.tree._check(atoms, plan.query.comparisons, frozenset(plan.head), tested)
        if plan.classification.q_hierarchical and not plan.order:
            assert plan.tree.is_simple
        if plan.tree.is_simple and plan.strategy == "view-tree":
            assert plan.classification.q_hierarchical
