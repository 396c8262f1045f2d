"""A Parquet file whose footer or page headers lie is refused before Arrow reads it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynq_cli.io import thrift
from dynq_cli.io.parquet_footer import read_footer, read_pages
from dynq_cli.io.read_parquet import stream
from dynq_cli.io.thrift import Field, Struct
from tests.conftest import Dynq

HERE = Path(__file__).parent
SPEC = """\
version: 1
relations:
  R: {columns: {a: int64, b: string?}}
queries:
  q: {sql: "SELECT a, b FROM R"}
"""


def test_a_flipped_bit_that_aborts_arrow_is_refused_by_name(tmp_path: Path, dynq: Dynq) -> None:
    shutil.copy(HERE / "damaged/damaged-footer.parquet", tmp_path / "R.parquet")
    (tmp_path / "spec.yaml").write_text(SPEC)
    assert dynq("init", "spec.yaml").returncode == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / ".dynq").iterdir()}
    for command in (["apply", "--dry-run", "R.parquet"], ["infer", "R.parquet"]):
        ran = dynq(*command)
        assert ran.returncode == 3, ran.stderr
        assert "R.parquet is damaged" in ran.stderr
        assert "extract it again" in ran.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / ".dynq").iterdir()} == before


def lying(path: Path, lie: Callable[[Struct], None]) -> None:
    """Replace the footer by one that a function has changed."""
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = thrift.read(content[start:])
    lie(footer)
    new = thrift.written(footer)
    path.write_bytes(content[:start] + new + len(new).to_bytes(4, "little") + b"PAR1")


def put(struct: Struct, field: int, value: object) -> None:
    struct[field] = Field(struct[field].kind, value)


def chunk(footer: Struct) -> Struct:
    made: Struct = footer[4].value.value[0][1].value.value[0][3].value
    return made


LIES: dict[str, tuple[Callable[[Struct], None], str]] = {
    "rows of the file": (lambda f: put(f, 3, 61), "another number of rows"),
    "rows of a group": (lambda f: put(f[4].value.value[0], 3, 59), "60 values in a row group of 59 rows"),
    "values": (lambda f: put(chunk(f), 5, 10), "10 values in a row group of 60 rows"),
    "an offset past the end": (lambda f: put(chunk(f), 9, 1 << 40), "outside of the file"),
    "a negative size": (lambda f: put(chunk(f), 7, -1), "negative"),
    "another type": (lambda f: put(chunk(f), 1, 1), "differ on the type"),
    "another column's pages": (
        lambda f: f[4].value.value[0][1].value.value[0].__setitem__(3, f[4].value.value[0][1].value.value[1][3]),
        "differ on the type or place",
    ),
    "a column less": (lambda f: f[4].value.value[0][1].value.value.pop(), "1 columns where the schema has 2"),
    "a child too many": (lambda f: put(f[2].value.value[0], 5, 3), "not a tree"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_footer_that_contradicts_itself_or_the_file_is_refused(tmp_path: Path, name: str) -> None:
    lie, said = LIES[name]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": list(range(60)), "b": [7] * 60}), path)
    lying(path, lie)
    with pytest.raises(ValueError, match=said):
        read_footer(str(path))


def test_statistics_do_not_reach_arrow(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": list(range(60))}), path)
    assert read_footer(str(path)).metadata.row_group(0).column(0).statistics is None
    assert read_footer(str(path)).groups[0][0].nulls == 0


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_page_headers_give_the_true_sizes(tmp_path: Path, version: str) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"a": list(range(5000)), "s": [str(i % 50) for i in range(5000)]})
    pq.write_table(table, path, data_page_version=version, data_page_size=1000)
    lying(path, lambda f: put(chunk(f), 6, 1))
    first, second = (read_pages(str(path), c) for c in read_footer(str(path)).groups[0])
    assert first.unpacked > 5000
    assert second.has_dictionary


def test_a_page_that_its_checksum_contradicts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"a": list(range(60))})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[content.index((30).to_bytes(8, "little"))] ^= 64
    path.write_bytes(content)
    with pytest.raises(OSError, match="CRC"):
        list(stream(str(path), None))
