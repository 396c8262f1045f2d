"""A plan's fingerprint: the same for plans that keep the same data in the same layout.

It covers what decides the bytes of a state: sources, their filters and bound scalars, the tree, the
comparisons on its edges, the order, the payload of aggregates, semantics, views, and the columns of
what is itself read as rows: views and the members of a set union. It leaves out what only names or
shows things: names of queries, variables, aliases and columns, advice, bounds. Variables and atoms
are numbered as the tree meets them, aggregates and columns as they are listed, so renaming one
changes nothing; writing the atoms in another order may, since it may give another tree.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cached_property

from dynq_cli.plan.codec import encode
from dynq_cli.plan.plan import AnyPlan, Plan
from dynq_cli.plan.program import Alternative, Cycle, Derived, Lookups, Program, Step, Tree, high, low
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.normal_form import Aggregate, Atom, Comparison, OutputColumn, Scalar, VariableOrder
from dynq_cli.query.scalar import renamed

FORMAT = 1


def fingerprint(plan: AnyPlan, program: Program | None = None) -> str:
    """A hex digest of 64 bits; the same for the same kept data.

    Of a program of several steps it covers the steps, names of the relations between them included.
    """
    kept = _kept(plan) if program is None or len(program.steps) == 1 else _steps(program)
    text = json.dumps([FORMAT, kept], separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _steps(program: Program) -> object:
    trees = {step.name: step.plan for step in program.steps if isinstance(step, Tree)}
    return [_step(step, trees) for step in program.steps]


def _step(step: Step, trees: Mapping[str, Plan]) -> object:
    if isinstance(step, Derived):
        return encode(Derived, step)
    if isinstance(step, Cycle):
        return encode(Cycle, step)
    if isinstance(step, Tree):
        return [step.name, _read(step.plan)]
    if isinstance(step, Lookups):
        return ["tested", step.form.semantics, [_alternative(a, trees) for a in step.alternatives]]
    read = []
    for member in step.members:
        number = _Kept(trees[member.tree]).number
        read.append([member.tree, [number[v] for v in member.variables]])
    place = {v: i for i, v in enumerate(step.form.head)}
    where = [[place[c.left], c.op, place[c.right], str(c.offset.normalize())] for c in step.where]
    made = ["together", step.form.semantics, read, where, [[t.tree, t.rows, t.distinct] for t in step.terms]]
    return [*made, [m.tree for m in step.lacking]] if step.lacking else made


def _alternative(step: Alternative, trees: Mapping[str, Plan]) -> object:
    place = {v: i for i, v in enumerate(step.variables)}
    looked = []
    for each in step.lookups:
        number = _Kept(trees[each.tree]).number
        looked.append([each.tree, each.counts, sorted([number[v], place[v]] for v in trees[each.tree].query.head)])
    return [looked, [[place[c.left], c.op, place[c.right], str(c.offset.normalize())] for c in step.where]]


def _kept(plan: AnyPlan) -> object:
    if isinstance(plan, Plan):
        return _Kept(plan).all()
    read = _kept if plan.query.semantics == "bag" else _read
    return ["union", plan.query.semantics, [read(m) for m in plan.members]]


def _read(plan: AnyPlan) -> object:
    """What is kept of a plan whose rows something else keeps or counts."""
    if isinstance(plan, Plan):
        kept = _Kept(plan)
        return [kept.all(), kept.columns()]
    types = [str(c.type) for c in plan.query.columns]
    return ["union", plan.query.semantics, types, [_read(m) for m in plan.members]]


def _nulls(o: VariableOrder) -> list[bool]:
    return [] if o.nulls_first is None else [o.nulls_first]


class _Kept:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.query = plan.query
        self.number: dict[str, int] = {}
        self.atom_number: dict[int, int] = {}
        self.views = dict(plan.views)
        for node in (n for t in self._trees() for n in t.walk()):
            if node.atom is not None:
                self.atom_number.setdefault(node.atom, len(self.atom_number))
            for variable in node.variables:
                self.number.setdefault(variable, len(self.number))

    def _trees(self) -> list[Node]:
        return [self.plan.tree, *(d.tree for d in self.plan.distinct)]

    def all(self) -> object:
        q = self.query
        return {
            "strategy": self.plan.strategy,
            "trees": [self._node(t) for t in self._trees()],
            "semantics": q.semantics,
            "grouped": q.grouped,
            "types": sorted([self.number[v.name], str(v.type)] for v in q.variables if v.name in self.number),
            "head": sorted(self.number[v] for v in q.head),
            "order": [[self._ordered_by(o), o.descending, *_nulls(o)] for o in self.plan.order],
            "aggregates": [self._aggregate(a) for a in q.aggregates],
            "having": q.having and renamed(q.having.sql, self._shown),
        }

    def _ordered_by(self, o: VariableOrder) -> object:
        if o.of == "variable":
            return self.number[o.variable]
        return self._column(next(c for c in self.query.columns if c.name == o.variable))

    def columns(self) -> object:
        return [self._column(c) for c in self.query.columns]

    @cached_property
    def _shown(self) -> Mapping[str, str]:
        """The names that HAVING and computed columns use: head variables and aggregates."""
        aggregates = {a.name: f"a{i}" for i, a in enumerate(self.query.aggregates)}
        return {v: f"v{self.number[v]}" for v in self.query.head} | aggregates

    def _column(self, c: OutputColumn) -> object:
        if c.kind == "pair":
            return [c.kind, [self._shown[part(c.source)] for part in (high, low)], str(c.type)]
        source = renamed(c.source, self._shown) if c.kind == "expression" else self._shown[c.source]
        return [c.kind, source, str(c.type)]

    def _node(self, node: Node) -> object:
        inside: object = [self._node(c) for c in node.children]
        if node.atom is not None:
            inside = [self.atom_number[node.atom], self._atom(self.query.atoms[node.atom])]
        compared = [self._comparison(c) for c in node.comparisons]
        joined = [self._comparison(c) for c in node.joined_by]
        variables = [self.number[v] for v in node.variables]
        return [node.kind, variables, compared, joined, node.output, inside]

    def _atom(self, atom: Atom) -> object:
        source: object = _read(self.views[atom.source]) if atom.source in self.views else atom.source
        bound = sorted([self.number[b.variable], *self._scalar(atom, b.scalar), b.part] for b in atom.bindings)
        aware = atom.null_aware and self.number[atom.null_aware]
        return [source, atom.mode, aware, bound, sorted(self._scalar(atom, f)[0] for f in atom.filters)]

    def _scalar(self, atom: Atom, scalar: Scalar) -> tuple[str, str]:
        """SQL and type; the columns of a view go by their position."""
        view = self.views.get(atom.source)
        columns: Iterable[OutputColumn] = () if view is None else view.query.columns
        return renamed(scalar.sql, {c.name: f"c{i}" for i, c in enumerate(columns)}), str(scalar.type)

    def _comparison(self, c: Comparison) -> object:
        return [self.number[c.left], c.op, self.number[c.right], str(c.offset.normalize())]

    def _aggregate(self, a: Aggregate) -> object:
        monomials = [
            [
                str(m.coefficient.normalize()),
                [[self.atom_number[f.atom], *self._scalar(self.query.atoms[f.atom], f.scalar)] for f in m.factors],
            ]
            for m in a.monomials
        ]
        return [a.function, [self.number[v] for v in a.variables], a.detail, str(a.type), monomials]
