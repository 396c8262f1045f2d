"""One draft in the making, and how conditions enter it, piece by piece.

`Body` knows which tables are atoms of its draft. A piece that reads other tables is correlated
with the query around and is kept in `foreign` for `subqueries` to link. Conditions over several
atoms that no draft can say wait in `mixed`, until `joined_rows` makes them filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from dynq_cli.query.draft import Draft, Term
from dynq_cli.query.normal_form import AtomMode, Query
from dynq_cli.query.sql.context import Context, Ctes, Table, bare, key_of, tables_of
from dynq_cli.query.sql.join_comparisons import Link
from dynq_cli.query.sql.literals import equals_literal
from dynq_cli.query.sql.predicates import Constant, Filter, Mixed, Piece, conjuncts, pieces
from dynq_cli.query.sql.scalars import condition, name_of, scalar
from dynq_cli.query.sql.scope import Scope
from dynq_cli.query.sql.shape import has_aggregate, has_query

# The query of the spec that has a name; None if there is none. Raises UnreadableQueryError.
Named = Callable[[str], Query | None]


class Passes(Protocol):
    """The passes that lead back into earlier ones: a query inside a query."""

    def compile_query(
        self, context: QueryContext, node: exp.Expr, name: str, ctes: Ctes, around: Scope | None
    ) -> Query: ...

    def take_subquery(self, body: Body, scope: Scope, node: exp.Expr, ctes: Ctes) -> None: ...

    def is_value(self, node: exp.Expr) -> bool: ...

    def with_values(self, body: Body, scope: Scope, node: exp.Expr, ctes: Ctes) -> exp.Expr: ...


@dataclass
class QueryContext(Context):
    """A context in which queries may have queries inside; the entry point sets `passes`."""

    passes: Passes = field(kw_only=True)
    named: Named = field(kw_only=True, default=lambda name: None)

    def compile_query(self, node: exp.Expr, name: str, ctes: Ctes, around: Scope | None = None) -> Query:
        return self.passes.compile_query(self, node, name, ctes, around)

    def take_subquery(self, body: Body, scope: Scope, node: exp.Expr, ctes: Ctes) -> None:
        self.passes.take_subquery(body, scope, node, ctes)

    def with_values(self, body: Body, scope: Scope, node: exp.Expr, ctes: Ctes) -> exp.Expr:
        """A resolved copy of a node, with columns in place of the subqueries that stand in it for values."""
        return self.passes.with_values(body, scope, node, ctes)


@dataclass
class Body:
    """`flat`: distinct rows without aggregates, where a positive subquery may become plain joins.

    `outer` is the body of the query around; `reached` are the columns of those further out that this one has joined.
    """

    context: QueryContext
    draft: Draft
    flat: bool
    atoms: dict[int, int] = field(default_factory=dict)
    foreign: list[Piece] = field(default_factory=list)
    views: dict[int, Table] = field(default_factory=dict)
    mixed: list[exp.Expr] = field(default_factory=list)
    outer: Body | None = None
    reached: dict[tuple[int, str], exp.Column] = field(default_factory=dict)

    def add(self, table: Table, mode: AtomMode = "join") -> int:
        """Make a table an atom."""
        taken = {a.alias.lower() for a in self.draft.atoms}
        alias, count = table.alias, 1
        while alias.lower() in taken:
            count += 1
            alias = f"{table.alias}_{count}"
        self.atoms[table.number] = self.draft.atom(alias, table.source, mode)
        return self.atoms[table.number]

    def adopt(self, sub: Body, mode: AtomMode) -> int:
        """Make the one atom of another body an atom of this one."""
        ((number, _),) = sub.atoms.items()
        index = self.add(self.context.tables[number], mode)
        self.draft.atoms[index].filters += sub.draft.atoms[0].filters
        for term, literal, at in sub.draft.constants:
            self.draft.equal_constant(self.draft.term(index, term.scalar, term.name), literal, at)
        return index

    def term(self, node: exp.Expr, name: str = "") -> Term:
        """The term of an expression over one table; `name` is for one that is more than a column."""
        (table,) = tables_of(node)
        made = name_of(node) if not name or isinstance(bare(node), exp.Column) else name
        return self.draft.term(self.atoms[table], scalar(self.context, node), made)

    def pieces(self, node: exp.Expr) -> Iterator[Piece]:
        return pieces(self.context, node)

    def take(self, piece: Piece) -> None:
        """Enter a piece, or keep it for the query around."""
        tables = () if isinstance(piece, Constant) else (piece.table,) if isinstance(piece, Filter) else piece.tables
        if any(t not in self.atoms for t in tables):
            self.foreign.append(piece)
        elif isinstance(piece, Constant):
            self._constant(piece.node)
        elif isinstance(piece, Filter):
            self._filter(piece)
        elif isinstance(piece, Mixed):
            self.mixed.append(piece.node)
        else:
            self.link(piece)

    def link(self, piece: Link) -> None:
        left, right = self.term(piece.left), self.term(piece.right)
        if piece.op == "=":
            self.draft.equal(left, right, piece.at, piece.offset, null_safe=piece.null_safe)
        else:
            self.draft.compare(left, piece.op, right, piece.at, piece.offset)

    def _filter(self, piece: Filter) -> None:
        found = equals_literal(self.context, piece.node)
        if found is not None:
            column, literal = found
            self.draft.equal_constant(self.term(column), literal, self.context.at(piece.node))
        else:
            self.draft.filter(self.atoms[piece.table], condition(self.context, piece.node))

    def _constant(self, node: exp.Expr) -> None:
        """A condition without columns: true ones go, false ones leave the query empty, others stay filters."""
        value = bare(simplify(node.copy(), dialect="duckdb"))
        text = key_of(node)
        if not isinstance(value, exp.Null):
            made = condition(self.context, node)
            if isinstance(value, exp.Boolean) and value.this:
                return
            text = made.sql
        never = isinstance(value, exp.Boolean | exp.Null)
        if never and self.draft.atoms:
            self.draft.leave_empty(0, f"{text} never holds")
        elif never or not self.draft.atoms:
            hint = "the query would always be empty; remove the condition"
            raise self.context.refuse(node, f"{text} never holds", hint)
        else:
            self.draft.filter(0, made)


def take_condition(body: Body, scope: Scope, node: exp.Expr, ctes: Ctes) -> None:
    """Enter every conjunct of WHERE or ON into a body; the problems of one do not hide those of the others."""
    context = body.context
    # What becomes a join of its own comes last, when the rows that it is about are as few as they get.
    for conjunct in sorted(conjuncts(node), key=context.passes.is_value):
        with context.gather():
            if has_query(conjunct):
                context.take_subquery(body, scope, conjunct, ctes)
                continue
            resolved = scope.resolve(conjunct)
            if has_aggregate(resolved):
                message = "an aggregate cannot stand in WHERE or ON, which are about single rows"
                raise context.refuse(conjunct, message, "use HAVING")
            for piece in body.pieces(resolved):
                body.take(piece)
