"""`dynq infer` on the command line."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dynq_cli.spec.load import load_spec

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_skeleton_is_a_spec_that_explain_takes_as_it_is(dynq: Dynq, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("order_id,customer\n1,7\n2,\n")
    run = dynq("infer", "orders.csv", "-o", "spec.yaml")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "dynq: read 2 rows of 1 file\n")
    assert [r.name for r in load_spec(tmp_path / "spec.yaml").relations] == ["orders"]
    explained = dynq("explain", "spec.yaml")
    assert explained.returncode == 0, explained.stderr
    assert "all_orders" in explained.stdout


def test_the_sample_data_gives_the_relations_of_its_spec(dynq: Dynq, root: Path, tmp_path: Path) -> None:
    run = dynq("infer", str(root / "sample_data" / "shop" / "day-0"), "-o", "spec.yaml")
    assert run.returncode == 0, run.stderr
    inferred, written = load_spec(tmp_path / "spec.yaml"), load_spec(root / "specs" / "shop.yaml")
    assert {r.name: {c.name for c in r.columns} for r in inferred.relations} == {
        r.name: {c.name for c in r.columns} for r in written.relations
    }


def test_columns_left_out_are_warned_about_even_when_quiet(dynq: Dynq, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,two words\n1,2\n")
    run = dynq("infer", "--quiet", "t.csv")
    assert run.returncode == 0
    assert run.stderr.startswith("dynq: warning: t.two words is left out: a name has")


@pytest.mark.parametrize(
    ("content", "name", "code"), [(None, "gone.csv", 2), (b"PAR1", "t.parquet", 3), (b"a\n1\n", "t.txt", 2)]
)
def test_bad_input_has_the_exit_code_of_the_contract(
    dynq: Dynq, tmp_path: Path, content: bytes | None, name: str, code: int
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    run = dynq("infer", name, "-o", "spec.yaml")
    assert (run.returncode, run.stdout) == (code, "")
    assert name in run.stderr
    assert not (tmp_path / "spec.yaml").exists()
