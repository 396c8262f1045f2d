"""What a tree promises: update per atom and overall, delay, count, jth, space.

A changed row climbs from its leaf to the root. Across a guard it touches one row of the parent;
across another edge the rows of the parent that agree on the shared variables (one, if these contain
a key), or a range of them where the edge compares. Reading a compared child, or keeping an order,
goes through a counted tree and costs O(log n).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from dynq_cli.plan.bounds import larger, power, total
from dynq_cli.plan.cost import Weights, is_keyed
from dynq_cli.plan.plan import DistinctTree, Guarantee, Guarantees, UpdateCost
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.normal_form import Atom, ConjunctiveQuery


def show(node: Node) -> str:
    return f"[{', '.join(node.variables)}]"


@dataclass(frozen=True)
class Kept:
    """What the guarantees depend on."""

    query: ConjunctiveQuery
    tree: Node
    weights: Weights
    ordered: bool
    projected: bool
    distinct: tuple[DistinctTree, ...] = ()

    @property
    def joins(self) -> list[Node]:
        return [n for n in self.tree.walk() if n.kind == "join"]

    @property
    def is_filtered_by_having(self) -> bool:
        """Whether groups are told apart by HAVING only when they are read: a table keeps those that pass."""
        return self.query.having is not None and not self.query.one_row and not self.projected

    @property
    def distinct_tables(self) -> list[DistinctTree]:
        """Trees that hold more than the groups and the counted variable: their projection is kept as a table."""
        head = frozenset(self.query.head)
        return [d for d in self.distinct if d.tree.output_variables != head | {d.variable}]


def updates_of(kept: Kept) -> tuple[UpdateCost, ...]:
    """What a changed row touches, atom by atom; of several trees, where it touches most."""
    found: dict[int, UpdateCost] = {}
    for tree in (kept.tree, *(d.tree for d in kept.distinct)):
        _climb(kept, tree, [], found)
    return tuple(found[i] for i in sorted(found))


def _climb(kept: Kept, node: Node, path: list[tuple[Node, Node]], found: dict[int, UpdateCost]) -> None:
    if node.atom is not None:
        cost = _cost_along(kept, kept.query.atoms[node.atom], path)
        if node.atom not in found or larger(cost.bound, found[node.atom].bound):
            found[node.atom] = cost
    for child in node.children:
        _climb(kept, child, [(node, child), *path], found)


def _cost_along(kept: Kept, atom: Atom, path: list[tuple[Node, Node]]) -> UpdateCost:
    name, wide, bound, exponent = atom.brief, [], "O(1)", 1
    if _has_nulls(atom):
        wide.append(f"every row of {show(path[0][0])} by a NULL")
    for parent, child in path:
        siblings = [c for c in parent.children if c is not child]
        before = len(wide)
        if parent.kind == "join":
            wide.append(f"its partners in {' and '.join(_names(kept, c) for c in siblings)}")
        elif child.comparisons:
            compared = ", ".join(str(c) for c in child.comparisons)
            wide.append(f"the rows of {show(parent)} in the range {compared}")
        elif not child.guards(parent):
            shared = parent.shared(child)
            if not is_keyed(parent, frozenset(shared), kept.weights):
                same = f"with the same {', '.join(shared)}" if shared else "(nothing is shared)"
                wide.append(f"every row of {show(parent)} {same}")
        if any(c.comparisons for c in siblings):
            bound = "O(log n)"
        for sibling in siblings:
            second = _second(parent, sibling)
            if second:
                wide.append(f"the rows of {_names(kept, sibling)}, filtered by {second}")
        if len(wide) > before:
            met = parent.vars.union(*(c.vars for c in siblings)) if parent.kind == "join" else parent.vars
            exponent = max(exponent, _cover(kept, parent, met if before else met - child.vars))
    if kept.ordered or _has_extremum(kept):
        bound = "O(log n)"
    if wide:
        return UpdateCost(name, power(exponent), f"touches {'; then '.join(wide)}")
    if bound == "O(1)":
        return UpdateCost(name, bound, "touches one row per level")
    return UpdateCost(name, bound, "touches one row per level, each through an ordered tree")


def _cover(kept: Kept, node: Node, variables: frozenset[str]) -> int:
    """The fewest atoms below a node that have all of some of its variables: these take at most n^cover values."""
    atoms = [kept.query.atoms[i].variables for i in node.atoms]
    sizes = range(1, len(atoms) + 1)
    return next(k for k in sizes if any(variables <= frozenset().union(*some) for some in combinations(atoms, k)))


def _has_nulls(atom: Atom) -> bool:
    """Whether it is the inner side of a NOT IN where one NULL rules out every row."""
    binding = atom.binding(atom.null_aware) if atom.null_aware is not None else None
    return binding is not None and binding.scalar.nullable


def _names(kept: Kept, node: Node) -> str:
    return ", ".join(kept.query.atoms[i].brief for i in node.atoms)


def _has_extremum(kept: Kept) -> bool:
    return any(a.function in ("min", "max") for a in kept.query.aggregates)


def guarantees_of(kept: Kept, updates: tuple[UpdateCost, ...]) -> Guarantees:
    return Guarantees(_update(kept, updates), _delay(kept), _count(kept), _jth(kept), _space(kept))


def _update(kept: Kept, updates: tuple[UpdateCost, ...]) -> Guarantee:
    bound = total(u.bound for u in updates)
    if bound == "O(1)":
        meaning = "a change touches one row per level of the tree, however large the data and the result are"
    elif bound == "O(log n)":
        meaning = "a change touches one row per level of the tree, each found in or put into an ordered tree"
    else:
        heavy = [u.atom for u in updates if u.bound == bound]
        meaning = f"a change of {_either(heavy)} can touch many rows; see changes"
    fed = []
    if kept.projected:
        fed.append("each of the Δ rows that come or go in the result before projection updates one row of the table")
    if kept.is_filtered_by_having:
        fed.append("HAVING is evaluated for each of the Δ groups that change")
    for d in kept.distinct_tables:
        fed.append(f"each of the Δ rows that come or go in the tree of {d.aggregate} updates one row of its table")
    return Guarantee(total([bound, *["O(|Δ|)" for _ in fed]]), "; ".join([meaning, *fed]))


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _filtered(kept: Kept) -> str:
    """A comparison that enumeration can only filter by, or nothing."""
    for parent, child in kept.tree.edges():
        if not child.output:
            continue
        for c in child.comparisons:
            if c.op == "!=":
                return str(c)
        second = _second(parent, child)
        if second:
            return second
    return ""


def _second(parent: Node, child: Node) -> str:
    """A comparison on a second variable of the child, whose rows are ordered by the first, or nothing."""
    sides = sorted({v for c in child.comparisons for v in c.variables if v not in parent.vars})
    return next((str(c) for c in child.comparisons if sides[1] in c.variables), "") if len(sides) > 1 else ""


def _delay(kept: Kept) -> Guarantee:
    if kept.projected:
        return Guarantee("O(1)", "the projected result is a table and is read row by row")
    if kept.is_filtered_by_having:
        return Guarantee("O(groups)", "groups are filtered by HAVING while they are enumerated")
    filtered = _filtered(kept)
    if filtered:
        return Guarantee("O(n)", f"rows are filtered by {filtered} while they are enumerated")
    return Guarantee("O(1)", "every step of the enumeration yields a row of the result")


def _count(kept: Kept) -> Guarantee:
    what = "groups" if kept.query.grouped else "rows"
    return Guarantee("O(1)", f"the number of {what} is kept with every version")


def _jth(kept: Kept) -> Guarantee:
    if kept.query.is_boolean or kept.query.one_row:
        return Guarantee("O(1)", "the result has at most one row")
    if kept.is_filtered_by_having:
        return Guarantee("O(groups)", "positions are counted before HAVING filters")
    if not kept.ordered:
        way = "walks the table" if kept.projected else "walks the first level and skips whole subtrees by their counts"
        return Guarantee("O(n)", f"{way}; order_by makes it O(log n)")
    if _filtered(kept) and not kept.projected:
        return Guarantee("O(n)", f"positions are counted before {_filtered(kept)} filters")
    return Guarantee("O(log n)", "one descent of a counted tree per column of the order")


def _space(kept: Kept) -> Guarantee:
    parts = ["n"]
    if kept.joins:
        parts += ["|" + " ⋈ ".join(_names(kept, c) for c in j.children) + "|" for j in kept.joins]
    if kept.projected:
        parts.append(f"|{kept.query.name}|")
    pairs = [", ".join([*kept.query.head, d.variable]) for d in kept.distinct_tables]
    parts += [f"|{kept.query.name}({pair})|" for pair in pairs]
    bound = f"O({' + '.join(parts)})"
    if len(parts) == 1:
        return Guarantee(bound, "the views are as large as the base tables; the result is never stored")
    stored = [f"the join of {' and '.join(_names(kept, c) for c in j.children)}" for j in kept.joins]
    stored += ["the projected result"] if kept.projected else []
    stored += [f"the table of distinct {pair}" for pair in pairs]
    verb = "is" if len(stored) == 1 else "are"
    return Guarantee(bound, f"{' and '.join(stored)} {verb} stored, within the budget of max_view_rows")


def ivm_epsilon_guarantees(degree: int) -> Guarantees:
    """IVM-epsilon with ε = 1/2: rows are split by the degree of their values."""
    shape = "triangle" if degree == 3 else f"Loomis–Whitney query of degree {degree}"
    return Guarantees(
        Guarantee("O(n^0.5)", f"amortised: the atoms of the {shape} are split into heavy and light values"),
        Guarantee("O(1)", "the result is one row"),
        Guarantee("O(1)", "the count is kept with every version"),
        Guarantee("O(1)", "the result is one row"),
        Guarantee("O(n^1.5)", "auxiliary views join the heavy part of one atom with the light part of another"),
    )
