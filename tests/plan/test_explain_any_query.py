"""Every query that can be kept can be explained: random ones of each kind, as text and as JSON."""

from __future__ import annotations

import json
from functools import partial

import pytest

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.explain import explain_json, explain_text
from dynq_cli.query.compile import compile_query
from dynq_cli.spec.model import QuerySpec, Text
from tests.engine.random_aggregates import random_aggregates, random_sums
from tests.engine.random_correlated import correlated_case
from tests.engine.random_queries import random_case
from tests.engine.random_together import together_case
from tests.seeds import seeds

DRAW = {
    "joins": partial(random_case, queries=4, batches=1),
    "aggregates": partial(random_aggregates, queries=4, batches=1),
    "sums": partial(random_sums, queries=4, batches=1),
    "subqueries": partial(correlated_case, queries=4, batches=1),
    **{form: partial(together_case, form=form, queries=4, batches=1) for form in ("union", "unequal")},
    # These are kept by subtraction, where feeds name their variables in other ways than groups do.
    "subtracted sums": partial(together_case, form="sums", queries=4, batches=1),
}


@pytest.mark.parametrize("kind", DRAW)
@pytest.mark.parametrize("seed", seeds(4))
def test_a_random_query_is_explained(kind: str, seed: int) -> None:
    case = DRAW[kind](seed)
    for drawn in case.queries:
        written = QuerySpec(drawn.name, drawn.language, (Text(drawn.text, "spec.yaml", ((0, 1, 1),)),), drawn.semantics)
        plan = plan_query(compile_query(case.spec, written), case.spec)
        assert explain_text(plan, case.spec).startswith(f"{drawn.name}: ")
        assert json.loads(json.dumps(explain_json(plan, case.spec)))["guarantees"]["update"]
