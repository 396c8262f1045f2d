"""Queries far larger than the usual ones are explained all the same, without searching for ever."""

from __future__ import annotations

from dynq_cli.session.explain import explain_text_of


def _explained(relations: str, rule: str) -> str:
    return explain_text_of(f"version: 1\nrelations:\n{relations}queries:\n  q: {{rule: '{rule}'}}\n")


def test_a_table_of_thousands_of_columns() -> None:
    columns = "".join(f"      c{i}: int64\n" for i in range(3000))
    text = f"version: 1\nrelations:\n  R:\n    columns:\n{columns}queries:\n  q: {{sql: SELECT * FROM R}}\n"
    assert explain_text_of(text).startswith("q: q-hierarchical")


def test_a_chain_of_compared_self_joins_has_more_homomorphisms_than_can_be_tried() -> None:
    atoms = ", ".join(f"E(x{i}, x{i + 1})" for i in range(10))
    compared = ", ".join(f"x{i} < x{i + 1}" for i in range(10))
    said = _explained("  E: {columns: {a: int64, b: int64}}\n", f"q() :- {atoms}, {compared}")
    assert said.startswith("q: free-connex acyclic")


def test_a_long_cycle_is_joined_by_delta_and_never_by_a_product() -> None:
    relations = "".join(f"  R{i}: {{columns: {{a: int64, b: int64}}}}\n" for i in range(10))
    atoms = ", ".join(f"R{i}(x{i}, x{(i + 1) % 10})" for i in range(10))
    said = _explained(relations, f"q(x0, x1) :- {atoms}")
    assert "cyclic (delta-join)" in said and "every row of" not in said


def test_a_cycle_of_four_stores_its_result_and_no_pairs() -> None:
    relations = "".join(f"  R{i}: {{columns: {{a: int64, b: int64}}}}\n" for i in range(4))
    said = _explained(relations, "q(a, b, c, d) :- R0(a, b), R1(b, c), R2(c, d), R3(d, a)")
    assert "stores      its result, one row per a, b, c, d, at most as many as R0 ⋈ R1 ⋈ R2 ⋈ R3 has; the" in said
    assert "q/3" not in said and "joined pairs" in said
