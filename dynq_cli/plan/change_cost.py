"""What one changed row of each relation costs, through all steps of a program.

    orders → tree q/1 → relation q/2 → tree q

A changed row touches a row in every view between its leaf and the root. Across an edge that is no guard it touches the
rows that share a value with it: a *fan-out*, such as the orders of a customer. A tree that feeds a relation passes on
the rows of its result that come or go, and each of those is a change in the steps after it. So the cost of a change is
a sum of products of fan-outs. A fan-out that a key bounds is one row and is left out.

    O(n^k)   no product has more rows than the views that it touches, or the result that it changes: k is the fewest
             relations that cover their columns
    log n    a view on the way is an ordered tree: an order, a range, MIN or MAX
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from dynq_cli.plan.bounds import power
from dynq_cli.plan.choose import weights_of
from dynq_cli.plan.cost import Weights, is_keyed
from dynq_cli.plan.delta_join import bound_in, signature
from dynq_cli.plan.heavy_pairs import exponent_of
from dynq_cli.plan.plan import Plan
from dynq_cli.plan.program import Cycle, Derived, Partitions, Program, Tree, passages, query_of
from dynq_cli.plan.view_tree import Node
from dynq_cli.plan.waiting_sums import waiting_nodes
from dynq_cli.query.aggregates import basic
from dynq_cli.query.normal_form import Atom, ConjunctiveQuery
from dynq_cli.spec.model import Spec

Variables = frozenset[str]
# Sets of atoms that are tried as a cover; a larger cover is not looked for.
MOST_COVERING = 4


@dataclass(frozen=True)
class FanOut:
    """The rows of a relation that one row meets: those with the same `shared`, those in the range `compared`.

    With `others`, the fewest of these and of those; with `limit` no more than so many, amortised.
    """

    rows: str
    shared: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    others: tuple[FanOut, ...] = ()
    limit: str = ""

    def __str__(self) -> str:
        if self.others:
            lists = " or ".join(f"{o.rows} with the same {_listed(o.shared)}" for o in (self, *self.others))
            most = f", at most {self.limit} amortised: pairs of values with more rows are kept" if self.limit else ""
            return f"each row of {lists}, whichever are fewer{most}"
        by = [f"the same {_listed(self.shared)}"] if self.shared else []
        by += [" and ".join(self.compared)] if self.compared else []
        return f"each row of {self.rows} with {' and '.join(by)}" if by else f"every row of {self.rows}"


@dataclass(frozen=True)
class Rows:
    """A number of rows: the product of fan-outs, and the power of n that it never exceeds."""

    fan_outs: tuple[FanOut, ...] = ()
    exponent: float = 0

    def times(self, other: Rows, most: float) -> Rows:
        """For each of these rows the others; `most` bounds the exponent."""
        fan_outs = tuple(dict.fromkeys((*self.fan_outs, *other.fan_outs)))
        return Rows(fan_outs, min(self.exponent + other.exponent, most) if fan_outs else 0)

    def __str__(self) -> str:
        return ", and for each of them ".join(map(str, self.fan_outs))


ONE = Rows()


@dataclass(frozen=True)
class ChangeCost:
    """What one changed row of a relation touches: a row in each of `views`, and all of `rows`, where there are any."""

    relation: str
    views: frozenset[str]
    rows: tuple[Rows, ...] = ()
    is_ordered: bool = False

    @property
    def exponent(self) -> float:
        return max((r.exponent for r in self.rows), default=0)

    @property
    def bound(self) -> str:
        if not self.exponent:
            return "O(log n)" if self.is_ordered else "O(1)"
        plain = power(self.exponent)
        return f"{plain[:-1]} log n)" if self.is_ordered else plain

    @property
    def meaning(self) -> str:
        if self.rows:
            return "; ".join(map(str, self.rows))
        many = len(self.views)
        where = "one row of one view" if many == 1 else f"one row in each of {many} views"
        return f"{where}, found in an ordered tree" if self.is_ordered else where

    def __str__(self) -> str:
        return f"{self.relation}: {self.meaning}, {self.bound}"

    def merged(self, other: ChangeCost) -> ChangeCost:
        """The cost of a row that stands in two places of a query."""
        rows = _longest((*self.rows, *other.rows))
        return replace(self, views=self.views | other.views, rows=rows, is_ordered=self.is_ordered or other.is_ordered)


def change_costs(program: Program, spec: Spec) -> tuple[ChangeCost, ...]:
    """The cost of a changed row, for each relation of the spec that the program reads, in the spec's order."""
    return Costs(program, spec).by_relation()


@dataclass(frozen=True)
class _Passed:
    """Rows that came or went in a tree: for each of `before`, those that agree on `fixed`."""

    before: Rows
    fixed: Variables


class Costs:
    """The costs of a program's changes, and the sizes of its relations as powers of n."""

    def __init__(self, program: Program, spec: Spec) -> None:
        self.program = program
        self.spec = spec
        self.passages = passages(program.steps)
        derived = [s for s in program.steps if isinstance(s, Derived)]
        self.feeding = {f.tree for d in derived for f in d.feeds}
        # Groups are told apart by what they are grouped by.
        grouped = [replace(d.relation, key=d.groups.keys) for d in derived if d.groups and d.groups.keys]
        self._keyed = replace(spec, relations=(*spec.relations, *grouped))
        self.trees = {s.name: s.plan for s in program.steps if isinstance(s, Tree)}
        self.queries = {s.name: query_of(s) for s in program.steps if isinstance(s, Tree | Cycle)}
        # Per relation: the power of n that bounds its rows, and the spec's relations that it is made from.
        self.exponents: dict[str, int] = {r.name: 1 for r in spec.relations}
        self.origins: dict[str, tuple[str, ...]] = {r.name: (r.name,) for r in spec.relations}
        for step in derived:
            queries = [(self.queries[f.tree], f) for f in step.feeds]
            held = [step.kept_variables(f) for _, f in queries]
            self.exponents[step.name] = max(self.cover(q, h) for (q, _), h in zip(queries, held, strict=True))
            self.origins[step.name] = tuple(
                dict.fromkeys(name for q, _ in queries for a in q.atoms for name in self.origins[a.source])
            )

    def by_atom(self) -> Iterator[tuple[str, Atom, ChangeCost]]:
        """Tree or cycle, atom and cost, for every atom over a relation of the spec."""
        for name, query in self.queries.items():
            for i, atom in enumerate(query.atoms):
                if self.spec.relation(atom.source) is not None:
                    yield name, atom, self._from(name, i)

    def by_relation(self) -> tuple[ChangeCost, ...]:
        """The costs of a changed row, per relation of the spec that the program reads, in the spec's order."""
        found: dict[str, ChangeCost] = {}
        for _, atom, cost in self.by_atom():
            known = found.get(atom.source)
            found[atom.source] = cost if known is None else known.merged(cost)
        return tuple(found[r.name] for r in self.spec.relations if r.name in found)

    def cover(self, query: ConjunctiveQuery, variables: Variables) -> int:
        """The power of n that bounds how many values some variables of a query take, by whole covers."""
        keys = self.weights(query).keys
        atoms = [(self.fixed(query, a.variables, keys), self.exponents[a.source]) for a in query.atoms]
        variables &= bound_in(query)
        if not variables:
            return 0
        for size in range(1, min(len(atoms), MOST_COVERING) + 1):
            found = [
                sum(e for _, e in some)
                for some in combinations(atoms, size)
                if variables <= frozenset().union(*(v for v, _ in some))
            ]
            if found:
                return min(found)
        return sum(e for _, e in atoms)

    def weights(self, query: ConjunctiveQuery) -> Weights:
        return weights_of(query, self._keyed)

    def fixed(self, query: ConjunctiveQuery, variables: Variables, keys: Iterable[Variables | None]) -> Variables:
        """What given values of some variables fix, by keys."""
        several = [(key, a.variables) for key, a in zip(keys, query.atoms, strict=True) if key is not None]
        for _ in several:
            for key, held in several:
                if key <= variables:
                    variables |= held
        return variables

    def _from(self, tree: str, index: int) -> ChangeCost:
        """What a changed row of one atom of a tree costs there and in the steps after it."""
        relation = self.queries[tree].atoms[index].source
        views: dict[str, None] = {}
        rows: list[Rows] = []
        is_ordered = False
        changed: dict[str, list[Rows]] = {}
        passed: dict[str, list[_Passed]] = {}
        for step in self.program.steps:
            if isinstance(step, Tree | Cycle):
                query = query_of(step)
                here = [(i, r) for i, a in enumerate(query.atoms) for r in changed.get(a.source, ())]
                here += [(index, ONE)] if step.name == tree else []
                for i, before in dict.fromkeys(here):
                    if isinstance(step, Cycle):
                        views[f"{step.name}:{i}"] = None
                        rows.append(before.times(self._met(step, i), self.cover(query, bound_in(query))))
                    elif step.name not in self.passages:
                        views |= dict.fromkeys(_path_views(step, i))
                        rows.append(before.times(self._touched(step, i), self._largest(step.plan)))
                        is_ordered |= _is_ordered(step.plan, i)
                    if step.name in self.feeding:
                        one = self.fixed(query, query.atoms[i].variables, self.weights(query).keys)
                        rows.append(self._reached(query, before, one, frozenset(query.head)))
                        passed.setdefault(step.name, []).append(_Passed(before, one))
            elif isinstance(step, Derived):
                for feed in step.feeds:
                    held = step.kept_variables(feed)
                    query = self.queries[feed.tree]
                    for each in passed.get(feed.tree, ()):
                        views[step.name] = None
                        is_ordered |= _is_kept_in_order(step)
                        reached = self._reached(query, each.before, each.fixed, held)
                        changed.setdefault(step.name, []).append(reached)
                        if step.partitions is not None and step.partitions.functions and step.partitions.reach is None:
                            rows.append(
                                reached.times(self._partition(step, step.partitions), self.exponents[step.name])
                            )
                            changed[step.name][-1] = rows[-1]
        return ChangeCost(relation, frozenset(views), _longest(rows), is_ordered)

    def _partition(self, step: Derived, partitions: Partitions) -> Rows:
        fan_out = FanOut(" ⋈ ".join(self.origins[step.name]), partitions.keys, ())
        return Rows((fan_out,), self.exponents[step.name])

    def _largest(self, plan: Plan) -> int:
        """Of a tree: the power of n that bounds the rows of its largest view."""
        return max((self.exponents[a.source] for a in plan.query.atoms), default=1)

    def waiting(self, step: Tree) -> frozenset[Node]:
        """The nodes of a tree that a change of their compared child does not touch."""
        return waiting_nodes(step.plan, feeds=step.name in self.feeding)

    def _touched(self, step: Tree, index: int) -> Rows:
        """The rows of a tree's views that one changed row of an atom touches beyond one per level."""
        plan, waiting = step.plan, self.waiting(step)
        weights, found = self.weights(plan.query), ONE
        for parent, child in _path(plan.tree, index):
            shared = parent.shared(child)
            if (child.guards(parent) and not child.comparisons) or (child.comparisons and parent in waiting):
                continue
            if not child.comparisons and is_keyed(parent, frozenset(shared), weights):
                continue
            guard = next(plan.query.atoms[i] for i in parent.atoms if parent.vars <= plan.query.atoms[i].variables)
            fan_out = FanOut(self._named(plan.query, guard), shared, tuple(map(str, child.comparisons)))
            found = found.times(Rows((fan_out,), self.exponents[guard.source]), self._largest(plan))
        return found

    def _met(self, cycle: Cycle, index: int) -> Rows:
        """The rows that lists give for one changed row of an atom of a cycle."""
        query, found = cycle.query, ONE
        weights = self.weights(query)
        fixed = self.fixed(query, query.atoms[index].variables, weights.keys)
        single = [r for r in cycle.routes if len(r.changed) == 1]
        own = [r for r in single if r.changed == (index,)]
        # Of equal routes one is kept, that of another atom with the same rows.
        route = (own or [r for r in single if signature(query.atoms[r.changed[0]]) == signature(query.atoms[index])])[0]
        bound = self.fixed(query, query.atoms[route.changed[0]].variables, weights.keys)
        for level in route.levels:
            added = frozenset(level.variables)
            if added and not added <= bound:
                lists = [
                    FanOut(self._named(query, a), tuple(b.variable for b in a.bindings if b.variable in bound))
                    for a in (query.atoms[each.atom] for each in level.operands if each.scans)
                ]
                fan_out = replace(lists[0], others=tuple(lists[1:])) if len(lists) > 1 else lists[0]
                exponent = 1.0 if cycle.pairs is None else exponent_of(cycle)
                if cycle.pairs is not None:
                    fan_out = replace(fan_out, limit=power(exponent))
                found = found.times(Rows((fan_out,), exponent), max(1, self.cover(query, bound_in(query) - fixed)))
            bound = self.fixed(query, bound | added, weights.keys)
        return found

    def _reached(self, query: ConjunctiveQuery, before: Rows, fixed: Variables, wanted: Variables) -> Rows:
        """The values of `wanted` in the result of a step that given values of `fixed` meet, for each of some rows."""
        most = self.cover(query, wanted)
        fan_outs = list(self._fan_outs(query, fixed, wanted))
        reached = Rows(tuple(fan_outs), max(1, self.cover(query, wanted - fixed)) if fan_outs else 0)
        return before.times(reached, most)

    def _fan_outs(self, query: ConjunctiveQuery, fixed: Variables, wanted: Variables) -> Iterator[FanOut]:
        """Atoms joined along shared variables, the nearest first, until all that is wanted is fixed."""
        keys = self.weights(query).keys
        wanted &= bound_in(query)
        while not wanted <= fixed:
            atom = self._nearest(query, fixed, wanted - fixed)
            shared = tuple(b.variable for b in atom.bindings if b.variable in fixed)
            own = atom.variables - fixed
            compared = tuple(str(c) for c in query.comparisons if c.variables & own and c.variables & fixed)
            yield FanOut(self._named(query, atom), shared, compared)
            fixed = self.fixed(query, fixed | atom.variables, keys)

    def _nearest(self, query: ConjunctiveQuery, fixed: Variables, wanted: Variables) -> Atom:
        """The next atom on a shortest way to one that has something wanted."""
        links = [c.variables for c in query.comparisons]
        first: dict[int, int] = {}
        todo: list[int] = []
        for i, atom in enumerate(query.atoms):
            if atom.variables & fixed and not atom.variables <= fixed:
                first[i] = i
                todo.append(i)
        if not todo:
            near = [v for link in links if link & fixed for v in link - fixed]
            todo = [i for i, a in enumerate(query.atoms) if a.variables & frozenset(near)]
            first = {i: i for i in todo}
        for i in todo:
            if query.atoms[i].variables & wanted:
                return query.atoms[first[i]]
            for j, other in enumerate(query.atoms):
                if j not in first and other.variables & query.atoms[i].variables:
                    first[j] = first[i]
                    todo.append(j)
        return next(a for a in query.atoms if a.variables & wanted)

    def _named(self, query: ConjunctiveQuery, atom: Atom) -> str:
        """An atom in the spec's words: its relation, or those that a derived relation is made from."""
        if self.spec.relation(atom.source) is None:
            return " ⋈ ".join(self.origins[atom.source])
        repeated = sum(a.source == atom.source for a in query.atoms) > 1
        return f"{atom.source} {atom.alias}" if repeated and atom.alias != atom.source else atom.source


def _path(node: Node, atom: int) -> list[tuple[Node, Node]]:
    """The edges from the leaf of an atom up to the root."""
    if node.atom == atom:
        return []
    child = next(c for c in node.children if atom in c.atoms)
    return [*_path(child, atom), (node, child)]


def _path_views(step: Tree, atom: int) -> Iterator[str]:
    """Names for the views between the leaf of an atom and the root."""
    yield f"{step.name}:{atom}"
    for depth, (parent, _) in enumerate(reversed(_path(step.plan.tree, atom))):
        yield f"{step.name}:{depth}:{parent.variables}:{parent.atoms}"


def _is_ordered(plan: Plan, atom: int) -> bool:
    """Whether a changed row of an atom is found in, or put into, an ordered tree."""
    edges = _path(plan.tree, atom)
    return bool(plan.order) or any(c.comparisons for parent, _ in edges for c in parent.children)


def _is_kept_in_order(step: Derived) -> bool:
    if step.partitions is not None:
        return True
    return step.groups is not None and any(basic(m.aggregate.function).state == "ordered" for m in step.groups.measures)


def _longest(rows: Iterable[Rows]) -> tuple[Rows, ...]:
    """Numbers of rows without those that another one has as a part, and without 1."""
    several = [r for r in dict.fromkeys(rows) if r.fan_outs]
    return tuple(
        r
        for r in several
        if not any(
            o != r
            and set(r.fan_outs) <= set(o.fan_outs)
            and (set(r.fan_outs) < set(o.fan_outs) or o.exponent > r.exponent)
            for o in several
        )
    )


def _listed(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
