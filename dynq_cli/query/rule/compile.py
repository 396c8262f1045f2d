"""One rule → Draft: parse, bind the atoms, add the comparisons, build the head."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dynq_cli.query import scalar as sql
from dynq_cli.query.draft import Draft
from dynq_cli.query.normal_form import View
from dynq_cli.query.normalise import normalise
from dynq_cli.query.problems import QueryProblems, TextProblem
from dynq_cli.query.rule.atoms import Bindings, bind_atoms
from dynq_cli.query.rule.head import build_head, unbound
from dynq_cli.query.rule.linear import WithConstant, reduce
from dynq_cli.query.rule.nested import levels_of
from dynq_cli.query.rule.parse import parse
from dynq_cli.query.rule.syntax import Atom, Comparison, Item
from dynq_cli.spec.model import Column, QuerySpec, Spec


def compile_rule(text: str, spec: Spec, query: QuerySpec) -> Draft:
    """What a rule says over the relations of a spec. Raises QueryProblems with all its problems."""
    rule, problems = parse(text)
    draft = Draft(query.name, query.semantics or "set")
    draft.refuses_empty = True
    atoms = [part for part in rule.body if isinstance(part, Atom)]
    bindings, found = bind_atoms(atoms, spec, draft)
    problems += found
    if not atoms:
        at = min((part.at for part in rule.body), default=0)
        missing = TextProblem(at, "the body names no relation", "write one, as in R(x, y)")
        raise QueryProblems(problems or [missing])
    compared: set[str] = set()
    for part in rule.body:
        if isinstance(part, Comparison):
            problems += add_comparison(part, bindings, draft)
            compared |= {v.name for v in (*part.left.variables, *part.right.variables)}
    made, found = _headed(rule.items, bindings, draft, compared)
    problems += found
    if problems:
        raise QueryProblems(sorted(problems, key=lambda p: p.offset))
    return made


def _headed(
    items: Sequence[Item], bindings: Bindings, draft: Draft, compared: Collection[str]
) -> tuple[Draft, list[TextProblem]]:
    """The draft with a head; of nested aggregates, a draft over the groups of another."""
    try:
        levels = levels_of(items, bindings.names)
        if levels is None:
            return draft, build_head(items, bindings, draft, compared)
        inner, problems = _headed(levels.inner, bindings, draft.copy(f"{draft.name}.inner", draft.semantics), compared)
        if problems:
            return draft, problems
        query = normalise(inner)
    except QueryProblems as error:
        return draft, list(error.problems)
    columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
    outer = Draft(draft.name, draft.semantics)
    outer.views.append(View(query.name, columns, query))
    atom, over = outer.atom("inner", query.name), Bindings()
    for column in columns:
        over.types[column.name] = column.type
        over.terms[column.name] = [outer.term(atom, sql.column_scalar(column), column.name)]
    return outer, build_head(levels.outer, over, outer, ())


def add_comparison(comparison: Comparison, bindings: Bindings, draft: Draft) -> list[TextProblem]:
    """Add a comparison of variables and constants to the draft; what is wrong with it."""
    variables = (*comparison.left.variables, *comparison.right.variables)
    missing = [v for v in variables if not bindings.knows(v.name)]
    if missing:
        return [TextProblem(v.at, *unbound(v.name, bindings)) for v in missing]
    unclear = any(v.name not in bindings.types for v in variables)
    if unclear or comparison.left.unreadable or comparison.right.unreadable:
        return []
    try:
        said = reduce(comparison, bindings.types)
    except QueryProblems as found:
        return list(found.problems)
    if isinstance(said, WithConstant):
        _add_constant(said, comparison.at, bindings, draft)
        return []
    left, right = bindings.terms[said.left][0], bindings.terms[said.right][0]
    if said.op == "=":
        draft.equal(left, right, comparison.at, said.offset)
    elif said.offset and right.scalar.type.is_float and said.op in (">", ">="):
        # Drafts turn these around, and the other side less the offset is not rounded as this one is.
        moved = draft.term(right.atom, sql.shift(right.scalar, said.offset), f"{said.right}_moved")
        draft.compare(left, said.op, moved, comparison.at)
    else:
        draft.compare(left, said.op, right, comparison.at, said.offset)
    return []


def _add_constant(said: WithConstant, at: int, bindings: Bindings, draft: Draft) -> None:
    terms = bindings.terms[said.variable]
    if said.op == "=":
        draft.equal_constant(terms[0], said.literal, at)
        return
    for term in terms:
        scalar = sql.cast(term.scalar, bindings.types[said.variable])
        draft.filter(term.atom, sql.compare(scalar, said.op, said.literal))
