"""now() and current_date are the time of the version: with it stored, replayed, read at older versions, and compared.

Random histories of changes and ticks, the state opened anew between versions, against DuckDB with the time in the text.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.session.apply_logs import make
from dynq_cli.session.run import run
from dynq_cli.spec.clock import moment
from dynq_cli.storage.clock import clock_of
from tests.seeds import seeds

START = datetime(2024, 1, 1)
KINDS = {"t": pa.timestamp("us"), "d": pa.date32()}
RELATIONS = """
version: 1
relations:
  ev: {columns: {id: int64, t: timestamp?, d: date?, v: int64?}}
  ref: {columns: {v: int64?, since: timestamp}}
queries:
"""
QUERIES = [
    "SELECT id, v FROM ev WHERE t > now() - INTERVAL '1 hour'",
    "SELECT id, t FROM ev WHERE t <= now() AND t > now() - INTERVAL '90 minutes'",
    "SELECT COUNT(*) AS n, SUM(v) AS s FROM ev WHERE t > now() - INTERVAL '1 hour'",
    "SELECT v, COUNT(*) AS n, MAX(t) AS m FROM ev WHERE t > current_timestamp - INTERVAL 2 HOUR GROUP BY v",
    "SELECT id FROM ev WHERE d < current_date",
    "SELECT id FROM ev WHERE d >= today() - 1 OR v = 1",
    "SELECT id, CASE WHEN t < now() THEN 1 ELSE 2 END AS late FROM ev",
    "SELECT now() AS t, current_date AS d",
    "SELECT id, now() AS asked FROM ev",
    "SELECT v, COUNT(*) AS n, now() AS asked FROM ev GROUP BY v",
    "SELECT * FROM ev WHERE t < now()",
    "SELECT DISTINCT v FROM ev WHERE t < now()",
    "SELECT ev.id FROM ev, ref WHERE ev.v = ref.v AND ref.since < now()",
    "SELECT ev.id, ref.since FROM ev LEFT JOIN ref ON ev.v = ref.v WHERE ev.t < now()",
    "SELECT id FROM ev WHERE EXISTS (SELECT 1 FROM ref WHERE ref.v = ev.v AND ref.since < now())",
    "SELECT id FROM ev WHERE v NOT IN (SELECT v FROM ref WHERE since < now())",
    "SELECT id FROM ev WHERE t < now() UNION ALL SELECT v FROM ref WHERE since > now()",
    "SELECT id FROM ev WHERE date_trunc('day', t) = date_trunc('day', now())",
    "SELECT id FROM ev WHERE t < now() ORDER BY id, t, d, v LIMIT 2",
    "SELECT v, d, COUNT(*) AS n FROM ev WHERE t < now() GROUP BY ROLLUP (v, d)",
]


def _oracle(text: str, now: datetime) -> str:
    text = re.sub(r"\bnow\(\)|\bcurrent_timestamp\b", f"TIMESTAMP '{now}'", text)
    return re.sub(r"\btoday\(\)|\bcurrent_date\b", f"DATE '{now.date()}'", text)


def _row(chance: Random, now: datetime) -> dict[str, Any]:
    when = now + timedelta(minutes=chance.choice([-180, -90, -61, -60, -30, 0, 1, 45, 1500]))
    return {
        "id": chance.randint(1, 4),
        "t": None if chance.random() < 0.15 else when,
        "d": None if chance.random() < 0.15 else when.date() + timedelta(days=chance.randint(-1, 1)),
        "v": None if chance.random() < 0.2 else chance.randint(1, 3),
    }


def _rows(batches: Any) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for row in (row for batch in batches for row in batch.to_pylist()):
        copies = row.pop("_count", 1)
        found[tuple(_plain(v) for v in row.values())] += copies
    return found


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


class _History:
    def __init__(self, seed: int, directory: Path) -> None:
        self.chance = Random(f"clock {seed}")
        self.queries = {f"q{i}": text for i, text in enumerate(self.chance.sample(QUERIES, 4))}
        self.now = START
        self.ev: list[dict[str, Any]] = []
        self.ref: list[dict[str, Any]] = []
        self.state = str(directory / "state")
        self.wanted: list[dict[str, Counter[tuple[Any, ...]]]] = []
        path = directory / "spec.yaml"
        path.write_text(RELATIONS + "".join(f'  {name}: {{sql: "{text}"}}\n' for name, text in self.queries.items()))
        make(str(path), self.state, now=moment(str(self.now))).close()

    def _expected(self) -> dict[str, Counter[tuple[Any, ...]]]:
        duck = duckdb.connect()
        kinds = {"ev": "id BIGINT, t TIMESTAMP, d DATE, v BIGINT", "ref": "v BIGINT, since TIMESTAMP"}
        for name, columns in kinds.items():
            duck.execute(f"CREATE TABLE {name} ({columns})")
            for row in getattr(self, name):
                duck.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row.values()))
        found = {}
        for name, text in self.queries.items():
            rows = Counter(duck.execute(_oracle(text, self.now)).fetchall())
            found[name] = Counter(dict.fromkeys(rows, 1)) if "DISTINCT" in text else rows
        return found

    def check(self, view: Any) -> None:
        self.wanted.append(self._expected())
        version = len(self.wanted) - 1
        assert view.version == version
        assert clock_of(view.current()) == moment(str(self.now))
        view.current()._check()
        for name, text in self.queries.items():
            wanted = self.wanted[-1][name]
            assert _rows(view.enum(name)) == wanted, (version, text, self.now)
            assert view.count(name) == wanted.total()
            if version:
                changed: Counter[tuple[Any, ...]] = Counter()
                for row in (r for b in view.diff(name, since=version - 1).batches for r in b.to_pylist()):
                    sign = 1 if row.pop("_change_type") == "insert" else -1
                    copies = row.pop("_count", 1)
                    changed[tuple(_plain(v) for v in row.values())] += sign * copies
                expected = Counter(wanted)
                expected.subtract(self.wanted[-2][name])
                assert {r: n for r, n in changed.items() if n} == {r: n for r, n in expected.items() if n}, text

    def step(self, view: Any) -> None:
        chance = self.chance
        self.now += timedelta(minutes=chance.choice([0, 1, 30, 60, 61, 1440]))
        view.now = moment(str(self.now))
        if chance.random() < 0.35:
            view.tick()
            return
        changes: list[dict[str, Any]] = []
        for _ in range(chance.randint(1, 4)):
            if self.ev and chance.random() < 0.4:
                changes.append({"_change_type": "delete", **self.ev.pop(chance.randrange(len(self.ev)))})
            else:
                self.ev.append(_row(chance, self.now))
                changes.append({"_change_type": "insert", **self.ev[-1]})
        tables = {"ev": _table(changes, KINDS)}
        if chance.random() < 0.4:
            row = _row(chance, self.now)
            self.ref.append({"v": row["v"], "since": row["t"] or self.now})
            tables["ref"] = _table([{"_change_type": "insert", **self.ref[-1]}], {"since": pa.timestamp("us")})
        view.apply(tables)


def _table(rows: list[dict[str, Any]], kinds: dict[str, pa.DataType]) -> pa.Table:
    def kind(name: str) -> pa.DataType:
        return kinds.get(name, pa.string() if name == "_change_type" else pa.int64())

    return pa.table({name: pa.array([row[name] for row in rows], kind(name)) for name in rows[0]})


@pytest.mark.parametrize("seed", seeds(8))
def test_results_follow_the_clock_of_the_version(seed: int, tmp_path: Path) -> None:
    history = _History(seed, tmp_path)
    with dynq_cli.open(history.state) as view:
        history.check(view)
    while len(history.wanted) < 6:
        with dynq_cli.open(history.state) as view:
            for _ in range(history.chance.randint(1, 2)):
                history.step(view)
                history.check(view)
    with dynq_cli.open(history.state) as view:
        for version, wanted in enumerate(history.wanted):
            for name in history.queries:
                assert _rows(view.enum(name, at=version)) == wanted[name], (version, history.queries[name])


SPEC = RELATIONS + "  recent: {sql: \"SELECT id FROM ev WHERE t > now() - INTERVAL '1 hour'\"}\n"


def test_ticks_runs_and_given_times_move_the_clock_forward_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC)
    Path("inbox").mkdir()
    Path("ev.csv").write_text("id,t,d,v\n1,2024-01-01T00:00:00,2024-01-01,1\n")
    make("spec.yaml", ".dynq", [("ev", "ev.csv")], now=moment("2024-01-01T00:10:00")).close()
    with dynq_cli.open() as view:
        assert view.count() == 1
        view.now = moment("2024-01-01T00:05:00")
        with pytest.raises(RejectedError, match="never goes back"):
            view.tick()
        assert view.version == 0
        with pytest.raises(UsageError, match="there is ev, ref"):
            next(view.dump("clock"))
    run(".dynq", "inbox", now=moment("2024-01-01T02:00:00"))
    with dynq_cli.open() as view:
        assert (view.version, view.count()) == (1, 0)
        changed = [row["_change_type"] for batch in view.diff().batches for row in batch.to_pylist()]
        assert changed == ["delete"]
        assert view.counts(at=0).rows == 1
    shutil.copy("ev.csv", "inbox/ev.2.csv")
    with pytest.raises(RejectedError, match="never goes back"):
        run(".dynq", "inbox", quarantine="aside", now=moment("2024-01-01T01:00:00"))
    assert Path("inbox/ev.2.csv").exists() and not Path("aside").exists()


def test_a_spec_that_begins_to_ask_for_the_time_gets_a_clock(tmp_path: Path) -> None:
    spec, state = tmp_path / "spec.yaml", str(tmp_path / "state")
    spec.write_text(RELATIONS + '  all: {sql: "SELECT id FROM ev"}\n')
    with dynq_cli.create(str(spec), state) as view:
        view.apply({"ev": _table([{"id": 1, "t": START, "d": START.date(), "v": 1}], KINDS)})
    spec.write_text(RELATIONS + '  past: {sql: "SELECT id FROM ev WHERE t < now()"}\n')
    dynq_cli.alter(state, str(spec))
    with dynq_cli.open(state) as view:
        assert view.count("past") == 1
        assert clock_of(view.current()) is not None
