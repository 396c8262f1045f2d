"""Aggregate calls → `DraftAggregate`s, and expressions over aggregates and group columns.

The same call is one aggregate however often it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp, parse_one

from dynq_cli.query.aggregates import basic, names_shown
from dynq_cli.query.aggregates.additive import TooLargeError, Value, basic_aggregates
from dynq_cli.query.aggregates.definition import Additive, Basic, objection
from dynq_cli.query.aggregates.ordered import Key
from dynq_cli.query.draft import DraftAggregate, Expression, Term
from dynq_cli.query.normal_form import Monomial
from dynq_cli.query.sql.allow import may_be_null
from dynq_cli.query.sql.build import Body
from dynq_cli.query.sql.calls import arguments_of, definition_of, is_aggregate
from dynq_cli.query.sql.context import bare, key_of, plain_name, tables_of
from dynq_cli.query.sql.ordered import ordered
from dynq_cli.query.sql.polynomial import filtered, polynomial
from dynq_cli.query.sql.scalars import closed, scalar, text_of, typed
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import INT64, Type


def is_basic(node: exp.Expr) -> bool:
    """Whether a node is a basic aggregate, perhaps with FILTER."""
    return isinstance(node, exp.Filter | exp.AggFunc | exp.Anonymous) and isinstance(definition_of(_call(node)), Basic)


def _call(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Filter) else node


def _condition(node: exp.Expr) -> exp.Expr | None:
    return node.args["expression"].this if isinstance(node, exp.Filter) else None


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
        if isinstance(definition_of(_call(node)), Additive):
            return None
        if isinstance(node, exp.Filter) or is_aggregate(node):
            return self.aggregate(node, name)
        if isinstance(node, exp.Column):
            column = self.body.context.column(node)
            message = f"column {column.name} must appear in the GROUP BY or in an aggregate"
            raise self.body.context.refuse(node, message, f"add it to GROUP BY, or write MIN({column.name})")
        return None

    def _replace(self, node: exp.Expr, parts: list[Term | DraftAggregate]) -> None:
        for child in list(node.iter_expressions()):
            if isinstance(definition_of(_call(child)), Additive):
                child.replace(self._result(child, parts))
                continue
            found = self._part(child)
            if found is None:
                self._replace(child, parts)
                continue
            child.replace(_placed(found, parts))

    def _result(self, node: exp.Expr, parts: list[Term | DraftAggregate]) -> exp.Expr:
        """What an additive aggregate is computed as, over placeholders for its sums."""
        definition = definition_of(_call(node))
        assert isinstance(definition, Additive)
        types, sums = self._sums(definition, node)
        names = {}
        for name, made in sums.items():
            key = f"{key_of(node)} {name}"
            if key not in self.known:
                self.known[key] = self._shared(made)
            names[name] = text_of(_placed(self.known[key], parts))
        return exp.Paren(this=parse_one(definition.result_over(types, names), dialect="duckdb"))

    def _sums(self, definition: Additive, node: exp.Expr) -> tuple[dict[str, Type], dict[str, DraftAggregate]]:
        """The types of the arguments of an additive aggregate, and the basic aggregates behind it."""
        context, call = self.body.context, _call(node)
        given = arguments_of(call)
        if any(isinstance(a, exp.Distinct) for a in given):
            message = f"{definition.name.upper()}(DISTINCT …) is not supported"
            raise context.refuse(call, message, "aggregate a derived table with SELECT DISTINCT")
        if len(given) != len(definition.arguments) or any(isinstance(a, exp.Star) for a in given):
            several = len(definition.arguments)
            message = f"{definition.name.upper()} takes {several} argument{'s' if several != 1 else ''}"
            raise context.refuse(call, message, f"write {definition.shown}")
        for argument in given:
            self._refuse_nested(argument)
            if not tables_of(argument):
                raise context.refuse(argument, f"{definition.name.upper()} of a constant", "name a column")
        types = {name: self._type(a) for name, a in zip(definition.arguments, given, strict=True)}
        for kind in types.values():
            self._refuse_type(definition, kind, call)
        by_name = dict(zip(definition.arguments, given, strict=True))
        text = plain_name(f"{definition.name}({', '.join(map(text_of, given))})")
        try:
            return types, basic_aggregates(
                definition,
                lambda factor: self._factor(factor, by_name, _condition(node)),
                lambda name: f"{text}_{name}",
                nullable=self.terms is None or _condition(node) is not None,
            )
        except TooLargeError as error:
            raise context.refuse(call, str(error), error.hint) from None

    def _factor(self, factor: str, arguments: dict[str, exp.Expr], condition: exp.Expr | None) -> Value:
        """A factor of an additive aggregate over the arguments that stand in the text."""
        tree = parse_one(factor.format_map({name: f'"{name}"' for name in arguments}), dialect="duckdb")
        holder = exp.Paren(this=tree)
        for column in list(holder.find_all(exp.Column)):
            column.replace(closed(arguments[column.name].copy()))
        node = bare(holder.this)
        monomials = polynomial(self.body, node) if condition is None else filtered(self.body, node, condition)
        return Value(self._type(node), monomials)

    def prepare(self, node: exp.Expr) -> None:
        """Make the terms that the aggregates in `node` need, before any aggregate gets its name."""
        for part in node.walk():
            definition = definition_of(part)
            if definition is not None:
                around = part.parent if isinstance(part.parent, exp.Filter) else part
                if isinstance(definition, Additive):
                    self._sums(definition, around)
                else:
                    self._made(around, "")

    def aggregate(self, node: exp.Expr, name: str = "") -> DraftAggregate:
        key = key_of(node)
        if key not in self.known:
            self.known[key] = self._shared(self._made(node, name or plain_name(text_of(node))))
        return self.known[key]

    def _shared(self, made: DraftAggregate) -> DraftAggregate:
        """The aggregate of the same meaning that there is already, or this one under a name of its own."""
        made = replace(made, name=self._unique(made.name))
        same = next((k for k in self.known.values() if _meaning(k) == _meaning(made)), None)
        self.names.add((same or made).name.lower())
        return same or made

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
        context, condition, call = self.body.context, _condition(node), _call(node)
        definition = definition_of(call)
        if not isinstance(definition, Basic):
            raise context.refuse(call, "this aggregate is not in the language", f"use one of {names_shown()}")
        given = arguments_of(call)
        argument = given[0] if given else None
        if definition.state == "ordered" and definition.reading not in ("least", "greatest"):
            return self._ordered(definition, call, given, condition, name)
        if isinstance(argument, exp.Distinct):
            return self._distinct(call, definition, argument, condition, name)
        shown = definition.name.upper()
        is_count = definition.reading == "count"
        if len(given) != 1 and not (is_count and not given):
            raise context.refuse(call, f"{shown} takes one argument here", f"write {shown}(x)")
        for each in given:
            self._refuse_nested(each)
        if definition.state != "sums":
            return self._of_terms(definition, given, condition, name)
        if is_count or argument is None:
            return DraftAggregate(name, definition.name, INT64, False, self._counted(argument, condition))
        return self._sum(definition, argument, condition, name, call)

    def _refuse_nested(self, argument: exp.Expr) -> None:
        if any(is_aggregate(n) for n in argument.walk()):
            hint = "aggregate a derived table with GROUP BY"
            raise self.body.context.refuse(argument, "an aggregate of an aggregate", hint)

    def _refuse_type(self, definition: Basic | Additive, kind: Type, at: exp.Expr) -> None:
        said = objection(definition, kind)
        if said is not None:
            raise self.body.context.refuse(at, *said)

    def _counted(self, argument: exp.Expr | None, condition: exp.Expr | None) -> tuple[Monomial, ...]:
        """Monomials whose factors are all not NULL where a row counts; none where every row does."""
        whole = argument is None or isinstance(bare(argument), exp.Star | exp.Literal | exp.Boolean)
        value: exp.Expr = exp.Literal.number("1") if whole or argument is None else argument
        if condition is not None:
            return filtered(self.body, value, condition)
        tables = tables_of(value)
        if len(tables) == 1:
            return polynomial(self.body, value) if scalar(self.body.context, value).nullable else ()
        found = polynomial(self.body, value)
        return found if any(f.scalar.nullable for m in found for f in m.factors) else ()

    def _distinct(
        self, call: exp.Expr, definition: Basic, argument: exp.Distinct, condition: exp.Expr | None, name: str
    ) -> DraftAggregate:
        context, given = self.body.context, list(argument.expressions)
        shown = f"{definition.name.upper()}(DISTINCT …)"
        if not definition.of_distinct:
            message = f"{shown} is not supported"
            raise context.refuse(call, message, "aggregate a derived table with SELECT DISTINCT")
        if definition.reading == "count" and len(given) == 1 and isinstance(bare(given[0]), exp.Tuple):
            given = list(bare(given[0]).expressions)
            if any(may_be_null(a, lambda c: context.column(c).nullable) for a in given):
                message = "DuckDB counts rows of values whose parts may be NULL"
                raise context.refuse(call, message, "write COUNT(DISTINCT a, b), which leaves them out, or coalesce(…)")
        if len(given) != 1 and definition.reading != "count":
            message = f"{shown} takes one expression"
            raise context.refuse(call, message, "aggregate a derived table: SELECT DISTINCT a, b")
        for each in given:
            self._refuse_nested(each)
        return self._of_terms(basic(definition.of_distinct), given, condition, name)

    def _of_terms(
        self, definition: Basic, given: list[exp.Expr], condition: exp.Expr | None, name: str
    ) -> DraftAggregate:
        """An aggregate of values; those of a row that FILTER leaves out are NULL."""
        if condition is not None:
            first = exp.Case(ifs=[exp.If(this=bare(condition).copy(), true=given[0].copy())])
            given = [first, *given[1:]]
        terms = tuple(dict.fromkeys(self._term(definition, argument) for argument in given))
        kind = terms[0].scalar.type
        nullable = definition.reading != "count" and (terms[0].scalar.nullable or self.terms is None)
        return DraftAggregate(name, definition.name, definition.type_of(kind), nullable, terms=terms)

    def _ordered(
        self, definition: Basic, call: exp.Expr, given: list[exp.Expr], condition: exp.Expr | None, name: str
    ) -> DraftAggregate:
        """An aggregate that reads the rows of a group in order."""
        context = self.body.context
        if any(isinstance(part, exp.Distinct) for argument in given for part in argument.walk()):
            message = f"{definition.name.upper()}(DISTINCT …) is not supported"
            raise context.refuse(call, message, "aggregate a derived table with SELECT DISTINCT")
        values, detail, required = ordered(context, call, definition, given)
        for each in values:
            self._refuse_nested(each)
        if isinstance(call, exp.Median) and objection(definition, self._type(values[0])) is not None:
            definition = basic("quantile_disc")
        if condition is not None and required:
            values[0] = exp.Case(ifs=[exp.If(this=bare(condition).copy(), true=values[0].copy())])
        elif condition is not None:
            values.append(exp.Case(ifs=[exp.If(this=bare(condition).copy(), true=exp.Literal.number(1))]))
            detail = f"{detail}, {Key(required=True)}"
        terms = (self._term(definition, values[0]), *(self._key(value) for value in values[1:]))
        if len({t.scalar.type.name for t in terms} & {"string", "binary"}) > 1:
            raise context.refuse(call, "this order has keys of strings and of bytes", "encode one of them: hex(x)")
        kind = definition.type_of(terms[0].scalar.type)
        return DraftAggregate(name, definition.name, kind, True, terms=terms, detail=detail)

    def _key(self, node: exp.Expr) -> Term:
        if len(tables_of(node)) != 1:
            message = "an order inside an aggregate is by expressions over one table each"
            raise self.body.context.refuse(node, message, "order by columns")
        return self.body.term(node)

    def _term(self, definition: Basic, argument: exp.Expr) -> Term:
        context = self.body.context
        shown = definition.shown.removesuffix("(…)")
        tables = tables_of(argument)
        if len(tables) > 1:
            message = f"{shown} over columns of {' and '.join(context.tables[t].alias for t in tables)}"
            hint = "MIN, MAX and COUNT(DISTINCT …) take an expression over one table"
            raise context.refuse(argument, message, hint)
        if not tables:
            raise context.refuse(argument, f"{shown} of a constant", "name a column")
        term = self.body.term(argument)
        self._refuse_type(definition, term.scalar.type, argument)
        return term

    def _sum(
        self, definition: Basic, argument: exp.Expr, condition: exp.Expr | None, name: str, call: exp.Expr
    ) -> DraftAggregate:
        context = self.body.context
        kind = self._type(argument)
        self._refuse_type(definition, kind, call)
        monomials = polynomial(self.body, argument) if condition is None else filtered(self.body, argument, condition)
        missing = condition is not None or may_be_null(argument, lambda c: context.column(c).nullable)
        nullable = missing or self.terms is None
        return DraftAggregate(name, definition.name, definition.type_of(kind), nullable, monomials)

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
    return a.function, a.type, a.nullable, a.monomials, a.terms, a.detail


def _placed(part: Term | DraftAggregate, parts: list[Term | DraftAggregate]) -> exp.Column:
    """The placeholder of a part, which is added to the parts if it is not among them."""
    if part not in parts:
        parts.append(part)
    return placeholder(parts.index(part))


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
