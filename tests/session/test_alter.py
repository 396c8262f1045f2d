"""An altered state is the state that the new spec makes from the same rows; what was there before stays readable."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dynq_cli.engine.table_sizes import tables_of_steps
from dynq_cli.errors import DynqError, LockedError, RejectedError, UsageError
from dynq_cli.session.alter import Altered, alter
from dynq_cli.session.verify import verify
from dynq_cli.spec.model import Spec
from dynq_cli.storage import commit
from dynq_cli.storage.backup import backup
from dynq_cli.storage.integrity import check
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.manifest import read_manifest
from dynq_cli.storage.prune import prune
from dynq_cli.storage.state import State, create, open
from tests.engine.random_queries import Case, random_case
from tests.engine.random_runs import Stored, as_table, plain
from tests.seeds import seeds
from tests.storage.states import files_of, spec_text

SPEC = """\
version: 1
relations:
  orders: {columns: {id: int32, customer: string, city: string?}, key: [id]}
  cities: {columns: {city: string, country: string}}
queries:
  by_country: {sql: "SELECT o.id, c.country FROM orders o JOIN cities c ON o.city = c.city"}
  ids: {sql: "SELECT DISTINCT id FROM orders"}
outputs:
  - {query: ids, kind: diff, path: "out/ids-{version}.csv"}
"""
QUERIES = SPEC[SPEC.index("queries:") :]
ORDERS = {"id": [1, 2, 3], "customer": ["ada", "bob", "ada"], "city": ["Lyon", None, "Turin"]}
CITIES = {"city": ["Lyon", "Turin", "Turin"], "country": ["FR", "IT", "IT"]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory with a state at version 2, and a mark on version 1."""
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC)
    with create("spec.yaml") as state:
        state.apply({"orders": pa.table(ORDERS).slice(0, 2), "cities": pa.table(CITIES)})
        state.mark("one")
        state.apply(pa.table(ORDERS).slice(2), "orders")


def rows(query: str, at: str | int | None = None) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for b in open().enum(query, at=at) for row in b.to_pylist()), key=repr)


def dumped(relation: str, at: str | int | None = None) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for b in open().dump(relation, at=at) for row in b.to_pylist()), key=repr)


def files() -> dict[str, bytes]:
    return {name: content for name, content in files_of(Path(".dynq")).items() if name != "run-lock"}


def altered(old: str, new: str, *loads: tuple[str, str], dry_run: bool = False) -> Altered:
    text = Path("spec.yaml").read_text()
    assert old in text
    Path("new.yaml").write_text(text.replace(old, new))
    return alter(".dynq", "new.yaml", loads, dry_run=dry_run)


def with_query(text: str) -> tuple[str, str]:
    return "queries:\n", f"queries:\n  {text}\n"


def test_a_query_is_added_from_the_rows_that_are_there_and_cannot_be_read_before() -> None:
    done = altered(*with_query('countries: {sql: "SELECT country, count(*) AS n FROM cities GROUP BY country"}'))
    assert (done.version, done.is_built) == (3, True)
    assert rows("countries") == [("FR", 1), ("IT", 2)]
    assert rows("ids", "one") == [(1,), (2,)]
    for ask in (lambda: open().counts("countries", "one"), lambda: list(open().enum("countries", at=1))):
        with pytest.raises(RejectedError, match="there was no query countries at version 1"):
            ask()
    with pytest.raises(RejectedError, match="countries was not there at version 1"):
        open().diff("countries", "one")
    with open() as state:
        state.apply(pa.table({"city": ["Nice"], "country": ["FR"]}), "cities")
    assert rows("countries") == [("FR", 2), ("IT", 2)]
    check(Path(".dynq"), read_data=True)


def test_a_query_that_is_dropped_is_still_read_where_it_was() -> None:
    altered(
        '  ids: {sql: "SELECT DISTINCT id FROM orders"}\noutputs:\n  - {query: ids', "outputs:\n  - {query: by_country"
    )
    with pytest.raises(UsageError, match="no query ids"):
        rows("ids")
    assert rows("ids", 2) == [(1,), (2,), (3,)]
    assert open().counts("ids", "one").rows == 2
    assert open().schema("ids", 1).names == ["id"]


def test_columns_are_added_filled_dropped_and_widened() -> None:
    Path("more.csv").write_text("id,total,seen\n1,2.50,2024-01-01\n3,4,\n7,1,\n")
    done = altered(
        "id: int32, customer: string, city: string?",
        'id: int64, city: string?, total: "decimal(9,2)?", seen: date?, note: string?',
        ("orders", "more.csv"),
    )
    assert (done.moved["orders"].rows, done.moved["orders"].unfilled, done.moved["orders"].unused) == (3, 1, 1)
    found = [(i, city, str(total), str(seen), note) for i, city, total, seen, note in dumped("orders")]
    assert found == [
        (1, "Lyon", "2.50", "2024-01-01", None),
        (2, None, "None", "None", None),
        (3, "Turin", "4.00", "None", None),
    ]
    assert dumped("orders", 2)[0] == (1, "ada", "Lyon")
    assert open().relation_schema("orders", 1).names == ["id", "customer", "city"]
    # Widening is no other column: the difference is of values.
    assert pa.Table.from_batches((d := open().diff("by_country", 1)).batches, d.schema)["id"].to_pylist() == [3]


def test_equal_rows_of_a_dropped_column_are_copies_of_one() -> None:
    Path("new.yaml").write_text(
        SPEC.replace("city: string, country: string", "country: string").replace(
            "o.id, c.country FROM orders o JOIN cities c ON o.city = c.city", "country FROM cities"
        )
    )
    alter(".dynq", "new.yaml")
    assert dumped("cities") == [("FR", 1), ("IT", 2)]
    assert rows("by_country") == [("FR", 1), ("IT", 2)]


def test_a_key_is_added_where_it_holds_and_refused_where_not() -> None:
    before = files()
    with pytest.raises(
        RejectedError, match=r"the key \[city\] of cities does not hold: several rows have city = 'Turin'"
    ):
        altered("country: string}}", "country: string}, key: [city]}")
    assert files() == before
    with open() as state:
        state.apply(pa.table({"city": ["Turin"], "country": ["IT"], "_change_type": ["delete"]}), "cities")
    altered("country: string}}", "country: string}, key: [city]}")
    with open() as state:
        state.apply(pa.table({"city": ["Turin"], "country": ["FR"], "_change_type": ["update_postimage"]}), "cities")
    assert rows("by_country") == [(1, "FR", 1), (3, "FR", 1)]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("id: int32", "id: int16", "was int32 and cannot become int16"),
        ("customer: string", "customer: binary", "was string and cannot become binary"),
        (
            "city: string?}",
            "city: string}",
            "city of orders does not allow NULL, and is NULL, as in the row with id = 2",
        ),
        ("city: string?}", "city: string?, n: int64}", "n of orders does not allow NULL, and would be NULL"),
    ],
)
def test_what_would_lose_values_is_refused_with_its_place_and_changes_nothing(old: str, new: str, said: str) -> None:
    before = files()
    with pytest.raises(RejectedError, match=r"new\.yaml:[0-9]+:[0-9]+: ") as error:
        altered(old, new)
    assert said in str(error.value)
    assert files() == before


def test_loads_without_a_use_are_refused() -> None:
    Path("x.csv").write_text("id\n1\n")
    with pytest.raises(UsageError, match="no new column"):
        altered("string?}", "string?}", ("orders", "x.csv"))
    with pytest.raises(UsageError, match="no key of columns"):
        altered("country: string}", "country: string, n: int64?}", ("cities", "x.csv"))
    with pytest.raises(UsageError, match="no relation nothing"):
        altered("country: string}", "country: string, n: int64?}", ("nothing", "x.csv"))
    Path("x.csv").write_text("id,n\n1,2\n")
    with pytest.raises(RejectedError, match="has no value in the rows of --load"):
        altered("city: string?}", "city: string?, n: int64}", ("orders", "x.csv"))


def test_other_outputs_touch_no_byte_of_rows_and_views() -> None:
    before = files()
    done = altered("out/ids-{version}.csv", "out/other-{version}.csv")
    assert (done.version, done.is_built) == (3, False)
    after = files()
    assert {name for name in before if before[name] != after.get(name)} == {
        "CURRENT",
        "ledger",
        "plans.json",
        "spec.yaml",
        "wal-0001",
    }
    assert after["wal-0001"].startswith(before["wal-0001"])
    assert open().spec.outputs[0].path == "out/other-{version}.csv"
    assert rows("ids", "one") == [(1,), (2,)]
    assert open().diff("ids", "one").until == 3
    assert alter(".dynq", "new.yaml").differences == ()
    assert open().version == 3


def test_a_rehearsal_says_the_same_and_writes_nothing() -> None:
    before = files()
    told = altered(*with_query('more: {sql: "SELECT city FROM cities"}'), dry_run=True)
    assert files() == before
    done = alter(".dynq", "new.yaml")
    assert (told.version, told.differences, told.counts) == (done.version, done.differences, done.counts)
    assert told.sizes is not None and done.sizes is not None
    assert told.sizes.relations == done.sizes.relations


def test_no_other_process_may_write_meanwhile() -> None:
    with writing_to(Path(".dynq")), pytest.raises(LockedError):
        altered("out/ids", "out/others")


def test_an_open_state_follows_and_reads_what_was_before() -> None:
    with open() as reader:
        assert reader.count("ids") == 3
        altered(*with_query('more: {sql: "SELECT city FROM cities"}'))
        assert reader.queries == ["more", "by_country", "ids"]
        assert reader.count("more") == 3
        assert [len(b) for b in reader.enum("more")] == [2]
        assert "more" in [q.name for q in reader.spec.queries]
        reader.apply(pa.table({"city": ["Nice"], "country": ["FR"]}), "cities")
        assert reader.count("more") == 4
        assert rows("ids", "one") == [(1,), (2,)]


def test_an_era_goes_when_no_mark_and_no_diff_needs_it() -> None:
    altered(*with_query('more: {sql: "SELECT city FROM cities"}'))
    with open() as state:
        state.unmark("one")
        state.unmark("_outputs")
        state.apply(pa.table({"city": ["Nice"], "country": ["FR"]}), "cities")
        assert rows("ids", 2) == [(1,), (2,), (3,)]
    prune(Path(".dynq"))
    assert read_manifest(Path(".dynq")).eras == ()
    assert sorted(p.name for p in Path(".dynq").iterdir() if p.name not in ("lock", "run-lock")) == [
        "CURRENT",
        "ledger",
        "plans-0003.json",
        "snapshot-0002",
        "spec-0003.yaml",
        "synced",
        "wal-0002",
    ]
    with pytest.raises(RejectedError, match="not kept any more"):
        rows("ids", 2)
    check(Path(".dynq"), read_data=True)


def test_altered_twice_each_version_is_read_with_its_own_spec(tmp_path: Path) -> None:
    altered(*with_query('more: {sql: "SELECT city FROM cities"}'))
    with open() as state:
        state.apply(pa.table({"city": ["Nice"], "country": ["FR"]}), "cities")
        state.write_snapshot()
    altered(*with_query('most: {sql: "SELECT country FROM cities"}'))
    assert open().queries == ["most", "by_country", "ids"]
    assert len(rows("more", 3)) == 2 and len(rows("more", 4)) == 3
    assert rows("ids", "one") == [(1,), (2,)]
    assert [era.until for era in read_manifest(Path(".dynq")).eras] == [2, 4]
    backup(Path(".dynq"), tmp_path / "copy")
    assert len(list(open(tmp_path / "copy").enum("more", at=3))) == 1
    check(Path(".dynq"), read_data=True)


def changed_spec(case: Case, queries: list[Any], chance: Random) -> dict[str, Any]:
    """The spec of a case with some of its queries, columns that nobody asked for, and wider types."""
    spec = json.loads(spec_text(case))
    spec["queries"] = {q.name: spec["queries"][q.name] for q in queries}
    rules = "".join(str(q.text) for q in queries if q.language == "rule")
    kept = 1.0 if chance.random() < 0.6 else 0.3
    for name, relation in spec["relations"].items():
        if f"{name}(" in rules or chance.random() < kept:
            continue
        columns = dict(relation["columns"])
        for column, kind in columns.items():
            if kind in ("int8", "int16") and chance.random() < 0.5:
                columns[column] = "int64"
        columns["zz_new"] = "string?"
        relation["columns"] = dict(sorted(columns.items(), key=lambda _: chance.random()))
    return dict(spec)


@pytest.mark.parametrize("seed", seeds(12))
def test_random_states_altered_are_states_made_anew(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(f"alter {seed}")
    monkeypatch.setattr(commit, "DUE_SECONDS", 1e-4 if seed % 2 else 1.0)
    case = random_case(seed, queries=5, batches=8)
    stored = Stored(case.spec)
    first = chance.sample(case.queries, 3)
    spec = json.loads(spec_text(case))
    spec["queries"] = {q.name: spec["queries"][q.name] for q in first}
    (tmp_path / "first.yaml").write_text(json.dumps(spec))
    state = create(tmp_path / "first.yaml", tmp_path / "state")

    def tables(batch: Any, of: Spec) -> dict[str, pa.Table]:
        changes = stored.applicable(batch.changes)
        found = {r.name: as_table(r, changes) for r in case.spec.relations if r.name in batch.relations}
        new = [r.name for r in of.relations if r.column("zz_new") is not None]
        return {n: t.append_column("zz_new", pa.nulls(len(t))) if n in new else t for n, t in found.items()}

    for batch in case.history[:4]:
        state.apply(tables(batch, state.spec))
    state.mark("before")
    before = {q.name: result(state, q.name) for q in first}
    second = chance.sample(case.queries, 3)
    (tmp_path / "second.yaml").write_text(json.dumps(changed_spec(case, second, chance)))
    try:
        fresh = create(tmp_path / "second.yaml", tmp_path / "fresh")
    except DynqError:  # a wider type does not fit a query
        (tmp_path / "second.yaml").write_text(
            json.dumps({**spec, "queries": changed_spec(case, second, chance)["queries"]})
        )
        fresh = create(tmp_path / "second.yaml", tmp_path / "fresh")
    full = {
        r.name: pa.Table.from_batches(state.dump(r.name), state.relation_schema(r.name)) for r in case.spec.relations
    }
    new = [r.name for r in fresh.spec.relations if r.column("zz_new") is not None]
    fresh.apply({n: t.append_column("zz_new", pa.nulls(len(t))) if n in new else t for n, t in full.items()})
    alter(tmp_path / "state", tmp_path / "second.yaml")
    if chance.random() < 0.5:
        state.close()
        state = open(tmp_path / "state")
    for more in [None, *case.history[4:]]:
        if more is not None:
            given = tables(more, fresh.spec)
            state.apply(given)
            fresh.apply(given)
        for q in second:
            assert result(state, q.name) == result(fresh, q.name), (seed, q.name)
            assert state.counts(q.name) == fresh.counts(q.name)
        state.current()._check()
    for q in first:
        assert result(state, q.name, "before") == before[q.name]
    for name in {q.name for q in first} & {q.name for q in second}:
        changes = state.diff(name, "before")
        now = before[name].copy()
        for batch in changes.batches:
            for row in batch.to_pylist():
                copies, kind = row.pop("_count", 1), row.pop("_change_type")
                now[key_of(row)] += copies if kind == "insert" else -copies
        assert +now == result(state, name) and min(now.values(), default=0) >= 0
    state.close()
    check(tmp_path / "state", read_data=True)


CARRIED = """\
version: 1
relations:
  orders: {columns: {id: int32, customer: string, city: string?, total: "decimal(9,2)"}, key: [id]}
  cities: {columns: {city: string, country: string}}
  notes: {columns: {id: int32, text: string}}
queries:
  joined: {sql: "SELECT o.id, c.country FROM orders o JOIN cities c ON o.city = c.city", order_by: [country, id]}
  sums: {sql: "SELECT customer, sum(total) AS s, max(total) AS m FROM orders WHERE total > 1 GROUP BY customer"}
  everything: {sql: "SELECT count(*) AS n, max(country) AS last FROM cities"}
  pairs: {rule: "pairs(x, z) :- cities(x, y), cities(z, y)"}
  latest: {sql: "SELECT id, total FROM orders ORDER BY total DESC, id LIMIT 3"}
  noted: {sql: "SELECT text FROM notes", order_by: [text]}
"""
MORE = """\
  large: {sql: "SELECT o.id, c.country FROM orders o JOIN cities c ON o.city = c.city WHERE total > 3", order_by: [id]}
  last: {sql: "SELECT n, last FROM everything WHERE n > 1"}
  texts: {sql: "SELECT DISTINCT customer || '!' AS t FROM orders ORDER BY t"}
  both: {sql: "SELECT s.customer, s.s, o.id FROM sums s JOIN orders o ON o.customer = s.customer"}
"""


def filled(path: Path, chance: Random) -> State:
    """A state with rows that came and went, so that ids are free."""
    state = create(path / "spec.yaml", path / "state")
    names = ["ada", "bob", "cid", "dan"]
    for start in range(0, 90, 30):
        ids = range(start, start + 30)
        state.apply(
            {
                "orders": pa.table(
                    {
                        "id": [*ids],
                        "customer": chance.choices(names, k=30),
                        "city": chance.choices(["Lyon", "Nice", "Turin", None], k=30),
                        "total": [Decimal(chance.randint(0, 900)) for _ in ids],
                    }
                ),
                "cities": pa.table({"city": chance.choices(["Lyon", "Turin"], k=3), "country": ["FR", "IT", "CH"]}),
                "notes": pa.table({"id": [*ids], "text": chance.choices("abcdefgh", k=30)}),
            }
        )
        gone = pa.table({"id": chance.sample(ids, 7)})
        state.apply(gone.append_column("_change_type", pa.array(["delete"] * 7)), "orders")
    return state


def own_bytes(state: State, queries: list[str]) -> dict[tuple[str, int], tuple[bytes, list[int]]]:
    """Records and facts of the tables that the steps of some queries have of their own. Snapshots may add slots."""
    views = state.current()
    arena, tables = views.engine.arena, tables_of_steps(views.layout)
    found = {}
    for step in {step.name for query in queries for step in views.queries[query].steps}:
        for number, table in enumerate(tables.get(step, [])):
            row = arena.tables[table]
            records = arena.words[row["rows"] : row["rows"] + row["used"] * row["stride"]].tobytes()
            found[step, number] = records, [int(row[f]) for f in ("used", "live", "free", "stride")]
    return found


def test_views_of_unchanged_queries_stay_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(CARRIED)
    (tmp_path / "more.yaml").write_text(CARRIED + MORE)
    with filled(tmp_path, Random("carried")) as state:
        known = [name for name in state.queries if name != "everything"]
        before, counts = own_bytes(state, known), {name: state.counts(name) for name in known}
    done = alter(tmp_path / "state", tmp_path / "more.yaml")
    # The one row of `everything` was there before any row came; a reader that begins now gets it with its views.
    assert (done.stayed, done.is_built) == (tuple(known), True)
    assert done.moved["orders"].rows == 69 and "notes" not in done.moved
    with open(tmp_path / "state") as state:
        assert own_bytes(state, known) == before and {name: state.counts(name) for name in known} == counts
        state.current()._check()
    assert all(verdict.agrees for verdict in verify(tmp_path / "state"))
    # A relation that gets a column, and a dropped query, take only their own views with them.
    less = (CARRIED + MORE).replace("id: int32, text: string", "id: int32, text: string, more: date?")
    (tmp_path / "less.yaml").write_text("\n".join(line for line in less.splitlines() if "  joined:" not in line))
    done = alter(tmp_path / "state", tmp_path / "less.yaml")
    assert set(done.stayed) == {*known, "everything", "large", "last", "texts", "both"} - {"joined", "noted"}
    assert {name: moved.rows for name, moved in done.moved.items()} == {"notes": 90}
    with open(tmp_path / "state") as state:
        kept = [name for name in known if name in done.stayed]
        assert own_bytes(state, kept).items() <= before.items()
        state.apply(pa.table({"id": [1000], "customer": ["eve"], "city": ["Lyon"], "total": [Decimal(5)]}), "orders")
        state.current()._check()
        before = own_bytes(state, kept)
    assert all(verdict.agrees for verdict in verify(tmp_path / "state"))
    # Columns that come as NULL or go leave the rows of a relation with a key what they are.
    other = (tmp_path / "less.yaml").read_text().replace("{id: int32, customer", "{id: int32, seen: date?, customer")
    other = other.replace('total: "decimal(9,2)"', 'total: "decimal(9,2)", by: string?')
    other = other.replace(", city: string?", "").replace("o.city = c.city WHERE", "o.by = c.city WHERE")
    (tmp_path / "other.yaml").write_text(other)
    done = alter(tmp_path / "state", tmp_path / "other.yaml")
    assert set(done.stayed) == set(open(tmp_path / "state").queries) - {"large"}
    with open(tmp_path / "state") as state:
        assert own_bytes(state, kept) == before
        (row,) = [row for b in state.dump("orders") for row in b.to_pylist() if row["id"] == 1000]
        assert list(row.values()) == [1000, None, "eve", Decimal(5), None]
        seen = pa.table({"id": [1000, 1001], "customer": ["eve", "ada"], "total": [Decimal(9), Decimal(8)]})
        added = {"by": ["Turin", "Lyon"], "seen": [None, None], "_change_type": ["update_postimage", "insert"]}
        for name, values in added.items():
            seen = seen.append_column(name, pa.array(values))
        state.apply(seen, "orders")
        state.current()._check()
    assert all(verdict.agrees for verdict in verify(tmp_path / "state"))
    check(tmp_path / "state", read_data=True)


def key_of(row: dict[str, Any]) -> str:
    return repr([plain(value) for value in row.values()])


def result(state: State, query: str, at: str | None = None) -> Counter[str]:
    found: Counter[str] = Counter()
    for batch in state.enum(query, at=at):
        for row in batch.to_pylist():
            copies = row.pop("_count", 1)
            found[key_of(row)] += copies
    return found
