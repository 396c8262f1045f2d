"""A model → the hidden query that keeps its sums: all that least squares need of the rows (thesis, Lemma 7.3).

    model    {over: q, label: y, features: [x], degree: 1}      where q(x, y) :- R(a, x), S(a, y)
    query    models/m(m0 = count, m1 = Σ x, m2 = Σ x², m3 = Σ y, m4 = Σ x·y, m5 = Σ y²) :- R(a, x), S(a, y)

`monomials` lists the products by their exponents. The query is additive, so its sums are pushed below the joins, and
the rows that the model is fitted to are never made. Over groups, unions and sets with columns that are projected away,
the query is over a derived table. Rows where the label or a feature is NULL are left out of all sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import combinations_with_replacement

from dynq_cli.errors import Place, Problem, SpecError
from dynq_cli.query.aggregates.sums import sum_type
from dynq_cli.query.normal_form import (
    Aggregate,
    Atom,
    Binding,
    ConjunctiveQuery,
    Factor,
    Monomial,
    OutputColumn,
    Query,
    Scalar,
    UnionQuery,
    Variable,
    View,
)
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Column, ModelSpec
from dynq_cli.spec.types import INT64, MAX_PRECISION, decimal

Exponents = tuple[int, ...]


def terms(model: ModelSpec) -> tuple[Exponents, ...]:
    """The terms of a model by the exponents of its features, 1 first, then by degree.

    >>> terms(ModelSpec("m", "q", "y", ("a", "b"), 2))
    ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
    """
    return _products(len(model.features), model.degree)


def monomials(model: ModelSpec) -> tuple[Exponents, ...]:
    """The products whose sums are kept, by the exponents of the features and of the label; the first is 1.

    >>> monomials(ModelSpec("m", "q", "y", ("a",)))
    ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (0, 2))
    """
    many = len(model.features)
    found = [(*e, 0) for e in _products(many, 2 * model.degree)]
    found += [(*e, 1) for e in _products(many, model.degree)]
    return (*found, (*(0,) * many, 2))


def _products(many: int, degree: int) -> tuple[Exponents, ...]:
    return tuple(
        tuple(some.count(i) for i in range(many))
        for size in range(degree + 1)
        for some in combinations_with_replacement(range(many), size)
    )


def product_name(names: tuple[str, ...], exponents: Exponents) -> str:
    """A product as results name it.

    >>> product_name(("a", "b"), (2, 1)), product_name(("a", "b"), (0, 0))
    ('a^2*b', '1')
    """
    powers = [n if e == 1 else f"{n}^{e}" for n, e in zip(names, exponents, strict=True) if e]
    return "*".join(powers) or "1"


def model_query(model: ModelSpec, over: Query) -> ConjunctiveQuery:
    """The hidden query of a model. Raises SpecError with all columns that are not there or are no numbers."""
    columns = _columns(model, over)
    plain = _plain(over, [columns[name] for name in columns])
    body = plain if plain is not None else _over_rows(model, over)
    factors = {name: _factor(body, columns[name].name) for name in (*model.features, model.label)}
    present = [f for f in factors.values() if f.scalar.nullable]
    made = []
    for number, exponents in enumerate(monomials(model)):
        several = tuple(f for f, e in zip(factors.values(), exponents, strict=True) for _ in range(e))
        if not several:
            made.append(Aggregate(f"m{number}", "count", INT64, False, (Monomial(Decimal(1), tuple(present)),)))
            continue
        rest = [f for f in present if f not in several]
        floats = next((f.scalar.type for f in (*several, *rest) if f.scalar.type.is_float), None)
        scale = sum(f.scalar.type.scale for f in several)
        if floats is None and scale > MAX_PRECISION:
            _refuse(model, scale)
        kind = decimal(MAX_PRECISION, scale) if floats is None else sum_type(floats)
        # What is multiplied by 0 may not be NULL either.
        absent = tuple(Monomial(Decimal(0), (f,)) for f in rest)
        made.append(Aggregate(f"m{number}", "sum", kind, True, (Monomial(Decimal(1), several), *absent)))
    groups = [_column(body, columns[name].name) for name in model.per]
    shown = [
        OutputColumn(name, c.type, c.nullable, "variable", c.source) for name, c in zip(model.per, groups, strict=True)
    ]
    shown += [OutputColumn(a.name, a.type, a.nullable, "aggregate", a.name) for a in made]
    return replace(
        body,
        name=model.query,
        head=tuple(dict.fromkeys(c.source for c in groups)),
        columns=tuple(shown),
        grouped=True,
        one_row=not model.per,
        aggregates=tuple(made),
        order=(),
        keep="all",
    )


def _columns(model: ModelSpec, over: Query) -> Mapping[str, OutputColumn]:
    """The result's columns by the names that the model has for them."""
    by_name = {c.name.lower(): c for c in over.columns}
    found: dict[str, OutputColumn] = {}
    problems: list[Problem] = []
    named = (model.label, *model.features, *model.per)
    for number, (name, place) in enumerate(zip(named, model.places[1:], strict=True)):
        column = by_name.get(name.lower())
        if column is None:
            known = ", ".join(c.name for c in over.columns) or "none"
            problems.append(Problem(place, f"query {model.over} has no column {name}", f"its columns are {known}"))
            continue
        if number <= len(model.features) and not column.type.is_numeric:
            message = f"column {name} is {column.type}, and a model is about numbers"
            problems.append(Problem(place, message, "cast it in the query, as in CAST(… AS DOUBLE)"))
        found[name] = column
    if problems:
        raise SpecError(problems)
    return found


def _refuse(model: ModelSpec, scale: int) -> None:
    message = f"a product of model {model.name} has {scale} digits after the point, and sums have {MAX_PRECISION}"
    raise SpecError([Problem(_place(model), message, "round the columns in the query, or lower the degree")])


def _place(model: ModelSpec) -> Place:
    assert model.place is not None
    return model.place


def _plain(over: Query, used: list[OutputColumn]) -> ConjunctiveQuery | None:
    """The query itself, if its bindings are its rows and its columns are variables of it; else None."""
    if isinstance(over, UnionQuery) or over.grouped or any(c.kind != "variable" for c in used):
        return None
    joined = frozenset().union(*(a.variables for a in over.atoms if a.mode == "join"))
    return over if over.semantics == "bag" or joined <= frozenset(over.head) else None


def _over_rows(model: ModelSpec, over: Query) -> ConjunctiveQuery:
    """The rows of the query, from a derived table."""
    view = f"{model.query}.{over.name}"
    columns = tuple(Column(c.name, c.type, c.nullable) for c in over.columns)
    scalars = [Scalar(quote(c.name), c.type, c.nullable, (c.name,)) for c in columns]
    bindings = tuple(Binding(c.name, s) for c, s in zip(columns, scalars, strict=True))
    return ConjunctiveQuery(
        name=model.query,
        atoms=(Atom(over.name, view, bindings),),
        comparisons=(),
        variables=tuple(Variable(c.name, c.type, c.nullable) for c in columns),
        head=(),
        columns=tuple(OutputColumn(c.name, c.type, c.nullable, "variable", c.name) for c in columns),
        semantics="bag",
        views=(View(view, columns, replace(over, name=view, order=(), keep="all")),),
        max_view_rows=over.max_view_rows,
    )


def _column(body: ConjunctiveQuery, name: str) -> OutputColumn:
    return next(c for c in body.columns if c.name == name)


def _factor(body: ConjunctiveQuery, name: str) -> Factor:
    """A column as the scalar of an atom."""
    variable = _column(body, name).source
    for i, atom in enumerate(body.atoms):
        binding = atom.binding(variable)
        if atom.mode == "join" and binding is not None:
            return Factor(i, binding.scalar)
    raise AssertionError(f"{variable} is bound nowhere in {body}")
