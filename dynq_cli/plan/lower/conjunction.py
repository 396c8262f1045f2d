"""Bodies of queries in one, with some of their variables made equal, NULL to NULL.

    conjunction([q, …], heads)    the rows that all of the queries have
    equated(q, x, y)              the rows of q that have x = y

Where an atom binds two variables that are equal now, it keeps one and is filtered; so is an atom that has both sides of
a comparison now, or one side twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from dynq_cli.plan.lower.push_down_filters import filtered_within
from dynq_cli.plan.lower.query_builders import unique
from dynq_cli.query.normal_form import Atom, Binding, Comparison, ConjunctiveQuery, OutputColumn, Scalar, Variable
from dynq_cli.spec.types import BOOL


class _Classes:
    """Which things are the same."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def root(self, thing: Hashable) -> Hashable:
        while (above := self._above.get(thing, thing)) != thing:
            thing = above
        return thing

    def join(self, one: Hashable, other: Hashable) -> None:
        self._above[self.root(one)] = self.root(other)


def conjunction(name: str, queries: Sequence[ConjunctiveQuery], heads: Sequence[Sequence[str]]) -> ConjunctiveQuery:
    """Intersect queries, as a set: their first variables are made equal, then their second ones, and so on."""
    classes = _Classes()
    for i, head in enumerate(heads):
        for place, variable in enumerate(head):
            classes.join((i, variable), place)
    named: dict[Hashable, str] = {}
    for place, variable in enumerate(heads[0]):
        named.setdefault(classes.root(place), variable)
    said: list[Mapping[str, str]] = []
    for i, query in enumerate(queries):
        for v in query.variables:
            root = classes.root((i, v.name))
            if root not in named:
                named[root] = unique(v.name, set(named.values()))
        said.append({v.name: named[classes.root((i, v.name))] for v in query.variables})
    shown = dict.fromkeys(named[classes.root(place)] for place in range(len(heads[0])))
    return _one_body(name, queries, said, tuple(shown))


def equated(query: ConjunctiveQuery, x: str, y: str) -> ConjunctiveQuery:
    """The rows of a query in which two variables of one type are equal, and are one."""
    said = {v.name: x if v.name == y else v.name for v in query.variables}
    head = dict.fromkeys(said[v] for v in query.head)
    return replace(_one_body(query.name, [query], [said], tuple(head)), semantics=query.semantics)


def _one_body(
    name: str, queries: Sequence[ConjunctiveQuery], said: Sequence[Mapping[str, str]], head: tuple[str, ...]
) -> ConjunctiveQuery:
    atoms: list[Atom] = []
    comparisons: list[Comparison] = []
    variables: dict[str, Variable] = {}
    for query, names in zip(queries, said, strict=True):
        for v in query.variables:
            known = variables.get(names[v.name])
            nullable = v.nullable and (known is None or known.nullable)
            variables[names[v.name]] = Variable(names[v.name], known.type if known else v.type, nullable)
        for atom in query.atoms:
            alias = unique(atom.alias, {a.alias for a in atoms})
            atoms.append(replace(_renamed(atom, names), alias=alias))
        comparisons += [replace(c, left=names[c.left], right=names[c.right]) for c in query.comparisons]
    made = ConjunctiveQuery(
        name=name,
        atoms=tuple(atoms),
        comparisons=tuple(dict.fromkeys(comparisons)),
        variables=tuple(variables.values()),
        head=head,
        columns=tuple(OutputColumn(v, variables[v].type, variables[v].nullable, "variable", v) for v in head),
        semantics="set",
    )
    return filtered_within(made)


def _renamed(atom: Atom, names: Mapping[str, str]) -> Atom:
    assert atom.mode == "join", atom
    bindings: dict[str, Binding] = {}
    filters = list(atom.filters)
    for b in atom.bindings:
        known = bindings.setdefault(names[b.variable], replace(b, variable=names[b.variable]))
        if (known.scalar.sql, known.part) != (b.scalar.sql, b.part):
            filters.append(_same(known.scalar, b.scalar))
    return replace(atom, bindings=tuple(bindings.values()), filters=tuple(dict.fromkeys(filters)))


def _same(left: Scalar, right: Scalar) -> Scalar:
    columns = tuple(sorted({*left.columns, *right.columns}))
    return Scalar(f"({left.sql}) IS NOT DISTINCT FROM ({right.sql})", BOOL, False, columns)
