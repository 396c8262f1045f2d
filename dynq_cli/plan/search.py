"""Find the cheapest tree by hypergraph reduction.

Every sequence of steps B of `query.reduction` builds a tree: dropping edge e into edge f makes a
node over f's current variables with f's tree (its guard) and e's tree as children. Pass 1, with the
head as output, ends in the frontier of the output set: each edge gets a projection node onto its
own variables where its tree has more. Pass 2 builds the rest of the output set.

A new node is merged into an existing one only if both have the same variables and come from the
same pass; never into a leaf, nor into the frontier, which would break closure under siblings.

The search goes depth first, the most promising pair first, and stops after LIMIT steps or at a tree
whose changes touch one row per level. Deterministic: the same query gets the same tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dynq_cli.plan.cost import Cost, Weights, cost_of
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.hypergraph import Edge, Hypergraph
from dynq_cli.query.reduction import (
    NOTHING,
    Drop,
    State,
    apply_drop,
    drops,
    first_pass_done,
    second_pass_done,
    start,
    step_a,
)

LIMIT = 1500
# How a part's root came to be; nodes merge only within PASS_1 or within PASS_2.
LEAF, PASS_1, FRONTIER, PASS_2 = range(4)


@dataclass(frozen=True)
class Part:
    """The tree that an edge stands for, and where its root comes from."""

    tree: Node
    level: int = LEAF


Parts = Mapping[int, Part]
# Turns the frontier into a finished tree; the default is pass 2 of the search itself.
Finish = Callable[[State, Parts], Sequence[Node]]


class Search:
    """All trees for one hypergraph whose edges start as the given leaves."""

    def __init__(
        self,
        graph: Hypergraph,
        leaves: Sequence[Node],
        weights: Weights,
        rank: Mapping[str, int],
        finish: Finish | None = None,
    ) -> None:
        self.graph = graph
        self.leaves = leaves
        self.weights = weights
        self.rank = rank
        self.finish = finish
        self.best: Node | None = None
        self.best_cost: Cost | None = None
        self._steps = 0
        self._seen: set[tuple[int, State, frozenset[tuple[int, Part]]]] = set()

    def run(self) -> Node | None:
        """The cheapest tree found, or None if the query is not free-connex acyclic."""
        self._first_pass(start(self.graph), {i: Part(leaf) for i, leaf in enumerate(self.leaves)})
        return self.best

    def _over(self) -> bool:
        return self._steps >= LIMIT or (self.best_cost is not None and self.best_cost[0] == 0)

    def _visited(self, level: int, state: State, parts: Parts) -> bool:
        key = (level, state, frozenset(parts.items()))
        if key in self._seen:
            return True
        self._seen.add(key)
        self._steps += 1
        return False

    def _first_pass(self, state: State, parts: Parts) -> None:
        state = step_a(state, self.graph.free)
        if self._over() or self._visited(PASS_1, state, parts):
            return
        if first_pass_done(self.graph, state):
            frontier = {n: self._frontier(n, edge, parts[n]) for n, edge in state.edges}
            if self.finish is None:
                self._second_pass(state, frontier)
            else:
                for tree in self.finish(state, frontier):
                    self._offer(tree)
            return
        for drop in self._promising(state, parts, self.graph.free, first_pass=True):
            self._first_pass(apply_drop(state, drop), self._joined(state, parts, drop, PASS_1))

    def _second_pass(self, state: State, parts: Parts) -> None:
        state = step_a(state, NOTHING)
        if self._over() or self._visited(PASS_2, state, parts):
            return
        if second_pass_done(state):
            tree = parts[state.edges[0][0]].tree
            is_root = not tree.variables and tree.kind != "atom"
            self._offer(tree if is_root else Node((), (tree,), output=True))
            return
        for drop in self._promising(state, parts, NOTHING, first_pass=False):
            self._second_pass(apply_drop(state, drop), self._joined(state, parts, drop, PASS_2))

    def _offer(self, tree: Node) -> None:
        cost = cost_of(tree, self.weights)
        if self.best_cost is None or cost < self.best_cost:
            self.best, self.best_cost = tree, cost

    def _ordered(self, edge: Edge) -> tuple[str, ...]:
        return tuple(sorted(edge, key=lambda v: self.rank[v]))

    def _frontier(self, number: int, edge: Edge, part: Part) -> Part:
        """The part as the output set sees it; a tested atom is not in it, since it adds no rows."""
        if self.graph.is_tested(number):
            return Part(replace(part.tree, output=False), FRONTIER)
        if part.tree.vars == edge:
            return Part(replace(part.tree, output=True), FRONTIER)
        return Part(Node(self._ordered(edge), (part.tree,), output=True), FRONTIER)

    def _promising(self, state: State, parts: Parts, output: Edge, first_pass: bool) -> list[Drop]:
        """Guards first, then ranges by one variable, most shared variables, equality before comparison, least missing,
        fewest leaves."""

        def key(drop: Drop) -> tuple[bool, bool, int, bool, int, int, int, int]:
            tree, target = parts[drop.e].tree, state.edge(drop.f)
            missing = len(target - tree.vars)
            shared = len(target & tree.vars)
            compared = {v for c in drop.comparisons for v in c.variables if v not in target}
            is_filtered = len(compared) > 1
            return (missing > 0, is_filtered, -shared, bool(compared), missing, len(tree.atoms), drop.e, drop.f)

        return sorted(drops(self.graph, state, output, first_pass), key=key)

    def _joined(self, state: State, parts: Parts, drop: Drop, level: int) -> Parts:
        variables = self._ordered(state.edge(drop.f))
        children: list[Node] = []
        for number, comparisons in ((drop.f, ()), (drop.e, drop.comparisons)):
            part = parts[number]
            same = part.level == level and part.tree.variables == variables and not comparisons
            children += part.tree.children if same else [replace(part.tree, comparisons=comparisons)]
        children.sort(key=lambda c: c.atoms)
        node = Node(variables, tuple(children), output=level == PASS_2)
        rest = {n: p for n, p in parts.items() if n != drop.e}
        return rest | {drop.f: Part(node, level)}


def leaf(atom: int, variables: Sequence[str], rank: Mapping[str, int]) -> Node:
    return Node(tuple(sorted(variables, key=lambda v: rank[v])), kind="atom", atom=atom)
