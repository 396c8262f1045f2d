"""What `extract snapshot` writes turns a state that holds one snapshot into one that holds the next."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from dynq_cli.spark.snapshot import SnapshotJob, extract_snapshot
from dynq_cli.spark.snapshot_diff_shuffle import VoidError
from tests.spark.snapshots import (
    agrees_with_duckdb,
    apply,
    as_bag,
    held,
    new_state,
    random_history,
    spec_text,
    write_snapshot,
)


def void(*_: object) -> NoReturn:
    raise VoidError


# With a key there are three ways; each is for what the ones before leave.
WITHOUT = {2: ["Sliced"], 6: ["Sliced", "AtOnce"]}


@pytest.mark.parametrize("seed", range(8))
def test_random_snapshots_become_what_the_state_holds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = Random(seed)
    keyed = seed % 2 == 0
    for way in WITHOUT.get(seed, []):
        monkeypatch.setattr(f"dynq_cli.spark.snapshot.{way}", void)
    relation = new_state(tmp_path, spec_text("k, part" if keyed else ""))
    before = None
    for i, rows in enumerate(random_history(rng, 3, keyed=keyed)):
        after = write_snapshot(tmp_path / f"day-{i}", relation, rows)
        out = tmp_path / f"out-{i}"
        done = extract_snapshot(spark, SnapshotJob(after=after, before=before, out=str(out), relation=relation))
        assert done.written
        (outcome,) = apply(tmp_path / "state", out)
        assert outcome.version == i + 1
        assert (outcome.inserted, outcome.deleted) == (done.inserted, done.deleted)
        assert held(tmp_path / "state", "R") == as_bag(rows), f"seed {seed}, snapshot {i}"
        assert agrees_with_duckdb(tmp_path / "state"), f"seed {seed}, snapshot {i}"
        before = after
