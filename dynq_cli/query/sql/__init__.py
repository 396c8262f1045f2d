"""The SQL front end: DuckDB's dialect, parsed by sqlglot, into the normal form.

text → parse → unsupported (refusals) → union → select → normal form → duckdb_opinion
select:  sources (FROM) → items (SELECT list) → conditions (WHERE, ON) → aggregates → order
conditions: predicates (conjuncts) → join_comparisons (of two tables) → build (the draft)
            subqueries (EXISTS, IN) → join, semi and anti atoms, or views; values (all others) → columns of views
            joined_rows (over several tables) → a view of the rows
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dynq_cli.query.normal_form import ConjunctiveQuery, Query
from dynq_cli.query.problems import UnreadableQueryError, refuse
from dynq_cli.query.sql import subqueries, values
from dynq_cli.query.sql.build import Body, Named, QueryContext
from dynq_cli.query.sql.calls import has_own_aggregate, may_differ
from dynq_cli.query.sql.clock import place_clock
from dynq_cli.query.sql.constant_rows import values_as_selects
from dynq_cli.query.sql.context import Ctes
from dynq_cli.query.sql.duckdb_opinion import is_syntax, objection, refused
from dynq_cli.query.sql.idle_limits import drop_idle_limits, open_plain_values
from dynq_cli.query.sql.ordered import canonical
from dynq_cli.query.sql.parse import parse, too_deep
from dynq_cli.query.sql.scope import Scope
from dynq_cli.query.sql.shape import has_query, is_by_places
from dynq_cli.query.sql.union import compile_any
from dynq_cli.query.sql.unsupported import refuse_outside
from dynq_cli.spec.model import Column, QuerySpec, Relation, Spec


class _Passes:
    def compile_query(
        self, context: QueryContext, node: exp.Expr, name: str, ctes: Ctes, around: Scope | None
    ) -> Query:
        return compile_any(context, node, name, ctes, None, around)

    def take_subquery(self, body: Body, scope: Scope, node: exp.Expr, ctes: Ctes) -> None:
        subqueries.take_subquery(body, scope, node, ctes)

    def is_value(self, node: exp.Expr) -> bool:
        return has_query(node) and subqueries.is_value(node)

    def with_values(self, body: Body, scope: Scope, node: exp.Expr, ctes: Ctes) -> exp.Expr:
        return values.with_values(body, scope, node, ctes)


def compile_sql(text: str, spec: Spec, query: QuerySpec, named: Named = lambda name: None) -> Query:
    """The normal form of one SQL text. Raises QueryProblems with everything found wrong in it.

    `named` gives the queries of the spec that the text may read."""
    tree, places = parse(text)
    canonical(tree)
    drop_idle_limits(tree)
    open_plain_values(tree)
    try:
        values_as_selects(tree, places)
        if place_clock(tree):
            # DuckDB's clock has a time zone; this one has none.
            text = tree.sql(dialect="duckdb")
        refuse_outside(tree, places)
        said = objection(text, with_queries(spec, tree, named))
        if is_syntax(said):
            raise refused(said, places, spec)
        if has_own_aggregate(tree):
            # DuckDB knows no such function, and says nothing else of the text.
            said = ""
        context = QueryContext(spec, places, passes=_Passes(), named=named)
        compiled = compile_any(context, tree, query.name, {}, query.semantics)
    except RecursionError:
        raise too_deep() from None
    context.stop_on_problems()
    if said:
        raise refused(said, places, spec)
    return compiled


def with_queries(spec: Spec, tree: exp.Expr, named: Named) -> Spec:
    """The spec with a relation in place of each query that a text names."""
    known = {r.name.lower() for r in spec.relations} | {c.alias.lower() for c in tree.find_all(exp.CTE)}
    found = {}
    for name in dict.fromkeys(t.name.lower() for t in tree.find_all(exp.Table)):
        try:
            query = None if name in known else named(name)
        except UnreadableQueryError:
            # It is refused where it stands.
            query = None
        if query is not None:
            columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
            found[name] = Relation(query.name, columns)
    return replace(spec, relations=(*spec.relations, *found.values()))


def compile_text(text: str, spec: Spec, query: QuerySpec, named: Named = lambda name: None) -> Query:
    """As `compile_sql`, for a query whose semantics the spec may override."""
    compiled = compile_sql(text, spec, query, named)
    is_grouped = isinstance(compiled, ConjunctiveQuery) and compiled.grouped and bool(compiled.aggregates)
    if query.semantics == "set" and is_grouped:
        # Aggregates over sets range over the bindings of a rule's variables, and SQL names no variables.
        raise refuse(
            0,
            "semantics: set with aggregates is defined for rules, whose variables say what is distinct",
            "write the query as a rule, aggregate over a subquery with SELECT DISTINCT, or leave semantics out",
        )
    return compiled


READS_QUERIES = True


def names_of(text: str) -> set[str]:
    """The tables that a text names, in lower case: relations and queries, common tables among them."""
    return {t.name.lower() for t in parse(text)[0].find_all(exp.Table)}


def duckdb_text(text: str, _: Spec) -> str | None:
    """The text itself, unless DuckDB does not have an aggregate, or may give otherwise, or ties are left open."""
    tree = parse(text)[0]
    if place_clock(tree.copy()):
        return None
    ties = any(is_by_places(node) for node in tree.find_all(exp.Query))
    return None if ties or has_own_aggregate(tree) or may_differ(tree) else text.rstrip().rstrip(";")
