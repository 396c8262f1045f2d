"""A query may read others of the spec by name: it gives what DuckDB gives, and what is kept is kept once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.engine.views import Views
from dynq_cli.errors import SpecError
from dynq_cli.session.verify import verify
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_named_queries import named_queries_case
from tests.engine.random_runs import described, failure, minimise
from tests.seeds import seeds

SEEDS = seeds(25)
SPEC = """
version: 1
relations:
  sales: {columns: {shop: string, item: string, total: int64}}
queries:
  best: {sql: "SELECT shop, total FROM per_shop WHERE total > 5"}
  per_shop: {sql: "SELECT shop, SUM(total) AS total, COUNT(*) AS n FROM sales GROUP BY shop"}
  pairs: {sql: "SELECT a.shop, b.shop AS other FROM per_shop AS a, per_shop AS b WHERE a.n = b.n"}
"""
SALES = pa.table({"shop": ["x", "x", "y"], "item": ["p", "q", "p"], "total": [4, 3, 5]})


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = named_queries_case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


def test_groups_that_several_queries_read_are_kept_once() -> None:
    planned = plan_spec(SPEC)
    assert len([r for r in Views(planned.spec, planned.kept).layout.derived if r.startswith("per_shop/")]) == 1


def test_a_state_keeps_alters_and_verifies_queries_over_queries(tmp_path: Path) -> None:
    spec, state = tmp_path / "spec.yaml", str(tmp_path / "state")
    spec.write_text(SPEC)
    with dynq_cli.create(str(spec), state) as view:
        view.apply({"sales": SALES})
        assert [row for batch in view.enum("best") for row in batch.to_pylist()] == [
            {"shop": "x", "total": 7, "_count": 1}
        ]
    spec.write_text(SPEC.replace("SUM(total)", "MAX(total)"))
    dynq_cli.alter(state, str(spec))
    with dynq_cli.open(state) as view:
        assert view.count("best") == 0
        view.apply({"sales": pa.table({"shop": ["z"], "item": ["p"], "total": [9]})})
        assert view.count("best") == 1
    assert all(verdict.agrees for verdict in verify(Path(state)))


def test_circles_are_refused_at_the_names() -> None:
    text = (
        SPEC
        + """  ring: {sql: "SELECT shop FROM chain"}
  chain: {sql: "SELECT shop FROM ring WHERE shop > 'a'"}
  own: {sql: "SELECT shop FROM own"}
"""
    )
    with pytest.raises(SpecError) as found:
        plan_spec(text)
    said = str(found.value)
    assert "spec.yaml:10:34: queries read each other in a circle: ring reads chain reads ring" in said, said
    assert "spec.yaml:11:32: queries read each other in a circle: own reads own" in said, said
