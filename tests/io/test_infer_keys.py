"""`infer` finds keys of up to three columns, and its skeleton loads with the very files it was read from."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynq_cli.cli.app import main
from dynq_cli.errors import RejectedError
from dynq_cli.io.infer import infer_spec

NAMES = ["id", "Order", "select", "group", "on", "Key", "my col", "value", "customer_id", "N", "when", "y"]


def test_three_columns_are_a_key_where_no_two_are(tmp_path: Path) -> None:
    rows = list(product(range(4), repeat=3))
    (tmp_path / "r.csv").write_text("a,b,c,d\n" + "".join(f"{a},{b},{c},7\n" for a, b, c in rows), "utf-8")
    text = infer_spec([str(tmp_path / "r.csv")]).text
    assert "# key: [a, b, c]  # unique in the 64 rows read" in text and text.count("# key:") == 1


def test_a_smaller_key_hides_the_larger_ones(tmp_path: Path) -> None:
    rows = list(product(range(4), repeat=2))
    (tmp_path / "r.csv").write_text("a,b,c\n" + "".join(f"{a},{b},7\n" for a, b in rows), "utf-8")
    text = infer_spec([str(tmp_path / "r.csv")]).text
    assert "# key: [a, b]  #" in text and text.count("# key:") == 1


def test_triples_of_many_columns_are_bounded(tmp_path: Path) -> None:
    table = pa.table({f"c{i}": [0, 1, 0, 1] * 500 for i in range(40)})
    pq.write_table(table, tmp_path / "wide.parquet")
    assert "# key:" not in infer_spec([str(tmp_path / "wide.parquet")]).text


def test_comments_that_happen_to_be_unique_are_no_key(tmp_path: Path) -> None:
    rows = list(product(range(20), repeat=2))
    (tmp_path / "r.csv").write_text("a,b,c\n" + "".join(f"{a},{b},a note on {a} and {b}\n" for a, b in rows), "utf-8")
    assert "# key: [a, b]  #" in infer_spec([str(tmp_path / "r.csv")]).text
    views = pa.array([f"a note on {n}" for n in range(400)], pa.string_view())
    coded = pa.array([f"one more note on {n}" for n in range(400)]).dictionary_encode()
    names = [f"Ann Maria Smith {n}" if n % 2 else f"Bob Jones {n}" for n in range(400)]
    pq.write_table(pa.table({"v": views, "c": coded, "name": names}), tmp_path / "s.parquet")
    assert "# key: [name]" in (text := infer_spec([str(tmp_path / "s.parquet")]).text) and text.count("# key:") == 1


@pytest.mark.parametrize("inside", ["_delta_log/0.json", "metadata/v1.metadata.json", ".hoodie/hoodie.properties"])
def test_directories_of_lake_tables_are_refused(inside: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "part-0.parquet")
    (tmp_path / inside).parent.mkdir()
    (tmp_path / inside).write_text("{}\n", "utf-8")
    with pytest.raises(RejectedError, match=r"Delta|Iceberg|Hudi"):
        infer_spec([str(tmp_path)])


def column(chance: random.Random, rows: int) -> list[str]:
    values = chance.choice(
        [
            ["1", "2", "30"],
            ["1.5", "2.25"],
            ["a", "b c", '""'],
            ["2024-01-31", "1999-12-01"],
            ["true", "false"],
            ["0012"],
        ]
    )
    return [chance.choice([*values, ""] if chance.random() < 0.3 else values) for _ in range(rows)]


@pytest.mark.parametrize("seed", range(12))
def test_the_skeleton_of_random_files_loads_them(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(seed)
    files = {}
    for relation in chance.sample(["orders", "Table", "user", "left", "no", "all_orders"], chance.randint(1, 3)):
        names, rows = ["a", *chance.sample(NAMES, chance.randint(1, 5))], chance.randint(1, 20)
        columns = [[str(i) for i in range(rows)], *(column(chance, rows) for _ in names[1:])]
        lines = [",".join(names), *map(",".join, zip(*columns, strict=True))]
        files[relation] = f"{relation}.csv"
        Path(files[relation]).write_text("\n".join(lines) + "\n", "utf-8")
    assert main(["infer", *files.values(), "-o", "spec.yaml"]) == 0
    loads = [word for relation, file in files.items() for word in ("--load", f"{relation}={file}")]
    assert main(["init", "spec.yaml", "-s", "state", *loads]) == 0, Path("spec.yaml").read_text("utf-8")
