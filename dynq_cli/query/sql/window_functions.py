"""The SQL of a window function over the rows of its partition: `"_partition"` tells partitions apart, and `"_place"` is
the place of a row in an order in which no two rows are equal.

Functions of places are computed in that order, so that ties give the same every time. Those that treat ties alike
(`rank`, sums up to the current row) see the keys that were asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dynq_cli.query.aggregates.definition import Additive, Basic, Recomputed
from dynq_cli.query.problems import QueryProblems
from dynq_cli.query.sql.calls import definition_of, is_aggregate
from dynq_cli.query.sql.context import Context, tables_of
from dynq_cli.query.sql.scalars import text_of
from dynq_cli.query.sql.shape import window_parts
from dynq_cli.spec.types import Type

# By the class of their call: their names, and whether they number rows, look at neighbours, or read rows of the frame.
_NUMBERING: dict[type[exp.Expr], str] = {exp.RowNumber: "row_number", exp.Ntile: "ntile"}
_NEIGHBOURS: dict[type[exp.Expr], str] = {exp.Lag: "lag", exp.Lead: "lead"}
_PEERS: dict[type[exp.Expr], str] = {
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
}
_OF_FRAME: dict[type[exp.Expr], str] = {
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
}
_NAMES = _NUMBERING | _NEIGHBOURS | _PEERS | _OF_FRAME
CALLS: tuple[type[exp.Expr], ...] = tuple(_NAMES)
_AGGREGATES = (exp.Sum, exp.Count, exp.Avg, exp.Min, exp.Max)
_HINT = (
    "the window functions are row_number, rank, dense_rank, percent_rank, cume_dist, ntile, lag, lead, first_value, "
    "last_value, nth_value, sum, count, avg, min, max"
)


def never_null(window: exp.Window) -> bool:
    return isinstance(_call(window), (exp.Count, *_NUMBERING, *_PEERS))


def _call(window: exp.Window) -> exp.Expr:
    call: exp.Expr = window.this
    while isinstance(call, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        call = call.this
    return call


def is_whole(window: exp.Window) -> bool:
    """Whether a window function is an aggregate over the whole partition, whatever its order."""
    call, spec = window.this, window.args.get("spec")
    call = call.this if isinstance(call, exp.Filter) else call
    reads = isinstance(call, exp.Count) or any(map(tables_of, window_parts(window)))
    if not isinstance(definition_of(call), Basic | Additive) or not reads:
        return False
    if spec is None:
        return window.args.get("order") is None
    ends = {str(spec.args.get(end) or "").upper() for end in ("start", "end")}
    return ends == {"UNBOUNDED"} and not spec.args.get("exclude") and spec.args.get("end_side") == "FOLLOWING"


def check_window(context: Context, window: exp.Window) -> None:
    """Raise QueryProblems for a window function that is not known, or whose frame is not."""
    call = _call(window)
    _check_frame(context, window)
    if is_whole(window) or isinstance(definition_of(call), Recomputed):
        return
    if type(call) not in _NAMES and not (isinstance(call, _AGGREGATES) and is_aggregate(call)):
        raise _refused(context, call, window)
    if isinstance(call, _AGGREGATES) and isinstance(call.this, exp.Distinct):
        raise context.refuse(window, "DISTINCT in a window function is not supported", "use GROUP BY, and join")


def _check_frame(context: Context, window: exp.Window) -> None:
    """Raise QueryProblems for ROWS without peers: frames of rows are taken by place, where no two rows are peers."""
    spec = window.args.get("spec")
    if spec is not None and _kind(spec) == "ROWS" and (exclude := _excluded(spec)) in ("GROUP", "TIES"):
        message = f"EXCLUDE {exclude} in a frame of ROWS is not supported"
        raise context.refuse(window, message, "use a frame of GROUPS or RANGE, or EXCLUDE CURRENT ROW")


def window_sql(window: exp.Window) -> str:
    """The SQL of a window function that `check_window` knows, over columns that are resolved."""
    call = _call(window)
    order, spec = window.args.get("order"), window.args.get("spec")
    is_by_place = isinstance(call, (*_NUMBERING, *_NEIGHBOURS)) or (spec is not None and _kind(spec) == "ROWS")
    keys = f"ORDER BY {', '.join(map(_key, order.expressions))}" if order is not None else ""
    if is_by_place or (isinstance(call, tuple(_OF_FRAME)) and order is None):
        keys = 'ORDER BY "_place"'
    frame = _frame(spec) if spec is not None else ""
    inside = " ".join(part for part in ('PARTITION BY "_partition"', keys, frame) if part)
    return f"{_called(window.this, call)} OVER ({inside})"


def reach_of(window: exp.Window, kind: Callable[[exp.Expr], Type]) -> int | None:
    """How many rows on either side of a row a function looks at, in the order of places; None: any number.

    `kind` is the type of an argument. Sums of floats depend on where they begin: they take any number.
    """
    call, spec = _call(window), window.args.get("spec")
    if isinstance(call, tuple(_NEIGHBOURS)):
        offset = call.args.get("offset")
        plain = not isinstance(window.this, exp.IgnoreNulls)
        return (1 if offset is None else _whole_number(offset)) if plain else None
    if spec is None or _kind(spec) != "ROWS" or not isinstance(call, (*_AGGREGATES, *_OF_FRAME)):
        return None
    if isinstance(call, exp.Sum | exp.Avg) and kind(call.this).is_float:
        return None
    start, end = _distance(spec.args.get("start")), _distance(spec.args.get("end"))
    return None if start is None or end is None else max(start, end)


def _distance(value: str | exp.Expr | None) -> int | None:
    """The rows between a row and an end of its frame."""
    if value is None or isinstance(value, str):
        return 0 if value is None or value.upper() == "CURRENT ROW" else None
    return _whole_number(value)


def _whole_number(node: exp.Expr) -> int | None:
    return int(node.this) if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit() else None


def _refused(context: Context, call: exp.Expr, at: exp.Expr) -> QueryProblems:
    name = call.sql_name().lower() if isinstance(call, exp.Func) else call.key
    return context.refuse(at, f"the window function {name} is not in the language", _HINT)


def _called(whole: exp.Expr, call: exp.Expr) -> str:
    """The call, in which rows of the frame are read in the order of their places."""
    name = _NAMES.get(type(call))
    if name is None:
        text = text_of(call)
    else:
        arguments = [text_of(a) for a in call.iter_expressions()]
        ordered = ' ORDER BY "_place"' if isinstance(call, tuple(_OF_FRAME)) else ""
        nulls = " IGNORE NULLS" if isinstance(whole, exp.IgnoreNulls) else ""
        text = f"{name}({', '.join(arguments)}{ordered}{nulls})"
    return f"{text} FILTER (WHERE {text_of(whole.expression.this)})" if isinstance(whole, exp.Filter) else text


def _key(key: exp.Expr) -> str:
    direction = "DESC" if key.args.get("desc") else "ASC"
    return f"{text_of(key.this)} {direction} NULLS {'FIRST' if key.args.get('nulls_first') else 'LAST'}"


def _kind(spec: exp.Expr) -> str:
    return str(spec.args.get("kind") or "RANGE").upper()


def _frame(spec: exp.Expr) -> str:
    start, end = _end(spec, "start"), _end(spec, "end")
    exclude = _excluded(spec)
    said = f" EXCLUDE {exclude}" if exclude else ""
    return f"{_kind(spec)} BETWEEN {start} AND {end or 'CURRENT ROW'}{said}"


def _excluded(spec: exp.Expr) -> str:
    """What a frame leaves out, in capitals, or nothing."""
    exclude = spec.args.get("exclude")
    if not exclude:
        return ""
    return (exclude if isinstance(exclude, str) else str(exclude.sql(dialect="duckdb"))).upper()


def _end(spec: exp.Expr, which: str) -> str:
    value, side = spec.args.get(which), spec.args.get(f"{which}_side")
    if value is None:
        return ""
    text = value.upper() if isinstance(value, str) else text_of(value)
    return f"{text} {side.upper()}" if side else text
