"""Spec → normal form: every query of a spec, or every problem of it at once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from importlib import import_module

from dynq_cli.errors import Place, Problem, SpecError
from dynq_cli.query.degrees import degree_queries
from dynq_cli.query.models import model_query
from dynq_cli.query.normal_form import (
    ConjunctiveQuery,
    OutputColumn,
    Query,
    UnionQuery,
    VariableOrder,
    without_repetition,
)
from dynq_cli.query.problems import QueryProblems, UnreadableQueryError
from dynq_cli.query.scalar import quote
from dynq_cli.spec.languages import language_of
from dynq_cli.spec.load import read_spec
from dynq_cli.spec.model import Keep, QuerySpec, Spec, Text
from dynq_cli.spec.types import Type, widen


def compile_spec(spec: Spec, wrong: Collection[str] = ()) -> dict[str, Query]:
    """The normal form of every query, by name, of those behind models, and of those that count degrees.

    Raises SpecError with all problems of all queries, of models, and of `deleted_when`.

    Queries that mention a relation in `wrong` are passed over: what is said about those would be a consequence.
    """
    queries: dict[str, Query] = {}
    compiler = _Compiler(spec)
    problems = _check_conditions(spec, wrong)
    passed = re.compile(rf"\b({'|'.join(map(re.escape, wrong))})\b", re.IGNORECASE) if wrong else None
    for query in (q for q in spec.queries if q.texts):
        if passed is not None and any(passed.search(text.value) for text in query.texts):
            continue
        try:
            queries[query.name] = compiler.query(query)
        except SpecError as error:
            # A query that reads one with problems has the same.
            problems += [p for p in error.problems if p not in problems]
    for model in spec.models:
        over = queries.get(model.over)
        if over is not None:
            try:
                queries[model.query] = model_query(model, over)
            except SpecError as error:
                problems += error.problems
    for relation in (r for r in spec.relations if r.name not in wrong):
        queries |= {query.name: query for query in degree_queries(relation)}
    if problems:
        raise SpecError(problems)
    return queries


def _check_conditions(spec: Spec, wrong: Collection[str]) -> list[Problem]:
    """What is wrong with the SQL under `deleted_when`, but for relations in `wrong`."""
    problems: list[Problem] = []
    for relation in (r for r in spec.relations if r.name not in wrong):
        text = None if relation.source is None else relation.source.condition
        if text is not None:
            from dynq_cli.query.sql.log_condition import check_log_condition

            try:
                check_log_condition(text.value, relation)
            except QueryProblems as found:
                problems += _located(text, found)
    return problems


def compile_file(path: str | os.PathLike[str]) -> tuple[Spec, dict[str, Query]]:
    """A spec file and its queries. Raises SpecError with all problems of the file and of its queries."""
    reading = read_spec(path)
    problems, queries = list(reading.problems), {}
    if reading.spec is not None:
        try:
            queries = compile_spec(reading.spec, reading.wrong)
        except SpecError as error:
            problems += error.problems
    if problems or reading.spec is None:
        raise SpecError(problems)
    return reading.spec, queries


def compile_query(spec: Spec, query: QuerySpec) -> Query:
    """The normal form of one query. Raises SpecError with all its problems, and those of the queries that it reads."""
    return _Compiler(spec).query(query)


class _Compiler:
    """Compiles queries of a spec, each once; a query that another names is compiled first."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.done: dict[str, Query | SpecError] = {}
        self.path: list[str] = []

    def query(self, query: QuerySpec) -> Query:
        if query.name not in self.done:
            self.path.append(query.name)
            try:
                self.done[query.name] = _compiled(self.spec, query, self.named)
            except SpecError as error:
                self.done[query.name] = error
            finally:
                self.path.pop()
        made = self.done[query.name]
        if isinstance(made, SpecError):
            raise made
        return made

    def named(self, name: str) -> Query | None:
        """The query of a name, whatever its case. Raises UnreadableQueryError if it is read by those being compiled."""
        found = next((q for q in self.spec.queries if q.name.lower() == name.lower() and q.texts), None)
        if found is None:
            return None
        if found.name in self.path:
            circle = [*self.path[self.path.index(found.name) :], found.name]
            message = f"queries read each other in a circle: {' reads '.join(circle)}"
            raise UnreadableQueryError(message, "let one of them read relations alone")
        return self.query(found)


def _compiled(spec: Spec, query: QuerySpec, named: Callable[[str], Query | None]) -> Query:
    compiled = _compile_texts(spec, query, named)
    ordered = _with_order(query, compiled) if query.order_by else compiled
    if ordered.order and query.keep != "all":
        message = f"query {query.name} has an ORDER BY and `keep: {query.keep}`, which keeps no order"
        raise SpecError([Problem(query.texts[0].place(), message, "leave one of the two out")])
    return _keeping(replace(ordered, max_view_rows=query.max_view_rows, epsilon=query.epsilon), query.keep)


def _keeping(query: Query, keep: Keep) -> Query:
    """The query kept for some reads; so are the members of a union."""
    if isinstance(query, UnionQuery):
        return replace(query, keep=keep, members=tuple(_keeping(m, keep) for m in query.members))
    return replace(query, keep=keep)


def duckdb_text(query: QuerySpec, spec: Spec) -> str | None:
    """What DuckDB is asked for the result that the one text of a query means; None if it knows no such text."""
    if len(query.texts) > 1:
        return None
    asked: str | None = import_module(language_of(query.language).module).duckdb_text(query.texts[0].value, spec)
    return asked


def reads_queries(spec: Spec, query: QuerySpec) -> bool:
    """Whether a text may name other queries of the spec: DuckDB would have to know these."""
    language = import_module(language_of(query.language).module)
    if not getattr(language, "READS_QUERIES", False):
        return False
    names = {q.name.lower() for q in spec.queries}
    return any(names & language.names_of(text.value) for text in query.texts)


def _located(text: Text, found: QueryProblems) -> list[Problem]:
    return [Problem(text.place(p.offset), p.message, p.hint) for p in found.problems]


def _compile_texts(spec: Spec, query: QuerySpec, named: Callable[[str], Query | None]) -> Query:
    """The query of its one text, or the union of several."""
    language = import_module(language_of(query.language).module)
    members: list[Query] = []
    problems: list[Problem] = []
    for text in query.texts:
        try:
            reads = {"named": named} if getattr(language, "READS_QUERIES", False) else {}
            members.append(language.compile_text(text.value, spec, query, **reads))
        except QueryProblems as found:
            problems += _located(text, found)
    if problems:
        raise SpecError(problems)
    if len(members) == 1:
        return members[0]
    types = [column.type for column in members[0].columns]
    for text, member in zip(query.texts[1:], members[1:], strict=True):
        problems += _check_head(text.place(), members[0], types, member)
    if problems:
        raise SpecError(problems)
    united = tuple(replace(m, name=f"{query.name}.{i}") for i, m in enumerate(members, 1))
    columns = union_columns([m.columns for m in united])
    return UnionQuery(query.name, united, columns, query.semantics or "set")


def _check_head(place: Place, first: Query, types: list[Type], other: Query) -> list[Problem]:
    """Whether a rule fits the ones before; `types` are theirs, and widened to its own."""
    if len(first.columns) != len(other.columns):
        return [
            Problem(
                place,
                f"this rule's head has {_columns(len(other.columns))}, the first rule's has {len(first.columns)}",
                "the rules of one query are united: give all heads the same columns",
            )
        ]
    problems = []
    for i, (column, here) in enumerate(zip(first.columns, other.columns, strict=True)):
        common = widen(types[i], here.type)
        if common is None:
            message = f"column {column.name} is {types[i]} in the rules before and {here.type} here: no common type"
            hint = "the rules of one query are united: give all heads columns of the same types"
            problems.append(Problem(place, message, hint))
        else:
            types[i] = common
    return problems


def _columns(n: int) -> str:
    return f"{n} column" if n == 1 else f"{n} columns"


def union_columns(members: list[tuple[OutputColumn, ...]]) -> tuple[OutputColumn, ...]:
    """The columns of a union: names of the first member, types widened, which the caller has checked to be possible."""
    columns = []
    for several in zip(*members, strict=True):
        kind = several[0].type
        for other in several[1:]:
            common = widen(kind, other.type)
            assert common is not None
            kind = common
        nullable = any(c.nullable for c in several)
        columns.append(OutputColumn(several[0].name, kind, nullable, "variable", several[0].name))
    return tuple(columns)


def _with_order(query: QuerySpec, compiled: Query) -> Query:
    """Resolve `order_by` against the output columns."""
    problems: list[Problem] = []
    order: list[VariableOrder] = []
    by_name = {c.name.lower(): c for c in compiled.columns}
    for key in query.order_by:
        place = key.place or query.texts[0].place()
        column = by_name.get(key.column.lower())
        if column is None:
            names = ", ".join(c.name for c in compiled.columns) or "none: the query is Boolean"
            problems.append(Problem(place, f"order_by: no output column {key.column}", f"the columns are {names}"))
        elif column.kind == "aggregate" or _is_computed(compiled, column):
            order.append(VariableOrder(column.name, key.descending, "column"))
        elif column.kind == "variable":
            order.append(VariableOrder(column.source, key.descending))
    if compiled.order and not problems:
        problems.append(
            Problem(
                query.order_by[0].place or query.texts[0].place(),
                "the query is ordered twice: by order_by and by ORDER BY in its SQL",
                "keep one of the two",
            )
        )
    if problems:
        raise SpecError(problems)
    return replace(compiled, order=without_repetition(order))


def _is_computed(query: Query, column: OutputColumn) -> bool:
    """Whether a column is an expression over groups and aggregates, and no constant."""
    names = [*query.head, *(a.name for a in query.aggregates)] if isinstance(query, ConjunctiveQuery) else []
    return column.kind == "expression" and any(quote(name) in column.source for name in names)
