"""What SQL says, construct by construct: the normal form it becomes."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dynq_cli.query.normal_form import Aggregate, Atom, ConjunctiveQuery, Query, UnionQuery
from dynq_cli.query.problems import QueryProblems, TextProblem
from dynq_cli.query.sql import compile_sql
from dynq_cli.spec.model import Semantics
from tests.query.meaning import make_query, make_spec

SPEC = make_spec()


def compiled(text: str, semantics: Semantics | None = None) -> Query:
    return compile_sql(text, SPEC, make_query(text, semantics))


def query(text: str, semantics: Semantics | None = None) -> ConjunctiveQuery:
    found = compiled(text, semantics)
    assert isinstance(found, ConjunctiveQuery)
    return found


def atom(text: str, alias: str) -> Atom:
    return next(a for a in query(text).atoms if a.alias == alias)


def filters(text: str, alias: str = "r") -> list[str]:
    return [f.sql for f in atom(text, alias).filters]


def monomials(text: str) -> list[tuple[Decimal, dict[str, str]]]:
    found = query(text)
    return [
        (m.coefficient, {found.atoms[f.atom].alias: f.scalar.sql for f in m.factors})
        for m in found.aggregates[0].monomials
    ]


def aggregate(text: str) -> Aggregate:
    return query(text).aggregates[0]


def problems(text: str) -> tuple[TextProblem, ...]:
    with pytest.raises(QueryProblems) as raised:
        compiled(text)
    return raised.value.problems


def columns(text: str) -> dict[str, str]:
    return {c.name: f"{c.type}{'?' if c.nullable else ''}" for c in compiled(text).columns}


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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
    assert found.aggregates[0].name != found.aggregates[0].variable
    assert found.columns[0].name == "b"


def test_distinct_over_groups_that_are_all_selected_changes_nothing() -> None:
    with_distinct = query("SELECT DISTINCT a, COUNT(*) AS n FROM r GROUP BY a")
    assert with_distinct == query("SELECT a, COUNT(*) AS n FROM r GROUP BY a")


def test_distinct_over_hidden_groups_is_a_projection_of_a_view() -> None:
    found = query("SELECT DISTINCT COUNT(*) AS n FROM r GROUP BY a")
    assert found.semantics == "set"
    assert [v.name for v in found.views] == ["q.groups"]


# Subqueries


def test_exists_over_one_table_is_a_semi_atom() -> None:
    text = "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM u WHERE u.a = r.a AND u.y > 1)"
    assert str(query(text)) == "q(a) :- r(a), exists u(a)"
    assert filters(text, "u") == ['"y" > 1']


def test_not_exists_over_one_table_is_an_anti_atom_and_keeps_null_outside() -> None:
    found = query("SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.x = r.b)")
    assert str(found) == "q(a) :- r(b, a), not exists u(b)"
    assert found.atoms[0].filters == ()


def test_a_comparison_with_the_query_around_stays_a_comparison() -> None:
    found = query("SELECT a FROM r WHERE EXISTS (SELECT 1 FROM u WHERE u.a = r.a AND u.y > r.b + 1)")
    assert [str(c) for c in found.comparisons] == ["b < y - 1"]


@pytest.mark.parametrize(
    "condition",
    ["a IN (SELECT x FROM u)", "a = ANY (SELECT x FROM u)", "EXISTS (SELECT 1 FROM u WHERE x = r.a)"],
)
def test_in_and_any_are_exists(condition: str) -> None:
    assert str(query(f"SELECT a FROM r WHERE {condition}")) == "q(a) :- r(a), exists u(a)"


def test_not_in_is_null_aware_only_where_null_is_possible() -> None:
    assert atom("SELECT b FROM r WHERE a NOT IN (SELECT x FROM u)", "u").null_aware == "a"
    assert atom("SELECT a FROM r WHERE b NOT IN (SELECT y FROM u)", "u").null_aware == "b"
    assert atom("SELECT b FROM r WHERE a NOT IN (SELECT y FROM u)", "u").null_aware is None
    assert atom("SELECT b FROM r WHERE a <> ALL (SELECT y FROM u)", "u").mode == "anti"


def test_under_distinct_positive_subqueries_are_plain_joins() -> None:
    text = "SELECT DISTINCT r.c FROM r WHERE r.a IN (SELECT u.a FROM u, w WHERE u.x = w.x)"
    assert str(query(text)) == "q(c) :- r(a, c), u(a, x), w(x)"


def test_a_subquery_over_a_join_is_a_view_of_its_links() -> None:
    found = query("SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM u, w WHERE u.x = w.x AND u.a = r.a)")
    assert [str(v.query) for v in found.views] == ["q.exists1(a) :- u(x, a), w(x)"]
    assert str(found) == "q(a) :- r(a), not exists q.exists1 exists1(a)"


def test_a_grouped_subquery_is_a_view() -> None:
    found = query("SELECT a FROM r WHERE a IN (SELECT a FROM u GROUP BY a HAVING SUM(y) > 3)")
    view = found.views[0].query
    assert isinstance(view, ConjunctiveQuery) and view.having is not None
    assert found.atoms[1].mode == "semi"


def test_conditions_on_the_outer_query_alone_are_lifted_out_of_exists() -> None:
    assert filters("SELECT a FROM r WHERE EXISTS (SELECT 1 FROM u WHERE u.a = r.a AND r.c = 'x' AND r.a > 1)") == [
        '"a" > 1',
        "\"c\" = 'x'",
    ]


# Derived tables, WITH, unions


def test_a_plain_derived_table_is_opened() -> None:
    text = "SELECT q.p, w.y FROM (SELECT b + 1 AS p FROM r WHERE a > 0) q JOIN w ON q.p = w.x"
    found = query(text)
    assert [a.source for a in found.atoms] == ["r", "w"]
    assert found.views == ()
    assert '"a" > 0' in filters(text)


def test_a_grouped_derived_table_is_a_view_with_typed_columns() -> None:
    found = query("SELECT n, COUNT(*) AS k FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a) g GROUP BY n")
    assert str(found) == "q(n, k = count(…)) :- q.g g(n)"
    assert [(c.name, str(c.type), c.nullable) for c in found.views[0].columns] == [
        ("a", "int64", False),
        ("n", "int64", False),
    ]


def test_distinct_inside_is_opened_only_where_copies_do_not_count() -> None:
    assert query("SELECT DISTINCT g.a FROM (SELECT DISTINCT a, b FROM r) g").views == ()
    assert len(query("SELECT g.a FROM (SELECT DISTINCT a, b FROM r) g").views) == 1


def test_with_is_a_derived_table_wherever_it_is_named() -> None:
    found = query("WITH p(k) AS (SELECT a FROM r WHERE a > 0) SELECT x.k, y.k AS yk FROM p x, p y WHERE x.k < y.k")
    assert [a.source for a in found.atoms] == ["r", "r"]
    assert len({a.alias for a in found.atoms}) == 2


def test_views_of_one_query_have_different_names() -> None:
    found = query("WITH g AS (SELECT a, COUNT(*) AS n FROM r GROUP BY a) SELECT x.a, y.n FROM g x, g y WHERE x.n = y.n")
    assert len({v.name for v in found.views}) == len(found.views) == 2


def test_a_chain_of_unions_is_one_union() -> None:
    found = compiled("SELECT a FROM r UNION ALL SELECT a FROM u UNION ALL SELECT x FROM w ORDER BY a DESC")
    assert isinstance(found, UnionQuery)
    assert [m.name for m in found.members] == ["q.1", "q.2", "q.3"]
    assert [str(o) for o in found.order] == ["a desc"]


def test_unions_of_both_kinds_nest() -> None:
    found = compiled("SELECT a FROM r UNION ALL (SELECT a FROM u UNION SELECT x FROM w)")
    assert isinstance(found, UnionQuery)
    inner = found.members[1]
    assert isinstance(inner, UnionQuery)
    assert (found.semantics, inner.semantics) == ("bag", "set")


def test_columns_of_a_union_are_widened() -> None:
    assert columns("SELECT b FROM s UNION SELECT m FROM r") == {"b": "decimal(12,2)?"}


def test_order_by_is_said_in_variables() -> None:
    for keys in ("z, b DESC", "1, 2 DESC", "a, b DESC NULLS LAST", "z ASC NULLS FIRST, 2 DESC"):
        assert [str(o) for o in query(f"SELECT a AS z, b FROM r ORDER BY {keys}").order] == ["a", "b desc"]


# Problems


def test_problems_stand_where_they_are_about() -> None:
    text = "SELECT r.zz, s.c FROM r, s WHERE r.a = s.a AND s.yy > 2 AND r.a + s.a > 3"
    assert [text[p.offset :].split()[0] for p in problems(text)] == ["r.zz,", "s.yy", "r.a"]


def test_several_things_outside_the_language_are_reported_together() -> None:
    text = "SELECT a, median(b) AS m FROM r WHERE t < now() GROUP BY a LIMIT 3"
    assert sorted(text[p.offset :].split()[0] for p in problems(text)) == ["LIMIT", "median(b)", "now()"]


def test_what_sqlglot_reads_but_duckdb_does_not_is_refused() -> None:
    text = "SELECT a FROM r WHERE EXTRACT(HOUR FROM t < 3"
    assert problems(text)
    text = "SELECT a , , b FROM r"
    assert [p.offset for p in problems(text)] == [11]
