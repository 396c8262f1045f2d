"""What SQL says by queries inside queries and beside them: subqueries, derived tables, WITH, UNION."""

from __future__ import annotations

import pytest

from dynq_cli.query.normal_form import ConjunctiveQuery, UnionQuery
from tests.query.sql_forms import atom, columns, compiled, filters, problems, query

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


def test_a_common_table_named_twice_is_one_view() -> None:
    found = query("WITH g AS (SELECT a, COUNT(*) AS n FROM r GROUP BY a) SELECT x.a, y.n FROM g x, g y WHERE x.n = y.n")
    assert [a.source for a in found.atoms] == ["q.x", "q.x"]
    assert [v.name for v in found.views] == ["q.x"]


def test_views_of_one_query_have_different_names() -> None:
    grouped = "(SELECT a FROM u GROUP BY a HAVING COUNT(*) > {})"
    found = query(f"SELECT a FROM r WHERE a IN {grouped.format(1)} AND b NOT IN {grouped.format(2)}")
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
    others = query("SELECT a, b FROM r ORDER BY a NULLS LAST, b DESC NULLS FIRST").order
    assert [str(o) for o in others] == ["a nulls last", "b desc nulls first"]


# Problems


def test_problems_stand_where_they_are_about() -> None:
    text = "SELECT r.zz, s.c FROM r, s WHERE r.a = s.a AND s.yy > 2 AND r.ww + s.a > 3"
    assert [text[p.offset :].split()[0] for p in problems(text)] == ["r.zz,", "s.yy", "r.ww"]


def test_several_things_outside_the_language_are_reported_together() -> None:
    text = "SELECT a, hash(b) AS m FROM r WHERE a < random() ORDER BY a"
    assert sorted(text[p.offset :].split()[0] for p in problems(text)) == ["hash(b)", "random()"]


def test_what_sqlglot_reads_but_duckdb_does_not_is_refused() -> None:
    text = "SELECT a FROM r WHERE EXTRACT(HOUR FROM t < 3"
    assert problems(text)
    text = "SELECT a , , b FROM r"
    assert [p.offset for p in problems(text)] == [11]
