"""A plan's fingerprint: equal exactly if the kept data is.

It covers what decides the bytes of a state: sources, their filters and bound scalars, the tree, the
comparisons on its edges, the order, the payload of aggregates, semantics, views. It leaves out what
only names or shows things: names of queries, variables, aliases and output columns, advice, bounds.
Variables are numbered as the tree meets them, so renaming one changes nothing.
"""

from __future__ import annotations

import hashlib
import json

from dynq_cli.plan.plan import AnyPlan, Plan
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.normal_form import Atom, Comparison, Factor

FORMAT = 1


def fingerprint(plan: AnyPlan) -> str:
    """A hex digest of 64 bits; the same for the same kept data."""
    text = json.dumps([FORMAT, _kept(plan)], separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kept(plan: AnyPlan) -> object:
    if isinstance(plan, Plan):
        return _Kept(plan).all()
    return ["union", plan.query.semantics, plan.count_by, [_kept(m) for m in plan.members]]


class _Kept:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.query = plan.query
        self.number: dict[str, int] = {}
        self.views = dict(plan.views)
        for node in (n for t in self._trees() for n in t.walk()):
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
            "order": [[self.number[o.variable], o.descending] for o in self.plan.order],
            "aggregates": [
                [a.function, a.variable and self.number[a.variable], self._monomials(a.monomials)] for a in q.aggregates
            ],
            "having": bool(q.having) and [q.having.sql if q.having else ""],
        }

    def _node(self, node: Node) -> object:
        inside: object = [self._node(c) for c in node.children]
        if node.atom is not None:
            inside = self._atom(self.query.atoms[node.atom])
        compared = [self._comparison(c) for c in node.comparisons]
        joined = [self._comparison(c) for c in node.joined_by]
        variables = [self.number[v] for v in node.variables]
        return [node.kind, variables, compared, joined, node.output, inside]

    def _atom(self, atom: Atom) -> object:
        source: object = _kept(self.views[atom.source]) if atom.source in self.views else atom.source
        bound = sorted([self.number[b.variable], b.scalar.sql, str(b.scalar.type)] for b in atom.bindings)
        aware = atom.null_aware and self.number[atom.null_aware]
        return [source, atom.mode, aware, bound, sorted(f.sql for f in atom.filters)]

    def _comparison(self, c: Comparison) -> object:
        return [self.number[c.left], c.op, self.number[c.right], str(c.offset.normalize())]

    def _monomials(self, monomials: object) -> object:
        def factor(f: Factor) -> object:
            return [f.atom, f.scalar.sql]

        return [[str(m.coefficient), [factor(f) for f in m.factors]] for m in monomials]  # type: ignore[attr-defined]
