"""Unions: each member has its own plan, and the count comes from one of three places.

    sum                   UNION ALL: counts add up
    inclusion-exclusion   every intersection of members is q-hierarchical, so it can be counted in O(1)
    table                 otherwise the distinct rows are kept in a table

The intersection of conjunctive queries is the conjunction of their bodies with the heads made equal,
NULL to NULL, as UNION does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from dynq_cli.plan.bounds import total
from dynq_cli.plan.plan import AnyPlan, Guarantee, Guarantees, Plan, UnionCount, UnionPlan
from dynq_cli.query.classify import Classification, classify
from dynq_cli.query.hypergraph import Hypergraph
from dynq_cli.query.normal_form import Comparison, ConjunctiveQuery, UnionQuery

MOST_MEMBERS = 6


def plan_union(query: UnionQuery, members: Sequence[AnyPlan]) -> UnionPlan:
    count_by = _count_by(query, members)
    classes = _classes(members)
    refusal = next((m.refusal for m in members if m.refusal), "")
    return UnionPlan(query, tuple(members), classes, count_by, _guarantees(query, members, count_by), (), refusal)


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


def _count_by(query: UnionQuery, members: Sequence[AnyPlan]) -> UnionCount:
    if query.semantics == "bag":
        return "sum"
    plain = [m.query for m in members if isinstance(m, Plan) and not m.query.grouped]
    if len(plain) != len(members) or len(plain) > MOST_MEMBERS:
        return "table"
    for size in range(1, len(plain) + 1):
        for some in combinations(plain, size):
            shape = intersection(some)
            if shape is None or not classify(shape).q_hierarchical:
                return "table"
    return "inclusion-exclusion"


def intersection(queries: Sequence[ConjunctiveQuery]) -> Hypergraph | None:
    """The shape of the intersection, or None if an output column is computed and cannot be equated."""
    edges: list[frozenset[str]] = []
    comparisons: list[Comparison] = []
    tested: list[bool] = []
    same: dict[str, str] = {}

    def root(name: str) -> str:
        while same.get(name, name) != name:
            name = same[name]
        return name

    for n, q in enumerate(queries):
        for position, column in enumerate(q.columns):
            if column.kind != "variable":
                return None
            a, b = root(f"{n}.{column.source}"), root(f"column {position}")
            same[a] = b
    for n, q in enumerate(queries):
        edges += [frozenset(root(f"{n}.{v}") for v in atom.variables) for atom in q.atoms]
        tested += [atom.mode != "join" for atom in q.atoms]
        comparisons += [
            Comparison(root(f"{n}.{c.left}"), c.op, root(f"{n}.{c.right}"), c.offset, c.temporal) for c in q.comparisons
        ]
    free = frozenset(root(f"column {i}") for i in range(len(queries[0].columns)))
    return Hypergraph(tuple(edges), tuple(comparisons), free, tuple(tested))


def _guarantees(query: UnionQuery, members: Sequence[AnyPlan], count_by: UnionCount) -> Guarantees:
    is_table = count_by == "table"
    delay = [m.guarantees.delay.bound for m in members]
    update = [m.guarantees.update.bound for m in members] + ["O(|Δ|)"] * is_table
    space = [m.guarantees.space.bound for m in members] + [f"O(|{query.name}|)"] * is_table
    fed = "; each of the Δ rows that come or go in a member updates one row of the table" * is_table
    counts = {
        "sum": "the members' counts add up",
        "inclusion-exclusion": "from the counts of the members and of their intersections, each kept in O(1)",
        "table": "the distinct rows are kept in a table",
    }
    return Guarantees(
        Guarantee(total(update), "that of the member that costs most" + fed),
        Guarantee(total(delay), "members are read in turn, each row reported by one of them only"),
        Guarantee("O(1)", counts[count_by]),
        Guarantee("O(n)", "walks the members; a union keeps no order"),
        Guarantee(total(space), "that of the members" + " and of the table of distinct rows" * is_table),
    )
