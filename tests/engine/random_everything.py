"""Random SQL in which everything meets: nested outer joins, correlated subqueries, groups, windows, first rows, set
operations, common tables, named queries and the clock, over data with many NULLs.

A query is a text with the columns that it gives, each with the letter of its kind. Orders are of all columns, so that
DuckDB takes the same rows first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from dynq_cli.errors import SpecError
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Tree
from dynq_cli.query.compile import compile_query
from dynq_cli.spec.clock import with_clock
from dynq_cli.spec.model import CLOCK, Column, QuerySpec, Relation, Spec, Text
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import Batch, Change, Row, random_history
from tests.engine.random_queries import Case, Drawn

Columns = list[tuple[str, str]]
Query = tuple[str, Columns]

TYPES = {"i": "int64", "s": "string", "d": "date", "t": "timestamp", "n": "decimal(9,2)"}
KINDS = {name: kind for kind, name in TYPES.items()}
LITERALS = {
    "i": ["0", "1", "2", "3", "-1"],
    "s": ["'a'", "'b'", "''"],
    "d": ["DATE '2020-02-29'", "DATE '2020-03-01'"],
    "t": ["TIMESTAMP '2020-02-29 12:00:00'", "TIMESTAMP '2020-03-01 00:00:00'"],
    "n": ["1.5", "0", "2"],
}
OPERATORS = ("=", "=", "<", "<=", ">", ">=", "<>")
FRAMES = (
    "",
    "",
    " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
)
LONGEST = 1800


def relations(chance: Random) -> tuple[Relation, ...]:
    """Four relations with columns of the same names; K has a key."""
    made = []
    for name in ("R", "V", "W", "K"):
        share = chance.choice([0.2, 0.6, 0.9])
        kinds = [("a", "i"), ("b", "i")]
        others = [("s", "s", 0.7), ("d", chance.choice("dn"), 0.5), ("t", "t", 0.4), ("c", "i", 0.4)]
        kinds += [(column, kind) for column, kind, likely in others if chance.random() < likely]
        columns = [Column(column, parse_type(TYPES[kind])[0], chance.random() < share) for column, kind in kinds]
        if name == "K":
            columns[0] = replace(columns[0], nullable=False)
        made.append(Relation(name, tuple(columns), ("a",) if name == "K" else ()))
    return tuple(made)


class _Writer:
    """Writes one query; `named` are queries of the spec that it may read."""

    def __init__(self, chance: Random, spec: tuple[Relation, ...], named: list[Query]) -> None:
        self.chance = chance
        self.spec = spec
        self.named = named
        self.common: list[Query] = []
        self.reads_clock = chance.random() < 0.15
        self._aliases = 0

    def whole(self) -> Query:
        tables = []
        for i in range(self.chance.choice([0, 0, 0, 1, 2])):
            text, columns = self.query(1)
            tables.append(f"c{i} AS ({text})")
            if usable(columns):
                self.common.append((f"c{i}", usable(columns)))
        text, columns = self.query(self.chance.choice([1, 2, 2, 3]))
        return (f"WITH {', '.join(tables)} {text}" if tables else text), columns

    def query(self, depth: int) -> Query:
        style = self._style()
        if style < 0.45 or depth < 0:
            return self._plain(depth)
        if style < 0.63:
            return self._grouped(depth)
        if style < 0.75:
            return self._windowed(depth)
        return self._set_operation(depth) if style < 0.88 else self._first_rows(depth)

    def _style(self) -> float:
        return self.chance.random()

    def _often(self, share: float) -> bool:
        return self.chance.random() < share

    def _alias(self) -> str:
        self._aliases += 1
        return f"x{self._aliases}"

    def _relation(self, alias: str) -> Query:
        relation = self.chance.choice(self.spec)
        return relation.name, [(f"{alias}.{c.name}", KINDS[str(c.type)]) for c in relation.columns]

    # FROM

    def _source(self, depth: int) -> Query:
        alias, style = self._alias(), self._style()
        if style < 0.62 or depth <= 0:
            name, columns = self._relation(alias)
            return f"{name} AS {alias}", columns
        if style < 0.66:
            rows = "(VALUES (1, 'a'), (2, NULL), (NULL, 'b'))"
            return f"{rows} AS {alias}(v1, v2)", [(f"{alias}.v1", "i"), (f"{alias}.v2", "s")]
        known = self.named if style < 0.74 else self.common if style < 0.82 else []
        if known:
            name, columns = self.chance.choice(known)
        else:
            name, columns = self.query(depth - 1)
            name, columns = f"({name})", usable(columns)
            if not columns:
                return self._source(0)
        return f"{name} AS {alias}", [(f"{alias}.{column}", kind) for column, kind in columns]

    def _from(self, depth: int, joins: int | None = None) -> Query:
        """Joins within joins, most of them outer ones."""
        if joins is None:
            joins = self.chance.choice([0, 0, 1, 1, 1, 2, 3])
        if joins == 0:
            return self._source(depth)
        before = self.chance.randrange(joins)
        left, first = self._from(depth, before)
        right, second = self._from(depth, joins - 1 - before)
        right = f"({right})" if joins - 1 - before else right
        word = self.chance.choices(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"], [4, 6, 2, 2])[0]
        if joins == 1 and self._often(0.06):
            merged = self._using(word, (left, first), (right, second))
            if merged is not None:
                return merged
        return f"{left} {word} {right} ON {self._on(first, second)}", first + second

    def _using(self, word: str, left: Query, right: Query) -> Query | None:
        first, second = ({c.split(".")[1]: kind for c, kind in each} for each in (left[1], right[1]))
        common = [name for name in first if second.get(name) == first[name]]
        clashing = [name for name in first if name in second and name not in common]
        if not common:
            return None
        is_natural = not clashing and self._often(0.4)
        names = common if is_natural else self.chance.sample(common, self.chance.randint(1, min(2, len(common))))
        columns = [(name, first[name]) for name in names]
        columns += [c for c in left[1] + right[1] if c[0].split(".")[1] not in names]
        if is_natural:
            return f"{left[0]} NATURAL {word} {right[0]}", columns
        return f"{left[0]} {word} {right[0]} USING ({', '.join(names)})", columns

    def _pair(self, left: Columns, right: Columns) -> tuple[str, str] | None:
        """A column of each side, of one kind."""
        pairs = [(one, other) for one, kind in left for other, same in right if kind == same]
        return self.chance.choice(pairs) if pairs else None

    def _on(self, left: Columns, right: Columns) -> str:
        said = []
        pair = self._pair(left, right)
        if pair is not None:
            said.append(f"{pair[0]} {'IS NOT DISTINCT FROM' if self._often(0.08) else '='} {pair[1]}")
            if self._often(0.2):
                one, other = self._pair(left, right) or pair
                said.append(f"{one} {self.chance.choice(OPERATORS)} {other}")
        said += [self._simple(side) for side in (left, right) if self._often(0.2)]
        return " AND ".join(said) or "TRUE"

    # Conditions and values

    def _simple(self, columns: Columns) -> str:
        """A condition on one column."""
        column, kind = self.chance.choice(columns)
        literal, two = self.chance.choice(LITERALS[kind]), ", ".join(self.chance.sample(LITERALS[kind], 2))
        operator, word = self.chance.choice(OPERATORS), self.chance.choice(["", "NOT "])
        return self.chance.choice(
            [
                f"{column} IS {word}NULL",
                f"{column} {word}IN ({two})",
                f"coalesce({column}, {literal}) {operator} {self.chance.choice(LITERALS[kind])}",
                f"{column} IS {word}DISTINCT FROM {literal}",
                f"{column} {operator} {literal}",
                f"{column} {operator} {literal}",
            ]
        )

    def _where_inside(self, around: Columns, inside: Columns, operators: list[str], depth: int) -> str:
        """The WHERE of a subquery, which compares with what is around it."""
        said = []
        for _ in range(self.chance.choice([0, 1, 1, 1, 2])):
            pair = self._pair(around, inside)
            if pair is not None:
                said.append(f"{pair[1]} {self.chance.choice(operators)} {pair[0]}")
        if self._often(0.2):
            said.append(self._simple(inside))
        if depth > 0 and self._often(0.25):
            said.append(self._exists(around + inside, depth - 1))
        return f" WHERE {' AND '.join(said)}" if said else ""

    def _value_of_subquery(self, columns: Columns, depth: int) -> tuple[str, str]:
        alias = self._alias()
        name, inside = self._relation(alias)
        column, kind = self.chance.choice(inside)
        calls = [("COUNT(*)", "i"), (f"COUNT({column})", "i"), (f"MIN({column})", kind), (f"MAX({column})", kind)]
        calls += [(f"COUNT(DISTINCT {column})", "i")]
        calls += [(f"SUM({column})", "N")] if kind in "in" else []
        call, kind = self.chance.choice(calls)
        operators = ["=", "=", "=", "=", "<", ">=", "<>", "IS NOT DISTINCT FROM"]
        return f"(SELECT {call} FROM {name} AS {alias}{self._where_inside(columns, inside, operators, depth)})", kind

    def _exists(self, columns: Columns, depth: int) -> str:
        alias = self._alias()
        name, inside = self._relation(alias)
        where = self._where_inside(columns, inside, ["=", "=", "=", "<", "<>"], depth)
        return f"{'NOT ' if self._often(0.4) else ''}EXISTS (SELECT 1 FROM {name} AS {alias}{where})"

    def _quantified(self, columns: Columns, depth: int) -> str:
        """IN, ANY or ALL over a subquery."""
        alias = self._alias()
        name, inside = self._relation(alias)
        pair = self._pair(columns, inside)
        if pair is None:
            return self._exists(columns, depth)
        where = self._where_inside(columns, inside, ["=", "=", "<"], 0) if self._often(0.5) else ""
        query = f"(SELECT {pair[1]} FROM {name} AS {alias}{where})"
        if self._often(0.6):
            return f"{pair[0]} {'NOT ' if self._often(0.5) else ''}IN {query}"
        return f"{pair[0]} {self.chance.choice(OPERATORS)} {self.chance.choice(['ANY', 'ALL'])} {query}"

    def _condition(self, columns: Columns, depth: int) -> str:
        style, times = self._style(), [(c, kind) for c, kind in columns if kind in "td"]
        if self.reads_clock and times and style < 0.3:
            column, kind = self.chance.choice(times)
            now = "current_date" if kind == "d" else self.chance.choice(["now()", "now() - INTERVAL '1 day'"])
            return f"{column} {self.chance.choice(['<', '>', '<=', '>='])} {now}"
        if style < 0.4:
            return self._simple(columns)
        if style < 0.5:
            one, other = self._pair(columns, columns) or ("1", "1")
            return f"{one} {self.chance.choice(OPERATORS)} {other}"
        if style < 0.6:
            return self._exists(columns, depth)
        if style < 0.7:
            return self._quantified(columns, depth)
        if style < 0.8:
            value, kind = self._value_of_subquery(columns, depth)
            same = [c for c, other in columns if other == kind]
            return f"{self.chance.choice(same)} {self.chance.choice(OPERATORS)} {value}" if same else f"{value} > 0"
        if style < 0.92 and depth > 0:
            return f"({self._condition(columns, depth - 1)} OR {self._condition(columns, depth - 1)})"
        if style < 0.96 and depth > 0:
            return f"NOT ({self._condition(columns, depth - 1)})"
        return f"CASE WHEN {self._simple(columns)} THEN {self._simple(columns)} ELSE {self._simple(columns)} END"

    def _where(self, columns: Columns, depth: int) -> str:
        said = [self._condition(columns, depth) for _ in range(self.chance.choice([0, 0, 1, 1, 2]))]
        return f" WHERE {' AND '.join(said)}" if said else ""

    def _value(self, columns: Columns, depth: int, *, subqueries: bool = True) -> tuple[str, str]:
        column, kind = self.chance.choice(columns)
        other = self.chance.choice([c for c, same in columns if same == kind])
        style = self._style()
        if style < 0.68:
            return column, kind
        if style < 0.85:
            values = [f"coalesce({column}, {self.chance.choice(LITERALS[kind])})", f"coalesce({column}, {other})"]
            values += [f"CASE WHEN {self._simple(columns)} THEN {column} ELSE {other} END"]
            values += [f"{column} + 1"] if kind == "i" else []
            return self.chance.choice(values), kind
        if not subqueries:
            return column, kind
        if style < 0.93:
            return self._value_of_subquery(columns, depth)
        return f"({self._exists(columns, depth) if style < 0.97 else self._quantified(columns, depth)})", "b"

    # Queries

    def _plain(self, depth: int) -> Query:
        source, columns = self._from(depth)
        items = [self._value(columns, depth) for _ in range(self.chance.randint(1, 4))]
        distinct = "DISTINCT " if self._often(0.2) else ""
        listed, shown = _listed(items)
        return f"SELECT {distinct}{listed} FROM {source}{self._where(columns, depth)}", shown

    def _aggregate(self, columns: Columns) -> tuple[str, str]:
        column, kind = self.chance.choice(columns)
        numbers = [c for c, kind in columns if kind in "in"]
        calls = [("COUNT(*)", "i"), (f"COUNT({column})", "i"), (f"COUNT(DISTINCT {column})", "i")]
        calls += [(f"MIN({column})", kind), (f"MAX({column})", kind), (f"BOOL_OR({self._simple(columns)})", "b")]
        if numbers:
            one, other = self.chance.choice(numbers), self.chance.choice(numbers)
            calls += [(f"SUM({one})", "N"), (f"SUM(DISTINCT {one})", "N"), (f"SUM({one} * {other})", "N")]
            calls += [(f"SUM({one} + {other})", "N"), (f"QUANTILE_DISC({one}, 0.5)", "X")]
        call, kind = self.chance.choice(calls)
        return (f"{call} FILTER (WHERE {self._simple(columns)})" if self._often(0.2) else call), kind

    def _grouped(self, depth: int) -> Query:
        source, columns = self._from(depth)
        drawn = [self._value(columns, depth, subqueries=False) for _ in range(self.chance.choice([0, 1, 1, 2]))]
        keys = list({text: (text, kind) for text, kind in drawn}.values())
        items = [*keys, *(self._aggregate(columns) for _ in range(self.chance.randint(1, 3)))]
        listed, shown = _listed(items)
        grouped = ", ".join(text for text, _ in keys)
        by = self.chance.choices(["{}", "ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())"], [16, 2, 2, 1])[0]
        group = f" GROUP BY {by.format(grouped)}" if keys else ""
        having = f" HAVING COUNT(*) {self.chance.choice(['>', '<', '='])} 1" if self._often(0.2) else ""
        if self._often(0.1) and by == "{}":
            having = f" HAVING COUNT(*) > (SELECT COUNT(*) FROM {self.chance.choice(self.spec).name} WHERE a = 1)"
        return f"SELECT {listed} FROM {source}{self._where(columns, depth)}{group}{having}", shown

    def _order(self, names: list[str]) -> str:
        mixed = self.chance.sample(names, len(names))
        nulls = [" NULLS FIRST", " NULLS LAST", ""]
        return ", ".join(f"{n}{self.chance.choice(['', ' DESC'])}{self.chance.choice(nulls)}" for n in mixed)

    def _windowed(self, depth: int) -> Query:
        text, columns = self.query(min(depth - 1, 1))
        names, alias = [name for name, _ in columns], self._alias()
        keys = ", ".join(self.chance.sample(names, self.chance.randint(1, min(2, len(names)))))
        partition = f"PARTITION BY {keys} " if self._often(0.7) else ""
        order, value = self._order(names), self.chance.choice(names)
        numbers = [name for name, kind in columns if kind in "inN"]
        calls = ["COUNT(*)", f"COUNT({value})", f"MAX({value})", f"first_value({value})", f"nth_value({value}, 2)"]
        calls += [f"SUM({self.chance.choice(numbers)})"] if numbers else []
        places = ["row_number()", "ntile(3)", "rank()", "dense_rank()", f"lag({value})", f"lead({value}, 2)"]
        function = self.chance.choice(
            [
                f"{self.chance.choice(places)} OVER ({partition}ORDER BY {order})",
                f"{self.chance.choice(calls)} OVER ({partition}ORDER BY {order}{self.chance.choice(FRAMES)})",
                f"{self.chance.choice([*calls[:3], *calls[5:]])} OVER ({partition.strip()})",
                f"{self.chance.choice(['rank()', 'dense_rank()', 'COUNT(*)'])} OVER ({partition}ORDER BY {value})",
            ]
        )
        kept = self._often(0.25)
        qualify = f" QUALIFY row_number() OVER ({partition}ORDER BY {order}) <= 2" if kept else ""
        items = [*columns, *([] if kept and self._often(0.5) else [(function, "X")])]
        listed, shown = _listed(items)
        return f"SELECT {listed} FROM ({text}) AS {alias}{qualify}", shown

    def _first_rows(self, depth: int) -> Query:
        text, columns = self.query(min(depth - 1, 1))
        names, alias = [name for name, _ in columns], self._alias()
        source = f"FROM ({text}) AS {alias} ORDER BY {self._order(names)}"
        if self._often(0.3):
            on = ", ".join(self.chance.sample(names, self.chance.randint(1, min(2, len(names)))))
            return f"SELECT DISTINCT ON ({on}) {', '.join(names)} {source}", columns
        limit = f"LIMIT {self.chance.choice([1, 2, 4])}{self.chance.choice(['', '', ' OFFSET 1'])}"
        return f"SELECT {', '.join(names)} {source} {limit}", columns

    def _set_operation(self, depth: int) -> Query:
        (left, first), (right, second) = self._from(depth), self._from(depth)
        pairs = [(a, b) for a in first for b in second if a[1] == b[1]]
        if not pairs:
            return self._plain(depth)
        chosen = [self.chance.choice(pairs) for _ in range(self.chance.randint(1, 3))]
        word = self.chance.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"])
        listed, shown = _listed([a for a, _ in chosen])
        other = ", ".join(b[0] for _, b in chosen)
        text = f"SELECT {listed} FROM {left}{self._where(first, depth)}"
        return f"{text} {word} SELECT {other} FROM {right}{self._where(second, depth)}", shown


def _listed(items: Columns) -> Query:
    """The items of a SELECT, each with a name, and the columns that they are."""
    listed = ", ".join(f"{text} AS o{i}" for i, (text, _) in enumerate(items))
    return listed, [(f"o{i}", kind) for i, (_, kind) in enumerate(items)]


def usable(columns: Columns) -> Columns:
    """The columns of kinds that have literals."""
    return [(name, kind) for name, kind in columns if kind in TYPES]


def everything_case(seed: int, queries: int = 2, batches: int = 4) -> tuple[Case, Counter[str]]:
    """Queries over one history, and how often a query was refused, by the reason."""
    chance = Random(f"everything {seed}")
    base = relations(chance)
    made: list[tuple[QuerySpec, str]] = []
    named: list[Query] = []
    refused: Counter[str] = Counter()
    while len(made) < queries:
        text, columns = _Writer(chance, base, named).whole()
        written = QuerySpec(f"q{len(made)}", "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),))
        several = (*(query for query, _ in made), written)
        spec = Spec("spec.yaml", with_clock(base, several), several)
        if len(text) > LONGEST:
            continue
        try:
            program_of(compile_query(spec, written), spec)
        except SpecError as error:
            refused[str(error).splitlines()[0].partition(": ")[2]] += 1
            continue
        oracle = text.replace("now()", f'(SELECT now FROM "{CLOCK}")')
        oracle = oracle.replace("current_date", f'(SELECT CAST(now AS DATE) FROM "{CLOCK}")')
        known = ", ".join(f"{query.name} AS ({said})" for query, said in made)
        made.append((written, oracle))
        named += [(written.name, usable(columns))] if usable(columns) else []
        made[-1] = (written, f"WITH {known} SELECT * FROM ({oracle})" if known else oracle)
    spec = Spec("spec.yaml", with_clock(base, [q for q, _ in made]), tuple(q for q, _ in made))
    drawn = tuple(_drawn(spec, written, oracle) for written, oracle in made)
    history = random_history(chance, Spec("spec.yaml", base, ()), batches)
    if spec.relation(CLOCK) is not None:
        history = _clocked(chance, history)
    return Case(seed, spec, drawn, tuple(history)), refused


def _drawn(spec: Spec, written: QuerySpec, oracle: str) -> Drawn:
    program = program_of(compile_query(spec, written), spec)
    first = next(step.plan for step in program.steps if isinstance(step, Tree))
    plan = replace(first, query=program.form, order=())
    return Drawn(written.name, "sql", written.texts[0].value, None, oracle, plan, program)


def _clocked(chance: Random, history: list[Batch]) -> list[Batch]:
    """A history in which every commit moves the clock."""
    made, now = [], datetime(2020, 2, 28)
    before: Row | None = None
    for batch in history:
        now += timedelta(hours=chance.choice([0, 1, 12, 24, 30]))
        moved = [] if before is None else [Change(CLOCK, "delete", before)]
        before = (now,)
        changes = (*moved, Change(CLOCK, "insert", before), *batch.changes)
        made.append(replace(batch, changes=changes, relations=(CLOCK, *batch.relations)))
    return made
