"""Read a union from the trees of its members, stored nowhere, and count it by inclusion and exclusion.

There is a tree per member, and one for each intersection of members, of which only the count is needed. Each has to fit
into one tree. With `keep: rows` there are the members' trees alone, of any number of members. In an order, all these
trees have it, over all columns. A union whose intersections are expensive to keep is a table where that is no larger
than the base tables. A union that feeds other steps is a table, too.

    query    SELECT a FROM R UNION SELECT c FROM T
    before   q = q.1 ∪ q.2
             q.1(a) :- R(a)
             q.2(c) :- T(c)
    steps    tree q/1(a) :- R(a)
             tree q/2(c) :- T(c)
             tree q/3(a) :- R(a), T(a)
             result q: rows of q/1, q/2, count + |q/1| + |q/2| - |q/3|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dynq_cli.plan.lower.conjunction import conjunction
from dynq_cli.plan.lower.inequality_by_subtraction import sets
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import is_wide
from dynq_cli.plan.lower.ranges import in_one_tree
from dynq_cli.plan.lower.store_union import rows_of
from dynq_cli.plan.lower.type_columns import exact
from dynq_cli.plan.order import completions
from dynq_cli.plan.program import Member, Term, Together, variables_of
from dynq_cli.query.core import core
from dynq_cli.query.normal_form import ConjunctiveQuery, Query, UnionQuery, VariableOrder

# Trees double with each.
MOST_MEMBERS = 4


def inclusion_exclusion(query: Query, program: PartialProgram) -> tuple[Query | None, PartialProgram]:
    if not isinstance(query, UnionQuery):
        return query, program
    made = union_of_trees(query, program)
    return (query, program) if isinstance(made, str) else (None, made)


def union_of_trees(query: UnionQuery, program: PartialProgram) -> PartialProgram | str:
    """The program that reads the union from several trees; or why it is a table, in words."""
    if any(o.nulls_first is not None for o in query.order):
        return "trees have NULL as the least value, and the order says otherwise"
    if not query.columns:
        return "it has one row, or none"
    if len(query.members) < 2:
        return "it has one member"
    if len(query.members) > MOST_MEMBERS and query.keep == "all":
        return f"its {len(query.members)} members have more intersections than are worth a tree each"
    members: list[ConjunctiveQuery] = []
    for i, each in enumerate(query.members):
        if isinstance(each, UnionQuery):
            return f"member {i + 1} is a union itself"
        if each.grouped:
            return f"member {i + 1} has groups"
        if not _is_plain(each):
            return f"rows of member {i + 1} are filtered by !="
        made = exact(each, [c.type for c in query.columns])
        plain, program = program.joins(replace(made, semantics="set") if query.semantics == "set" else made)
        fitting = in_one_tree(plain, program.spec)
        if fitting is None:
            return f"member {i + 1} is not a join that one tree keeps"
        members.append(fitting)
    if query.keep == "rows":
        return _uncounted(query, members, program)
    heads = [[v for c in m.columns for v in variables_of(c)] for m in members]
    counted: list[tuple[tuple[int, ...], ConjunctiveQuery]] = []
    for some in sets(range(len(members))):
        both = members[some[0]]
        if len(some) > 1:
            both = core(conjunction(query.name, [members[i] for i in some], [heads[i] for i in some]))
            if in_one_tree(both, program.spec) is None:
                return f"no tree keeps the intersection of members {_listed(some)}"
        counted.append((some, both))
    form = rows_of(query, [c.name for c in query.columns if is_wide(c.type)])
    if query.order:
        found = _in_one_order(form, counted, heads, program)
        if isinstance(found, str):
            return found
        form, counted = found
    terms: list[Term] = []
    for some, both in counted:
        sign = 1 if len(some) % 2 else -1
        tree, program = program.add_tree(both, is_read=True)
        terms.append(Term(tree, sign if len(some) == 1 or query.semantics == "set" else 0, sign))
    if all(_is_small(m, program) for m in members):
        for some, term in zip(sets(range(len(members))), terms, strict=True):
            if program.is_wide(term.tree):
                what = f"the intersection of members {_listed(some)}" if len(some) > 1 else f"member {some[0] + 1}"
                return f"a change can touch many rows of {what}, and the table is no larger than the base tables"
    read = tuple(Member(t.tree, tuple(h)) for t, h in zip(terms, heads, strict=False))
    return program.add_result(Together(query.name, form, read, tuple(terms)))


_Counted = list[tuple[tuple[int, ...], ConjunctiveQuery]]


def _in_one_order(
    form: ConjunctiveQuery, counted: _Counted, heads: Sequence[Sequence[str]], program: PartialProgram
) -> tuple[ConjunctiveQuery, _Counted] | str:
    """The members and their intersections in one order of all columns; or why there is none, in words.

    The columns asked for come first, then the others, in the first order that every tree keeps.
    """
    if any(len(set(head)) < len(head) for head in heads):
        return "a member has one column twice, and its tree keeps no order of both"
    asked = {o.variable: o for o in reversed(form.order)}
    why = ""
    for order in completions([*{o.variable: None for o in form.order}], form.head):
        whole = [asked.get(v, VariableOrder(v)) for v in order]
        places = [form.head.index(v) for v in order]
        made: _Counted = []
        for some, both in counted:
            own = tuple(replace(o, variable=heads[some[0]][at]) for o, at in zip(whole, places, strict=True))
            ordered = in_one_tree(replace(both, order=own), program.spec)
            if ordered is None:
                what = f"the intersection of members {_listed(some)}" if len(some) > 1 else f"member {some[0] + 1}"
                why = why or f"no tree keeps {what} in the order of {', '.join(order)}"
                break
            made.append((some, ordered))
        if len(made) == len(counted):
            return replace(form, order=tuple(whole)), made
    return why


def _uncounted(query: UnionQuery, members: Sequence[ConjunctiveQuery], program: PartialProgram) -> PartialProgram:
    """The rows of the members; whoever asks for the count walks them."""
    read = []
    for each in members:
        tree, program = program.add_tree(each, is_read=True)
        read.append(Member(tree, tuple(v for c in each.columns for v in variables_of(c))))
    pairs = [c.name for c in query.columns if is_wide(c.type)]
    return program.add_result(Together(query.name, rows_of(query, pairs), tuple(read), ()))


def _listed(members: Sequence[int]) -> str:
    *most, last = (str(i + 1) for i in members)
    return f"{', '.join(most)} and {last}"


def _is_small(query: ConjunctiveQuery, program: PartialProgram) -> bool:
    """Whether a query has no more distinct rows than a relation of the spec."""
    head = frozenset(query.head)
    return any(head <= a.variables and program.derived(a.source) is None for a in query.atoms)


def _is_plain(query: ConjunctiveQuery) -> bool:
    """Whether comparisons with != leave nothing to filter by."""
    return all(c.op != "!=" for c in query.comparisons)
