"""What SQL says of single tables, joins and groups: the normal form it becomes."""

from __future__ import annotations

import pytest

from dynq_cli.query.problems import QueryProblems
from dynq_cli.spec.model import Semantics
from tests.every_case import every_case
from tests.query.sql_forms import atom, columns, compiled, filters, monomials, query

# Joins


def test_equal_columns_are_one_variable() -> None:
    assert str(query("SELECT r.a, s.c FROM r, s WHERE r.a = s.a")) == "q(a, c) :- r(a), s(a, c)"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT r.a, s.c FROM r JOIN s ON r.a = s.a",
        "SELECT a, s.c FROM r INNER JOIN s USING (a)",
        "SELECT r.a, s.c FROM r CROSS JOIN s WHERE s.a = r.a",
        "select R.A, S.C from R, S where S.A = R.A",
        'SELECT "r"."a", s.c FROM "r", s WHERE r.a = s.a',
    ],
)
def test_all_ways_to_write_a_join_say_the_same(text: str) -> None:
    assert str(query(text)) == "q(a, c) :- r(a), s(a, c)"


def test_natural_join_is_on_all_common_names() -> None:
    assert str(query("SELECT * FROM u NATURAL JOIN w")) == "q(a, x, y) :- u(x, y, a), w(x, y)"


def test_self_joins_keep_their_aliases() -> None:
    text = "SELECT p.a AS pa, n.a AS na FROM u p, u n WHERE p.x = n.a"
    assert [(a.alias, a.source) for a in query(text).atoms] == [("p", "u"), ("n", "u")]


def test_a_nullable_join_column_is_filtered() -> None:
    assert filters("SELECT r.a FROM r, u WHERE r.b = u.y") == ['"b" IS NOT NULL']


def test_a_scalar_of_one_side_is_joined_as_a_derived_binding() -> None:
    found = atom("SELECT r.a FROM r, s WHERE lower(r.c) = s.c", "r")
    assert 'LOWER("c")' in [b.scalar.sql for b in found.bindings]


# Comparisons


@every_case(
    ("condition", "comparison"),
    [
        ("r.a < w.x", "a < x"),
        ("r.a > w.x", "x < a"),
        ("NOT r.a > w.x", "a <= x"),
        ("r.a <> w.x", "a != x"),
        ("r.a < w.x + 3", "a < x + 3"),
        ("r.a + 1 < w.x - 2", "a < x - 3"),
        ("r.a - w.x < 5", "a < x + 5"),
        ("5 > r.a - w.x", "a < x + 5"),
        ("w.x - r.a >= 2", "a <= x - 2"),
        ("r.m <= w.x + 0.25", "m <= x + 0.25"),
    ],
)
def test_a_comparison_takes_its_constants_as_offset(condition: str, comparison: str) -> None:
    found = query(f"SELECT r.a, w.x, r.m FROM r, w WHERE {condition}")
    assert [str(c) for c in found.comparisons] == [comparison]


@pytest.mark.parametrize(
    ("condition", "comparison"),
    [
        ("r.t < s.t + INTERVAL '1h'", "r_t < s_t + interval '1 hour'"),
        ("r.t < s.t + INTERVAL 90 MINUTE", "r_t < s_t + interval '90 minutes'"),
        ("r.t < s.t + to_seconds(5)", "r_t < s_t + interval '5 seconds'"),
        ("r.t - s.t < INTERVAL '1 day 1 hour'", "r_t < s_t + interval '25 hours'"),
        ("r.d < s.d + 2", "r_d < s_d + interval '2 days'"),
        ("r.d < s.d - INTERVAL '1 week'", "r_d < s_d - interval '7 days'"),
        ("r.d - s.d < 3", "r_d < s_d + interval '3 days'"),
    ],
)
def test_offsets_of_dates_and_timestamps_are_days_and_microseconds(condition: str, comparison: str) -> None:
    found = query(f"SELECT r.t, s.t AS st, r.d, s.d AS sd FROM r, s WHERE {condition}")
    assert [str(c) for c in found.comparisons] == [comparison]


@pytest.mark.parametrize("text", ["1 day 02:00:00", "1 hour ago", "2 days 2:30", ".5 hours", "+1 hour", "about 1 hour"])
def test_an_interval_is_read_whole_or_refused(text: str) -> None:
    for sql in (f"r.t < s.t + INTERVAL '{text}'", f"r.t + interval '{text}' > TIMESTAMP '2020-01-01' AND r.a = s.a"):
        with pytest.raises(QueryProblems, match="not a sum of numbers with units"):
            query(f"SELECT r.t, s.t AS st FROM r, s WHERE {sql}")


def test_between_two_tables_is_two_comparisons() -> None:
    found = query("SELECT r.a, w.x FROM r, w WHERE r.a BETWEEN w.x AND w.x + 2")
    assert [str(c) for c in found.comparisons] == ["x <= a", "a <= x + 2"]


def test_an_equality_with_an_offset_is_an_equi_join_on_the_derived_value() -> None:
    found = query("SELECT r.a, w.y FROM r, w WHERE r.a = w.x + 1")
    assert found.comparisons == ()
    assert found.atoms[0].variables & found.atoms[1].variables


def test_floats_are_not_moved_between_the_sides() -> None:
    found = query("SELECT r.a FROM r, s WHERE r.f < s.f + 1.5")
    assert [c.offset for c in found.comparisons] == [0]
    assert '("f" + 1.5)' in [b.scalar.sql for b in found.atoms[1].bindings]


# Conditions of one table


@every_case(
    ("condition", "expected"),
    [
        ("a = 2 OR c LIKE 'x%'", ['("a" = 2 OR "c" LIKE \'x%\')']),
        ("a > 1 AND b < 2", ['"a" > 1', '"b" < 2']),
        ("NOT (a > 1 OR b < 2)", ['"a" <= 1', '"b" >= 2']),
        ("b BETWEEN 1 AND 3", ['"b" BETWEEN 1 AND 3']),
        ("CASE WHEN k THEN a ELSE b END > 0", ['CASE WHEN "k" THEN "a" ELSE "b" END > 0']),
        ("1 = 1 AND TRUE AND a > 1", ['"a" > 1']),
        ("  A   >1", ['"a" > 1']),
        ("d < '2020-03-01'", ["\"d\" < '2020-03-01'"]),
    ],
)
def test_a_condition_of_one_table_is_a_filter_in_one_spelling(condition: str, expected: list[str]) -> None:
    assert filters(f"SELECT a FROM r WHERE {condition}") == expected


def test_a_column_that_equals_a_constant_is_no_variable() -> None:
    found = query("SELECT r.a, w.y FROM r, w WHERE r.a = w.x AND r.a = 2")
    assert str(found) == "q(y) :- r(), w(y)"
    assert [[f.sql for f in a.filters] for a in found.atoms] == [['"a" = 2'], ['"x" = 2']]


@pytest.mark.parametrize(
    ("condition", "literal"),
    [
        ("d = '2020-02-29'", "CAST('2020-02-29' AS DATE)"),
        ("d = DATE '2020-02-29'", "CAST('2020-02-29' AS DATE)"),
        ("t = '2020-02-29 10:00:00'", "CAST('2020-02-29 10:00:00' AS TIMESTAMP)"),
        ("m = 1.5", "1.5"),
        ("-3 = a", "-3"),
        ("c = 'it''s'", "'it''s'"),
        ("k = TRUE", "TRUE"),
    ],
)
def test_constants_are_values_of_the_columns_type(condition: str, literal: str) -> None:
    assert filters(f"SELECT f FROM r WHERE {condition}")[0].endswith(f" = {literal}")


@pytest.mark.parametrize("condition", ["a = 2.5", "a = 99999999999999999999", "m = 0.001", "f = 1.5"])
def test_a_constant_the_column_cannot_hold_stays_a_filter(condition: str) -> None:
    found = query(f"SELECT a, m, f FROM r WHERE {condition}")
    assert found.head == ("a", "m", "f")
    assert len(found.atoms[0].filters) == 1


# The SELECT list


def test_output_columns_have_names_types_and_nullability() -> None:
    assert columns("SELECT a, b, m AS price, a + 1 AS next, 'x' AS letter, b / 2 AS half FROM r") == {
        "a": "int64",
        "b": "int64?",
        "price": "decimal(10,2)",
        "next": "int64",
        "letter": "string",
        "half": "float64?",
    }


def test_names_come_from_the_spec_or_the_expression() -> None:
    assert list(columns("SELECT A, a + 1, upper(c), COUNT(*), SUM(b) FROM r GROUP BY a, c")) == [
        "a",
        "a_1",
        "upper_c",
        "count_star",
        "sum_b",
    ]


def test_star_expands_and_using_columns_appear_once() -> None:
    assert list(columns("SELECT * FROM u JOIN w USING (x, y)")) == ["a", "x", "y"]
    assert list(columns("SELECT u.a, w.* FROM u, w")) == ["a", "x", "y"]
    assert list(columns("SELECT * EXCLUDE (x) FROM u")) == ["a", "y"]


@pytest.mark.parametrize(
    ("text", "semantics"),
    [
        ("SELECT a FROM r", "bag"),
        ("SELECT DISTINCT a FROM r", "set"),
        ("SELECT a FROM r GROUP BY a", "set"),
        ("SELECT a FROM r UNION SELECT a FROM u", "set"),
        ("SELECT a FROM r UNION ALL SELECT a FROM u", "bag"),
        ("SELECT a, COUNT(*) AS n FROM r GROUP BY a", "bag"),
    ],
)
def test_default_semantics(text: str, semantics: Semantics) -> None:
    assert compiled(text).semantics == semantics


def test_the_specs_semantics_wins_over_the_default() -> None:
    assert query("SELECT a FROM r", "set").semantics == "set"
    assert compiled("SELECT a FROM r UNION SELECT a FROM u", "bag").semantics == "bag"


# Aggregates


def test_what_reads_one_table_is_one_factor() -> None:
    assert monomials("SELECT SUM(m * (1 - a)) AS v FROM r") == [(1, {"r": '("m" * (1 - "a"))'})]


def test_products_across_tables_are_multiplied_out() -> None:
    assert monomials("SELECT SUM(r.m * (1 - s.m) - 2 * w.x) AS v FROM r, s, w") == [
        (1, {"r": '"m"', "s": '(1 - "m")'}),
        (-1, {"w": '(2 * "x")'}),
    ]
    assert monomials("SELECT SUM((r.a + w.x) * (r.a - w.y)) AS v FROM r, w") == [
        (1, {"r": '("a" * "a")'}),
        (-1, {"r": '"a"', "w": '"y"'}),
        (1, {"r": '"a"', "w": '"x"'}),
        (-1, {"w": '("x" * "y")'}),
    ]


def test_division_by_a_constant_is_duckdbs_own() -> None:
    assert monomials("SELECT SUM(r.a * w.x / 4) AS v FROM r, w") == [(1, {"r": '("a" / 4)', "w": '"x"'})]


def test_case_on_one_table_is_a_factor_of_it() -> None:
    assert monomials("SELECT SUM(CASE WHEN s.c = 'a' THEN r.m ELSE 0 END) AS v FROM r, s") == [
        (1, {"r": '"m"', "s": "CASE WHEN \"c\" = 'a' THEN 1 ELSE 0 END"})
    ]


def test_filter_makes_rows_null_that_do_not_count() -> None:
    assert monomials("SELECT SUM(a) FILTER (WHERE b > 1) AS v FROM r") == [(1, {"r": 'CASE WHEN "b" > 1 THEN "a" END'})]
    assert monomials("SELECT COUNT(*) FILTER (WHERE k) AS v FROM r") == [(1, {"r": 'CASE WHEN "k" THEN 1 END'})]


def test_count_needs_factors_only_where_null_is_possible() -> None:
    assert monomials("SELECT COUNT(a) AS n FROM r") == []
    assert monomials("SELECT COUNT(b) AS n FROM r") == [(1, {"r": '"b"'})]


@every_case(
    ("call", "kind"),
    [
        ("COUNT(*)", "int64"),
        ("COUNT(DISTINCT b)", "int64"),
        ("SUM(a)", "decimal(38,0)"),
        ("SUM(b)", "decimal(38,0)?"),
        ("SUM(m)", "decimal(38,2)"),
        ("SUM(f)", "float64?"),
        ("AVG(a)", "float64"),
        ("MIN(c)", "string"),
        ("MAX(b)", "int64?"),
        ("SUM(a) FILTER (WHERE a > 1)", "decimal(38,0)?"),
    ],
)
def test_types_of_aggregates(call: str, kind: str) -> None:
    assert columns(f"SELECT d, {call} AS v FROM r GROUP BY d")["v"] == kind


def test_a_global_aggregate_over_nothing_may_be_null() -> None:
    assert columns("SELECT SUM(a) AS v, COUNT(*) AS n FROM r") == {"v": "decimal(38,0)?", "n": "int64"}
    assert query("SELECT SUM(a) AS v FROM r").one_row


@pytest.mark.parametrize("keys", ["a, year(d)", "1, 2", "a, y", "ALL"])
def test_group_by_names_positions_aliases_and_all_are_the_same(keys: str) -> None:
    found = query(f"SELECT a, year(d) AS y, COUNT(*) AS n FROM r GROUP BY {keys}")
    assert str(found) == "q(a, y, n = count(…)) :- r(a, y)"


def test_expressions_over_aggregates_and_groups() -> None:
    found = query("SELECT a, SUM(b) / COUNT(*) AS mean, a + SUM(b) AS more FROM r GROUP BY a")
    assert [(c.kind, c.source) for c in found.columns] == [
        ("variable", "a"),
        ("expression", '"sum_b" / "count"'),
        ("expression", '"a" + "sum_b"'),
    ]


def test_having_may_use_aggregates_that_are_not_selected() -> None:
    found = query("SELECT a FROM r GROUP BY a HAVING SUM(m) > 100 AND COUNT(*) < 5")
    assert found.having is not None
    assert found.having.sql == '"sum_m" > 100 AND "count" < 5'
    assert [a.function for a in found.aggregates] == ["sum", "count"]


def test_the_same_call_is_one_aggregate() -> None:
    found = query("SELECT a, SUM(b) AS x, sum( b ) AS y FROM r GROUP BY a HAVING SUM(b) > 1")
    assert [a.name for a in found.aggregates] == ["x"]
    assert [c.source for c in found.columns] == ["a", "x", "x"]


def test_an_aggregate_is_never_called_like_a_variable() -> None:
    found = query("SELECT MAX(b) AS b FROM r HAVING MAX(b) > 1")
    assert found.aggregates[0].name not in found.aggregates[0].variables
    assert found.columns[0].name == "b"


def test_distinct_over_groups_that_are_all_selected_changes_nothing() -> None:
    with_distinct = query("SELECT DISTINCT a, COUNT(*) AS n FROM r GROUP BY a")
    assert with_distinct == query("SELECT a, COUNT(*) AS n FROM r GROUP BY a")


def test_distinct_over_hidden_groups_is_a_projection_of_a_view() -> None:
    found = query("SELECT DISTINCT COUNT(*) AS n FROM r GROUP BY a")
    assert found.semantics == "set"
    assert [v.name for v in found.views] == ["q.groups"]


@pytest.mark.parametrize("call", ["MIN(a, 2)", "MAX(a, 3)"])
def test_the_smallest_several_are_refused_and_not_taken_for_the_smallest(call: str) -> None:
    with pytest.raises(QueryProblems, match="takes one argument here"):
        query(f"SELECT {call} AS x FROM r")


def test_a_select_of_one_number_is_no_place_in_the_select() -> None:
    assert str(query("SELECT a, (SELECT 1) AS one FROM r")) == str(query("SELECT a, 1 AS one FROM r"))
    for clause in ("ORDER BY (SELECT 1)", "GROUP BY (SELECT 1)"):
        with pytest.raises(QueryProblems, match=r"\(SELECT 1\)|subquery"):
            query(f"SELECT a FROM r {clause}")
