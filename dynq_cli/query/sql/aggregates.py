"""Aggregate calls → `DraftAggregate`s, and expressions over aggregates and group columns.

The same call is one aggregate however often it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from dynq_cli.query.draft import DraftAggregate, Expression, Term
from dynq_cli.query.normal_form import AggregateFunction, Monomial
from dynq_cli.query.sql.allow import may_be_null
from dynq_cli.query.sql.build import Body
from dynq_cli.query.sql.context import bare, key_of, plain_name, tables_of
from dynq_cli.query.sql.polynomial import filtered, polynomial
from dynq_cli.query.sql.scalars import scalar, text_of, typed
from dynq_cli.query.sql.unsupported import AGGREGATES
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import FLOAT64, INT64, Type, decimal

_FUNCTIONS: dict[str, AggregateFunction] = {"count": "count", "sum": "sum", "avg": "avg", "min": "min", "max": "max"}


@dataclass
class Groups:
    """The groups of one SELECT: its group expressions by text, its aggregates by text."""

    body: Body
    terms: dict[str, Term] | None
    known: dict[str, DraftAggregate] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def value(self, node: exp.Expr, name: str = "") -> Term | DraftAggregate | Expression:
        """What a resolved SELECT item or HAVING says of a group; `name` is what an aggregate is called."""
        inner = bare(node)
        found = self._part(inner, name)
        if found is not None:
            return found
        parts: list[Term | DraftAggregate] = []
        holder = exp.Paren(this=inner.copy())
        self._replace(holder, parts)
        return expression(self.body, holder.this, parts, node)

    def _part(self, node: exp.Expr, name: str = "") -> Term | DraftAggregate | None:
        term = (self.terms or {}).get(key_of(node))
        if term is not None:
            return term
        if isinstance(node, exp.Filter | exp.AggFunc):
            return self.aggregate(node, name)
        if isinstance(node, exp.Column):
            column = self.body.context.column(node)
            message = f"column {column.name} must appear in the GROUP BY or in an aggregate"
            raise self.body.context.refuse(node, message, f"add it to GROUP BY, or write MIN({column.name})")
        return None

    def _replace(self, node: exp.Expr, parts: list[Term | DraftAggregate]) -> None:
        for child in list(node.iter_expressions()):
            found = self._part(child)
            if found is None:
                self._replace(child, parts)
                continue
            if found not in parts:
                parts.append(found)
            child.replace(placeholder(parts.index(found)))

    def prepare(self, node: exp.Expr) -> None:
        """Make the terms that the aggregates in `node` need, before any aggregate gets its name."""
        for part in node.walk():
            if isinstance(part, exp.AggFunc):
                around = part.parent
                self._made(around if isinstance(around, exp.Filter) else part, "")

    def aggregate(self, node: exp.Expr, name: str = "") -> DraftAggregate:
        key = key_of(node)
        if key not in self.known:
            made = self._made(node, name or plain_name(text_of(node)))
            made = replace(made, name=self._unique(made.name))
            same = next((k for k in self.known.values() if _meaning(k) == _meaning(made)), None)
            self.known[key] = same or made
            self.names.add(self.known[key].name.lower())
        return self.known[key]

    def _unique(self, name: str) -> str:
        """A name that is no other aggregate's and no variable's: HAVING is said in both."""
        draft = self.body.draft
        taken = self.names | {term.name.lower() for term in draft.terms}
        taken |= {f"{draft.atoms[term.atom].alias}_{term.name}".lower() for term in draft.terms}
        made, count = name, 1
        while made.lower() in taken:
            count += 1
            made = f"{name}_{count}"
        return made

    def _made(self, node: exp.Expr, name: str) -> DraftAggregate:
        context = self.body.context
        condition = node.args["expression"].this if isinstance(node, exp.Filter) else None
        call = node.this if isinstance(node, exp.Filter) else node
        if type(call) not in AGGREGATES:
            raise context.refuse(call, "this aggregate is not in the language", "use COUNT, SUM, AVG, MIN or MAX")
        function = _FUNCTIONS[AGGREGATES[type(call)]]
        argument = call.this
        if isinstance(argument, exp.Distinct):
            return self._distinct(call, function, argument, condition, name)
        if function != "count" and (argument is None or any(call.args[key] for key in call.args if key != "this")):
            raise context.refuse(call, f"{function.upper()} takes one argument here", f"write {function.upper()}(x)")
        if any(isinstance(n, exp.AggFunc) for n in argument.walk()) if argument is not None else False:
            raise context.refuse(argument, "an aggregate of an aggregate", "aggregate a derived table with GROUP BY")
        if function == "count":
            return DraftAggregate(name, "count", INT64, False, self._counted(argument, condition))
        if function in ("min", "max"):
            return self._of_term(function, argument, condition, name)
        return self._sum(function, argument, condition, name, call)

    def _counted(self, argument: exp.Expr | None, condition: exp.Expr | None) -> tuple[Monomial, ...]:
        """Monomials whose factors are all not NULL where a row counts; none where every row does."""
        whole = argument is None or isinstance(bare(argument), exp.Star | exp.Literal)
        value: exp.Expr = exp.Literal.number("1") if whole or argument is None else argument
        if condition is not None:
            return filtered(self.body, value, condition)
        tables = tables_of(value)
        if len(tables) == 1:
            return polynomial(self.body, value) if scalar(self.body.context, value).nullable else ()
        found = polynomial(self.body, value)
        return found if any(f.scalar.nullable for m in found for f in m.factors) else ()

    def _distinct(
        self, call: exp.Expr, function: AggregateFunction, argument: exp.Distinct, condition: exp.Expr | None, name: str
    ) -> DraftAggregate:
        context = self.body.context
        if len(argument.expressions) != 1 or isinstance(bare(argument.expressions[0]), exp.Tuple):
            message = "COUNT(DISTINCT …) takes one expression"
            raise context.refuse(call, message, "count rows of a derived table: SELECT DISTINCT a, b")
        inner = argument.expressions[0]
        if function in ("min", "max"):
            return self._of_term(function, inner, condition, name)
        if function != "count":
            message = f"{function.upper()}(DISTINCT …) is not supported"
            raise context.refuse(call, message, "aggregate a derived table with SELECT DISTINCT")
        return self._of_term("count_distinct", inner, condition, name)

    def _of_term(
        self, function: AggregateFunction, argument: exp.Expr, condition: exp.Expr | None, name: str
    ) -> DraftAggregate:
        context = self.body.context
        shown = {"count_distinct": "COUNT(DISTINCT …)"}.get(function, function.upper())
        if condition is not None:
            argument = exp.Case(ifs=[exp.If(this=bare(condition).copy(), true=argument.copy())])
        tables = tables_of(argument)
        if len(tables) > 1:
            message = f"{shown} over columns of {' and '.join(context.tables[t].alias for t in tables)}"
            hint = "MIN, MAX and COUNT(DISTINCT …) take an expression over one table"
            raise context.refuse(argument, message, hint)
        if not tables:
            raise context.refuse(argument, f"{shown} of a constant", "name a column")
        term = self.body.term(argument)
        if function == "count_distinct":
            return DraftAggregate(name, function, INT64, False, term=term)
        nullable = term.scalar.nullable or self.terms is None
        return DraftAggregate(name, function, term.scalar.type, nullable, term=term)

    def _sum(
        self, function: AggregateFunction, argument: exp.Expr, condition: exp.Expr | None, name: str, call: exp.Expr
    ) -> DraftAggregate:
        context = self.body.context
        kind = self._type(argument)
        if not kind.is_numeric:
            hint = "SUM and AVG take numbers; cast the argument"
            raise context.refuse(call, f"{function.upper()} of {kind}", hint)
        monomials = polynomial(self.body, argument) if condition is None else filtered(self.body, argument, condition)
        missing = condition is not None or may_be_null(argument, lambda c: context.column(c).nullable)
        result = _sum_type(kind) if function == "sum" else FLOAT64
        return DraftAggregate(name, function, result, missing or self.terms is None, monomials)

    def _type(self, node: exp.Expr) -> Type:
        """The type of an expression over any number of tables."""
        context = self.body.context
        copy = exp.Paren(this=node.copy())
        columns = []
        for i, found in enumerate(list(copy.find_all(exp.Column))):
            column = context.column(found)
            columns.append(Column(f"c{i}", column.type, column.nullable))
            found.replace(exp.column(f"c{i}", quoted=True))
        return typed(context, text_of(copy), tuple(columns), node)


def _meaning(a: DraftAggregate) -> object:
    return a.function, a.type, a.nullable, a.monomials, a.term


def _sum_type(kind: Type) -> Type:
    if kind.is_float:
        return FLOAT64
    return decimal(38, kind.scale if kind.name == "decimal" else 0)


_MARK = "§"


def placeholder(index: int) -> exp.Column:
    return exp.column(f"{_MARK}{index}{_MARK}", quoted=True)


def expression(body: Body, node: exp.Expr, parts: list[Term | DraftAggregate], at: exp.Expr) -> Expression:
    """SQL over parts, which stand in `node` as placeholders."""
    kinds = [p.type if isinstance(p, DraftAggregate) else p.scalar.type for p in parts]
    missing = [p.nullable if isinstance(p, DraftAggregate) else p.scalar.nullable for p in parts]
    columns = tuple(Column(placeholder(i).name, kind) for i, kind in enumerate(kinds))
    sql = text_of(node)
    kind = typed(body.context, sql, columns, at)
    index = {c.name: i for i, c in enumerate(columns)}
    nullable = may_be_null(node, lambda c: missing[index[c.name]])
    template = sql.replace("{", "{{").replace("}", "}}")
    for i, column in enumerate(columns):
        template = template.replace(f'"{column.name}"', f"{{{i}}}")
    return Expression(template, tuple(parts), kind, nullable)
