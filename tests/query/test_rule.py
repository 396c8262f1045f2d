"""What rules say, and what a user reads who writes one wrong."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dynq_cli.query.draft import Draft, DraftAggregate, Term
from dynq_cli.query.normal_form import ConjunctiveQuery
from dynq_cli.query.normalise import normalise
from dynq_cli.query.problems import QueryProblems, TextProblem
from dynq_cli.query.rule import compile_rule
from dynq_cli.spec.model import Column, QuerySpec, Relation, Spec
from dynq_cli.spec.types import parse_type
from tests.every_case import every_case


def relation(name: str, **columns: str) -> Relation:
    return Relation(name, tuple(Column(column, *parse_type(text)) for column, text in columns.items()))


Q = QuerySpec("q", "rule", ())
SPEC = Spec(
    "spec.yaml",
    (
        relation("R", a="int64", b="int64"),
        relation("S", b="int64", c="string?"),
        relation("R_2", a="int8", n="int32?"),
        relation("P", price="decimal(15,2)", f="float64", g="float32"),
        relation("V", id="int64", d="date", t="timestamp", h="time"),
        relation("X", ok="bool", raw="binary", s="string"),
    ),
    (Q, QuerySpec("other", "rule", ())),
)


def draft(text: str, query: QuerySpec = Q) -> Draft:
    return compile_rule(text, SPEC, query)


def query(text: str) -> ConjunctiveQuery:
    return normalise(draft(text))


def problems(text: str) -> tuple[TextProblem, ...]:
    with pytest.raises(QueryProblems) as raised:
        draft(text)
    return raised.value.problems


def filters(text: str) -> list[str]:
    return [f.sql for atom in query(text).atoms for f in atom.filters]


def compared(text: str) -> list[str]:
    return [str(c) for c in query(text).comparisons]


def aggregates(text: str) -> dict[str, DraftAggregate]:
    return {a.name: a for a in draft(text).aggregates}


# What rules say


def test_a_shared_variable_joins_and_an_underscore_is_projected_away() -> None:
    assert str(query("q(x, c) :- R(x, y), S(y, c), R(_, x)")) == "q(x, c) :- R(x, y), S(y, c), R R_3(x)"


def test_a_second_atom_of_a_relation_never_takes_the_name_of_another_relation() -> None:
    assert [a.alias for a in draft("q() :- R(x, y), R(y, z), R_2(x, _)").atoms] == ["R", "R_3", "R_2"]


def test_a_variable_repeated_in_one_atom_is_a_filter() -> None:
    assert filters("q(x) :- R(x, x)") == ['"a" = "b"']


def test_every_body_variable_is_bound_so_that_aggregates_range_over_distinct_bindings() -> None:
    assert query("q(sum(x)) :- R(x, y)").atoms[0].variables == {"x", "y"}
    assert query("q(sum(x)) :- R(x, _)").atoms[0].variables == {"x"}


@every_case(
    ("body", "expected"),
    [
        ("R(5, _)", '"a" = 5'),
        ("R(-5, _)", '"a" = -5'),
        ("S(_, 'it''s')", "\"c\" = 'it''s'"),
        ("P(1.5, _, _)", '"price" = 1.50'),
        ("P(3, _, _)", '"price" = 3.00'),
        ("P(_, 1e3, _)", '"f" = 1000.0e0'),
        ("P(_, -0.0, _)", '"f" = 0.0e0'),
        ("P(_, _, 0.1)", '"g" = 0.10000000149011612e0'),
        ("V(_, date '2020-01-31', _, _)", "\"d\" = CAST('2020-01-31' AS DATE)"),
        ("V(_, _, timestamp '2020-01-31T12:00:00.5', _)", "\"t\" = CAST('2020-01-31 12:00:00.500000' AS TIMESTAMP)"),
        ("V(_, _, _, time '12:30')", "\"h\" = CAST('12:30:00' AS TIME)"),
        ("X(TRUE, _, _)", '"ok" = TRUE'),
        ("X(_, x'00ff', _)", "\"raw\" = CAST('\\x00\\xFF' AS BLOB)"),
    ],
)
def test_a_constant_in_an_atom_is_a_filter_in_the_type_of_its_column(body: str, expected: str) -> None:
    assert filters(f"q() :- {body}") == [expected]


@every_case(
    ("comparison", "expected"),
    [
        ("a = 5", '"a" = 5'),
        ("5 > a", '"a" < 5'),
        ("a <> 5", '"a" != 5'),
        ("a ≤ 5", '"a" <= 5'),
        ("a<-5", '"a" < -5'),
        ("a + 1 < 5", '"a" < 4'),
        ("5 - a < 3", '"a" > 2'),
        ("-a >= 5", '"a" <= -5'),
        ("a < 5.5", '"a" <= 5'),
        ("a > 5.5", '"a" >= 6'),
        ("a >= -5.5", '"a" >= -5'),
        ("a < 5 + 0.5 + 0.5", '"a" < 6'),
        ("a < -9223372036854775808", '"a" < -9223372036854775808'),
    ],
)
def test_constants_gather_on_the_right_and_take_the_nearest_value_of_the_type(comparison: str, expected: str) -> None:
    assert filters(f"q(b) :- R(a, b), {comparison}") == [expected]


def test_time_constants_take_intervals() -> None:
    said = filters(
        "q() :- V(_, d, t, h), d < date '2020-01-31' + interval '2d', h > time '12:00', "
        "t >= timestamp '2020-01-01 00:00:00+02:00' - interval '1h 30m'"
    )
    assert said == [
        "\"d\" < CAST('2020-02-02' AS DATE)",
        "\"h\" > CAST('12:00:00' AS TIME)",
        "\"t\" >= CAST('2019-12-31 20:30:00' AS TIMESTAMP)",
    ]


def test_a_comparison_with_a_constant_filters_every_atom_that_has_the_variable() -> None:
    atoms = query("q(x) :- R(x, _), R_2(x, _), P(x, _, _), x < 1000").atoms
    assert [a.filters[0].sql for a in atoms] == [
        'CAST("a" AS DECIMAL(21,2)) < 1000.00',
        'CAST("a" AS DECIMAL(21,2)) < 1000.00',
        'CAST("price" AS DECIMAL(21,2)) < 1000.00',
    ]


@every_case(
    ("comparison", "expected"),
    [
        ("x < y", "x < y"),
        ("x > y + 2", "y < x - 2"),
        ("x - y <= 5", "x <= y + 5"),
        ("5 > x - y", "x < y + 5"),
        ("x + 1 < y + 3", "x < y + 2"),
        ("-x < 5 - y", "y < x + 5"),
        ("x < y + 1.5", "x <= y + 1"),
        ("x > y + 1.5", "y <= x - 2"),
        ("x != y - 1", "x != y - 1"),
        ("x + y < y + y", "x < y"),
    ],
)
def test_comparisons_of_variables_come_down_to_one_offset(comparison: str, expected: str) -> None:
    assert compared(f"q() :- R(x, _), S(y, _), {comparison}") == [expected]


def test_offsets_of_times_are_days_and_microseconds() -> None:
    said = draft(
        "q() :- V(_, d, t, _), V(_, d2, t2, _), d < d2 + interval '1w', t <= t2 + interval '1h 30m', "
        "t2 - interval '1ms' <= t"
    )
    assert [c.offset for c in said.comparisons] == [Decimal(7), Decimal(5_400_000_000), Decimal(1_000)]
    assert [str(c) for c in normalise(said).comparisons] == [
        "d < d2 + interval '7 days'",
        "t <= t2 + interval '90 minutes'",
        "t2 <= t + interval '1000 microseconds'",
    ]


def test_an_equality_joins_and_with_an_offset_joins_on_the_derived_value() -> None:
    plain = draft("q() :- R(x, _), S(y, _), x = y").equalities
    assert [(e.left.name, e.right.name, e.offset) for e in plain] == [("x", "y", Decimal(0))]
    shifted = draft("q() :- V(_, x, _, _), V(_, y, _, _), x = y + interval '2d'").equalities
    assert [(e.left.name, e.right.name, e.offset) for e in shifted] == [("x", "y", Decimal(2))]


def test_a_fraction_may_lie_between_an_integer_and_a_decimal() -> None:
    assert draft("q() :- R(x, _), P(p, _, _), p = x + 0.5").equalities[0].offset == Decimal("0.5")


def test_head_variables_are_output_columns_under_their_own_or_a_given_name() -> None:
    outputs = draft("q(x, again = x, y) :- R(x, y)").outputs
    assert [(o.name, o.value.name) for o in outputs if isinstance(o.value, Term)] == [
        ("x", "x"),
        ("again", "x"),
        ("y", "y"),
    ]
    assert draft("q(x) :- R(x, _)").group_by is None


def test_an_empty_head_is_a_boolean_query() -> None:
    assert query("q() :- R(x, y)").is_boolean


def test_aggregates_have_default_and_given_names() -> None:
    head = "x, sum(y), count(), avg(y), MIN(y), max(y), count(y), count(distinct y), total = sum(y)"
    made = aggregates(f"q({head}) :- R(x, y)")
    assert {name: (a.function, str(a.type), a.nullable) for name, a in made.items()} == {
        "sum_y": ("sum", "decimal(38,0)", False),
        "count": ("count", "int64", False),
        "avg_y": ("avg", "float64", False),
        "min_y": ("min", "int64", False),
        "max_y": ("max", "int64", False),
        "count_y": ("count", "int64", False),
        "count_distinct_y": ("count_distinct", "int64", False),
        "total": ("sum", "decimal(38,0)", False),
    }
    (monomial,) = made["sum_y"].monomials
    assert monomial.coefficient == 1
    assert [(f.atom, f.scalar.sql) for f in monomial.factors] == [(0, '"b"')]
    assert made["count"].monomials == ()
    assert made["count_y"].monomials == made["sum_y"].monomials
    assert [term.name for term in made["min_y"].terms] == ["y"]


def test_sums_have_the_widest_type_of_their_kind() -> None:
    made = aggregates("q(sum(p), sum(f), sum(g), min(p)) :- P(p, f, g)")
    assert [str(a.type) for a in made.values()] == ["decimal(38,2)", "float64", "float64", "decimal(15,2)"]


def test_plain_head_variables_are_the_groups_and_without_any_there_is_one_row() -> None:
    grouped, one_row = draft("q(x, count()) :- R(x, y)"), draft("q(count()) :- R(x, y)")
    assert grouped.group_by is not None and [t.name for t in grouped.group_by] == ["x"]
    assert one_row.group_by is None
    assert normalise(one_row).one_row and not normalise(grouped).one_row


def test_an_aggregate_may_be_null_over_nothing_or_over_null_only() -> None:
    assert aggregates("q(max(y)) :- R(x, y)")["max_y"].nullable
    assert aggregates("q(x, max(n)) :- R_2(x, n)")["max_n"].nullable
    assert not aggregates("q(x, max(n)) :- R_2(x, n), n > 3")["max_n"].nullable
    assert not aggregates("q(x, max(n)) :- R_2(x, n), R(n, _)")["max_n"].nullable
    assert not aggregates("q(count(n)) :- R_2(x, n)")["count_n"].nullable


def test_rules_have_set_semantics_unless_the_spec_says_bag() -> None:
    assert draft("q(x) :- R(x, _)").semantics == "set"
    assert draft("q(x) :- R(x, _)", QuerySpec("q", "rule", (), "bag")).semantics == "bag"


def test_words_of_the_language_may_name_variables() -> None:
    said = query("interval(count, date) :- R(count, date), count < date + 1, sum = interval, R(sum, interval)")
    assert said.head == ("count", "date")


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("1h", 3_600_000_000),
        ("1h 30m", 5_400_000_000),
        ("1h30min", 5_400_000_000),
        ("1 hour, 30 minutes", 5_400_000_000),
        ("1.5 Hours", 5_400_000_000),
        ("2w 1d", 15 * 86_400_000_000),
        ("3s 4ms 5us", 3_004_005),
    ],
)
def test_intervals_are_read_in_all_their_notations(text: str, microseconds: int) -> None:
    said = draft(f"q() :- V(_, _, t, _), V(_, _, u, _), t < u + interval '{text}'")
    assert said.comparisons[0].offset == microseconds


# What a user reads: ^ stands before the character that the problem names

WRONG_TEXT = [
    ("^", "the rule is empty", "q(x, z) :- R(x, y)"),
    ("^SELECT x FROM R", "this is SQL", "write sql:"),
    ("q(x)^", ":- and the body are missing", "q(x, z) :-"),
    ("q(x) ^R(x, y)", ":- is missing", "q(x, z) :-"),
    ("q(x)^, R(x, y)", ":- is missing", "q(x, z) :-"),
    ("q ^:- R(x, y)", "the head has no arguments", "write q()"),
    ("^:- R(x, y)", "no head", "q(x, z) :-"),
    ("q(x) ^<- R(x, y)", "`<-` does not separate", "write :-"),
    ("q(x) ^=> R(x, y)", "`=>` does not separate", "write :-"),
    ("q(x) ^:-", "no body", "name relations"),
    ("q(x) :- R(x, y)^, .", "nothing follows this comma", "remove it"),
    ("q(x) :- R(x, y^,)", "nothing follows this comma", "remove it"),
    ("q(x) :- R(x, ^, y)", "nothing stands before this comma", "remove it"),
    ("q(x) :- R(x, y) ^S(y, z)", "a comma is missing before `S`", "commas"),
    ("q(x) :- R(x ^5)", "a comma is missing before `5`", "commas"),
    ("q(x) :- R^(x, y", "the parenthesis of `R` is not closed", "write )"),
    ("q^(x :- R(x, y)", "the parenthesis of `q` is not closed", "write )"),
    ("q(x) :- R(x, y)^), S(y, _)", "no open parenthesis", "remove the )"),
    ("q(x) :- S(x, ^'abc)", "no closing quote", "'it''s'"),
    ("q(x) :- S(x, ^'abc), S(x, 'def')", "a quote is not closed", "close each string"),
    ('q(x) :- S(x, ^"abc")', '" is no quote', "'abc'"),
    ("q(x) :- R(x, y) ^AND S(y, _)", "`AND` does not separate", "comma"),
    ("q(x) :- R(x, y)^; S(y, _)", "`;` does not separate", "comma"),
    ("q(x) :- R(x, y) ^OR S(x, _)", "a rule has no OR", "list of rules"),
    ("q(x) :- R(x, y), ^NOT S(y, _)", "no negation", "NOT EXISTS"),
    ("q(x) :- R(x, y), ^!S(y, _)", "no negation", "NOT EXISTS"),
    ("q(x) :- R(x, y), ^not x = y", "no negation", "opposite"),
    ("q(x) :- R(x, y), x ^== y", "no comparison ==", "write ="),
    ("q(x) :- R(x, y), x ^=> y", "no comparison =>", "write >="),
    ("q(x) :- R(x, y), x < y ^< 5", "cannot be chained", "`x < y, y < 5`"),
    ("q(x) :- R(x, y), x ^<", "nothing follows <", "a variable or a constant"),
    ("q(x) :- R(x, y), ^x", "`x` alone says nothing", "R(x, y)"),
    ("q(x) :- R(x, y), x ^IN (1, 2)", "`IN` is SQL", "sql:"),
    ("q(x) :- R(x, y), x ^is null", "`is` is SQL", "sql:"),
    ("q(x) :- R(x, y) ^where x < 5", "`where` is SQL", "sql:"),
    ("q(x, sum(y) ^as total) :- R(x, y)", "without as", "total = sum(y)"),
    ("q(x) :- R(x, y). ^q(x) :- S(x, _)", "after the end", "list"),
    ("q(x) :- R(x, y) ^:- S(x, _)", "a second :-", "list"),
    ("q(x) :- R(x, y), ^abs(x) < 5", "abs(...) cannot be compared", "sql:"),
    ("q(x) :- R(x, y), x < ^abs(y)", "abs(...) cannot stand here", "sql:"),
    ("q(x) :- R(x, y), x < ^(y + 1)", "parentheses stand only around", "x < y + 1"),
    ("q(x) :- R(x, y), x ^* 2 < y", "rules have no *", "sql:"),
    ("q(x) :- R(x, y) ^# all", "no comments", "YAML"),
    ("q(x) :- R^[x, y]", "[ is no bracket", "( and )"),
    ("q(x) :- V(x, _, t, _), t < t + interval ^1 hour", "is written in quotes", "interval '1h 30m'"),
    ("q(x) :- V(x, _, t, _), t < t + interval '1' ^hour", "inside its quotes", "interval '1h 30m'"),
    ("q(x) :- V(x, d, _, _), d < date ^2020-01-31", "is written in quotes", "date '2020-01-31'"),
    ("q(x) :- R(x, ^null)", "NULL equals nothing", "IS NULL"),
    ("q(x) :- R(x, y), x < ^1_000", "`1_000` is not a number", "write 1000"),
    ("q(x) :- R(x, y), x < ^1e999", "too large", "1.8e308"),
    ("q(x) :- R(x, y) ^$", "`$` does not belong here", "q(x, z) :-"),
]

WRONG_MEANING = [
    ("q(x) :- ^r(x, y)", "no relation r", "did you mean R?"),
    ("q(x) :- ^orders(x)", "no relation orders", "the relations are R, S"),
    ("q(x) :- ^other(x)", "other is a query", "relations only"),
    ("q(x) :- ^R(x)", "R has 2 columns, and this atom has 1", "a int64, b int64; write _"),
    ("q(x) :- ^S(x, y, z)", "S has 2 columns, and this atom has 3", "b int64, c string?"),
    ("q(^z) :- R(x, y)", "no atom of the body has the variable z", "put z into an atom"),
    ("q(^nam) :- S(_, name)", "no atom of the body has the variable nam", "did you mean name?"),
    ("q(x) :- R(x, y), ^z < 5", "no atom of the body has the variable z", "put z"),
    ("q(x) :- R(x, y), x < ^_", "_ stands for a value that does not matter", "give the column a variable"),
    ("q(^_) :- R(_, _)", "_ stands for a value that does not matter", "give the column a variable"),
    ("q(x) :- ^x < 5", "the body names no relation", "R(x, y)"),
    ("q(^5, x) :- R(x, y)", "`5` is a constant", "sql:"),
    ("q(^x + 1) :- R(x, y)", "`x + 1` is a sum", "SELECT x + 1 AS c"),
    ("q(x, ^x) :- R(x, y)", "column x twice", "x_2 = x"),
    ("q(x, ^X) :- R(x, X)", "differ only in case", "X_2 = X"),
    ("q(x, sum(y), ^sum(y)) :- R(x, y)", "column sum_y twice", "sum_y_2 = sum(y)"),
    ("q(^_x) :- R(_x, y)", "begins with _", "x = _x"),
    ("q(^total(x)) :- R(x, y)", "no aggregate total", "count, sum, avg"),
    ("q(^summ(x)) :- R(x, y)", "no aggregate summ", "did you mean sum?"),
    ("q(sum(^c)) :- S(_, c)", "c is string, and sum takes numbers", "min, max or count"),
    ("q(^sum()) :- R(x, y)", "sum takes a variable", "sum(y)"),
    ("q(sum(^2 + 3)) :- R(x, y)", "sum takes variables, and numbers beside them, not `2 + 3`", "sql:"),
    ("q(^bit_xor(distinct x)) :- R(x, y)", "bit_xor(distinct ...)", "count, sum and avg"),
    ("q(count(^*)) :- R(x, y)", "no count(*)", "count()"),
    ("q(x) :- R(^y + 1, x)", "`y + 1` is a sum", "v = y + 1"),
    ("q(x) :- R(x, y), S(z, ^y)", "y is int64 before and string here, in S.c", "two variables"),
    ("q() :- R(x, _), S(_, c), ^x = c", "x is int64 and c is string: they have no common type", "sql:"),
    ("q() :- V(_, d, t, _), ^d < t", "d is date and t is timestamp", "sql:"),
    ("q() :- R(^'5', _)", "R.a is int64, and `'5'` is a string", "write 5"),
    ("q() :- S(_, ^5)", "S.c is string, and `5` is a number", "write '5'"),
    ("q() :- V(_, ^'2020-01-31', _, _)", "V.d is date", "write date '2020-01-31'"),
    ("q() :- V(_, ^'soon', _, _)", "V.d is date", "write date '2020-01-31'"),
    ("q() :- V(_, _, t, _), t < ^date '2020-01-31'", "is a date", "write timestamp '2020-01-31 00:00:00'"),
    ("q() :- V(_, d, _, _), d < ^timestamp '2020-01-31 10:00:00'", "is a timestamp", "write date '2020-01-31'"),
    ("q() :- V(_, _, _, h), h < ^'12:30'", "h is time", "write time '12:30'"),
    ("q() :- X(ok, _, _), ok = ^1", "ok is bool", "true or false"),
    ("q() :- X(ok, _, _), ^ok < true", "has no order", "= or !="),
    ("q() :- X(_, raw, _), raw = ^'ab'", "raw is binary", "x'00FF'"),
    ("q() :- R_2(^128, _)", "R_2.a is int8, which does not reach 128", "-128 to 127"),
    ("q() :- R_2(^1.5, _)", "is never 1.5", "integer"),
    ("q() :- R(x, _), x != ^1.5", "always different from 1.5", "integer"),
    ("q() :- R(x, _), x < ^1e3", "exponent is a float", "all digits"),
    ("q() :- P(p, _, _), p = ^1.555", "is never 1.555", "at most 2 digits"),
    ("q() :- P(p, _, _), p < ^12345678901234", "does not reach", "9999999999999.99"),
    ("q() :- P(_, _, g), g < ^1e39", "float32, which does not reach", "3.4e38"),
    ("q() :- R(x, _), S(y, _), x = y + ^0.5", "x = y + 0.5 never holds", "< or >"),
    ("q() :- R(x, _), S(y, _), x != y - ^0.5", "x != y - 0.5 always holds", "< or >"),
    ("q() :- R(x, _), S(y, _), x < y + ^10000000000000000000", "does not reach", "9223372036854775807"),
    ("q() :- R(x, y), ^x + y < 5", "one variable on each side", "x <= y + 5"),
    ("q() :- R(x, y), ^x < x + 1", "x stands on both sides", "something else"),
    ("q() :- R(x, y), ^1 < 2", "two constants", "a variable"),
    ("q() :- V(_, d, _, _), V(_, e, _, _), d < e + ^7", "a number has no unit", "interval '7d'"),
    ("q() :- V(_, d, _, _), V(_, e, _, _), d < e + ^interval '1h'", "only whole days", "interval '1d'"),
    ("q() :- V(_, _, _, h), V(_, _, _, i), h < i + ^interval '1h'", "wrap at midnight", "timestamp column"),
    ("q() :- V(_, _, t, _), t < ^interval '1h'", "an interval is a distance", "add the interval"),
    ("q() :- S(_, c), S(_, d), c < d + ^1", "nothing can be added", "without a sum"),
    ("q() :- V(_, d, _, _), ^d < date '9999-12-31' + interval '1d'", "after 9999", "correct the interval"),
    ("q() :- V(_, d, _, _), d < date ^'2020-02-30'", "`'2020-02-30'` is not a date", "date '2020-01-31'"),
    ("q() :- X(_, raw, _), raw = x^'ABC'", "`'ABC'` is not a binary constant", "x'00FF'"),
    ("q() :- S(x, ^y 'a')", "`y` before a string", "a comma"),
]

WRONG_INTERVALS = [
    ("1 month", "no unit of constant length", "'30d'"),
    ("1y", "no unit of constant length", "'30d'"),
    ("1M", "minutes or months", "write m for minutes"),
    ("1 fortnight", "no unit fortnight", "us, ms, s"),
    ("", "empty", "a number and a unit"),
    ("-1h", "no sign", "before it"),
    ("1:30", "time of day", "'1h 30m'"),
    ("5", "no unit", "interval '5h'"),
    ("soon", "not an interval", "'1h 30m'"),
    ("0.1us", "whole number of microseconds", "smaller units"),
    ("4000000d", "ten thousand years", "write less"),
]


@every_case(("marked", "message", "hint"), [*WRONG_TEXT, *WRONG_MEANING])
def test_a_mistake_is_reported_once_at_its_place_with_what_to_write(marked: str, message: str, hint: str) -> None:
    at = marked.index("^")
    (found,) = problems(marked.replace("^", "", 1))
    assert message in found.message
    assert hint in found.hint
    assert found.offset == at


@every_case(("text", "message", "hint"), WRONG_INTERVALS)
def test_an_interval_without_constant_length_is_refused(text: str, message: str, hint: str) -> None:
    rule = f"q() :- V(_, _, t, _), V(_, _, u, _), t < u + interval '{text}'"
    (found,) = problems(rule)
    assert message in found.message
    assert hint in found.hint
    assert found.offset == rule.index(f"'{text}'")


def test_all_mistakes_of_a_rule_are_reported_at_once_in_the_order_of_the_text() -> None:
    found = problems("q(z, 5) <- R(x) and S(y, 'a'), T(y), y == 'b', y < interval '1y', x < 5")
    assert [p.message.split(":")[0] for p in found] == [
        "no atom of the body has the variable z",
        "a head takes variables and aggregates, and `5` is a constant",
        "`<-` does not separate head and body",
        "R has 2 columns, and this atom has 1",
        "`and` does not separate the parts of a body",
        "there is no relation T",
        "there is no comparison ==",
        "y is int64, and `'b'` is a string",
        "y is no unit of constant length",
    ]
