"""Explain why a program stores rows between its trees: what is joined first, and which comparisons have no range.

The plan of a query in one tree says which atoms it would join where no tree exists. What is kept may join others: a
tree of the engine compares one variable of each child, and has no other comparisons. So what is said comes from the
steps wherever the two differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from dynq_cli.plan.bounds import power
from dynq_cli.plan.choose import weights_of
from dynq_cli.plan.heavy_pairs import counts_triangles, exponent_of, pairs_space
from dynq_cli.plan.materialise import group_exponent, joining
from dynq_cli.plan.plan import Plan
from dynq_cli.plan.program import Cycle, Derived, Program, Tree, query_of
from dynq_cli.plan.strategies import strategy_of
from dynq_cli.plan.view_tree import Node
from dynq_cli.plan.waiting_sums import waiting_nodes
from dynq_cli.query.comparisons import Closure, Edge
from dynq_cli.query.hypergraph import hypergraph_of
from dynq_cli.query.normal_form import Comparison, ConjunctiveQuery
from dynq_cli.spec.model import Spec


def notes_of(plan: Plan, program: Program, spec: Spec) -> tuple[str, ...]:
    """The plan's notes, as far as they hold for what is kept, and why more is kept than it says."""
    groups = [_aliases(plan, node) for node in _nodes(plan.tree) if node.kind == "join"]
    made = {step.name: query for step, query in _joins(plan, program)}
    cycles = [step for step in program.steps if isinstance(step, Cycle)]
    if cycles:
        beside = [_joined(name, query, spec) for name, query in made.items()]
        return (*map(_by_delta, cycles), *beside, *_filtered(program), *_unused(plan, cycles, spec))
    notes = plan.notes
    if any(group not in [frozenset(a.alias for a in query.atoms) for query in made.values()] for group in groups):
        notes = tuple(_joined(name, query, spec) for name, query in made.items())
        strategy = strategy_of(plan.strategy)
        if strategy is not None and strategy.stores_projection:
            notes = (*notes, "the result asked for is kept as a table")
    return (*notes, *_waiting(program), *_filtered(program), *_unused(plan, cycles, spec))


def _waiting(program: Program) -> Iterator[str]:
    """Which comparisons touch no rows that read a range."""
    feeding = {feed.tree for step in program.steps if isinstance(step, Derived) for feed in step.feeds}
    for step in (step for step in program.steps if isinstance(step, Tree)):
        for node in waiting_nodes(step.plan, feeds=step.name in feeding):
            several = [str(c) for child in node.children for c in child.comparisons]
            read = ", and ranges are found as they are read" if node.output else ""
            yield (
                f"{' and '.join(several)} {'waits' if len(several) == 1 else 'wait'}: a change on either side changes "
                f"the sum of a whole group of [{', '.join(node.variables)}], by partial sums in ordered trees; none of "
                f"its rows is touched{read}"
            )


def _unused(plan: Plan, cycles: list[Cycle], spec: Spec) -> Iterator[str]:
    """That `epsilon` changes nothing."""
    written = spec.query(plan.name)
    if written is None or written.epsilon is None or any(cycle.pairs for cycle in cycles):
        return
    if written.epsilon == 1 and any(map(counts_triangles, (cycle.query for cycle in cycles))):
        yield "with `epsilon: 1` no value has enough rows for its pairs to be kept"
    else:
        yield "`epsilon` changes nothing here: it is for counts, exact sums and existence of triangles, without groups"


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _nodes(child)


def _aliases(plan: Plan, node: Node) -> frozenset[str]:
    """The atoms below a node."""
    return frozenset(plan.query.atoms[n.atom].alias for n in _nodes(node) if n.atom is not None)


def _joins(plan: Plan, program: Program) -> Iterator[tuple[Derived, ConjunctiveQuery]]:
    """Relations with joined atoms of the query, which are joined with others then; and what is joined in them."""
    trees = {s.name: s.plan.query for s in program.steps if isinstance(s, Tree)}
    read = {a.source for query in trees.values() if len(query.atoms) > 1 for a in query.atoms}
    own = {a.alias for a in plan.query.atoms}
    for step in program.steps:
        if isinstance(step, Derived) and step.groups is None and step.name in read and len(step.feeds) == 1:
            query = trees.get(step.feeds[0].tree)
            if query is None:
                continue
            if len(query.atoms) > 1 and own & {a.alias for a in query.atoms}:
                yield step, query


def _by_delta(cycle: Cycle) -> str:
    atoms = _listed([a.brief for a in cycle.query.atoms])
    if cycle.pairs is not None:
        epsilon = cycle.pairs.epsilon
        return (
            f"{atoms} form a triangle whose rows are only counted or summed up (IVM-ε, ε = {epsilon}). Kept are their "
            f"rows, in a list per value of each end, and sums over the paths between values that n^{epsilon} rows or "
            f"more have. A change costs {power(exponent_of(cycle))} amortised, however long the lists of a hub are; "
            f"N inserts cost O(N^{1 + exponent_of(cycle):g}) at most in all; the pairs take O({pairs_space(epsilon)})"
        )
    levels = [len([level for level in route.levels if level.variables]) for route in cycle.routes]
    lists = all(len(level.operands) == len(cycle.query.atoms) - 1 for r in cycle.routes for level in r.levels[:1])
    total = ""
    if max(levels, default=0) <= 1 and len(cycle.query.atoms) == 3 and lists:
        total = ". N inserts cost O(N^1.5) in all, so O(n^0.5) each"
    return (
        f"{atoms} form a cycle, which no tree has. Only their rows are kept, in a list per value of each end, and no "
        f"joined pairs: a changed row is joined with the shortest of the lists that it meets, and the other atoms are "
        f"looked up{total}"
    )


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _joined(name: str, query: ConjunctiveQuery, spec: Spec) -> str:
    atoms = " and ".join(a.brief for a in query.atoms)
    by = f" where {', '.join(map(str, query.comparisons))}" if query.comparisons else ""
    kind = "pair" if len(query.atoms) == 2 else "group"
    size = ""
    if all(spec.relation(a.source) is not None for a in query.atoms):
        graph = hypergraph_of(query)
        bounds = Closure((Edge(c.left, c.op, c.right, c.offset), None) for c in joining(graph))
        exponent = group_exponent(graph, bounds, weights_of(query, spec), tuple(range(len(query.atoms))))
        size = f" (about n^{exponent:.2f} rows where values are spread evenly)"
    why, what = "the atoms form a cycle", "of what breaks it up"
    if query.comparisons:
        why = "no tree has every comparison on an edge that compares one variable of its child"
        what = "of what is compared"
    return (
        f"{atoms} are joined into a relation of their own, {name}{by}: {why}, and {what} this {kind} is expected to "
        f"have the smallest join{size}"
    )


def _filtered(program: Program) -> Iterator[str]:
    """Why rows are looked at one by one: comparisons beside those on the edges of the tree they come from."""
    trees = {s.name: query_of(s) for s in program.steps if isinstance(s, Tree | Cycle)}
    for step in program.steps:
        if isinstance(step, Derived):
            for feed in step.feeds:
                left = [c for c in feed.where if c.op != "!="]
                if left:
                    yield _looked_at(trees[feed.tree], left, step)


def _looked_at(query: ConjunctiveQuery, left: list[Comparison], step: Derived) -> str:
    shown, ranges = " and ".join(map(str, left)), " and ".join(map(str, query.comparisons))
    why = f"no range of a tree has {shown}"
    if ranges:
        verb = "filter" if len(left) > 1 else "filters"
        why = (
            f"an edge of a tree compares one variable of its child: {query.name} has ranges by {ranges}, and {shown} "
            f"{verb} its rows"
        )
    kept = f"are added up in {step.name}" if step.groups else f"are stored, in {step.name}"
    return (
        f"{why}. Each row{f' with {ranges}' if ranges else ''} is looked at as it comes or goes (Δ), and those where "
        f"{shown} {kept}"
    )
