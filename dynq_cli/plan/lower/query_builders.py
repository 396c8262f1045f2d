"""Small queries made from parts of others: what the steps of a program keep."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from dynq_cli.plan.program import high, low
from dynq_cli.query import scalar as sql
from dynq_cli.query.normal_form import (
    Atom,
    Binding,
    Comparison,
    ConjunctiveQuery,
    OutputColumn,
    Part,
    Scalar,
    Variable,
)
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Column, Relation, Semantics
from dynq_cli.spec.types import INT64, Type, widen

# What a code of a decimal holds; one of more digits is an id, or a pair.
NARROW_DIGITS = 18
ONE = Scalar("1", INT64, False, ())


def is_wide(kind: Type) -> bool:
    return kind.name == "decimal" and kind.precision > NARROW_DIGITS


def same_codes(a: Type, b: Type) -> bool:
    """Whether a value has one code as either type."""
    if a.name == b.name == "decimal":
        return a.scale == b.scale and not is_wide(a) and not is_wide(b)
    return a == b or (a.is_integer and b.is_integer) or (a.is_float and b.is_float)


def part_of(
    query: ConjunctiveQuery,
    atoms: Sequence[Atom],
    head: Collection[str],
    comparisons: Iterable[Comparison] = (),
    semantics: Semantics | None = None,
) -> ConjunctiveQuery:
    """Some atoms of a query, as joins, with a head of their own; variables stand in the order of the query."""
    bound = frozenset().union(*(a.variables for a in atoms))
    variables = tuple(v for v in query.variables if v.name in bound)
    shown = tuple(v for v in variables if v.name in head)
    return ConjunctiveQuery(
        name=query.name,
        atoms=tuple(replace(a, mode="join", null_aware=None) for a in atoms),
        comparisons=tuple(comparisons),
        variables=variables,
        head=tuple(v.name for v in shown),
        columns=tuple(OutputColumn(v.name, v.type, v.nullable, "variable", v.name) for v in shown),
        semantics=semantics or query.semantics,
    )


def shown(query: ConjunctiveQuery, head: Iterable[str]) -> ConjunctiveQuery:
    """The query with a head, and a column for each of its variables."""
    several = [query.variable(v) for v in dict.fromkeys(head)]
    columns = tuple(OutputColumn(v.name, v.type, v.nullable, "variable", v.name) for v in several)
    return replace(query, head=tuple(v.name for v in several), columns=columns)


def columns_of(query: ConjunctiveQuery) -> tuple[Column, ...]:
    """The head as columns of a relation."""
    return tuple(Column(v.name, v.type, v.nullable) for v in map(query.variable, query.head))


def atom_over(relation: Relation) -> Atom:
    """A relation whose columns are named as the variables they hold."""
    bindings = (Binding(c.name, Scalar(quote(c.name), c.type, c.nullable, (c.name,))) for c in relation.columns)
    return Atom(relation.name, relation.name, tuple(bindings))


def unique(name: str, taken: Collection[str]) -> str:
    made, count = name, 1
    while made in taken:
        count += 1
        made = f"{name}_{count}"
    return made


def names_of(query: ConjunctiveQuery) -> set[str]:
    """Every name that a new variable must not have; what two parts are named after is taken too."""
    variables = {v.name for v in query.variables}
    return variables | {v.rpartition(".")[0] for v in variables} | {a.name for a in query.aggregates}


def bind(query: ConjunctiveQuery, atom: int, variable: Variable, scalar: Scalar, part: Part = "") -> ConjunctiveQuery:
    """The query with one more variable, bound in one of its atoms."""
    atoms = list(query.atoms)
    atoms[atom] = replace(atoms[atom], bindings=(*atoms[atom].bindings, Binding(variable.name, scalar, part)))
    return replace(query, atoms=tuple(atoms), variables=(*query.variables, variable))


def bind_value(query: ConjunctiveQuery, atom: int, wish: str, scalar: Scalar) -> tuple[ConjunctiveQuery, str]:
    """A new variable for a scalar of an atom, or the two of a pair, and the name it got."""
    known = next(
        (b for b in query.atoms[atom].bindings if (b.scalar.sql, b.scalar.type) == (scalar.sql, scalar.type)), None
    )
    if not is_wide(scalar.type):
        if known is not None and not known.part:
            return query, known.variable
        name = unique(wish, names_of(query))
        return bind(query, atom, Variable(name, scalar.type, scalar.nullable), scalar), name
    if known is not None and known.part:
        return query, known.variable.removesuffix(".high").removesuffix(".low")
    name = unique(wish, names_of(query))
    for part, made in (("high", high(name)), ("low", low(name))):
        query = bind(query, atom, Variable(made, INT64, scalar.nullable), scalar, "high" if part == "high" else "low")
    return query, name


def with_one(query: ConjunctiveQuery, around: ConjunctiveQuery | None = None) -> tuple[ConjunctiveQuery, str]:
    """The query with a variable that is always 1: the column of a relation whose rows have no values.

    Its name is new to the query, and to the query around it.
    """
    first = next(i for i, a in enumerate(query.atoms) if a.mode == "join")
    name = unique("one", names_of(query) | (set() if around is None else names_of(around)))
    return bind(query, first, Variable(name, INT64), ONE), name


def where_bound(query: ConjunctiveQuery, variable: str) -> tuple[int, Binding]:
    """The first atom that joins and binds a variable."""
    for i, atom in enumerate(query.atoms):
        binding = atom.binding(variable)
        if atom.mode == "join" and binding is not None:
            return i, binding
    raise AssertionError(f"{variable} is bound nowhere in {query}")


def as_type(scalar: Scalar, kind: Type) -> Scalar:
    """The scalar as a type that holds its values; codes are those of the type."""
    if scalar.type == kind or (same_codes(scalar.type, kind) and not kind.is_float):
        return replace(scalar, type=kind)
    return sql.cast(scalar, kind)


def as_column(scalar: Scalar, kind: Type) -> Scalar:
    """What a variable is bound to in one atom, as a type that holds a column which the variable equals.

    Other atoms may have values that the type does not hold. These join with nothing, so any value will do for them.
    """
    is_numeric = scalar.type.is_numeric and kind.is_numeric
    if same_codes(scalar.type, kind) or widen(scalar.type, kind) == kind or not is_numeric:
        return as_type(scalar, kind)
    text = f"COALESCE(TRY_CAST({scalar.sql} AS {kind.sql}), CAST(0 AS {kind.sql}))"
    if scalar.nullable:
        text = f"CASE WHEN {scalar.sql} IS NOT NULL THEN {text} END"
    return Scalar(text, kind, scalar.nullable, scalar.columns)
