"""Find edits of a spec that make a query cheaper to keep; each is tried by planning the edited query.

    add `o.customer_id` to the SELECT: saves the stored result, one row per order_id, name

Tried are columns added to the head, one or two; columns taken out of it; keys; `changes: often`; and, of a cycle,
comparisons left out. An edit is listed if the result is no longer stored, or if changes of a relation cost less and
those of no other cost more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice

from dynq_cli.plan.change_cost import Costs
from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.plan import AnyPlan
from dynq_cli.plan.program import Program
from dynq_cli.plan.program_cost import stored_result
from dynq_cli.plan.stored import rows_of
from dynq_cli.query.hypergraph import hypergraph_of
from dynq_cli.query.normal_form import ConjunctiveQuery, OutputColumn
from dynq_cli.query.reduction import is_acyclic
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Relation, Spec

MOST_TRIED, MOST_SAID = 24, 4
MOST_ATOMS = 8
Price = tuple[float, bool]


@dataclass(frozen=True)
class _Edited:
    """A query and its spec after an edit, which `text` says; `price_of` is the relation that it is about, if one."""

    text: str
    query: ConjunctiveQuery
    spec: Spec
    price_of: str = ""


def edits_of(plan: AnyPlan, program: Program, spec: Spec) -> Iterator[str]:
    """What to edit, and what that saves; nothing if no edit that was tried does."""
    query = plan.query
    if (
        not isinstance(query, ConjunctiveQuery)
        or query.views
        or plan.refusal
        or plan.unordered
        or len(query.atoms) > MOST_ATOMS
    ):
        return
    before, prices = stored_result(program), _prices(program, spec)
    said: list[str] = []
    if before is not None and before.groups is None:
        for edited in islice(_more_columns(query, spec), MOST_TRIED):
            made = _program(edited)
            if made is not None and stored_result(made) is None and _is_no_dearer(prices, _prices(made, edited.spec)):
                said.append(f"{edited.text}: saves the stored result, {rows_of(Costs(program, spec), before)}")
                break
    if any(exponent for exponent, _ in prices.values()):
        for kind in (_often, _more_columns, _fewer_columns, _keys, _without_comparisons):
            texts = [text.split(":")[0] for text in said]
            said += [text for text in _cheaper(kind(query, spec), prices) if text.split(":")[0] not in texts]
    yield from said[:MOST_SAID]


def _cheaper(edits: Iterator[_Edited], before: dict[str, Price]) -> Iterator[str]:
    """Edits of one kind that make changes cheaper, each of relations that those before it do not."""
    done: set[str] = set()
    for edited in islice(edits, MOST_TRIED):
        if edited.price_of and not before[edited.price_of][0]:
            continue
        made = _program(edited)
        if made is None:
            continue
        after = _prices(made, edited.spec)
        saved = [r for r in before if after.get(r, (0, False)) < before[r] and edited.price_of in ("", r)]
        if set(saved) <= done or not (edited.price_of or _is_no_dearer(before, after)):
            continue
        done |= set(saved)
        dearer = [r for r in before if after.get(r, (0, False)) > before[r]]
        more = f", and one of {_listed(dearer)} {_bounds(dearer, after)}" if dearer else ""
        yield f"{edited.text}: {_saves(saved, before, after)}{more}"


def _program(edited: _Edited) -> Program | None:
    """The program of an edited query; None if it cannot be kept."""
    plan = plan_query(edited.query, edited.spec)
    if plan.refusal or plan.unordered:
        return None
    return program_of(edited.query, edited.spec)


def _prices(program: Program, spec: Spec) -> dict[str, Price]:
    """By relation, what orders the costs of its changes."""
    return {c.relation: (c.exponent, c.is_ordered) for c in Costs(program, spec).by_relation()}


def _is_no_dearer(before: dict[str, Price], after: dict[str, Price]) -> bool:
    return all(after.get(relation, (0, False)) <= price for relation, price in before.items())


def _saves(relations: list[str], before: dict[str, Price], after: dict[str, Price]) -> str:
    """What changes of relations cost then, and now."""
    now, then = _bounds(relations, before), _bounds(relations, after)
    return f"a changed row of {_listed(relations)} costs {then}, not {now}"


def _bounds(relations: list[str], prices: dict[str, Price]) -> str:
    return _listed(list(dict.fromkeys(_bound(prices.get(r, (0, False))) for r in relations)))


def _bound(price: Price) -> str:
    exponent, is_ordered = price
    if not exponent:
        return "O(log n)" if is_ordered else "O(1)"
    plain = "n" if exponent == 1 else f"n^{exponent}"
    return f"O({plain} log n)" if is_ordered else f"O({plain})"


def _more_columns(query: ConjunctiveQuery, spec: Spec) -> Iterator[_Edited]:
    """One or two columns more in the head. Of a grouped query that would be other groups."""
    if query.grouped or query.is_boolean:
        return
    joined = {v for a in query.atoms if a.mode == "join" for v in a.variables}
    hidden = [v.name for v in query.variables if v.name in joined and v.name not in query.head]
    names = {v: name for v in hidden if (name := _written(query, spec, v))}
    for size in (1, 2):
        for added in combinations(names, size):
            wider = replace(query, head=(*query.head, *added), columns=(*query.columns, *_columns(query, added)))
            where = "the head" if _is_rule(query, spec) else "the SELECT"
            listed = _listed([f"`{names[v]}`" for v in added])
            also = "" if query.semantics == "bag" or _are_fixed(query, spec, added) else ", with a row for each of them"
            yield _Edited(f"add {listed} to {where}{also}", wider, spec)


def _are_fixed(query: ConjunctiveQuery, spec: Spec, added: tuple[str, ...]) -> bool:
    """Whether keys fix the added variables, given those of the head: then a set gets no more rows."""
    fixed = frozenset(query.head)
    for _ in query.atoms:
        for atom in query.atoms:
            relation = spec.relation(atom.source)
            key = relation.key if relation is not None else ()
            held = {b.scalar.sql: b.variable for b in atom.bindings}
            if key and atom.mode == "join" and all(held.get(quote(k)) in fixed for k in key):
                fixed |= atom.variables
    return frozenset(added) <= fixed


def _columns(query: ConjunctiveQuery, added: tuple[str, ...]) -> Iterator[OutputColumn]:
    for name in added:
        variable = query.variable(name)
        yield OutputColumn(name, variable.type, variable.nullable, "variable", name)


def _written(query: ConjunctiveQuery, spec: Spec, variable: str) -> str:
    """A variable as the query's author would write it; nothing if it is an expression."""
    if _is_rule(query, spec):
        return variable
    for atom in query.atoms:
        binding = atom.binding(variable) if atom.mode == "join" else None
        if binding is not None and binding.scalar.sql in map(quote, binding.scalar.columns):
            return f"{atom.alias}.{binding.scalar.columns[0]}"
    return ""


def _is_rule(query: ConjunctiveQuery, spec: Spec) -> bool:
    written = spec.query(query.name.split(".")[0])
    return written is not None and written.language == "rule"


def _fewer_columns(query: ConjunctiveQuery, spec: Spec) -> Iterator[_Edited]:
    """The head without one of its variables."""
    if query.grouped or query.order:
        return
    for v in query.head:
        kept = tuple(c for c in query.columns if not (c.kind == "variable" and c.source == v))
        if len(query.head) > 1 and len(kept) == len(query.columns) - 1 and all(c.kind == "variable" for c in kept):
            narrower = replace(query, head=tuple(w for w in query.head if w != v), columns=kept)
            name = next(c.name for c in query.columns if c.source == v)
            where = "the head" if _is_rule(query, spec) else "the SELECT"
            yield _Edited(f"take `{name}` out of {where}", narrower, spec)


def _keys(query: ConjunctiveQuery, spec: Spec) -> Iterator[_Edited]:
    """A key for a relation without one: a column that joins it with others."""
    for i, atom in enumerate(query.atoms):
        relation = spec.relation(atom.source)
        if relation is None or relation.key:
            continue
        others = frozenset().union(*(a.variables for j, a in enumerate(query.atoms) if j != i))
        for b in atom.bindings:
            if b.variable in others and b.scalar.sql in map(quote, b.scalar.columns):
                column = b.scalar.columns[0]
                text = f"if no two rows of {relation.name} have the same {column}, give it `key: [{column}]`"
                yield _Edited(text, query, _with(spec, replace(relation, key=(column,))))


def _often(query: ConjunctiveQuery, spec: Spec) -> Iterator[_Edited]:
    """Relations that `changes:` declares to change most."""
    for name in dict.fromkeys(atom.source for atom in query.atoms):
        relation = spec.relation(name)
        if relation is not None and relation.changes != "often":
            text = f"if {name} changes most, give it `changes: often`"
            yield _Edited(text, query, _with(spec, replace(relation, changes="often")), price_of=name)


def _without_comparisons(query: ConjunctiveQuery, spec: Spec) -> Iterator[_Edited]:
    """A cycle without one of its comparisons."""
    for c in () if is_acyclic(hypergraph_of(query)) else query.comparisons:
        rest = tuple(other for other in query.comparisons if other != c)
        yield _Edited(f"leave out {c}", replace(query, comparisons=rest), spec)


def _with(spec: Spec, changed: Relation) -> Spec:
    return replace(spec, relations=tuple(changed if r.name == changed.name else r for r in spec.relations))


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
