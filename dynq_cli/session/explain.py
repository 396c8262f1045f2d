"""Explain the queries of a spec: class, plan, and the cost of updates and reads.

>>> from dynq_cli.session.explain import explain_text_of
>>> print(explain_text_of('''
... version: 1
... relations: {R: {columns: {x: int64, y: int64}}, S: {columns: {y: int64}}}
... queries: {q: {rule: "q(x, y) :- R(x, y), S(y)"}}
... ''').splitlines()[0])
q: q-hierarchical (view-tree)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.explain import advice_of, explain_json, explain_text
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.models import model_json, model_text
from dynq_cli.plan.picture import Frame, as_dot, as_mermaid, frame_of
from dynq_cli.plan.plan import AnyPlan
from dynq_cli.plan.require import check_required
from dynq_cli.query.always_empty import never_holding
from dynq_cli.query.compile import compile_file, compile_spec
from dynq_cli.query.normal_form import Query
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.model import DEGREES, HIDDEN, Spec

if TYPE_CHECKING:
    from dynq_cli.query.formula.understood import Understood


@dataclass(frozen=True)
class Explanation:
    """The plans of a spec, as text, JSON, Mermaid or Graphviz; `query` selects one of them."""

    spec: Spec
    plans: dict[str, AnyPlan]

    def _chosen(self, query: str | None) -> list[AnyPlan]:
        if query is None:
            return [plan for name, plan in self.plans.items() if not name.startswith(DEGREES)]
        if query.startswith(HIDDEN) or query not in self.plans:
            named = ", ".join(name for name in self.plans if not name.startswith(HIDDEN))
            raise UsageError(f"no query {query} in the spec; there is {named}")
        return [self.plans[query]]

    def advice(self, query: str) -> tuple[str, ...]:
        """What would make one query cheaper."""
        return advice_of(self.plans[query], self.spec)

    def check_required(self, query: str | None = None) -> None:
        """Raise RejectedError if a plan promises less than the spec requires."""
        check_required(self._chosen(query), self.spec)

    def text(self, query: str | None = None) -> str:
        models = {m.query: model_text(m) for m in self.spec.models}
        return "\n".join(models.get(p.name, "") + self._text(p) for p in self._chosen(query))

    def _text(self, plan: AnyPlan) -> str:
        formula = formula_of(self.spec, plan.name)
        return explain_text(plan, self.spec, () if formula is None else tuple(formula.lines()))

    def json(self, query: str | None = None) -> dict[str, object]:
        """The queries by name; under `models` those that keep the sums of models, with what these are."""
        said = {p.name: explain_json(p, self.spec) | self._formula_json(p.name) for p in self._chosen(query)}
        found: dict[str, object] = {"queries": {n: each for n, each in said.items() if not n.startswith(HIDDEN)}}
        models = {m.name: {**model_json(m), **said[m.query]} for m in self.spec.models if m.query in said}
        return found | ({"models": models} if models else {})

    def _formula_json(self, name: str) -> dict[str, object]:
        formula = formula_of(self.spec, name)
        return {} if formula is None else {"formula": asdict(formula)}

    def mermaid(self, query: str | None = None) -> str:
        return as_mermaid(list(self._frames(query)))

    def dot(self, query: str | None = None) -> str:
        return as_dot(list(self._frames(query)))

    def _frames(self, query: str | None) -> Iterator[Frame]:
        for number, plan in enumerate(self._chosen(query)):
            title = f"{plan.name}: {plan.classification.name}"
            yield frame_of(f"q{number}", title, program_of(plan.query, self.spec))


def formula_of(spec: Spec, name: str) -> Understood | None:
    """What the formula of a query says; None if it is no formula."""
    written = spec.query(name)
    if written is None or written.language != "formula":
        return None
    from dynq_cli.query.formula import explained

    return explained(written.texts[0].value, spec)


def _planned(spec: Spec, queries: dict[str, Query]) -> Explanation:
    return Explanation(spec, {name: plan_query(query, spec) for name, query in queries.items()})


def explain_spec(path: str | os.PathLike[str]) -> Explanation:
    """Plan every query of a spec file. Raises SpecError with all problems at once."""
    return _planned(*compile_file(path))


def explain_state(path: str | os.PathLike[str]) -> Explanation:
    """Explain the queries of a state directory, as this version of dynq plans them."""
    from dynq_cli.storage.layout import SHARDS, SPEC
    from dynq_cli.storage.manifest import read_manifest
    from dynq_cli.storage.plans import read_plans

    directory = Path(path)
    if (directory / SHARDS).exists():
        return explain_spec(directory / SPEC)
    planned = read_plans(directory, read_manifest(directory))
    return Explanation(planned.spec, dict(planned.plans))


def explain_text_of(text: str, file: str = "spec") -> str:
    """Plan a spec given as text, and return the explanation as text."""
    spec = parse_spec(text, file)
    return _planned(spec, compile_spec(spec)).text()


def always_empty(plans: Mapping[str, AnyPlan]) -> Iterator[tuple[str, str]]:
    """The queries with conditions that can never hold, and a warning for each of these."""
    for name, plan in plans.items():
        for text in never_holding(plan.query):
            yield name, text


def check_supported(path: str | os.PathLike[str]) -> None:
    """Raise RejectedError, with place and reason, for the first query that dynq cannot keep up to date."""
    spec, queries = compile_file(path)
    for query in spec.queries:
        plan = plan_query(queries[query.name], spec)
        if plan.refusal:
            named = query.order_by[0].place if query.order_by else None
            raise RejectedError(f"{named or query.texts[0].place()}: query {query.name}: {plan.refusal}")
