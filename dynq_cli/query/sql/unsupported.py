"""What is outside the language, found in one walk over the parsed tree before anything is compiled.

Each finding names the construct, its place and what to write instead. A tree without findings
holds only nodes that the later passes know.
"""

from __future__ import annotations

from sqlglot import exp

from dynq_cli.query.aggregates import names_shown
from dynq_cli.query.problems import QueryProblems, TextProblem
from dynq_cli.query.sql.allow import SCALAR_CLASSES, SCALAR_NAMES, SCALAR_TYPES, VOLATILE_NAMES
from dynq_cli.query.sql.calls import definition_of
from dynq_cli.query.sql.ordered import takes_order
from dynq_cli.query.sql.parse import Places
from dynq_cli.query.sql.window_functions import CALLS as WINDOW_CALLS

_STRUCTURE: tuple[type[exp.Expr], ...] = (
    exp.Select, exp.Union, exp.Except, exp.Intersect, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order,
    exp.Ordered, exp.With, exp.CTE, exp.Subquery, exp.Table, exp.TableAlias, exp.Distinct, exp.Alias, exp.Star,
    exp.Exists, exp.Any, exp.All, exp.Filter, exp.Limit, exp.Offset, exp.Fetch, exp.LimitOptions, exp.Qualify,
    exp.Window, exp.WindowSpec, exp.Tuple, exp.IgnoreNulls, exp.RespectNulls, exp.Var, exp.GroupingSets, exp.Cube,
    exp.Rollup, exp.Grouping, exp.GroupingId, exp.GroupConcat,
)  # fmt: skip

_SELECT_PARTS = {"with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "order"} | {
    "limit",
    "offset",
    "qualify",
}
_SET_PARTS = {"with_", "this", "expression", "distinct", "order", "limit", "offset"}
_SUBQUERY_PARTS = {"this", "alias", "joins", "with_", "order"}
_TABLE_PARTS = {"this", "alias", "joins", "db", "catalog"}

_PARTS: dict[type[exp.Expr], set[str]] = {
    exp.Select: _SELECT_PARTS,
    exp.Union: _SET_PARTS,
    exp.Except: _SET_PARTS,
    exp.Intersect: _SET_PARTS,
    exp.Subquery: _SUBQUERY_PARTS,
    exp.Join: {"this", "on"},
}

_CLAUSES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "limit": (("LIMIT",), "LIMIT is not supported here", "put a SELECT with ORDER BY and LIMIT into brackets"),
    "offset": (("OFFSET",), "OFFSET is not supported here", "put a SELECT with ORDER BY and OFFSET into brackets"),
    "sample": (("SAMPLE", "TABLESAMPLE", "USING"), "samples are random", "keep the whole result and use `dynq sample`"),
    "pivots": (("PIVOT", "UNPIVOT"), "PIVOT and UNPIVOT are not supported", "use SUM(…) FILTER (WHERE …) per column"),
    "laterals": (("LATERAL",), "LATERAL is not supported", "join with a derived table that does not look outside"),
    "into": (("INTO",), "SELECT INTO is not a query", "write results with `dynq enum -o FILE`"),
    "by_name": (("BY",), "UNION BY NAME is not supported", "list the columns in the same order in every SELECT"),
}

_NODES: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Lateral: ("LATERAL is not supported", "join with a derived table that does not look outside"),
    exp.Unnest: ("UNNEST is not supported: columns hold single values", "declare one row per element"),
    exp.Explode: ("UNNEST is not supported: columns hold single values", "declare one row per element"),
    exp.Placeholder: ("parameters are not supported", "write the value into the query"),
    exp.Parameter: ("parameters are not supported", "write the value into the query"),
    exp.SessionParameter: ("parameters are not supported", "write the value into the query"),
    exp.Array: ("lists are not supported: columns hold single values", "declare one column or row per element"),
    exp.Struct: ("structs are not supported: columns hold single values", "declare one column per field"),
    exp.Map: ("maps are not supported: columns hold single values", "declare one column or row per entry"),
    exp.Bracket: ("x[i] is not supported", "use substring(x, i, n) on strings"),
    exp.Dot: ("fields of structs are not supported", "write a column as name or alias.name"),
    exp.Lambda: ("lambda functions are not supported", "use plain scalar functions"),
    exp.Columns: ("COLUMNS(…) is not supported", "list the columns"),
    exp.AtTimeZone: ("time zones are not supported: timestamps are UTC", "convert before loading"),
    exp.Collate: ("COLLATE is not supported: strings compare by their bytes", "compare lower(x) instead"),
    exp.ByteString: ("E'…' strings are not supported", "write a plain string, or chr(10) for a line end"),
    exp.Pivot: ("PIVOT and UNPIVOT are not supported", "use SUM(…) FILTER (WHERE …) per column"),
    exp.TableSample: ("samples are random", "keep the whole result and use `dynq sample`"),
    exp.Order: ("ORDER BY inside an aggregate is not supported", "FIRST, LAST and ANY_VALUE take one"),
    exp.IgnoreNulls: ("IGNORE NULLS is not supported", "aggregates here leave NULL out anyway"),
}

_WORDS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Lateral: ("LATERAL",),
    exp.Order: ("ORDER BY",),
    exp.Parameter: ("$", "@"),
    exp.Array: ("[",),
    exp.Struct: ("{",),
}

_TYPES_HINT = "cast to one of bool, the integers, float, double, decimal(p,s), varchar, blob, date, time, timestamp"


def _outside_nulls(node: exp.Expr) -> exp.Expr:
    while isinstance(node.parent, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        node = node.parent
    return node


class _Walk:
    def __init__(self, places: Places) -> None:
        self.places = places
        self.found: list[TextProblem] = []

    def say(self, offset: int, message: str, hint: str) -> None:
        self.found.append(TextProblem(offset, message, hint))

    def visit(self, node: exp.Expr) -> None:
        refused = self._refused(node)
        parts = _PARTS.get(type(node))
        for child in node.iter_expressions():
            if (parts is not None and child.arg_key in parts) or not refused:
                self.visit(child)

    def _refused(self, node: exp.Expr) -> bool:
        """Report a node that is outside the language; then only the parts it may have are looked at."""
        known = len(self.found)
        if isinstance(node, exp.Order) and isinstance(node.parent, exp.Query | exp.Subquery | exp.Window):
            return False
        if isinstance(node, exp.IgnoreNulls | exp.RespectNulls) and isinstance(node.parent, exp.Window):
            return False
        if isinstance(node, WINDOW_CALLS) and isinstance(_outside_nulls(node).parent, exp.Window):
            return False
        if isinstance(node, exp.Order) and (takes_order(node.parent) or isinstance(node.parent, exp.GroupConcat)):
            return False
        if type(node) in _NODES:
            message, hint = _NODES[type(node)]
            self.say(self._place(node), message, hint)
        elif isinstance(node, exp.Select):
            self._clauses(node, _SELECT_PARTS)
            self._empty_clauses(node)
        elif isinstance(node, exp.SetOperation | exp.Subquery):
            self._clauses(node, _PARTS[type(node)])
        elif isinstance(node, exp.Table):
            self._table(node)
        elif isinstance(node, exp.Join):
            self._join(node)
        elif isinstance(node, exp.With):
            if node.args.get("recursive"):
                at = self.places.keyword(node, "RECURSIVE")
                self.say(at, "recursive queries are not supported", "write the joins of a fixed depth")
        elif isinstance(node, exp.Distinct):
            pass
        elif isinstance(node, exp.Group):
            self._group(node)
        elif definition_of(node) is not None:
            return False
        elif isinstance(node, exp.Anonymous):
            self._named_function(node, str(node.this).lower())
        elif isinstance(node, exp.DataType):
            self._type(node)
        elif isinstance(node, exp.RegexpLike) and "start" not in node.meta:
            at = self.places.word_after(node, "~", "!~")
            self.say(at, "~ means different things in different databases", "use regexp_matches or regexp_full_match")
        elif isinstance(node, exp.Log) and node.args.get("expression") is not None:
            self.say(self.places.at(node), "log with a base is not supported", "write ln(x) / ln(base)")
        elif isinstance(node, exp.Star):
            self._star(node)
        elif type(node) not in _STRUCTURE and type(node) not in SCALAR_CLASSES:
            self._unknown(node)
        return len(self.found) > known

    def _star(self, node: exp.Star) -> None:
        around = node.parent
        if isinstance(around, exp.Column):
            around = around.parent
        if node.args.get("rename") or node.args.get("ilike"):
            self.say(self.places.at(node), "* RENAME and * LIKE are not supported", "list the columns")
        elif not isinstance(around, exp.Select | exp.Count):
            self.say(self.places.at(node), "* stands alone in a SELECT list, or in COUNT(*)", "list the columns")

    def _place(self, node: exp.Expr) -> int:
        words = _WORDS.get(type(node), ())
        if isinstance(node, exp.Placeholder):
            return self._placeholder(node)
        return self.places.keyword(node, *words) if words else self.places.at(node)

    def _placeholder(self, node: exp.Placeholder) -> int:
        marks = [t.start for t in self.places.tokens if t.text in ("?", "$", ":")]
        earlier = [p for p in self.found if p.message.startswith("parameters")]
        return marks[len(earlier)] if len(earlier) < len(marks) else self.places.at(node)

    def _clauses(self, node: exp.Expr, accepted: set[str]) -> None:
        for name, value in node.args.items():
            if value in (None, [], False) or name in accepted:
                continue
            inside = value[0] if isinstance(value, list) else value
            words, message, hint = _CLAUSES.get(
                name, ((name.upper(),), f"{name.strip('_').upper()} is not supported", "leave it out")
            )
            part = inside if isinstance(inside, exp.Expr) else node
            at = self._last_word(part, words)
            self.say(at, message, hint)

    def _empty_clauses(self, node: exp.Select) -> None:
        group = node.args.get("group")
        if group is not None and not any(group.args.values()):
            at = self.places.word_after(node, "GROUP BY")
            self.say(at, "GROUP BY names nothing", "name the columns to group by")

    def _last_word(self, part: exp.Expr, words: tuple[str, ...]) -> int:
        at = self.places.keyword(part, *words)
        return at if at != self.places.at(part) else self.places.word_after(part, *words)

    def _table(self, node: exp.Table) -> None:
        self._clauses(node, _TABLE_PARTS)
        if not isinstance(node.this, exp.Identifier):
            name, at = self.places.written(node.this)
            self.say(at, f"the table function {name} is not a relation", "use relations of the spec")
        elif node.args.get("db") is not None:
            at = self.places.at(node)
            self.say(at, "relations have no schema", f"write {node.name} alone; all relations stand in the spec")

    def _join(self, node: exp.Join) -> None:
        kind, method = ((node.args.get(k) or "").upper() for k in ("kind", "method"))
        if kind in ("SEMI", "ANTI"):
            hint = f"write WHERE {'NOT ' * (kind == 'ANTI')}EXISTS (SELECT 1 FROM …)"
            self.say(self.places.keyword(node, kind), f"{kind} JOIN is not supported", hint)
        elif method in ("ASOF", "POSITIONAL"):
            at = self.places.keyword(node.this, method)
            self.say(at, f"{method} JOIN is not supported", "join on equalities and comparisons")

    def _group(self, node: exp.Group) -> None:
        for word in ("GROUPING SETS", "CUBE", "ROLLUP", "TOTALS"):
            name = word.lower().replace(" ", "_")
            if node.args.get(name):
                at = self._last_word(node.args[name][0] if isinstance(node.args[name], list) else node, (word,))
                shown = f"{word} {'are' if word.endswith('S') else 'is'}"
                self.say(at, f"{shown} not supported", "write one query per grouping, or UNION ALL them")

    def _type(self, node: exp.DataType) -> None:
        kind = node.this
        name = kind.name if isinstance(kind, exp.DType) else str(kind)
        if name not in SCALAR_TYPES and not (name == "INTERVAL" and isinstance(node.parent, exp.Interval)):
            at = self.places.at(node.parent)
            self.say(at, f"the type {node.sql(dialect='duckdb')} is not in the language", _TYPES_HINT)

    def _named_function(self, node: exp.Expr, name: str) -> None:
        if name in VOLATILE_NAMES:
            hint = "put the value into a column of a relation, and change it by a change log"
            at = self._function_place(node, name)
            written = next((t.text for t in self.places.tokens if t.start == at), name)
            self.say(at, f"{written} gives another value each time it is asked", hint)
        elif name in _MAPS:
            written, at = self.places.written(node)
            self.say(at, f"{written} gives a map, and columns hold single values", "use GROUP BY, with a row per value")
        elif name not in SCALAR_NAMES:
            hint = "use immutable scalar functions of DuckDB, such as lower, substring, date_trunc, round, coalesce"
            written, at = self.places.written(node)
            self.say(at, f"the function {written} is not in the language", hint)

    def _function_place(self, node: exp.Expr, name: str) -> int:
        if "start" in node.meta:
            return int(node.meta["start"])
        plain = name.replace("_", "")
        return next((t.start for t in self.places.tokens if t.text.lower().replace("_", "") == plain), 0)

    def _unknown(self, node: exp.Expr) -> None:
        if isinstance(node, exp.ArrayAgg):
            name, at = self.places.written(node)
            self.say(at, f"{name} gives a list, and columns hold single values", "use STRING_AGG, or a row per element")
        elif isinstance(node, exp.AggFunc):
            name, at = self.places.written(node)
            self.say(at, f"the aggregate {name} is not in the language", f"the aggregates are {names_shown()}")
        elif isinstance(node, exp.Func):
            self._named_function(node, node.sql_name().lower())
        else:
            self.say(self.places.at(node), f"{node.key.upper()} is not in the language", "write it without")


_MAPS = frozenset(("histogram", "histogram_exact"))


def refuse_outside(tree: exp.Expr, places: Places) -> None:
    """Raise QueryProblems with every construct of the tree that is outside the language."""
    walk = _Walk(places)
    walk.visit(tree)
    if walk.found:
        raise QueryProblems(walk.found)
