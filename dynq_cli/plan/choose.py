"""The plan of a query: core, class, strategy, tree.

free-connex acyclic   view-tree              the tree of least cost
acyclic               … +projection          the tree of a larger head, and the projected table
cyclic                delta-join             the tree of what cycles leave, and the deltas of these
                      … +join                atoms joined without a guard until a tree exists

`strategies` lists these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dynq_cli.plan.cost import WEIGHTS, Weights, cost_of
from dynq_cli.plan.cyclic_core import Breaking, break_up
from dynq_cli.plan.free_connex_extension import extensions
from dynq_cli.plan.materialise import merge
from dynq_cli.plan.order import completions, layered, obstacle
from dynq_cli.plan.plan import AnyPlan, DistinctTree, Plan, UnionPlan
from dynq_cli.plan.search import Search, leaf
from dynq_cli.plan.strategies import Facts, choose_strategy
from dynq_cli.plan.testing import why_untestable
from dynq_cli.plan.tree_updates import Kept, updates_of
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.classify import Classification, classify
from dynq_cli.query.core import core
from dynq_cli.query.hypergraph import Hypergraph, hypergraph_of
from dynq_cli.query.normal_form import ConjunctiveQuery, Query, UnionQuery, VariableOrder, without_repetition
from dynq_cli.query.reduction import is_free_connex, reduce, start
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Spec


def plan_query(query: Query, spec: Spec) -> AnyPlan:
    """The plan of a query. Never refuses: what cannot be kept as asked says so in `refusal`."""
    if isinstance(query, UnionQuery):
        return _plan_union(query, [plan_query(m, spec) for m in query.members])
    plan = _Chooser(core(query), spec).plan()
    return replace(plan, refusal=why_untestable(plan)) if query.keep == "test" else plan


def _plan_union(query: UnionQuery, members: Sequence[AnyPlan]) -> UnionPlan:
    """Plan a union: each member has its own plan. Whether a table holds the rows is up to the program."""
    classes = _classes(members)
    made = UnionPlan(query, tuple(members), classes)
    refused = why_untestable(made) if query.keep == "test" else ""
    return replace(made, refusal=refused)


def _classes(members: Sequence[AnyPlan]) -> Classification:
    """A union is in a class if every member is; the witness is the first member's that is not."""
    several = [(m.name, m.classification) for m in members]

    def why(attribute: str) -> str:
        return next((f"{name}: {w}" for name, c in several if (w := getattr(c, attribute))), "")

    return Classification(
        q_hierarchical=all(c.q_hierarchical for _, c in several),
        t_hierarchical=all(c.t_hierarchical for _, c in several),
        free_connex=all(c.free_connex for _, c in several),
        acyclic=all(c.acyclic for _, c in several),
        not_q_hierarchical=why("not_q_hierarchical"),
        not_t_hierarchical=why("not_t_hierarchical"),
        not_free_connex=why("not_free_connex"),
        not_acyclic=why("not_acyclic"),
    )


@dataclass(frozen=True)
class _Shape:
    """What the trees are searched over: atoms, or groups of atoms joined first."""

    graph: Hypergraph
    leaves: tuple[Node, ...]


class _Chooser:
    def __init__(self, query: ConjunctiveQuery, spec: Spec) -> None:
        self.query = query
        self.spec = spec
        self.graph = hypergraph_of(query)
        self.rank = {v.name: i for i, v in enumerate(query.variables)}
        self.weights = weights_of(query, spec)
        self.notes: list[str] = []

    def plan(self) -> Plan:
        classes = classify(self.graph)
        breaking = break_up(self.graph, self.weights, self.rank)
        facts = Facts(classes.acyclic, breaking.by_delta, projects=False)
        views = tuple((v.name, plan_query(v.query, self.spec)) for v in self.query.views if not v.outer_join)
        shape = self._atoms() if classes.acyclic else self._joined(breaking)
        head, shape = self._free_connex_head(shape)
        projected = head != frozenset(self.query.head)
        if projected:
            added = ", ".join(sorted(head - frozenset(self.query.head)))
            self.notes.append(
                f"kept with {added} added to the head; the result asked for is its projection, kept as a table"
            )
        tree, order, unordered = self._tree(shape, head, projected)
        distinct = tuple(self._distinct_trees(shape))
        kept = Kept(self.query, tree, self.weights, bool(order), distinct)
        updates = updates_of(kept)
        return Plan(
            query=self.query,
            classification=classes,
            strategy=choose_strategy(replace(facts, projects=projected)).name,
            tree=tree,
            head=tuple(v.name for v in self.query.variables if v.name in head),
            order=order,
            updates=updates,
            distinct=distinct,
            views=views,
            notes=tuple(self.notes),
            unordered=unordered,
        )

    def _atoms(self) -> _Shape:
        leaves = tuple(leaf(i, sorted(a.variables), self.rank) for i, a in enumerate(self.query.atoms))
        return _Shape(self.graph, leaves)

    def _joined(self, breaking: Breaking) -> _Shape:
        merged = merge(self.graph, self.weights, self.rank, breaking.groups)
        for group, node, exponent in zip(merged.groups, merged.leaves, merged.exponents, strict=True):
            if node.kind == "join":
                why = f"; {breaking.why}" if breaking.why else ""
                self.notes.append(_why_joined(self.query, group, node, exponent) + why)
        return _Shape(merged.graph, merged.leaves)

    def _free_connex_head(self, shape: _Shape) -> tuple[frozenset[str], _Shape]:
        """The head itself, or the extension whose tree costs least."""
        if is_free_connex(shape.graph):
            return shape.graph.free, shape
        best = None
        for added in extensions(shape.graph):
            wider = _Shape(shape.graph.with_free(shape.graph.free | set(added)), shape.leaves)
            tree = self._search(wider)
            if tree is not None and (best is None or cost_of(tree, self.weights) < best[0]):
                best = (cost_of(tree, self.weights), added, wider)
        assert best is not None, "the full head of an acyclic query is free-connex"
        return best[2].graph.free, best[2]

    def _search(self, shape: _Shape, order: Sequence[str] = ()) -> Node | None:
        finish = layered(order) if order else None
        return Search(shape.graph, shape.leaves, self.weights, self.rank, finish).run()

    def _tree(
        self, shape: _Shape, head: frozenset[str], projected: bool
    ) -> tuple[Node, tuple[VariableOrder, ...], str]:
        plain = self._search(shape)
        assert plain is not None, "a free-connex query has a tree"
        if not self.query.order:
            return plain, (), ""
        if projected or self.query.grouped:
            return plain, self._table_order(), ""
        wanted = [o.variable for o in self.query.order]
        names = [v.name for v in self.query.variables if v.name in head]
        best: tuple[Node, tuple[str, ...]] | None = None
        for order in completions(wanted, names):
            tree = self._search(shape, order)
            if tree is not None and (best is None or cost_of(tree, self.weights) < cost_of(best[0], self.weights)):
                best = (tree, order)
        if best is None:
            return plain, (), self._why_unordered(shape, wanted, names)
        asked = {o.variable: o for o in reversed(self.query.order)}
        return best[0], tuple(asked.get(v, VariableOrder(v)) for v in best[1]), ""

    def _table_order(self) -> tuple[VariableOrder, ...]:
        """A table can be kept in any order; that of groups goes on by their output columns."""
        shown: list[VariableOrder] = []
        names = [*self.query.head, *(a.name for a in self.query.aggregates)]
        for c in self.query.columns if self.query.grouped else ():
            if c.kind == "variable":
                shown.append(VariableOrder(c.source))
            elif c.kind == "aggregate" or any(quote(name) in c.source for name in names):
                shown.append(VariableOrder(c.name, of="column"))
        return without_repetition([*self.query.order, *shown, *map(VariableOrder, self.query.head)])

    def _why_unordered(self, shape: _Shape, wanted: Sequence[str], names: Sequence[str]) -> str:
        state = reduce(shape.graph, start(shape.graph), shape.graph.free, first_pass=True)
        edges = [e for _, e in state.edges]
        within = obstacle(edges, state.comparisons, wanted)
        why = within or obstacle(edges, state.comparisons, next(iter(completions(wanted, names))))
        return f"no tree has the order [{', '.join(map(str, self.query.order))}]: {why}"

    def _distinct_trees(self, shape: _Shape) -> list[DistinctTree]:
        found = []
        for a in self.query.aggregates:
            if a.function == "count_distinct" and len(a.variables) == 1:
                (variable,) = a.variables
                graph = shape.graph.with_free(frozenset(self.query.head) | {variable})
                head, wider = self._free_connex_head(_Shape(graph, shape.leaves))
                tree = self._by_group(wider, variable) if head == graph.free else None
                tree = tree or self._search(wider)
                assert tree is not None
                found.append(DistinctTree(a.name, variable, tree))
        return found

    def _by_group(self, shape: _Shape, variable: str) -> Node | None:
        """The cheapest tree with the groups above the variable, so that its values can be counted per group."""
        groups = [v for v in self.query.head if v != variable]
        trees = [self._search(shape, (*order, variable)) for order in completions((), groups)]
        return min((t for t in trees if t), key=lambda t: cost_of(t, self.weights), default=None)


def _why_joined(query: ConjunctiveQuery, group: Sequence[int], node: Node, exponent: float) -> str:
    atoms = " and ".join(query.atoms[i].brief for i in group)
    by = f" where {', '.join(map(str, node.joined_by))}" if node.joined_by else ""
    many = len(group) > 2
    kind = "group" if many else "pair"
    return (
        f"{atoms} are joined into a view of their own{by}: with this {kind} joined a tree exists, and it is the "
        f"{kind} expected to be smallest (about n^{exponent:.2f} rows where values are spread evenly)"
    )


def weights_of(query: ConjunctiveQuery, spec: Spec) -> Weights:
    changes, keys = [], []
    derived = {v.name: v for v in query.views}
    for atom in query.atoms:
        relation = spec.relation(atom.source)
        key: tuple[str, ...] = ()
        if relation is not None:
            key = relation.key
        elif atom.source in derived:
            key = derived[atom.source].key or _view_key(derived[atom.source].query)
        by_column = {b.scalar.sql: b.variable for b in atom.bindings}
        bound = [by_column.get(quote(c)) for c in key]
        keys.append(frozenset(v for v in bound if v is not None) if key and None not in bound else None)
        changes.append(WEIGHTS[relation.changes if relation is not None else "normal"])
    return Weights(tuple(changes), tuple(keys))


def _view_key(query: Query) -> tuple[str, ...]:
    """The output columns that identify a row of a view, or () if nothing is known."""
    if isinstance(query, ConjunctiveQuery) and query.grouped:
        shown = {c.source: c.name for c in query.columns if c.kind == "variable"}
        return tuple(shown[v] for v in query.head) if set(query.head) <= set(shown) else ()
    return tuple(c.name for c in query.columns) if query.semantics == "set" else ()
