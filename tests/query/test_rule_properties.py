"""Random rules: text and syntax are one, spaces do not matter, and the meaning stays.

The meaning is checked by a second path: the rule is evaluated row by row in Python, straight from
its syntax and without solving any comparison; its draft and its normal form by DuckDB.
"""

from __future__ import annotations

import datetime as dt
import itertools
import operator
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dynq_cli.query.as_sql import as_sql
from dynq_cli.query.draft import Draft, Term
from dynq_cli.query.normalise import normalise
from dynq_cli.query.problems import QueryProblems
from dynq_cli.query.rule import compile_rule
from dynq_cli.query.rule.parse import parse
from dynq_cli.query.rule.syntax import ANY, Atom, Call, Comparison, Constant, Item, Part, Rule, Sum, Variable
from dynq_cli.spec.model import Column, QuerySpec, Relation, Spec
from dynq_cli.spec.types import parse_type
from tests.seeds import examples

TABLES = {
    "R": {"a": "int64", "b": "int32?"},
    "P": {"p": "decimal(6,2)", "i": "int8"},
    "V": {"d": "date?", "t": "timestamp"},
    "W": {"s": "string?", "d": "date"},
}
SPEC = Spec(
    "spec.yaml",
    tuple(Relation(n, tuple(Column(c, *parse_type(t)) for c, t in cs.items())) for n, cs in TABLES.items()),
    (),
)
QUERY = QuerySpec("q", "rule", ())
DAY, EARLY = dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)


def family(type_: str) -> str:
    """Types of one family may be joined and compared."""
    return {"date": "date", "timestamp": "timestamp", "string": "string"}.get(type_.rstrip("?"), "number")


def number(text: str) -> Constant:
    return Constant("number", Decimal(text), text)


CONSTANTS = {
    "number": [number(text) for text in ("0", "1", "2", "1.5", "0.25")],
    "string": [Constant("string", "a", "'a'"), Constant("string", "it's", "'it''s'")],
    "date": [Constant("date", DAY + dt.timedelta(n), f"date '2020-01-0{n + 1}'") for n in range(3)],
    "timestamp": [
        Constant("timestamp", EARLY + dt.timedelta(hours=n), f"timestamp '2020-01-01 0{n}:00:00'") for n in range(3)
    ],
}
OFFSETS = {
    "number": CONSTANTS["number"],
    "date": [Constant("interval", 86_400_000_000, "interval '1d'")],
    "timestamp": [
        Constant("interval", 3_600_000_000, "interval '1h'"),
        Constant("interval", 1_800_000_000, "interval '30 min'"),
    ],
    "string": [],
}
COMPARE = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
VARIABLES = {"number": "xyz", "date": "de", "timestamp": "tu", "string": "s"}


def plain(operand: Variable | Constant) -> Sum:
    return Sum((Part(1, operand),))


@st.composite
def arguments(draw: st.DrawFn, kind: str) -> Sum:
    name = st.sampled_from([*VARIABLES[kind], ANY]).map(lambda n: plain(Variable(n)))
    return draw(st.one_of(name, name, name, st.sampled_from(CONSTANTS[kind]).map(plain)))


@st.composite
def comparisons(draw: st.DrawFn, kind: str, name: str, peers: Sequence[str]) -> Comparison:
    """A variable against a constant or another variable, each plus or minus up to two constants."""
    others: list[Variable | Constant] = [*(Variable(p) for p in peers if p != name), *CONSTANTS[kind]]
    sides = []
    for operand in draw(st.permutations([Variable(name), draw(st.sampled_from(others))])):
        parts = [Part(1, operand)]
        if OFFSETS[kind]:
            moved = st.builds(Part, st.sampled_from([1, -1]), st.sampled_from(OFFSETS[kind]))
            parts += draw(st.lists(moved, max_size=2))
        sides.append(Sum(tuple(parts)))
    return Comparison(sides[0], draw(st.sampled_from(sorted(COMPARE))), sides[1])


@st.composite
def rules(draw: st.DrawFn, aggregates: bool = False, most_atoms: int = 2) -> Rule:
    atoms = []
    for name in draw(st.lists(st.sampled_from(sorted(TABLES)), min_size=1, max_size=most_atoms)):
        atoms.append(Atom(name, tuple(draw(arguments(family(t))) for t in TABLES[name].values())))
    bound = sorted({v.name for a in atoms for s in a.arguments for v in s.variables} - {ANY})
    body: list[Atom | Comparison] = list(atoms)
    if bound:
        for name in draw(st.lists(st.sampled_from(bound), min_size=1, max_size=most_atoms)):
            kind = next(k for k, names in VARIABLES.items() if name in names)
            peers = [b for b in bound if b in VARIABLES[kind]]
            body.append(draw(comparisons(kind, name, peers)))
    head = [Item(plain(Variable(n))) for n in draw(st.lists(st.sampled_from(bound), unique=True))] if bound else []
    if aggregates and bound:
        some = plain(Variable(draw(st.sampled_from(bound))))
        head.append(Item(Call("count", ()), draw(st.sampled_from([None, "many"]))))
        head.append(Item(Call("count", (some,), distinct=True)))
        head.append(Item(Call(draw(st.sampled_from(["min", "max"])), (some,)), "edge"))
    return Rule("q", tuple(head), tuple(draw(st.permutations(body))))


def said(draft: Draft) -> dict[str, Any]:
    """Everything a draft says but the places."""
    shown = dict(vars(draft))
    shown["equalities"] = [(e.left, e.right, e.offset) for e in draft.equalities]
    shown["comparisons"] = [(c.left, c.op, c.right, c.offset) for c in draft.comparisons]
    shown["constants"] = [(t, c) for t, c, _ in draft.constants]
    return shown


@given(rules(aggregates=True))
def test_a_printed_rule_parses_to_the_same_rule(rule: Rule) -> None:
    assert parse(str(rule)) == (rule, [])


@given(rules(aggregates=True), st.data())
def test_spaces_and_the_final_point_change_nothing(rule: Rule, data: st.DataObject) -> None:
    tokens = re.findall(r"'(?:[^']|'')*'|\w+(?:\.\d+)?|:-|[<>=!]+|\S", str(rule))
    gaps = data.draw(st.lists(st.sampled_from(["", " ", "\n  ", "\t"]), min_size=len(tokens), max_size=len(tokens)))
    text = ""
    for token, gap in zip(tokens, gaps, strict=True):
        glued = text[-1:].isalnum() and (token[0].isalnum() or token[0] == "'")
        text += (" " if glued and not gap else gap) + token
    try:
        expected = said(compile_rule(str(rule), SPEC, QUERY))
    except QueryProblems as found:
        with pytest.raises(QueryProblems) as raised:
            compile_rule(text, SPEC, QUERY)
        assert [p.message for p in raised.value.problems] == [p.message for p in found.problems]
    else:
        assert said(compile_rule(text + data.draw(st.sampled_from(["", ".", " . "])), SPEC, QUERY)) == expected


# The meaning, row by row

Row = tuple[Any, ...]
Data = dict[str, list[Row]]
VALUES: dict[str, list[Any]] = {
    "number": [0, 1, 2, 3],
    "date": [DAY + dt.timedelta(n) for n in range(3)],
    "timestamp": [EARLY + dt.timedelta(minutes=30 * n) for n in range(5)],
    "string": ["", "a", "it's"],
}


@st.composite
def data(draw: st.DrawFn) -> Data:
    tables = {}
    for name, columns in TABLES.items():
        values = []
        for column_name, type_ in columns.items():
            known = list(VALUES[family(type_)])
            known += [None] if type_.endswith("?") else []
            known += [Decimal("1.5")] if column_name == "p" else []
            values.append(st.sampled_from(known))
        tables[name] = draw(st.lists(st.tuples(*values), min_size=3, max_size=6))
    return tables


def value(sum_: Sum, bound: dict[str, Any]) -> Any:
    total: Any = None
    for part in sum_.parts:
        operand = part.operand
        assert isinstance(operand, Variable | Constant)
        found: Any = bound[operand.name] if isinstance(operand, Variable) else operand.value
        if found is None:
            return None
        if isinstance(operand, Constant) and operand.kind == "interval":
            found = dt.timedelta(microseconds=found)
        total = found if total is None else total + found if part.sign > 0 else total - found
    return total


def matches(rule: Rule, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """The binding of the variables, if the rows give one; NULL joins with nothing."""
    bound: dict[str, Any] = {}
    atoms = [part for part in rule.body if isinstance(part, Atom)]
    for atom, row in zip(atoms, rows, strict=True):
        for argument, cell in zip(atom.arguments, row, strict=True):
            operand = argument.only
            if isinstance(operand, Constant):
                if cell is None or cell != operand.value:
                    return
            elif isinstance(operand, Variable) and operand.name != ANY:
                if operand.name in bound and (cell is None or bound[operand.name] != cell):
                    return
                bound[operand.name] = cell
    for part in rule.body:
        if isinstance(part, Comparison):
            left, right = value(part.left, bound), value(part.right, bound)
            if left is None or right is None or not getattr(operator, COMPARE[part.op])(left, right):
                return
    yield bound


def by_hand(rule: Rule, tables: Data) -> set[Row]:
    sources = [tables[part.relation] for part in rule.body if isinstance(part, Atom)]
    names = [item.value.variables[0].name for item in rule.items if isinstance(item.value, Sum)]
    found = (bound for rows in itertools.product(*sources) for bound in matches(rule, rows))
    return {tuple(bound[n] for n in names) for bound in found}


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for relation in SPEC.relations:
            columns = ", ".join(f'"{c.name}" {c.type.sql}' for c in relation.columns)
            connection.execute(f'CREATE TABLE "{relation.name}" ({columns})')
        yield connection


def column(term: Term, draft: Draft) -> str:
    return f"a{term.atom}.t{draft.terms.index(term)}"


def shifted(term: Term, offset: Decimal, draft: Draft) -> str:
    kind = term.scalar.type.name
    by = f"to_microseconds({offset})" if kind == "timestamp" else str(int(offset) if kind == "date" else offset)
    return column(term, draft) + (f" + {by}" if offset else "")


def draft_as_sql(draft: Draft) -> str:
    sources = []
    for i, atom in enumerate(draft.atoms):
        terms = [f"{t.scalar.sql} AS t{n}" for n, t in enumerate(draft.terms) if t.atom == i]
        where = " AND ".join(["TRUE", *(f"({f.sql})" for f in atom.filters)])
        sources.append(f'(SELECT {", ".join(["1 AS one", *terms])} FROM "{atom.source}" WHERE {where}) a{i}')
    conditions = ["TRUE"]
    conditions += [f"{column(e.left, draft)} = {shifted(e.right, e.offset, draft)}" for e in draft.equalities]
    conditions += [f"{column(c.left, draft)} {c.op} {shifted(c.right, c.offset, draft)}" for c in draft.comparisons]
    conditions += [f"{column(t, draft)} = {literal.sql}" for t, literal, _ in draft.constants]
    head = [column(o.value, draft) for o in draft.outputs if isinstance(o.value, Term)]
    return f"SELECT DISTINCT {', '.join(['1', *head])} FROM {', '.join(sources)} WHERE {' AND '.join(conditions)}"


def fill(database: duckdb.DuckDBPyConnection, tables: Data) -> None:
    for name, rows in tables.items():
        database.execute(f'DELETE FROM "{name}"')
        database.executemany(f'INSERT INTO "{name}" VALUES (?, ?)', rows)


@settings(max_examples=examples(100), deadline=None)
@given(rule=rules(), tables=data())
def test_a_draft_means_what_its_rule_says(database: duckdb.DuckDBPyConnection, rule: Rule, tables: Data) -> None:
    try:
        draft = compile_rule(str(rule), SPEC, QUERY)
    except QueryProblems as found:
        assert "never" not in str(found) or not by_hand(rule, tables)
        assume(False)
    fill(database, tables)
    assert {row[1:] for row in database.execute(draft_as_sql(draft)).fetchall()} == by_hand(rule, tables)


@settings(max_examples=examples(100), deadline=None)
@given(rule=rules(most_atoms=3), tables=data())
def test_a_normal_form_means_what_its_rule_says(database: duckdb.DuckDBPyConnection, rule: Rule, tables: Data) -> None:
    try:
        draft = compile_rule(str(rule), SPEC, QUERY)
    except QueryProblems:
        assume(False)
    try:
        made = normalise(draft)
    except QueryProblems:
        assert by_hand(rule, tables) == set(), "only what is always empty may be refused here"
        return
    fill(database, tables)
    rows = database.execute(as_sql(made)).fetchall()
    assert {() if made.is_boolean else row for row in rows} == by_hand(rule, tables)


# No text does harm

WORDS = """q R P V W x y _ ( ) , . :- <- < <= = == != + - * 5 1.5 1e3 -0 'a' 'it''s' ' " date interval '1h' '1y' true
null not and or count sum distinct min SELECT ; # [ é 99999999999999999999"""
PIECES = st.sampled_from([*WORDS.split(), "\ud800", "\x00", "\n"])


@settings(max_examples=examples(200), deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=30).map(" ".join), st.lists(PIECES, max_size=30).map("".join)))
@example(") <- ' \ud800 '1h'")
def test_no_text_raises_anything_but_problems_with_their_place(text: str) -> None:
    for candidate in (text, f"q(x) :- R(x, y), {text}", f"q({text}) :- R(x, y)", f"q(x) :- R({text})"):
        try:
            compile_rule(candidate, SPEC, QUERY)
        except QueryProblems as found:
            assert found.problems
            for problem in found.problems:
                assert 0 <= problem.offset <= len(candidate)
                assert problem.message and problem.hint
                assert problem.message.isprintable() and problem.hint.isprintable()


@settings(max_examples=examples(100), deadline=None)
@given(rules(aggregates=True))
def test_every_draft_of_a_rule_can_be_normalised_or_is_refused_with_its_place(rule: Rule) -> None:
    try:
        made = normalise(compile_rule(str(rule), SPEC, QUERY))
    except QueryProblems as found:
        assert all(0 <= p.offset <= len(str(rule)) for p in found.problems)
    else:
        assert [c.name for c in made.columns] == [i.column or _default(i) for i in rule.items]


def _default(item: Item) -> str:
    value = item.value
    if isinstance(value, Sum):
        return str(value)
    return "_".join([value.function, *(["distinct"] if value.distinct else []), *map(str, value.arguments)])
