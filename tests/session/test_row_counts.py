"""The rows that logs insert, replace and delete are those that a dictionary of the rows by key sees come and go."""

from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dynq_cli.errors import RejectedError
from dynq_cli.session.apply_logs import Options, Outcome, apply_logs, make
from dynq_cli.storage import ledger
from dynq_cli.storage.ledger import AppliedLog, Entry, Ledger, append_entry
from dynq_cli.storage.ledger_facts import LedgerFacts
from dynq_cli.storage.state import State
from tests.seeds import seeds

SPEC = """\
version: 1
relations:
  K: {columns: {a: int64, b: int64, v: int64}, key: [a, b]}
  B: {columns: {x: int64}}
queries:
  q: {sql: "SELECT a, b, v FROM K"}
  p: {sql: "SELECT x FROM B"}
"""
Key = tuple[int, int]


@pytest.fixture
def state(tmp_path: Path) -> State:
    (tmp_path / "spec.yaml").write_text(SPEC, "utf-8")
    return make(tmp_path / "spec.yaml", tmp_path / "state")


def taken(state: State, path: Path, log: list[dict[str, Any]], **options: Any) -> Outcome:
    path.write_text("\n".join(map(json.dumps, log)), "utf-8")
    (outcome,) = apply_logs(state, [str(path)], Options(**options))
    return outcome


def counts(outcome: Outcome) -> tuple[int, int, int]:
    return outcome.inserted, outcome.replaced, outcome.deleted


def row(kind: str, key: Key, value: int | None, version: int | None = None) -> dict[str, Any]:
    made = {"_change_type": kind, "a": key[0], "b": key[1], "v": value}
    return made if version is None else {**made, "_commit_version": version}


def drawn_commit(rng: Random, there: dict[Key, int], version: int | None, may_miss: bool) -> list[dict[str, Any]]:
    """Changes of some keys, several of a key at times; `there` is brought along."""
    made: list[dict[str, Any]] = []
    keys = [(rng.randrange(4), rng.randrange(2)) for _ in range(rng.randrange(1, 6))]
    # A delete that misses and an insert of one row in one commit cancel, whatever their order.
    for key in dict.fromkeys(keys) if may_miss else keys:
        value, old = rng.randrange(3), there.get(key)
        drawn = rng.random()
        if may_miss and drawn < 0.3:
            made.append(row("delete", key, rng.choice([None, value]), version))
            if made[-1]["v"] in (None, old):
                there.pop(key, None)
        elif drawn < 0.5:
            made.append(row("update_postimage", key, value, version))
            there[key] = value
        elif old is None:
            made.append(row("insert", key, value, version))
            there[key] = value
        elif drawn < 0.7:
            made.append(row("delete", key, rng.choice([None, old]), version))
            del there[key]
        else:
            pair = [row("update_preimage", key, old, version), row("update_postimage", key, value, version)]
            made += (
                pair
                if rng.random() < 0.5
                else [{**pair[0], "_change_type": "delete"}, row("insert", key, value, version)]
            )
            there[key] = value
    return made


@pytest.mark.parametrize("may_miss", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_counts_of_keyed_rows_are_those_of_a_dictionary(
    state: State, tmp_path: Path, seed: int, may_miss: bool
) -> None:
    rng, there, compared = Random(f"{seed} {may_miss}"), dict[Key, int](), 0
    for number in range(25):
        several, after = rng.random() < 0.5, dict(there)
        expected, log = [0, 0, 0], []
        for version in range(rng.randrange(1, 4)) if several else [None]:
            before = dict(after)
            commit = drawn_commit(rng, after, None if version is None else 10 * number + version, may_miss)
            brought = {(c["a"], c["b"]) for c in commit if c["_change_type"] in ("insert", "update_postimage")}
            expected[0] += len(after.keys() - before.keys())
            expected[1] += len(after.keys() & before.keys() & brought)
            expected[2] += len(before.keys() - after.keys())
            log += commit
        try:
            outcome = taken(state, tmp_path / f"K.{number}.jsonl", log, skip_missing_deletes=may_miss)
        except RejectedError:
            continue  # images of one key in one commit do not always make sense together
        rows = {(r["a"], r["b"]): r["v"] for batch in state.enum("q") for r in batch.to_pylist()}
        if rows == after:  # within a commit the engine looks at sums, not at the order
            compared += 1
            assert counts(outcome) == tuple(expected), (seed, number, log)
        assert len(rows) - len(there) == outcome.inserted - outcome.deleted
        there = rows
    assert compared >= 5


def test_an_upsert_of_an_identical_row_is_a_replacement(state: State, tmp_path: Path) -> None:
    assert counts(taken(state, tmp_path / "K.1.jsonl", [row("insert", (1, 1), 5)])) == (1, 0, 0)
    again = [row("insert", (1, 1), 5), row("insert", (2, 2), 5)]
    assert counts(taken(state, tmp_path / "K.2.jsonl", again, upsert=True)) == (1, 1, 0)


def test_copies_of_rows_without_a_key_are_inserted_and_deleted(state: State, tmp_path: Path) -> None:
    log = [{"x": 1, "_change_type": "insert", "_count": 3}, {"x": 2, "_change_type": "insert", "_count": 1}]
    assert counts(taken(state, tmp_path / "B.1.jsonl", log)) == (4, 0, 0)
    update = [{"x": 1, "_change_type": "update_preimage"}, {"x": 9, "_change_type": "update_postimage"}]
    assert counts(taken(state, tmp_path / "B.2.jsonl", update)) == (1, 0, 1)
    missing = [{"x": 2, "_change_type": "delete", "_count": 5}, {"x": 9, "_change_type": "delete", "_count": 1}]
    assert counts(taken(state, tmp_path / "B.3.jsonl", missing, skip_missing_deletes=True)) == (0, 0, 2)


def test_rows_that_a_source_marks_as_deleted_are_counted_where_their_key_was_there(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(
        SPEC.replace("key: [a, b]}", "key: [a, b], source: {deleted_when: gone}}"), "utf-8"
    )
    state = make(tmp_path / "spec.yaml", tmp_path / "state")

    def marked(key: Key, value: int, gone: bool, version: int = 1) -> dict[str, Any]:
        return {"a": key[0], "b": key[1], "v": value, "gone": gone, "_commit_version": version}

    first = [marked((1, 1), 5, False), marked((2, 2), 5, False), marked((3, 3), 5, True)]
    outcome = taken(state, tmp_path / "K.1.jsonl", first)
    assert (counts(outcome), outcome.skipped_deletes) == ((2, 0, 0), 1)
    second = [marked((1, 1), 6, True, 2), marked((2, 2), 6, False, 2), marked((2, 2), 6, True, 3)]
    assert counts(taken(state, tmp_path / "K.2.jsonl", second)) == (0, 1, 2)
    within = [marked((1, 1), 7, True, 4), marked((1, 1), 7, False, 4)]
    assert counts(taken(state, tmp_path / "K.3.jsonl", within)) == (1, 0, 0)
    assert [row for batch in state.enum("q") for row in batch.to_pylist()] == [{"a": 1, "b": 1, "v": 7, "_count": 1}]


def test_each_file_of_a_version_has_its_own_counts(state: State, tmp_path: Path) -> None:
    taken(state, tmp_path / "K.0.jsonl", [row("insert", (1, 1), 1), row("insert", (2, 2), 1)])
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "K.1.jsonl").write_text(json.dumps(row("update_preimage", (1, 1), 1)), "utf-8")
    more = [row("update_postimage", (1, 1), 7), row("delete", (2, 2), 1), row("insert", (3, 3), 1)]
    (folder / "K.2.jsonl").write_text("\n".join(map(json.dumps, more)), "utf-8")
    (outcome,) = apply_logs(state, [str(folder)], Options(atomic=True))
    assert counts(outcome) == (1, 1, 1)
    from dynq_cli.storage.facts import facts_of

    logs = facts_of(tmp_path / "state").recent[0].logs
    assert [(log.inserted, log.replaced, log.deleted) for log in logs] == [(0, 0, 0), (1, 1, 1)]


def test_entries_without_replaced_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = AppliedLog("R", "R.csv", "digest", 10, "snapshot", 3, 2, 1)
    # As entries were written before: a list of eight.
    monkeypatch.setattr(ledger, "_keys_of", lambda entry: [])
    facts = append_entry(tmp_path, LedgerFacts(), Entry(1, 5, (astuple(old)[:8],)))  # type: ignore[arg-type]
    (entry,) = Ledger(tmp_path, facts).entries()
    assert entry.logs == (old,) and entry.logs[0].replaced is None


@pytest.mark.parametrize("seed", seeds(12))
def test_old_and_new_rows_of_a_commit_come_in_any_order(seed: int, tmp_path: Path) -> None:
    """Also old rows of a key and NULLs alone, which look as deletes by key do."""
    rng = Random(seed)
    (tmp_path / "spec.yaml").write_text(SPEC.replace("v: int64", "v: int64?, w: int64?"), "utf-8")
    state = make(tmp_path / "spec.yaml", tmp_path / "state")
    there: dict[Key, tuple[int | None, int | None]] = {}
    for number in range(8):
        log: list[dict[str, Any]] = []
        came, went = 0, 0
        for version in range(number * 10, number * 10 + rng.choice((1, 1, 4))):
            commit = []
            for key in {(rng.randrange(3), rng.randrange(2)) for _ in range(rng.randrange(1, 5))}:
                old, new = there.get(key), (rng.choice([None, None, 1]), rng.choice([None, 1]))
                kinds = ("insert", "delete")
                if old is None:
                    there[key], came = new, came + 1
                elif rng.random() < 0.3:
                    del there[key]
                    new, went = old, went + 1
                    commit.append({**row("delete", key, old[0], version), "w": old[1]})
                    continue
                else:
                    kinds = rng.choice((kinds, ("update_postimage", "update_preimage")))
                    commit.append({**row(kinds[1], key, old[0], version), "w": old[1]})
                    there[key] = new
                commit.append({**row(kinds[0], key, new[0], version), "w": new[1]})
            rng.shuffle(commit)
            log += commit
        before = state.counts("q").rows
        done = taken(state, tmp_path / f"K.{number}.jsonl", log, allow_replay=False, form=None) if log else None
        stored = {(r["a"], r["b"]): (r["v"], r["w"]) for batch in state.dump("K") for r in batch.to_pylist()}
        assert stored == there, (number, log)
        if done is not None and done.version is not None:
            assert before + done.inserted - done.deleted == len(there), (number, log)
            assert (done.inserted - done.deleted) == came - went
