"""The SQL of `deleted_when`: a condition over the columns of a log, of which the spec knows only some.

It is an immutable scalar, as filters of queries are, and DuckDB must find it to be one over the columns that the spec
declares, with their types, and over the others with some types.
"""

from __future__ import annotations

from itertools import product

from sqlglot import exp

from dynq_cli.query.problems import QueryProblems, TextProblem, refuse
from dynq_cli.query.scalar import ScalarError, type_of_expression
from dynq_cli.query.sql.allow import SCALAR_CLASSES, SCALAR_NAMES
from dynq_cli.query.sql.parse import Places, parse
from dynq_cli.spec.model import Column, Relation
from dynq_cli.spec.types import BOOL, DATE, FLOAT64, INT64, STRING, TIMESTAMP, Type

_BEFORE, _AFTER = "SELECT (", "\n) FROM dynq_log"
_HINT = "write a column of the log, or a condition over its columns, as in `status = 'deleted'`"
# What a column that the spec does not declare may be, the likeliest first.
_PERHAPS: tuple[Type, ...] = (STRING, INT64, BOOL, TIMESTAMP, FLOAT64, DATE)
# Up to so many undeclared columns every combination of these is tried, else one type for all.
_FEW = 3


def check_log_condition(text: str, relation: Relation) -> None:
    """Raises QueryProblems with the places in `text`."""
    try:
        _check(text, *_parse(text), relation)
    except QueryProblems as found:
        raise QueryProblems(
            TextProblem(max(min(p.offset - len(_BEFORE), len(text) - 1), 0), p.message, p.hint) for p in found.problems
        ) from None


def _parse(text: str) -> tuple[exp.Query, Places]:
    try:
        return parse(f"{_BEFORE}{text}{_AFTER}")
    except QueryProblems as found:  # its hints are about queries
        raise QueryProblems(TextProblem(p.offset, p.message, _HINT) for p in found.problems) from None


def _check(text: str, tree: exp.Query, places: Places, relation: Relation) -> None:
    shown = tree.expressions[0] if isinstance(tree, exp.Select) and len(tree.expressions) == 1 else None
    clauses = {name for name, value in tree.args.items() if value not in (None, [], False)} - {"expressions", "from_"}
    table = tree.find(exp.Table)
    if not isinstance(shown, exp.Paren) or clauses or table is None or table.name != "dynq_log" or table.alias:
        raise refuse(len(_BEFORE), "this is more than one condition", _HINT)
    if isinstance(shown.this, exp.Alias):
        raise refuse(
            len(_BEFORE), f"{text.strip()!r} is no condition", f"{_HINT}; a name with spaces stands in double quotes"
        )
    for node in shown.walk():
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if isinstance(node, exp.Column) and node.table:
            raise refuse(places.at(node), f"{node.sql()} names a table", "write the column alone")
        if type(node) not in SCALAR_CLASSES and name not in SCALAR_NAMES:
            said, here = places.written(node)
            message = (
                f"{said!r} cannot stand in `deleted_when`: a row has to be deleted whenever and wherever it is read"
            )
            raise refuse(here, message, _HINT)
    said = _objection(text, shown, relation)
    if said:
        raise refuse(len(_BEFORE), f"`deleted_when` of {relation.name} is no condition: {said}", _HINT)


def _objection(text: str, condition: exp.Expr, relation: Relation) -> str:
    """What DuckDB says against it under the first types that it may have; empty if it takes some of them."""
    called = {} if relation.source is None else {there: own for own, there in relation.source.columns}
    declared = {c.name.lower(): c for c in relation.columns}
    names = sorted({column.name for column in condition.find_all(exp.Column)})
    known, unknown = [], []
    for name in names:
        own = declared.get(called.get(name, name).lower())
        known.append(Column(name, own.type)) if own is not None else unknown.append(name)
    several = (
        product(_PERHAPS, repeat=len(unknown)) if len(unknown) <= _FEW else ((t,) * len(unknown) for t in _PERHAPS)
    )
    first = ""
    for types in several:
        columns = [*known, *map(Column, unknown, types)]
        try:
            type_of_expression(f"CAST(({text}\n) AS BOOLEAN)", columns)
            return ""
        except ScalarError as error:
            first = first or str(error).rstrip(".!")
    # Many columns may have types of which no two are the same: the log will tell.
    return "" if len(unknown) > _FEW and "does not exist" not in first else first
