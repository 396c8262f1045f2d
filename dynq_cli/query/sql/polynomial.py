"""Numeric expressions over several tables → Σ coefficient · Π factors, one factor per table.

What reads one table is one factor, as it stands. Across tables, * is distributed over + and -,
division is by constants only, and `CASE WHEN c THEN p END` is p times a factor of c's table that
is 1 or NULL. A product is NULL where a factor is, as SQL has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from dynq_cli.query.normal_form import Factor, Monomial
from dynq_cli.query.sql.allow import may_be_null
from dynq_cli.query.sql.build import Body
from dynq_cli.query.sql.constants import number
from dynq_cli.query.sql.context import Context, bare, tables_of
from dynq_cli.query.sql.predicates import conjuncts
from dynq_cli.query.sql.scalars import closed, scalar

_MOST = 256


@dataclass(frozen=True)
class _Product:
    coefficient: Decimal
    factors: dict[int, exp.Expr]
    constants: tuple[exp.Expr, ...] = ()

    def times(self, other: _Product) -> _Product:
        factors = dict(self.factors)
        for table, node in other.factors.items():
            known = factors.get(table)
            factors[table] = node if known is None else _product(known, node)
        return _Product(self.coefficient * other.coefficient, factors, self.constants + other.constants)

    def negated(self) -> _Product:
        return _Product(-self.coefficient, self.factors, self.constants)


def _product(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Mul(this=closed(left.copy()), expression=closed(right.copy()))


ONE = _Product(Decimal(1), {})


def polynomial(body: Body, node: exp.Expr) -> tuple[Monomial, ...]:
    """The monomials of a resolved expression. Raises QueryProblems where it is no polynomial."""
    return tuple(_monomial(body, p) for p in _expand(body.context, node))


def _monomial(body: Body, product: _Product) -> Monomial:
    factors = dict(product.factors)
    for constant in product.constants:
        table = min(factors, default=min(body.atoms))
        known = factors.get(table)
        factors[table] = constant if known is None else _product(known, constant)
    made = [Factor(body.atoms[t], scalar(body.context, node)) for t, node in factors.items()]
    return Monomial(product.coefficient, tuple(sorted(made, key=lambda f: f.atom)))


def _expand(context: Context, node: exp.Expr) -> list[_Product]:
    inner = bare(node)
    tables = tables_of(inner)
    if len(tables) == 1:
        return [_Product(Decimal(1), {tables[0]: inner})]
    if not tables:
        value = number(inner)
        return [_Product(Decimal(1), {}, (inner,)) if value is None else _Product(value, {})]
    if isinstance(inner, exp.Neg):
        return [p.negated() for p in _expand(context, inner.this)]
    if isinstance(inner, exp.Add):
        return _checked(context, inner, _expand(context, inner.left) + _expand(context, inner.right))
    if isinstance(inner, exp.Sub):
        right = [p.negated() for p in _expand(context, inner.right)]
        return _checked(context, inner, _expand(context, inner.left) + right)
    if isinstance(inner, exp.Mul):
        right = _expand(context, inner.right)
        return _checked(context, inner, [a.times(b) for a in _expand(context, inner.left) for b in right])
    if isinstance(inner, exp.Div) and not tables_of(inner.right):
        return [_divided(p, inner.right) for p in _expand(context, inner.left)]
    if isinstance(inner, exp.Case):
        found = _case(context, inner)
        if found is not None:
            return _checked(context, inner, found)
    named = " and ".join(context.tables[t].alias for t in tables)
    message = f"this expression over {named} is no sum of products"
    hint = "across tables, use + - * only, divide by constants, and keep functions and CASE to one table"
    raise context.refuse(inner, message, hint)


def _checked(context: Context, node: exp.Expr, products: list[_Product]) -> list[_Product]:
    if len(products) > _MOST:
        message = f"multiplied out, this expression has more than {_MOST} terms"
        raise context.refuse(node, message, "aggregate its parts and combine them in the SELECT list")
    return products


def _divided(product: _Product, divisor: exp.Expr) -> _Product:
    """Divide one factor, so that the division is DuckDB's own."""
    if not product.factors:
        quotient = exp.Div(this=_literal(product.coefficient), expression=closed(divisor.copy()))
        return _Product(Decimal(1), {}, (*product.constants, quotient))
    table, node = next(iter(product.factors.items()))
    quotient = exp.Div(this=closed(node.copy()), expression=closed(divisor.copy()))
    return _Product(product.coefficient, {**product.factors, table: quotient}, product.constants)


def _literal(value: Decimal) -> exp.Expr:
    made = exp.Literal.number(f"{abs(value):f}")
    return exp.Paren(this=exp.Neg(this=made)) if value < 0 else made


def _case(context: Context, node: exp.Case) -> list[_Product] | None:
    """CASE WHEN c THEN p [ELSE q] END, c over one table; with ELSE only where no product can be
    NULL, NaN or infinite, since 0 times those is not 0."""
    branches, default = node.args["ifs"], node.args.get("default")
    if node.this is not None or len(branches) != 1 or len(tables_of(branches[0].this)) != 1:
        return None
    condition, result = branches[0].this, branches[0].args["true"]
    if default is None or isinstance(bare(default), exp.Null):
        return [_when(condition, "1").times(p) for p in _expand(context, result)]
    if any(not _plain(context, part) for part in (result, default)):
        return None
    yes = [_when(condition, "1", "0").times(p) for p in _expand(context, result)]
    if number(default) == 0:
        return yes
    return yes + [_when(condition, "0", "1").times(p) for p in _expand(context, default)]


def _plain(context: Context, node: exp.Expr) -> bool:
    if may_be_null(node, lambda c: context.column(c).nullable):
        return False
    return not any(context.column(c).type.is_float for c in node.find_all(exp.Column))


def _when(condition: exp.Expr, yes: str, no: str | None = None) -> _Product:
    (table,) = tables_of(condition)
    made = exp.Case(
        ifs=[exp.If(this=bare(condition).copy(), true=exp.Literal.number(yes))],
        default=None if no is None else exp.Literal.number(no),
    )
    return _Product(Decimal(1), {table: made})


def filtered(body: Body, node: exp.Expr, condition: exp.Expr) -> tuple[Monomial, ...]:
    """The monomials of `node`, NULL where the condition does not hold."""
    context = body.context
    guard = ONE
    for part in conjuncts(condition):
        if len(tables_of(part)) != 1:
            message = "a condition in FILTER is about one table"
            raise context.refuse(part, message, "join the conditions of different tables by AND")
        guard = guard.times(_when(part, "1"))
    products = _expand(context, node)
    merged = []
    for p in products:
        if len(p.factors) == 1 == len(guard.factors) and p.factors.keys() == guard.factors.keys():
            ((table, value),) = p.factors.items()
            case = exp.Case(ifs=[exp.If(this=bare(condition).copy(), true=value.copy())])
            merged.append(_Product(p.coefficient, {table: case}, p.constants))
        else:
            merged.append(p.times(guard))
    return tuple(_monomial(body, p) for p in merged)
