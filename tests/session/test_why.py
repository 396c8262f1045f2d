"""The base rows of a row are enough to make it, and all of them: its copies are the products of theirs."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dynq_cli.cli.app import main
from dynq_cli.errors import RejectedError
from dynq_cli.io.results.lines import json_lines
from dynq_cli.query.compile import compile_query
from dynq_cli.query.normal_form import walk
from dynq_cli.session.why import why, why_not
from dynq_cli.storage.state import State, create
from tests.engine.random_queries import random_case
from tests.engine.random_runs import Stored, as_table
from tests.seeds import seeds
from tests.storage.states import spec_text

SPEC = """\
version: 1
relations:
  orders: {columns: {id: int64, customer: string, total: "decimal(9,2)"}, key: [id]}
  customers: {columns: {customer: string, city: string?}}
  banned: {columns: {customer: string}}
queries:
  by_city:
    sql: "SELECT city, SUM(total) AS s, COUNT(*) AS n FROM orders JOIN customers USING (customer) GROUP BY city"
  large: {sql: "SELECT city FROM orders JOIN customers USING (customer) GROUP BY city HAVING SUM(total) > 10"}
  open: {sql: "SELECT id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM banned b WHERE b.customer = o.customer)"}
  known: {sql: "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM customers c WHERE c.customer = o.customer)"}
  everyone: {sql: "SELECT customer FROM orders UNION SELECT customer FROM banned"}
  of_sums:
    sql: >
      SELECT c.city, t.s FROM customers c, (SELECT customer, SUM(total) AS s FROM orders GROUP BY customer) t
      WHERE t.customer = c.customer
  often: {sql: "SELECT customer FROM banned GROUP BY customer HAVING COUNT(*) > 1"}
  counted:
    sql: >
      SELECT o.id, b.n FROM orders o, (SELECT customer, COUNT(*) AS n FROM banned GROUP BY customer) b
      WHERE o.customer = b.customer
  running: {sql: "SELECT customer, COUNT(*) OVER (ORDER BY customer) AS n FROM banned"}
  total: {sql: "SELECT SUM(total) AS s FROM orders"}
  both: {sql: "SELECT o.id, c.city FROM orders o FULL JOIN customers c ON o.customer = c.customer"}
  before: {sql: "SELECT o.id, c.city FROM orders o LEFT JOIN customers c ON o.customer < c.customer"}
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> State:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC)
    state = create("spec.yaml")
    totals = pa.array(["5.00", "7.00", "1.00", "9.00"]).cast(pa.decimal128(9, 2))
    orders = pa.table({"id": [1, 2, 3, 4], "customer": ["ada", "ada", "bob", "eve"], "total": totals})
    customers = pa.table({"customer": ["ada", "bob", "cid"], "city": ["Lyon", None, "Nice"]})
    state.apply({"orders": orders, "customers": customers, "banned": pa.table({"customer": ["bob"]})})
    return state


def used(state: State, query: str, **row: Any) -> list[tuple[int, str, Any]]:
    found = why(state, row, query)
    return [
        (n, r, next(iter(json.loads(t).values())))
        for n, r, t in zip(*(found[c].to_pylist() for c in ("_derivation", "_relation", "row")), strict=True)
    ]


def kept_out(state: State, query: str, **row: Any) -> list[tuple[str, str, str]]:
    found = why_not(state, row, query).to_pylist()
    return [(each["_relation"], each["row"], each["_reason"]) for each in found]


def test_of_a_group_every_row_that_was_aggregated_is_told(state: State) -> None:
    lyon = [(1, "orders", 1), (1, "customers", "ada"), (2, "orders", 2), (2, "customers", "ada")]
    assert used(state, "by_city", city="Lyon", s=Decimal("12.00"), n=2) == lyon
    assert used(state, "by_city", city=None, s=Decimal("1.00"), n=1) == [(1, "orders", 3), (1, "customers", "bob")]
    assert used(state, "large", city="Lyon") == lyon
    assert [n for n, _, _ in used(state, "total", s=Decimal("22.00"))] == [1, 2, 3, 4]


def test_subqueries_and_unions_are_told_by_their_base_rows(state: State) -> None:
    assert used(state, "open", id=4) == [(1, "orders", 4)]
    assert used(state, "known", id=1) == [(1, "orders", 1), (1, "customers", "ada")]
    assert sorted(used(state, "everyone", customer="bob")) == [(1, "orders", 3), (2, "banned", "bob")]
    found = used(state, "of_sums", city="Lyon", s=Decimal("12.00"))
    assert sorted(found, key=str) == [(1, "customers", "ada"), (1, "orders", 1), (1, "orders", 2)]


def test_copies_of_rows_are_counted(state: State) -> None:
    state.apply(pa.table({"customer": ["bob", "bob", "eve"]}), "banned")
    assert used(state, "often", customer="bob") == [(1, "banned", "bob")]
    assert used(state, "counted", id=3, n=3) == [(1, "orders", 3), (1, "banned", "bob")]
    assert used(state, "running", customer="bob", n=3) == [(1, "banned", "bob")]
    assert used(state, "running", customer="eve", n=4) == [(1, "banned", "eve")]


def test_outer_joins_are_told_by_their_base_rows(state: State) -> None:
    ada = [(1, "customers", "ada"), (1, "orders", 1)]
    assert sorted(used(state, "both", id=1, city="Lyon"), key=str) == ada
    assert {r for _, r, _ in used(state, "both", id=4, city=None)} == {"orders"}
    assert used(state, "both", id=None, city="Nice") == [(1, "customers", "cid")]
    assert ("customers", "cid") in [(r, k) for _, r, k in used(state, "before", id=3, city="Nice")]
    assert {r for _, r, _ in used(state, "before", id=4, city=None)} == {"orders"}


def test_what_keeps_a_row_out_is_told(state: State) -> None:
    none = "no row of it has these values"
    assert kept_out(state, "by_city", city="Rome", s=Decimal("1.00"), n=1) == [("customers", '{"city":"Rome"}', none)]
    assert kept_out(state, "open", id=3) == [("banned", '{"customer":"bob"}', "this row forbids it")]
    assert kept_out(state, "open", id=9) == [("orders", '{"id":9}', none)]
    assert [(r, row) for r, row, _ in kept_out(state, "known", id=4)] == [("orders", '{"id":4}'), ("customers", "{}")]
    assert "HAVING" in kept_out(state, "by_city", city="Lyon", s=Decimal("1.00"), n=2)[0][2]
    assert [kept[0] for kept in kept_out(state, "everyone", customer="zoe")] == ["orders", "banned"]
    absent: list[tuple[str, dict[str, Any]]] = [
        ("open", {"id": 3}),
        ("by_city", {"city": "Rome", "s": Decimal(1), "n": 1}),
    ]
    for query, values in absent:
        with pytest.raises(RejectedError, match="not in the result"):
            why(state, values, query)
    with pytest.raises(RejectedError, match="is in the result"):
        why_not(state, {"id": 4}, "open")


def test_the_command_reads_old_versions_and_writes_files(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    state.apply(pa.table({"id": [1], "_change_type": ["delete"]}), "orders")
    assert main(["why", "-q", "open", "--row", '{"id": 1}']) == 3
    assert main(["why", "-q", "open", "--row", '{"id": 1}', "--not"]) == 0
    assert main(["why", "-q", "open", "--row", '{"id": 1}', "--at", "1", "-o", "why.jsonl"]) == 0
    (line,) = map(json.loads, Path("why.jsonl").read_text().splitlines())
    assert line == {
        "_derivation": 1,
        "_atom": "o",
        "_relation": "orders",
        "row": '{"id":1,"customer":"ada","total":"5.00"}',
    }
    capsys.readouterr()
    assert main(["why", "-q", "by_city", "--row", '{"city":"Lyon","s":7,"n":1}', "--limit", "1"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == "_derivation,_atom,_relation,row"
    assert "may be more than 1 derivations: --offset 1" in captured.err
    assert main(["why", "-q", "open", "--row", '{"q": 1}']) == 3


def test_derivations_come_by_page_in_one_order(state: State) -> None:
    state.apply(pa.table({"customer": ["bob"] * 2 + ["ada"], "city": ["Nice", "Oslo", "Oslo"]}), "customers")
    state.apply(pa.table({"id": range(10, 20), "customer": ["ada"] * 10, "total": [Decimal(1)] * 10}), "orders")
    (row,) = [row for b in state.enum("by_city") for row in b.to_pylist() if row["city"] == "Oslo"]
    every = why(state, row, "by_city").to_pylist()
    pages = [why(state, row, "by_city", limit=5, offset=start).to_pylist() for start in range(0, 20, 5)]
    assert [used for page in pages for used in page] == every
    assert {used["_derivation"] for used in every} == set(range(1, row["n"] + 1))


def lines(batches: Any, names: list[str]) -> Counter[str]:
    """Rows with their copies, as JSON."""
    found: Counter[str] = Counter()
    for batch in batches:
        texts = bytes(json_lines(batch.select(names))).decode().splitlines()
        copies = batch["_count"].to_pylist() if "_count" in batch.schema.names else [1] * len(texts)
        found.update(dict(zip(texts, copies, strict=True)))
    return found


@pytest.mark.parametrize("seed", seeds(15))
def test_random_rows_are_made_by_their_base_rows_and_by_no_others(seed: int, tmp_path: Path) -> None:
    chance = Random(f"why {seed}")
    case = random_case(seed, queries=3, batches=4)
    stored = Stored(case.spec)
    (tmp_path / "spec.yaml").write_text(spec_text(case))
    state = create(tmp_path / "spec.yaml", tmp_path / "state")
    for batch in case.history:
        changes = stored.applicable(batch.changes)
        state.apply({r.name: as_table(r, changes) for r in case.spec.relations if r.name in batch.relations})
    names = {r.name: [c.name for c in r.columns] for r in case.spec.relations}
    base = {name: lines(state.dump(name), names[name]) for name in names}
    tables = {name: pa.Table.from_batches(state.dump(name), state.relation_schema(name)) for name in names}
    number = 0
    for query in case.queries:
        rows = [row for b in state.enum(query.name) for row in b.to_pylist()]
        spec = state.spec.query(query.name)
        assert spec is not None
        meant = compile_query(state.spec, spec)
        for row in chance.sample(rows, min(3, len(rows))):
            copies = row.pop("_count", None)
            found = why(state, row, query.name, limit=100_000)
            made: dict[int, list[tuple[str, str]]] = {}
            for n, relation, text in zip(
                *(found[c].to_pylist() for c in ("_derivation", "_relation", "row")), strict=True
            ):
                made.setdefault(n, []).append((relation, text))
            assert all(text in base[relation] for several in made.values() for relation, text in several), (seed, query)
            is_plain = all(a.mode == "join" for q in walk(meant) for a in q.atoms) and len(list(walk(meant))) == 1
            if copies is not None and is_plain:
                assert sum(prod(base[r][t] for r, t in several) for several in made.values()) == copies, (seed, query)
            # Nothing else is needed: a state of these rows alone has the row.
            number += 1
            alone = create(tmp_path / "spec.yaml", tmp_path / f"alone-{number}")
            wanted = {(r, t) for several in made.values() for r, t in several}
            alone.apply(
                {
                    name: table.filter(
                        pa.array(
                            [
                                (name, t) in wanted
                                for t in bytes(json_lines(table.select(names[name]).combine_chunks().to_batches()[0]))
                                .decode()
                                .splitlines()
                            ]
                        )
                    )
                    for name, table in tables.items()
                    if len(table)
                }
            )
            assert alone.test(row, query.name) == (copies or 1), (seed, query)
