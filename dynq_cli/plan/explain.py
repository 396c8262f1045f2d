"""Explain a plan, in words and as JSON: class, witness, tree, costs, and what would make it cheaper.

Costs are those of the program that is kept (`program_cost`), not of the one tree that shows the structure.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from dynq_cli.plan.draw import LEGEND, draw_text
from dynq_cli.plan.edits import edits_of
from dynq_cli.plan.fingerprint import fingerprint
from dynq_cli.plan.lower import program_of, why_a_table
from dynq_cli.plan.materialisation_reasons import notes_of
from dynq_cli.plan.plan import AnyPlan, Plan, UnionPlan
from dynq_cli.plan.program import Lookups, Program, Together, Tree
from dynq_cli.plan.program_cost import Guarantees, ProgramCost, program_cost
from dynq_cli.plan.require import unmet
from dynq_cli.plan.stored import stored
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.aggregates import basic
from dynq_cli.query.classify import Classification
from dynq_cli.query.normal_form import Aggregate, ConjunctiveQuery
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Spec

WIDTH = 110
# A space at which no line is broken; no text has this character of a private area.
_JOINT = "\ue000"
KEY = 12


_UNION_TABLE = "as a table that every member feeds: rows are counted and enumerated there"
_UNION_TREES = (
    "without a table: rows are read from the members, each once, and counted by inclusion and exclusion over their "
    "intersections"
)
_UNEQUAL_TREES = (
    "without a table: rows are filtered by != and NOT EXISTS while they are read, and counted without these "
    "conditions, less those that break one"
)


_UNCOUNTED = "for its rows alone: there is no count but that of walking them, and nothing is kept for positions"
_LOOKUPS = (
    "for tests alone: atoms that meet the head in the same variables are one tree, and a row is looked up in each; "
    "neither rows nor a count are kept"
)


def _notes(plan: AnyPlan, program: Program, spec: Spec) -> tuple[str, ...]:
    if isinstance(program.result, Lookups):
        return (_LOOKUPS,)
    is_read_together = isinstance(program.result, Together)
    if is_read_together and isinstance(program.result, Together) and not program.result.terms:
        return (_UNCOUNTED,)
    if isinstance(plan, UnionPlan):
        table = f"{_UNION_TABLE}; {why_a_table(plan.query, spec)}"
        return (*plan.notes, _UNION_TREES if is_read_together else table)
    if is_read_together:
        return (_UNEQUAL_TREES,)
    return notes_of(plan, program, spec)


def advice_of(plan: AnyPlan, spec: Spec) -> tuple[str, ...]:
    """What to edit so that a query is cheaper to keep, each tried by planning the edited query."""
    return tuple(edits_of(plan, program_of(plan.query, spec), spec))


def explain_text(plan: AnyPlan, spec: Spec, understood: Sequence[tuple[str, str]] = ()) -> str:
    """Everything about one query, for people; `understood` is what its text means, line by line with keys."""
    return "\n".join(_lines(plan, spec, understood)) + "\n"


def _lines(plan: AnyPlan, spec: Spec, understood: Sequence[tuple[str, str]] = ()) -> Iterator[str]:
    program = program_of(plan.query, spec)
    cost = program_cost(program, spec)
    yield f"{plan.name}: {plan.classification.name} ({cost.strategy})"
    for key, text in understood:
        yield from _entry(key, text)
    yield from _summary(program, spec, cost, tuple(edits_of(plan, program, spec)))
    for _, text in unmet(plan, spec):
        yield from _entry("refused", text)
    yield "  theory"
    if isinstance(plan, UnionPlan):
        yield from _union(plan, program, cost, spec)
        return
    yield from _entry("query", str(plan.query))
    for text in _body(plan.query):
        yield from _entry("", text)
    for view in plan.query.views:
        if view.outer_join:
            yield from _entry("view", f"{view.name}: {view.outer_join}")
    for name, _ in plan.views:
        yield from _entry("view", f"{name}, kept by a plan of its own (below)")
    for text in plan.query.simplifications:
        yield from _entry("simplified", text)
    yield from _classes(plan.classification)
    for text in _notes(plan, program, spec):
        yield from _entry("kept", text)
    yield from _steps(cost)
    yield from _order(program)
    if plan.refusal:
        yield from _entry("refused", plan.refusal)
    if plan.unordered:
        yield from _entry("kept", f"its rows are stored in their order, since {plan.unordered}")
    yield from _tree(
        "tree",
        plan,
        _shown_tree(plan, program),
        "of the query in one; it is kept in the steps above" if cost.steps else "",
    )
    for d in plan.distinct:
        yield from _tree("tree", plan, d.tree, f"counts distinct {d.variable} for {d.aggregate}")
    yield from _costs(cost.guarantees)
    for _, inner in plan.views:
        yield ""
        yield from (f"  {line}" if line else "" for line in _lines(inner, spec))


def _summary(program: Program, spec: Spec, cost: ProgramCost, advice: tuple[str, ...]) -> Iterator[str]:
    """What is stored, what a change costs, what to edit; the theory follows."""
    yield from _entry("stores", stored(program, spec))
    for i, change in enumerate(cost.changes):
        yield from _entry("changes" if i == 0 else "", str(change))
    for i, text in enumerate(advice or _no_advice(cost)):
        yield from _entry("cheaper" if i == 0 else "", text)


def _no_advice(cost: ProgramCost) -> tuple[str, ...]:
    if any(change.exponent for change in cost.changes):
        return ("no edit is known",)
    return ("nothing: a change touches a fixed number of rows, however large the data are",)


def _steps(cost: ProgramCost) -> Iterator[str]:
    for i, text in enumerate(cost.steps):
        yield from _entry("steps" if i == 0 else "", text)


def _order(program: Program) -> Iterator[str]:
    """Of what is kept: the steps may complete an order in another way than the one tree of the plan would."""
    if program.order:
        yield from _entry("order", ", ".join(map(str, program.order)))


def _union(plan: UnionPlan, program: Program, cost: ProgramCost, spec: Spec) -> Iterator[str]:
    yield from _entry("query", str(plan.query))
    yield from _classes(plan.classification)
    if plan.refusal:
        yield from _entry("refused", plan.refusal)
    for text in _notes(plan, program, spec):
        yield from _entry("kept", text)
    yield from _steps(cost)
    yield from _order(program)
    yield from _costs(cost.guarantees)
    for member in plan.members:
        yield ""
        yield from (f"  {line}" if line else "" for line in _lines(member, spec))


def _entry(key: str, text: str) -> Iterator[str]:
    """`key   text`, wrapped under itself."""
    first, rest = f"  {key:<{KEY}}", " " * (KEY + 2)
    whole = re.sub(r" (<=?|!=|\+|-|=|:-) ", f"{_JOINT}\\1{_JOINT}", text).replace("log n", f"log{_JOINT}n")
    for line in textwrap.wrap(whole, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False):
        yield line.replace(_JOINT, " ")


def _body(query: ConjunctiveQuery) -> Iterator[str]:
    for atom in query.atoms:
        filters = [f.sql for f in atom.filters]
        plain = {quote(c) for b in atom.bindings for c in b.scalar.columns}
        computed = [f"{b.variable} = {b.scalar.sql}" for b in atom.bindings if b.scalar.sql not in plain]
        if filters:
            yield f"{atom.alias}: where {' and '.join(filters)}"
        if computed:
            yield f"{atom.alias}: {', '.join(computed)}"
    for a in query.aggregates:
        yield f"{a.name} = {_aggregate(query, a)}"
    if query.having is not None:
        yield f"having {query.having.sql}"


def _aggregate(query: ConjunctiveQuery, a: Aggregate) -> str:
    if a.variables:
        inside = ", ".join((*a.variables, *([a.detail] if a.detail else [])))
        inside = f"distinct {inside}" if basic(a.function).state == "values" else inside
        return f"{a.function.removesuffix('_distinct')}({inside})"
    parts = []
    for m in a.monomials:
        factors = [f"{query.atoms[f.atom].alias}.({f.scalar.sql})" for f in m.factors]
        shown = [str(m.coefficient)] if m.coefficient != 1 or not factors else []
        parts.append(" · ".join(shown + factors))
    return f"{a.function}({' + '.join(parts) or '*'})"


def _classes(c: Classification) -> Iterator[str]:
    held = (
        ("q-hierarchical", c.q_hierarchical, c.not_q_hierarchical),
        ("t-hierarchical", c.t_hierarchical, c.not_t_hierarchical),
        ("free-connex", c.free_connex, c.not_free_connex or c.not_acyclic),
        ("acyclic", c.acyclic, c.not_acyclic),
    )
    yield from _entry("classes", ", ".join(name if yes else f"not {name}" for name, yes, _ in held))
    said: set[str] = set()
    for name, yes, why in held:
        if not yes and why not in said:
            said.add(why)
            yield from _entry("", f"not {name}: {why}")


def _tree(key: str, plan: Plan, tree: Node, title: str = "") -> Iterator[str]:
    yield from _entry(key, title or LEGEND)
    for line in draw_text(plan, tree):
        yield f"{' ' * (KEY + 2)}{line}"


def _costs(guarantees: Guarantees) -> Iterator[str]:
    for name, g in guarantees.items():
        yield from _entry(name, f"{g.bound}: {g.meaning}")


def lookup_of(plan: AnyPlan, program: Program) -> dict[str, str]:
    """What a row costs that is looked up by the values of some columns, comma-separated; `` is by any others."""
    shown = {c.source: c.name for c in reversed(plan.query.columns) if c.kind == "variable"}
    first: list[str] = []
    found = {}
    for each in program.order:
        if each.variable not in shown:
            break
        first.append(shown[each.variable])
        found[", ".join(first)] = "O(log n)"
    return found | {", ".join(c.name for c in plan.query.columns): "O(1)", "": "O(n)"}


def explain_json(plan: AnyPlan, spec: Spec) -> dict[str, object]:
    """The same for programs."""
    program = program_of(plan.query, spec)
    c, cost = plan.classification, program_cost(program, spec)
    advice = list(edits_of(plan, program, spec))
    said: dict[str, object] = {
        "query": str(plan.query),
        "class": c.name,
        "q_hierarchical": c.q_hierarchical,
        "t_hierarchical": c.t_hierarchical,
        "free_connex": c.free_connex,
        "acyclic": c.acyclic,
        "strategy": cost.strategy,
        "semantics": plan.query.semantics,
        "columns": [{"name": o.name, "type": str(o.type), "nullable": o.nullable} for o in plan.query.columns],
        "guarantees": {name: g.bound for name, g in cost.guarantees.items()},
        "meanings": {name: g.meaning for name, g in cost.guarantees.items()},
        "witness": c.witness,
        "witnesses": {
            "q_hierarchical": c.not_q_hierarchical,
            "t_hierarchical": c.not_t_hierarchical,
            "free_connex": c.not_free_connex or c.not_acyclic,
            "acyclic": c.not_acyclic,
        },
        "changes": {c.relation: {"bound": c.bound, "meaning": c.meaning} for c in cost.changes},
        "summary": {
            "stores": stored(program, spec),
            "changes": [str(c) for c in cost.changes],
            "advice": advice,
        },
        "steps": list(cost.steps),
        "order": [str(o) for o in program.order],
        "lookup": lookup_of(plan, program),
        "refusal": plan.refusal,
        "unordered": plan.unordered,
        "unmet": {required.guarantee: text for required, text in unmet(plan, spec)},
        "fingerprint": fingerprint(plan, program),
    }
    if isinstance(plan, UnionPlan):
        members = [explain_json(m, spec) for m in plan.members]
        tree = {"vars": [], "children": [m["tree"] for m in members], "guards": [], "predicates": [], "output": True}
        return said | {"tree": tree, "members": members, "notes": list(_notes(plan, program, spec))}
    return said | {
        "tree": _node_json(plan, _shown_tree(plan, program), None),
        "distinct_trees": [
            {"aggregate": d.aggregate, "variable": d.variable, "tree": _node_json(plan, d.tree, None)}
            for d in plan.distinct
        ],
        "head": list(plan.head),
        "simple": plan.tree.is_simple,
        "updates": [{"atom": u.atom, "bound": u.bound, "meaning": u.meaning} for u in cost.updates],
        "simplifications": list(plan.query.simplifications),
        "notes": list(_notes(plan, program, spec)),
        "advice": advice,
        "views": {name: explain_json(view, spec) for name, view in plan.views},
        "outer_joins": {view.name: view.outer_join for view in plan.query.views if view.outer_join},
    }


def _shown_tree(plan: Plan, program: Program) -> Node:
    """The tree that is kept, if it is all there is; else that of the plan."""
    kept = program.result
    return kept.plan.tree if isinstance(kept, Tree) and len(program.steps) == 1 else plan.tree


def _node_json(plan: Plan, node: Node, parent: Node | None) -> dict[str, object]:
    """`guards` are the positions among `children` of those that guard this node; `predicates` those
    on the edge to the parent."""
    said: dict[str, object] = {
        "vars": list(node.variables),
        "kind": node.kind,
        "output": node.output,
        "guard": parent is not None and node.guards(parent),
        "predicates": [str(c) for c in node.comparisons],
        "guards": [i for i, c in enumerate(node.children) if c.guards(node)],
        "children": [_node_json(plan, c, node) for c in node.children],
    }
    if node.atom is not None:
        atom = plan.query.atoms[node.atom]
        said |= {"atom": str(atom), "relation": atom.source, "alias": atom.alias, "mode": atom.mode}
        said["filters"] = [f.sql for f in atom.filters]
    if node.joined_by:
        said["joined_by"] = [str(c) for c in node.joined_by]
    return said
